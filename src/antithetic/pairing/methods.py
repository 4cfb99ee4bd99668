"""The names of the pairing methods."""

METHODS = ("auto", "greedy", "optimal", "tree", "random")
