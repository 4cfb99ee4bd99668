"""``benchmarks/race.py``: our estimators and their peers, on the same problems."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from races import GROUPS, LOSSES, PEERS, SETS, Limits, Row, choose_peers, read_rows, run
from races.climb import CLOCKS
from races.pictures import draw
from races.resume import sets_kept
from races.sets import choose_sets
from races.summary import losses as where_we_lose
from races.summary import (
    missing,
    profile,
    ratio_table,
    standings,
    table_costs,
    value_table,
    verdict,
)

from antithetic._cli import console
from antithetic._cli.app import flowing
from antithetic._cli.guard import Debug, InterruptedWithAdvice, Json, guarded

_ROWS = "rows.csv"
_SHOWN_TARGETS = (1e-3, 1e-4, 1e-8)
_FACTORS = (1.0, 2.0, 5.0, 10.0)
_MOST_LOSSES = 20
_COLUMNS_AT_ONCE = 4


_Sets = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Separated by commas: some of {', '.join(SETS)}; or groups: {', '.join(GROUPS)}.",
    ),
]
_Peers = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Parts of names, separated by commas: {', '.join(peer.name for peer in PEERS)}.",
    ),
]
_Losses = Annotated[str, typer.Option(metavar="NAMES", help=f"Some of {', '.join(LOSSES)}.")]
_Threads = Annotated[
    str, typer.Option(metavar="COUNTS", help="Numbers of threads, or all, separated by commas.")
]
_Behind = Annotated[
    float,
    typer.Option(
        min=1.0,
        metavar="X",
        help="Stop a peer once a fit takes X times as long as the fastest; inf: never.",
    ),
]
_Seconds = Annotated[
    float | None,
    typer.Option(min=0.01, metavar="X", help="Maximum seconds of one fit.", show_default="10"),
]
_Repeats = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Repeats of the final timing.", show_default="5"),
]
_Clock = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"{' or '.join(CLOCKS)}; cpu, for one thread, if the machine has other work.",
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Folder for rows and figures.",
        show_default="antithetic-bench, or ...-quick",
    ),
]
_Pairing = Annotated[
    bool,
    typer.Option(
        "--pairing/--no-pairing", help="Also measure tables: seconds, memory, quality, growth."
    ),
]
_Images = Annotated[bool, typer.Option("--images/--no-images", help="Draw figures as PNG and SVG.")]
_Quick = Annotated[
    bool, typer.Option("--quick", help="A first look: 3 small sets, a second per fit, 1 seed.")
]
_Redraw = Annotated[
    Path | None,
    typer.Option(
        "--redraw",
        metavar="ROWS",
        help="Measure nothing; show the tables and figures of an earlier run.",
    ),
]


@guarded
def race(
    sets: _Sets = None,
    peers: _Peers = None,
    losses: _Losses = "log_loss,softmax,squared_error",
    threads: _Threads = "1",
    behind: _Behind = 10.0,
    seconds: _Seconds = None,
    repeats: _Repeats = None,
    clock: _Clock = "wall",
    out: _Out = None,
    pairing: _Pairing = True,
    images: _Images = True,
    quick: _Quick = False,
    redraw: _Redraw = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Compare the estimators of this package with their peers.

    It measures seconds and passes to a given gap, seconds per pass, the first fit of a fresh
    process, the cost of tables, and the results on held-out rows.

    Peers are scikit-learn's estimators and what the extra "bench" installs; one that is not
    installed is named and left out. All have the same number of threads. Each has its best
    published settings and the least effort that reaches a gap; all run once before the clock
    starts. Rows are written as they come: after Ctrl-C the same command continues with the sets
    that are not finished. The output ends with the races that we lose.

    For example:
      python benchmarks/race.py
      python benchmarks/race.py --quick --losses log_loss,hinge
      python benchmarks/race.py --sets "few rows,text" --threads 1,all
      python benchmarks/race.py --sets a9a,phishing --peers lbfgs,cyanure --repeats 9 --out small
      python benchmarks/race.py --redraw small/rows.csv
    """
    if redraw is not None:
        return _report(read_rows(redraw), redraw, redraw.parent, [], images, as_json)
    chosen, absent = choose_sets(_without_groups(_words(sets)), quick)
    if not chosen:
        raise ValueError(
            f"none of the sets is on this computer ({', '.join(absent)}); set ANTITHETIC_DATA to a"
            " folder that holds them"
        )
    limits = _limits(seconds, repeats, clock, behind, quick=quick)
    out = out or Path("antithetic-bench-quick" if quick else "antithetic-bench")
    path = out / _ROWS
    kept = sets_kept(path)
    with console.progress() as tell, _kept(path):
        measured = run(
            chosen,
            _words(losses) or LOSSES,
            choose_peers(_words(peers)),
            path,
            limits,
            threads=_counts(threads),
            pairing=pairing,
            quick=quick,
            progress=tell,
        )
        for _ in measured:
            pass
    notes = [*_notes_on(absent), *([kept] if kept else [])]
    return _report(read_rows(path), path, out, notes, images, as_json)


def _without_groups(names: list[str] | None) -> list[str] | None:
    """Names of sets, with those of a group in place of its name."""
    return names and [name for word in names for name in GROUPS.get(word, (word,))]


def _counts(text: str) -> list[int]:
    """Numbers of threads, "all" being those of this computer."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or any(word != "all" and not (word.isdigit() and int(word)) for word in words):
        raise ValueError(f"--threads takes numbers from 1 on, or all, not {text!r}")
    counts = [(os.cpu_count() or 1) if word == "all" else int(word) for word in words]
    return list(dict.fromkeys(counts))


def _limits(
    seconds: float | None, repeats: int | None, clock: str, behind: float, *, quick: bool
) -> Limits:
    seconds = seconds or (1.0 if quick else 10.0)
    return Limits(
        seconds=seconds,
        in_all=12.0 * seconds,
        seeds=(0,) if quick else (0, 1),
        repeats=repeats or (3 if quick else 5),
        clock=clock,
        behind=behind,
    )


def _notes_on(absent: Sequence[str]) -> list[str]:
    """What to say about sets that are not on this computer."""
    return (
        [f"Left out, not on this computer: {', '.join(absent)} (set ANTITHETIC_DATA to a folder)."]
        if absent
        else []
    )


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


@contextmanager
def _kept(path: Path) -> Any:
    try:
        yield
    except KeyboardInterrupt as stop:
        raise InterruptedWithAdvice(
            f"interrupted; all rows so far are in {path}. The same command continues; --redraw"
            f" {path} shows the results so far"
        ) from stop


def _report(
    rows: Sequence[Row], path: Path, out: Path, notes: list[str], images: bool, as_json: bool
) -> dict[str, Any]:
    files = [path, *(draw(rows, out / "figures") if images else [])]
    found = standings(rows)
    beaten = where_we_lose(found)
    if not as_json:
        _show(rows, notes, files)
    return {
        "rows": path,
        "notes": notes,
        "missing": missing(rows),
        "verdict": verdict(found),
        "standings": [
            one._asdict() | {"ratio": one.ratio, "outcome": one.outcome} for one in found
        ],
        "losses": [one._asdict() | {"ratio": one.ratio} for one in beaten],
        "profile": {"factors": _FACTORS, "shares": profile(rows, _FACTORS)},
        "files": files,
    }


def _show(rows: Sequence[Row], notes: Sequence[str], files: Sequence[Path]) -> None:
    for note in notes:
        console.say(console.plain(note))
    for machine in dict.fromkeys(
        f"{row.cpu}; threads {row.threads}, {row.clock} clock; {row.versions}" for row in rows
    ):
        console.say(console.plain(machine), "dim")
    for peer, status in missing(rows).items():
        console.say(console.plain(f"{peer}: {status}"), "yellow")
    for target in _SHOWN_TARGETS:
        _show_wide(
            f"Times the fastest to {target:g}, (f - f*) / (f(0) - f*); no: not reached",
            *ratio_table(rows, target),
        )
    _show_wide("Milliseconds per pass", *_in_ms(value_table(rows, "epoch", "seconds per pass")))
    _show_wide(
        "Milliseconds of import and fit to 0.001 in a fresh process",
        *_in_ms(value_table(rows, "first", "seconds of first fit")),
    )
    for quantity in dict.fromkeys(
        row.quantity for row in rows if row.part == "held-out" and row.quantity != "gap"
    ):
        _show_wide(
            f"Held-out {console.plain(quantity)}, at 1e-4 or as near as the peer comes",
            *value_table(rows, "held-out", quantity),
        )
    columns, lines = table_costs(rows)
    if lines:
        console.say("Pairing tables of synthetic rows", "bold")
        console.show_table(columns, lines)
    shares = profile(rows, _FACTORS)
    if shares:
        console.say(
            "Share of problems (set, loss, threads, target) solved within a factor of the fastest",
            "bold",
        )
        ordered = sorted(shares.items(), key=lambda item: -float(item[1].mean()))
        console.show_table(
            ["peer", *(f"{factor:g}x" for factor in _FACTORS)],
            [[peer, *map(float, share)] for peer, share in ordered],
        )
    _show_losses(rows)
    console.say(f"Rows: {console.plain(files[0])}; {len(files) - 1} figures in the same folder.")


def _in_ms(table: tuple[list[str], list[list[object]]]) -> tuple[list[str], list[list[object]]]:
    columns, lines = table
    return columns, [
        [line[0], *(1e3 * value for value in line[1:] if isinstance(value, float))]
        for line in lines
    ]


def _show_wide(title: str, columns: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    """Print a table of many columns as several that fit a terminal."""
    if not lines:
        return
    console.say(title, "bold")
    for start in range(1, len(columns), _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        console.show_table(
            [columns[0], *map(console.plain, columns[part])],
            [[line[0], *line[part]] for line in lines],
        )


def _show_losses(rows: Sequence[Row]) -> None:
    found = standings(rows)
    if not found:
        return
    beaten = where_we_lose(found)
    console.say(f"Races to a target, all defaults: {verdict(found)}.", "bold")
    if beaten:
        console.say("Where ours lose, the worst first:", "bold red")
        lines = [
            [
                one.entry.removeprefix("antithetic."),
                one.data,
                one.loss,
                one.threads,
                f"{one.target:g}",
                "not reached" if np.isinf(one.ratio) else f"{one.ratio:.2f}",
                one.peer,
                1e3 * one.best,
            ]
            for one in beaten[:_MOST_LOSSES]
        ]
        console.show_table(
            ["ours", "set", "loss", "threads", "target", "times the fastest", "which is", "in ms"],
            lines,
        )
    if len(beaten) > _MOST_LOSSES:
        console.say(f"... and {len(beaten) - _MOST_LOSSES} more, all in the rows.")


app = typer.Typer(rich_markup_mode=None)
app.command(help=flowing(race.__doc__ or ""))(race)

if __name__ == "__main__":
    app()
