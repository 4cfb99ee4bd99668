"""Print the figures of `antithetic.dask`, each with its bar.

The figures are time to accuracy, speed-up, faults, memory, a cost model, shards, and rounds on data
of many kinds.

A gap is ``(f - f*) / (f(0) - f*)``, f the objective of all rows, f* its least value. A round is one
pass over all blocks. Clusters are local, of processes with one thread each, so that everything runs
on one machine; how other numbers of workers would fare is a matter of the model in part e.

Run ``python benchmarks/scale.py`` on a quiet machine, about half an hour; letters name the parts to
run, ``--quick`` takes fewer rows and repeats. Parts d and e write some gigabytes, which are deleted
again, into the folder that TMPDIR names, or where the system keeps its temporary files. The exit
status is 1 if a bar is missed.
"""

from __future__ import annotations

import sys


def main() -> int:
    # here, since worker processes import this file as well, and shall have nothing in memory that
    # they do not need
    from common import run_parts
    from scale_figures import killed_worker, shards, small_memory
    from scale_model import cost_model
    from scale_rounds import other_data
    from scale_speed import badly_scaled, one_machine, peers, second_worker

    parts = {
        "a": badly_scaled,
        "b": second_worker,
        "c": killed_worker,
        "d": small_memory,
        "e": cost_model,
        "f": shards,
        "g": one_machine,
        "h": peers,
        "i": other_data,
    }
    return run_parts(__doc__, parts)


if __name__ == "__main__":
    sys.exit(main())
