"""The paper's experiments as it describes them, what it claims, and whether that holds.

>>> from antithetic.paper import LAMBDAS
>>> LAMBDAS["ijcnn1.tr"]
0.0001
"""

from antithetic.paper.all_claims import claims
from antithetic.paper.claim import Claim, judge
from antithetic.paper.csv_files import write_csv
from antithetic.paper.one_part import run_part
from antithetic.paper.parts import Part
from antithetic.paper.reproduction import Reproduction, ReproductionInterrupted, reproduce
from antithetic.paper.settings import LAMBDAS, LOSSES, METHODS

__all__ = [
    "LAMBDAS",
    "LOSSES",
    "METHODS",
    "Claim",
    "Part",
    "Reproduction",
    "ReproductionInterrupted",
    "claims",
    "judge",
    "reproduce",
    "run_part",
    "write_csv",
]
