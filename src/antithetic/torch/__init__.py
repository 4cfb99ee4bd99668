"""Batch samplers for PyTorch whose batches have gradients of lower variance.

They learn from the labels and from gradients that are observed, and test on the model what helps.
"""

from antithetic.torch.adapters import sentence_batch_sampler
from antithetic.torch.balanced import BalancedBatchSampler
from antithetic.torch.gradients import head_factors, head_gradients
from antithetic.torch.observe import ObserveHead
from antithetic.torch.sampler import AntitheticBatchSampler
from antithetic.torch.trust import TrustReport

__all__ = [
    "AntitheticBatchSampler",
    "BalancedBatchSampler",
    "ObserveHead",
    "TrustReport",
    "head_factors",
    "head_gradients",
    "sentence_batch_sampler",
]
