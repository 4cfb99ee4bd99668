"""When a run ends before its last epoch: rules for ``stop=``."""

from antithetic.stochastic.stopping import Stalled, Target

__all__ = ["Stalled", "Target"]
