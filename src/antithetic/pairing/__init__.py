"""Which rows are used together: from rows to a table."""

from antithetic.pairing._pair import pair, pair_rows
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.quality import Quality
from antithetic.pairing.table import AntitheticTable, MatchingLoss

__all__ = ["AntitheticTable", "GroupTable", "MatchingLoss", "Quality", "pair", "pair_rows"]
