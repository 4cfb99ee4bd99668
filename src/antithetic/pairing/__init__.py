"""Which rows are used together: from rows to a table."""

from typing import TYPE_CHECKING

from antithetic._util.later import import_later

if TYPE_CHECKING:
    from antithetic.pairing._pair import pair, pair_rows
    from antithetic.pairing.groups import GroupTable
    from antithetic.pairing.quality import Quality
    from antithetic.pairing.table import AntitheticTable, MatchingLoss

__all__ = ["AntitheticTable", "GroupTable", "MatchingLoss", "Quality", "pair", "pair_rows"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = import_later(
        __name__,
        {
            "AntitheticTable": "table",
            "GroupTable": "groups",
            "MatchingLoss": "table",
            "Quality": "quality",
            "pair": "_pair",
            "pair_rows": "_pair",
        },
    )
