"""Who travels with whom: from rows to a table."""

from antithetic.pairing._pair import pair, pair_rows
from antithetic.pairing.table import AntitheticTable, MatchingLoss

__all__ = ["AntitheticTable", "MatchingLoss", "pair", "pair_rows"]
