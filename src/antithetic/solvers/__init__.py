"""How the gradient is used: solvers see a problem and batches, never a pairing."""

from antithetic.solvers.run import DivergenceError, Patience, advice, run
from antithetic.solvers.sgd import Sgd, SgdState, make_sgd

__all__ = ["DivergenceError", "Patience", "Sgd", "SgdState", "advice", "make_sgd", "run"]
