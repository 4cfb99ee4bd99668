"""Data sets of the paper and of our benchmarks, and your own files.

>>> from antithetic import datasets
>>> datasets.load("sonar_scale").data.shape
(208, 60)
"""

from antithetic.datasets._load import load, names
from antithetic.datasets._read_file import read_file

__all__ = ["load", "names", "read_file"]
