"""How the gradient is used: solvers see a problem and batches, never a pairing."""

from antithetic.solvers.run import Care, DivergenceError, Patience, advice, lower, run
from antithetic.solvers.sgd import Sgd, SgdState, make_sgd
from antithetic.solvers.step_search import Steps, find_steps

__all__ = ["Care", "DivergenceError", "Patience", "Sgd", "SgdState", "Steps", "advice", "find_steps", "lower", "make_sgd", "run"]
