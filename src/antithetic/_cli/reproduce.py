"""``antithetic reproduce``: the paper's experiments, a report, and a verdict on each claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from antithetic import datasets
from antithetic._cli import console
from antithetic._cli.guard import Debug, InterruptedWithAdvice, Json, guarded
from antithetic.experiments import LAMBDAS, LOSSES, Reproduction, ReproductionInterrupted, write_csv
from antithetic.experiments import reproduce as run_experiments
from antithetic.report import write_page
from antithetic.report.images import draw_figures
from antithetic.report.of_reproduction import reproduction_content

_QUICK_SETS = ("sonar_scale", "breast-cancer_scale")
_SEVERAL = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold", "not measured": "were not measured"}
_NAMES = {"logistic": "log_loss", "svm": "hinge"}


@guarded
def reproduce(
    only: Annotated[list[str] | None, typer.Option(metavar="SET", help=f"Sets to use, of {', '.join(LAMBDAS)}.")] = None,
    loss: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="log_loss (Figure 2) or hinge (Figure 3).", show_default="both")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Runs whose curves are shown.", show_default="5")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Passes of each run.", show_default="20")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the report.")] = Path("antithetic-report"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the finished parts in that folder.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A first look: 2 sets, 2 seeds, 3 epochs.")] = False,
    download: Annotated[bool, typer.Option("--download", help="Fetch sets that are not on this computer first.")] = False,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Write each figure also as PNG and SVG.")] = True,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Run the paper's experiments and say which of its claims hold.

    Writes report.html (open it in any browser), all numbers as CSV and each figure as PNG and SVG. Four of the six sets come with the
    package; the others are used if they are on this computer. Ctrl-C keeps what is finished, and [bold]--resume[/bold] goes on from there.

    For example:
      antithetic reproduce
      antithetic reproduce --only sonar_scale --only splice_scale --seeds 10
      antithetic reproduce --quick --out first-look
      antithetic reproduce --download --resume
    """
    names = tuple(only) if only else _QUICK_SETS if quick else tuple(LAMBDAS)
    losses = tuple(_NAMES.get(name, name) for name in loss) if loss else LOSSES
    seeds, epochs = seeds or (2 if quick else 5), epochs or (3 if quick else 20)
    out.mkdir(parents=True, exist_ok=True)
    if download:
        for name in names:
            datasets.load(name)
    with console.progress() as tell:
        try:
            found = run_experiments(names, losses, seeds=seeds, epochs=epochs, out=out, resume=resume, progress=tell)
        except ReproductionInterrupted as stop:
            raise InterruptedWithAdvice(_kept(stop.result, out)) from stop
        if not found.parts:
            raise ValueError(f"none of the sets is on this computer ({', '.join(found.left_out)}); --download fetches them")
        tell("report", 1, 1)
        files = write_report(found, out, images=images)
    if not as_json:
        _show(found, files)
    return {
        "report": out / "report.html",
        "claims": [{name: getattr(claim, name) for name in ("number", "claim", "verdict", "measured", "rows")} for claim in found.claims],
        "left_out": found.left_out,
        "resumed": found.resumed,
        "settings": found.settings,
        "seconds": found.seconds,
        "files": files,
    }


def write_report(found: Reproduction, out: Path, *, images: bool = True) -> list[Path]:
    """Write page, tables and pictures; return their paths, the page first."""
    content = reproduction_content(found)
    page = out / "report.html"
    write_page(content, page)
    tables = write_csv(found, out / "csv")
    return [page, *tables, *(draw_figures(content.figures, out / "figures") if images else [])]


def _kept(finished: Reproduction, out: Path) -> str:
    parts = f"{len(finished.parts)} finished part{'s are' if len(finished.parts) != 1 else ' is'} kept in {out}"
    if finished.parts:
        write_report(finished, out, images=False)
        parts += ", with a report of what there is"
    return f"interrupted; {parts}. Go on with the same command and --resume"


def _count(number: int, verdict: str) -> str:
    return f"{number} {verdict if number == 1 else _SEVERAL[verdict]}"


def _show(found: Reproduction, files: list[Path]) -> None:
    console.show_claims(found.claims)
    verdicts = [claim.verdict for claim in found.claims]
    counts = ", ".join(_count(verdicts.count(verdict), verdict) for verdict in _SEVERAL if verdict in verdicts)
    console.say()
    console.say(f"{len(verdicts)} claims: {counts}.", "bold")
    for name in found.left_out:
        console.say(f"Left out: {name}, which is not on this computer (--download fetches it, or name its folder in ANTITHETIC_DATA).")
    if found.resumed:
        console.say(f"Taken from an earlier run: {', '.join(found.resumed)}.")
    kinds = {suffix: sum(path.suffix == suffix for path in files) for suffix in (".csv", ".png", ".svg")}
    beside = ", ".join(f"{count} {suffix[1:].upper()}" for suffix, count in kinds.items() if count)
    console.say(f"Report after {found.seconds:.0f} s: {console.plain(files[0])} (beside it: {beside})")
