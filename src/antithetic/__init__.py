"""Stochastic gradient descent that converges sooner, by choosing which samples travel together."""

from antithetic.pairing import AntitheticTable, pair, pair_rows

__version__ = "0.1.0"
__all__ = ["AntitheticTable", "pair", "pair_rows"]
