"""The paper's experiments as it describes them, what it claims, and whether that holds.

>>> from antithetic.experiments import LAMBDAS
>>> LAMBDAS["ijcnn1.tr"]
0.0001
"""

from antithetic.experiments.all_claims import claims
from antithetic.experiments.claim import Claim, judge
from antithetic.experiments.csv_files import write_csv
from antithetic.experiments.one_part import run_part
from antithetic.experiments.parts import Part
from antithetic.experiments.reproduction import Reproduction, ReproductionInterrupted, reproduce
from antithetic.experiments.settings import LAMBDAS, LOSSES, METHODS

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
