"""Data sets of the paper and of our benchmarks.

>>> from antithetic import datasets
>>> datasets.load("sonar_scale").data.shape
(208, 60)
"""

from antithetic.datasets._load import load, names

__all__ = ["load", "names"]
