"""The one loop, and what drives it: `minimize`, `advise`, comparisons."""
