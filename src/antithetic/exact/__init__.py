"""The exact road: sums over all rows, and what second-order methods and bounds make of them."""
