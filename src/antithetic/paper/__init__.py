"""The paper: its algorithms, its experiments, its claims, and pages that show what was found.

- :mod:`antithetic.paper.algorithms`: Algorithms 1 and 2 as printed, in NumPy;
- :mod:`antithetic.paper.reproduction`: ``reproduce`` runs the experiments and judges the claims;
- :mod:`antithetic.paper.compare`: ``compare_orders`` does the like on data of your own;
- :mod:`antithetic.paper.advise`: ``advise`` says which order to use, in a second or two;
- :mod:`antithetic.paper.report`: the pages of both.
"""
