"""``antithetic reproduce``: the paper's experiments, a report, and a verdict on each claim."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from antithetic import datasets
from antithetic._cli import console
from antithetic._cli.data import refuse_foreign
from antithetic._cli.guard import Debug, InterruptedWithAdvice, Json, guarded
from antithetic.paper.claims import headline
from antithetic.paper.experiments import fingerprint
from antithetic.paper.report.of_reproduction import reproduction_content
from antithetic.paper.report.page import write_page
from antithetic.paper.report.pictures import FORMATS, write_pictures
from antithetic.paper.reproduction import (
    FOLDERS,
    MANIFEST,
    PAGE,
    PARTIAL_PAGE,
    TABLES,
    Manifest,
    Reproduction,
    ReproductionInterrupted,
    remove,
    write_csv,
)
from antithetic.paper.reproduction import reproduce as run_experiments
from antithetic.paper.workbench import LAMBDAS, LOSSES

_QUICK_SETS = ("sonar_scale", "breast-cancer_scale")
_CLAIM = ("number", "claim", "verdict", "by_construction", "measured")
_NAMES = {"logistic": "log_loss", "svm": "hinge"}
_REST = (
    "all parts are kept: the same command with --resume writes the rest without running them again"
)

_Only = Annotated[
    list[str] | None, typer.Option(metavar="SET", help=f"Sets to use, of {', '.join(LAMBDAS)}.")
]
_Loss = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="log_loss (Figure 2) or hinge (Figure 3).", show_default="both"
    ),
]
_Seeds = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Runs whose curves are shown.", show_default="5"),
]
_Epochs = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Passes of each run.", show_default="20")
]
_Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the report.")]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the finished parts in --out.")
]
_Quick = Annotated[bool, typer.Option("--quick", help="A first look: 2 sets, 2 seeds, 3 epochs.")]
_Download = Annotated[
    bool, typer.Option("--download", help="Fetch sets that are not on this computer first.")
]
_Images = Annotated[
    bool, typer.Option("--images/--no-images", help="Also write each figure as PNG and SVG.")
]


@guarded
def reproduce(
    only: _Only = None,
    loss: _Loss = None,
    seeds: _Seeds = None,
    epochs: _Epochs = None,
    out: _Out = Path("antithetic-report"),
    resume: _Resume = False,
    quick: _Quick = False,
    download: _Download = False,
    images: _Images = True,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Run the paper's experiments and say which of its claims hold.

    Writes report.html (open it in any browser), all numbers as CSV and each figure as PNG and SVG.
    Four of the six sets come with the package; the others are used if they are on this computer.
    Ctrl-C keeps what is finished, and [bold]--resume[/bold] continues from there.

    For example:
      antithetic reproduce
      antithetic reproduce --only sonar_scale --only splice_scale --seeds 10
      antithetic reproduce --quick --out first-look
      antithetic reproduce --download --resume
    """
    names = tuple(only) if only else _QUICK_SETS if quick else tuple(LAMBDAS)
    losses = tuple(_NAMES.get(name, name) for name in loss) if loss else LOSSES
    seeds, epochs = seeds or (2 if quick else 5), epochs or (3 if quick else 20)
    for page in (PAGE, PARTIAL_PAGE):
        refuse_foreign(out, (page,))
    if Manifest.read(out) is None:  # no run of ours wrote files here
        refuse_foreign(out, (PAGE, MANIFEST, *FOLDERS))
    out.mkdir(parents=True, exist_ok=True)
    if download:
        for name in names:
            datasets.load(name)
    with console.progress() as tell:
        try:
            found = _marked(
                run_experiments(
                    names, losses, seeds=seeds, epochs=epochs, out=out, resume=resume, progress=tell
                ),
                quick,
            )
        except ReproductionInterrupted as stop:
            raise InterruptedWithAdvice(_kept(_marked(stop.result, quick), out)) from stop
        if not found.experiments:
            raise ValueError(
                f"none of the sets is on this computer ({', '.join(found.left_out)}); --download"
                " fetches them"
            )
        tell("report", 1, 1)
        files, trouble = _write(found, out, images)
    if not as_json:
        _show(found, files)
    if trouble is not None:
        raise OSError(_unwritten(trouble, files)) from trouble
    return {
        "report": out / "report.html",
        "first_look": bool(found.first_look),
        "summary": headline(found.claims),
        "claims": [
            {name: getattr(claim, name) for name in _CLAIM} | {"rows": claim.cases}
            for claim in found.claims
        ],
        "left_out": found.left_out,
        "resumed": found.resumed,
        "settings": found.settings,
        "seconds": found.seconds,
        "files": files,
    }


def write_report(
    found: Reproduction, out: Path, *, images: bool = True, unfinished: bool = False
) -> Iterator[Path]:
    """Write page, tables and pictures; yield their paths, the page first, each when it is there.

    Figures and tables of an earlier run that are not of this one are removed. An unfinished run
    writes a page of another name and nothing else: what is beside it stays that of a finished one.
    """
    content, before = reproduction_content(found, unfinished=unfinished), Manifest.read(out)
    now = fingerprint([one.protocol for one in found.experiments])
    if unfinished:
        write_page(content, out / PARTIAL_PAGE)
        held = Manifest(now, ()) if before is None else before
        files = tuple(dict.fromkeys([*held.files, PARTIAL_PAGE]))
        replace(held, files=files).write(out)
        yield out / PARTIAL_PAGE
        return
    write_page(content, out / PAGE)
    yield out / PAGE
    written = {PAGE, *(f"csv/{name}.csv" for name in TABLES)}
    drawn = (*content.sheets, *content.pictures)
    pictures = {f"figures/{picture.id}.{ending}" for picture in drawn for ending in FORMATS}
    # Images of the same settings are the same.
    if images or (before is not None and before.settings == now):
        written |= (
            pictures if images else pictures & set(before.files if before is not None else ())
        )
    if before is not None:
        remove(out, before.files if before.settings != now else set(before.files) - written)
    Manifest(now, tuple(sorted(written))).write(out)
    yield from write_csv(found, out / "csv")
    if images:
        yield from write_pictures(drawn, out / "figures")


def _write(found: Reproduction, out: Path, images: bool) -> tuple[list[Path], OSError | None]:
    """Write the report; return the files that were written, and what stopped it, if anything."""
    files = list[Path]()
    try:
        for path in write_report(found, out, images=images):
            files.append(path)  # one by one, to know how far it came
    except OSError as error:
        return files, error
    except KeyboardInterrupt as stop:
        raise InterruptedWithAdvice(f"interrupted while the report was written; {_REST}") from stop
    return files, None


def _marked(found: Reproduction, quick: bool) -> Reproduction:
    return replace(found, settings=found.settings | {"quick": True}) if quick else found


def _unwritten(trouble: OSError, files: list[Path]) -> str:
    reason = (
        f"{trouble.filename}: {trouble.strerror}"
        if trouble.filename and trouble.strerror
        else trouble.strerror or str(trouble)
    )
    whole = (
        f"{files[0]} is complete, but some of its tables and figures are missing"
        if files
        else "the report could not be written"
    )
    return f"{reason}; {whole}. {_REST[0].upper()}{_REST[1:]}"


def _kept(finished: Reproduction, out: Path) -> str:
    number = len(finished.experiments)
    parts = f"{number} finished part{'s are' if number != 1 else ' is'} kept in {out}"
    if number:
        pages = list[Path]()
        with contextlib.suppress(OSError):  # what counts, the parts, is there
            pages.extend(
                path for path in write_report(finished, out, images=False, unfinished=True)
            )
        parts += (
            f"; a partial report is in {pages[0].name}"
            if pages
            else ", but no report could be written"
        )
    return f"interrupted; {parts}. Run the same command with --resume to continue"


def _show(found: Reproduction, files: list[Path]) -> None:
    if found.first_look:
        console.say(found.first_look, "bold yellow")
        console.say()
    console.show_claims(found.claims)
    console.say()
    console.say(f"{headline(found.claims)}.", "bold")
    if found.first_look:
        console.say(found.first_look, "bold yellow")
    for name in found.left_out:
        console.say(
            f"Left out: {name}, which is not on this computer (--download fetches it, or name its"
            " folder in ANTITHETIC_DATA)."
        )
    if found.resumed:
        console.say(f"Taken from an earlier run: {', '.join(found.resumed)}.")
    kinds = {
        suffix: sum(path.suffix == suffix for path in files) for suffix in (".csv", ".png", ".svg")
    }
    others = ", ".join(f"{count} {suffix[1:].upper()}" for suffix, count in kinds.items() if count)
    if files:
        console.say(
            f"Report after {found.seconds:.0f} s: {console.plain(files[0])} (other files:"
            f" {others or 'none'})"
        )
