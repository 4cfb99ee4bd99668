"""The page itself: text as escaped HTML, pictures within it, and our style and script.

No other script may run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._util.files import write_atomically
from antithetic.paper.claims import Claim
from antithetic.paper.report.explorer import Explorer
from antithetic.paper.report.pictures import Picture

_MARK = '<meta name="generator" content="antithetic">'
_BEGINNING = 1024  # bytes among which a page says who wrote it
_NUMBER = re.compile(
    r"(?<![\w.,-])[\N{MINUS SIGN}+-]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?"
    r"(?:\s?[%\N{MULTIPLICATION SIGN}]|x\b)?(?![\w-])"
)
_NO_SCRIPT = "The pair explorer needs JavaScript, which is switched off. Everything else is here."
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text and numbers: numbers stand to the right, with four digits, and NaN is a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Everything that a page shows, in the order in which it shows it.

    All but the title may be left out.

    Attributes
    ----------
    title, subtitle : str
    summary : sequence of str
        Sentences, the first in large letters. Text between ``**`` is emphasised; in a sentence
        without any, its numbers are.
    sheets : sequence of Picture
        At the top of the page, two side by side.
    explorer : sequence of Explorer
        One per data set.
    claims : sequence of Claim
    pictures : sequence of Picture
        Side by side, by group; groups are folded if there are sheets.
    tables : sequence of Table
    settings, versions, machine : mapping of str to object
    citation : str
        How to cite, shown as it is.
    """

    title: str
    subtitle: str = ""
    summary: Sequence[str] = ()
    sheets: Sequence[Picture] = ()
    explorer: Sequence[Explorer] = ()
    claims: Sequence[Claim] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, object] = field(default_factory=dict)
    citation: str = ""


def write_page(content: Content, path: str | Path) -> None:
    """Write :func:`render`'s page to a file.

    Parameters
    ----------
    content : Content
    path : str or Path
    """
    write_atomically(path, render(content).encode("utf-8", "replace"))


def is_page(path: Path) -> bool:
    """Whether a file is a page that :func:`write_page` wrote."""
    with open(path, "rb") as file:
        return _MARK.encode("ascii") in file.read(_BEGINNING)


def render(content: Content) -> str:
    """One self-contained HTML page.

    Nothing is loaded from anywhere, and the page's security policy lets only the style and the
    script of this package run, by their hashes. Explorers of more than 1500 rows are thinned, which
    the page says; partners stay together.

    Parameters
    ----------
    content : Content

    Returns
    -------
    page : str
    """
    style = _asset("page.css")
    script = f'(() => {{\n"use strict";\n{_asset("explorer.js")}}})();\n'
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src"
        " data:; base-uri 'none'; form-action 'none'"
    )
    sections = _sections(content)
    data = _json([explorer.payload() for explorer in content.explorer])
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-label="{title}">{inner}</section>\n'
        for name, title, inner in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{_MARK}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(content.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<nav aria-label="Sections">{links}<span id="tools"></span></nav>
<main>
<header><h1>{escape(content.title)}</h1>{_paragraph(content.subtitle, "subtitle")}</header>
{body}<noscript><p>{_NO_SCRIPT}</p></noscript>
</main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def _sections(content: Content) -> list[tuple[str, str, str]]:
    """Address, title and inside of each section that has something to show."""
    kinds = {"Settings": content.settings, "Versions": content.versions, "Machine": content.machine}
    about = "".join(_definitions(title, values) for title, values in kinds.items())
    sections = [
        (
            "summary",
            "Summary",
            "".join(f"<p>{_emphasise(sentence)}</p>" for sentence in content.summary),
        ),
        ("sheets", "Figures", _groups(content.sheets, folded=False)),
        ("pairs", "Pair explorer", '<div id="explorer"></div>' if content.explorer else ""),
        ("claims", "Claims", _claims(content.claims)),
        (
            "figures",
            "Each data set" if content.sheets else "Figures",
            _groups(content.pictures, folded=bool(content.sheets)),
        ),
        ("tables", "Tables", "".join(map(_table, content.tables))),
        ("about", "How it was made", f'<div class="definitions">{about}</div>' if about else ""),
        (
            "cite",
            "How to cite",
            f"<pre>{escape(content.citation)}</pre>" if content.citation else "",
        ),
    ]
    return [
        (name, title, inner if name == "summary" else f"<h2>{title}</h2>{inner}")
        for name, title, inner in sections
        if inner
    ]


def _paragraph(text: str, kind: str) -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""


def _emphasise(sentence: str) -> str:
    if _BOLD.search(sentence):
        return _BOLD.sub(r"<strong>\1</strong>", escape(sentence))
    parts, end = [], 0
    for number in _NUMBER.finditer(sentence):
        parts += [
            escape(sentence[end : number.start()]),
            f"<strong>{escape(number.group())}</strong>",
        ]
        end = number.end()
    return "".join(parts) + escape(sentence[end:])


def _claims(claims: Iterable[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{claim.number}. {escape(claim.claim)}</td>"
        '<td><span class="badge'
        f' {claim.verdict.replace(" ", "-")}">{claim.verdict}</span></td>'
        f"<td>{escape(claim.found)}{_by_measure(claim)}"
        f"{_paragraph(claim.rule, 'detail')}</td></tr>"
        for claim in claims
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Claim", "Verdict", "Measured"))
    head = f"<thead><tr>{head}</tr></thead>"
    return f'<table class="claims">{head}<tbody>{rows}</tbody></table>' if rows else ""


def _by_measure(claim: Claim) -> str:
    """A small table: measures below each other, the chosen step beside four times it."""
    if not claim.by_measure:
        return ""
    heads = "".join(
        f'<th scope="col">{escape(step)} {"the " * (step != "chosen")}step</th>'
        for step in claim.by_measure
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(measure)}</th>'
        + "".join(f"<td>{escape(of[measure])}</td>" for of in claim.by_measure.values())
        + "</tr>"
        for measure in next(iter(claim.by_measure.values()))
    )
    return f'<table class="measures"><tr><td></td>{heads}</tr>{rows}</table>'


def _figure(picture: Picture) -> str:
    source = f"data:image/svg+xml;base64,{base64.b64encode(picture.svg).decode()}"
    told = escape(": ".join(text for text in (picture.group, picture.title) if text))
    return (
        f'<figure id="figure-{picture.id}"><img src="{source}" alt="{told}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _groups(pictures: Iterable[Picture], *, folded: bool) -> str:
    groups: dict[str, list[str]] = {}
    for picture in pictures:
        groups.setdefault(picture.group, []).append(_figure(picture))
    found = ""
    for name, held in groups.items():
        grid = f'<div class="grid">{"".join(held)}</div>'
        state = "" if folded else " open"
        found += (
            f'<details class="group"{state}><summary>{escape(name)}</summary>{grid}</details>'
            if name
            else grid
        )
    return found


def _json(value: object) -> str:
    """JSON that may stand in a ``<script>``: ASCII, without characters special to HTML."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _table(table: Table) -> str:
    right = [
        bool(table.rows) and all(_is_number(row[k]) for row in table.rows)
        for k in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col" class="{"number" if number else "text"}">{escape(str(column))}</th>'
        for column, number in zip(table.columns, right, strict=True)
    )
    rows = "".join(f"<tr>{_row_head(row[0])}{_cells(row[1:])}</tr>" for row in table.rows)
    title = escape(table.title)
    return (
        f'<h3>{title}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | np.integer | np.floating) and not isinstance(cell, bool)


def _row_head(cell: Any) -> str:
    """First cell of a row, which stays in view when a table is scrolled."""
    return _table_cell(cell).replace("<td", '<th scope="row"').replace("</td>", "</th>")


def _cells(row: Iterable[Any]) -> str:
    return "".join(map(_table_cell, row))


def _table_cell(cell: Any) -> str:
    if not _is_number(cell):
        return f"<td>{escape(str(cell))}</td>"
    text = (
        f"{cell}"
        if isinstance(cell, int | np.integer)
        else f"{cell:.4g}"
        if np.isfinite(cell)
        else "\N{EN DASH}"
    )
    return '<td class="number">' + text.replace("-", "\N{MINUS SIGN}") + "</td>"


def _definitions(title: str, values: Mapping[str, object]) -> str:
    pairs = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in values.items()
    )
    return f"<div><h3>{title}</h3><dl>{pairs}</dl></div>" if pairs else ""


def _asset(name: str) -> str:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
