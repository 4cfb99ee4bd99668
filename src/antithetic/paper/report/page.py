"""The page itself: text as escaped HTML, numbers as JSON, and our style and script.

No other script may run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._util.files import write_atomically
from antithetic.paper.report.content import Content, Figure, PageClaim, PageTable
from antithetic.paper.report.payload import payload, to_json

_MARK = '<meta name="generator" content="antithetic">'
_BEGINNING = 1024  # bytes among which a page says who wrote it
_SCRIPTS = ("tools.js", "chart.js", "explorer.js", "page.js")
_NUMBER = re.compile(
    r"(?<![\w.,-])[\N{MINUS SIGN}+-]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?"
    r"(?:\s?[%\N{MULTIPLICATION SIGN}]|x\b)?(?![\w-])"
)
_BOLD = re.compile(r"\*\*(.+?)\*\*")


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
    script of this package run, by their hashes. Curves of more than 2000 points and explorers of
    more than 1500 rows are thinned, which the page says; partners stay together.

    Parameters
    ----------
    content : Content

    Returns
    -------
    page : str
    """
    style = _asset("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src"
        " data:; base-uri 'none'; form-action 'none'"
    )
    sections = _sections(content)
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
{body}<noscript>
<p>The figures need JavaScript, which is switched off. Everything else is here.</p></noscript>
</main>
<script type="application/json" id="data">{to_json(payload(content))}</script>
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
        ("claims", "Claims", _claims(content.claims)),
        ("figures", "Figures", _groups(content.figures)),
        ("pairs", "Pair explorer", '<div id="explorer"></div>' if content.explorer else ""),
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


def _claims(claims: Iterable[PageClaim]) -> str:
    rows = "".join(
        f'<tr><td data-head="Claim">{escape(claim.claim)}</td>'
        '<td data-head="Verdict"><span class="badge'
        f' {claim.verdict.replace(" ", "-")}">{claim.verdict}</span></td>'
        f'<td data-head="Measured">{escape(claim.measured)}'
        f"{_paragraph(claim.detail, 'detail')}</td></tr>"
        for claim in claims
    )
    head = (
        '<thead><tr><th scope="col">Claim</th><th scope="col">Verdict</th><th'
        ' scope="col">Measured</th></tr></thead>'
    )
    return f'<table class="claims">{head}<tbody>{rows}</tbody></table>' if rows else ""


def _groups(figures: Iterable[Figure]) -> str:
    groups: dict[str, list[str]] = {}
    for place, figure in enumerate(figures):
        groups.setdefault(figure.group, []).append(
            f'<figure id="figure-{figure.id}" data-figure="{place}"><h4>{escape(figure.title)}</h4>'
            f'<div class="chart"></div><figcaption>{escape(figure.caption)}</figcaption></figure>'
        )
    return "".join(
        f'<div class="group">{f"<h3>{escape(name)}</h3>" if name else ""}<div'
        f' class="grid">{"".join(held)}</div></div>'
        for name, held in groups.items()
    )


def _table(table: PageTable) -> str:
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
    return (
        files("antithetic.paper.report")
        .joinpath(name)
        .read_text(encoding="utf-8")
        .replace("\r\n", "\n")
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
