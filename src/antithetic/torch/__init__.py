"""Batch samplers for PyTorch whose batches have gradients that cancel.

They learn from the data, or from gradients that are observed.
"""

from antithetic.torch.balanced import BalancedBatchSampler
from antithetic.torch.gradients import head_factors, head_gradients
from antithetic.torch.observe import ObserveHead
from antithetic.torch.sampler import AntitheticBatchSampler

__all__ = [
    "AntitheticBatchSampler",
    "BalancedBatchSampler",
    "ObserveHead",
    "head_factors",
    "head_gradients",
]
