"""What a fitted model says about rows it has not seen, and how sure its weights are."""

from antithetic.inference.summary import summary

__all__ = ["summary"]
