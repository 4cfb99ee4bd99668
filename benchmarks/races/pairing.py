"""What a table costs and gains: seconds, memory and quality, by rows and features.

Each table is made in a separate process, whose memory is that of the table:
``python -m races.pairing METHOD N D REPEATS CLOCK``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from antithetic.pairing import pair_rows
from races.climb import CLOCKS
from races.rows import Row, version_of

METHODS = ("greedy", "tree", "random")
MADE = "made"
_ROWS, _FEATURES = (5_000, 20_000, 80_000), (10, 50, 250)
_QUICK_ROWS, _QUICK_FEATURES = (1_000, 4_000), (10, 40)
_MOST_GREEDY = 20_000  # rows, as its time grows with their square
_WARM_UP_ROWS = 3000


def made_rows(n: int, d: int) -> Any:
    """Skewed features whose spreads fall from 1 to 0.2, float32."""
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((n, d)) * np.linspace(1.0, 0.2, d)
        + 0.3
        + 0.5 * rng.exponential(size=(n, d))
    ).astype(np.float32)


def measure(method: str, n: int, d: int, repeats: int, clock: str = "wall") -> dict[str, float]:
    """Seconds, megabytes beyond the rows, and the variance ratio of a table, in this process."""
    G = made_rows(n, d)
    pair_rows(G[:_WARM_UP_ROWS], method, random_state=0)  # warm up
    now, before, seconds = CLOCKS[clock], _megabytes("VmRSS"), np.inf
    for _ in range(repeats):
        start = now()
        table = pair_rows(G, method, random_state=0)
        seconds = min(seconds, now() - start)
    # Peak memory minus the memory before: at least what was needed.
    extra = max(0.0, _megabytes("VmHWM") - before)
    # the gradients of a squared error at zero, for targets -1, are the rows
    ratio = table.variance_ratio(G, np.full(n, -1.0), loss="squared_error")
    return {"seconds": seconds, "megabytes": extra, "variance ratio": ratio}


def _megabytes(field: str) -> float:
    """Read VmRSS or VmHWM of this process; getrusage would begin with the peak of the parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return np.nan
    return next(
        int(line.split()[1]) / 1024
        for line in status.read_text().splitlines()
        if line.startswith(field)
    )


def pairing_rows(quick: bool, repeats: int, clock: str = "wall") -> Iterator[Row]:
    """Rows of the part "pairing": every method for growing n, and for growing d.

    Exponents of the seconds at the end.
    """
    rows, features = (_QUICK_ROWS, _QUICK_FEATURES) if quick else (_ROWS, _FEATURES)
    middle_n, middle_d = rows[-2], features[-2] if len(features) > 2 else features[0]
    for method in METHODS:
        usual = [n for n in rows if method != "greedy" or n <= _MOST_GREEDY]
        seconds = dict[tuple[int, int], float]()
        for n, d in dict.fromkeys(
            [*((n, middle_d) for n in usual), *((middle_n, d) for d in features)]
        ):
            row = Row(
                "pairing",
                MADE,
                n,
                d,
                peer=f"antithetic.pair_rows, {method}",
                repeats=repeats,
                version=version_of("antithetic"),
            )
            found, status = _in_a_child(method, n, d, repeats, clock)
            for quantity in ("seconds", "megabytes", "variance ratio"):
                value = found.get(quantity, np.nan)
                yield replace(
                    row,
                    quantity=quantity,
                    value=value,
                    seconds=found.get("seconds", np.nan),
                    status=status,
                )
            seconds[n, d] = found.get("seconds", np.nan)
        for axis, ends in (
            ("n", ((usual[0], middle_d), (usual[-1], middle_d))),
            ("d", ((middle_n, features[0]), (middle_n, features[-1]))),
        ):
            place = 0 if axis == "n" else 1
            exponent = np.log(seconds[ends[1]] / seconds[ends[0]]) / np.log(
                ends[1][place] / ends[0][place]
            )
            row = Row(
                "pairing",
                MADE,
                *ends[1],
                peer=f"antithetic.pair_rows, {method}",
                version=version_of("antithetic"),
            )
            yield replace(row, quantity=f"exponent of seconds in {axis}", value=float(exponent))


def _in_a_child(
    method: str, n: int, d: int, repeats: int, clock: str
) -> tuple[dict[str, float], str]:
    command = [
        sys.executable,
        "-m",
        "races.pairing",
        method,
        str(n),
        str(d),
        str(repeats),
        clock,
    ]
    folders = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": folders},
    )
    if done.returncode:
        message = done.stderr.strip()
        return {}, f"failed: {message.splitlines()[-1][:200] if message else done.returncode}"
    return json.loads(done.stdout), "ok"


if __name__ == "__main__":
    _method, _n, _d, _repeats, _clock = sys.argv[1:]
    print(json.dumps(measure(_method, int(_n), int(_d), int(_repeats), _clock)))
