"""Penalties as objects, for ``penalty=``."""

from antithetic.problem.penalties import ElasticNet, GroupLasso

__all__ = ["ElasticNet", "GroupLasso"]
