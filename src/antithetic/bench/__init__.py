"""``antithetic bench``: our estimator compared with its peers on the same problems.

All are measured in one run, and losses are as visible as wins.

Every peer gets its best published settings, one thread, and the least effort (iterations, passes,
epochs) that just reaches a target: efforts are turned up until it does, the last step is bisected,
and the cheapest settings of all peers are then timed in turn, over and over. All run once before
the clock starts, so that our compiling and their imports do not count, and each finds the rows in
the form that it computes with; all that its fit does is timed. A gap is ``(f - f*) / (f(0) - f*)``,
f the mean loss plus lambda / 2 |w|^2, without intercept. Results are rows of a CSV file, and all
tables and pictures are functions of them.

>>> from antithetic.bench import PEERS
>>> PEERS[0].name
'antithetic.SGDClassifier'
"""

from antithetic.bench.climb import Limits
from antithetic.bench.race import PEERS
from antithetic.bench.rows import Row, read_rows
from antithetic.bench.run import choose_peers, run
from antithetic.bench.tasks import FIGURE_SETS, LOSSES, SETS, TARGETS

__all__ = [
    "FIGURE_SETS",
    "LOSSES",
    "PEERS",
    "SETS",
    "TARGETS",
    "Limits",
    "Row",
    "choose_peers",
    "read_rows",
    "run",
]
