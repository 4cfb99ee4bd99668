"""What a fitted model says about rows it has not seen, and how sure its weights are."""

from typing import TYPE_CHECKING

from antithetic._util.later import import_later

if TYPE_CHECKING:
    from antithetic.inference.leave_one_out import leave_one_out
    from antithetic.inference.summary import Summary, summary

__all__ = ["Summary", "leave_one_out", "summary"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = import_later(
        __name__, {"Summary": "summary", "leave_one_out": "leave_one_out", "summary": "summary"}
    )
