"""The training loop, and what uses it: `minimize`, `advise`, comparisons."""
