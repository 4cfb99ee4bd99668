"""What a fitted model says about rows it has not seen, and how sure its weights are."""

from antithetic.inference.leave_one_out import leave_one_out
from antithetic.inference.summary import summary

__all__ = ["leave_one_out", "summary"]
