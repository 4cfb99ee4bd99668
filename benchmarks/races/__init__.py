"""``benchmarks/race.py``: our estimators compared with their peers on the same problems.

All are measured in one run, and losses are as visible as wins.

Every peer gets its best published settings, the same number of threads, and the least effort
(iterations, passes, epochs) that just reaches a target: efforts are raised until it does, the last
step is bisected, and the cheapest settings of all peers are then timed in turn, repeatedly. All
run once before the clock starts, so that imports do not count, and each gets the rows in the form
that it computes with; all that its fit does is timed. The first fit of a fresh process, import
included, is timed apart. A gap is ``(f - f*) / (f(0) - f*)``, where f is the mean loss plus
lambda / 2 |w|^2, without intercept. Results are rows of a CSV file, and all tables and pictures are
functions of them.

>>> from races import PEERS
>>> PEERS[0].name
'antithetic.LogisticRegression'
"""

from races.climb import Limits
from races.race import PEERS
from races.rows import Row, read_rows
from races.run import choose_peers, run
from races.sets import GROUPS, LOSSES, SETS
from races.tasks import TARGETS

__all__ = [
    "GROUPS",
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
