"""The documentation is true: its code blocks run, and generated parts are up to date."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from make_combinations import matrix
from races.sets import SPARSE_SETS

import antithetic

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Pages about parts that need an extra.
NEEDS = {"torch.md": "torch", "scale.md": "dask"}
FLOWERS = "length,width,species\n" + "".join(
    f"{4.5 + 0.1 * k},{3.0 + 0.02 * k},setosa\n{6.0 + 0.1 * k},{2.9 - 0.01 * k},versicolor\n"
    for k in range(12)
)


class Block(NamedTuple):
    """A fenced block of a page, and the comment before it."""

    line: int
    language: str
    text: str
    comment: str


def blocks(page):
    """Fenced blocks of a page, in order."""
    found, inside, comment = [], None, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.match(r"(`{3,})(.*)", line)
        if inside is None and fence:
            inside = Block(number + 1, fence[2].strip(), "", comment)
        elif inside is not None and fence and not fence[2]:
            found.append(inside)
            inside, comment = None, ""
        elif inside is not None:
            inside = inside._replace(text=f"{inside.text}{line}\n")
        elif line.strip():
            said = re.fullmatch(r"<!-- (.*) -->", line.strip())
            comment = said[1] if said else ""
    assert inside is None, f"{page.name}: the block of line {inside.line} has no end"
    return found


def check_python(block, page, names):
    """Run a block as a session if it has prompts, otherwise as a program."""
    where = f"{page.name}, line {block.line}"
    if not re.search(r"^>>> ", block.text, flags=re.MULTILINE):
        exec(compile(block.text, where, "exec"), names)
        return
    session = doctest.DocTestParser().get_doctest(
        block.text, names, page.name, str(page), block.line - 1
    )
    runner, said = doctest.DocTestRunner(verbose=False), []
    runner.run(session, out=said.append, clear_globs=False)
    names.update(session.globs)
    assert not said, "".join(said)


def check_shell(block, page, folder):
    """Run a block in a folder."""
    for name in ("examples", "benchmarks", "docs"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{page.name}, line {block.line}: {done.stderr or done.stdout}"


def check_excerpt(block, page, source):
    """Each line of a block occurs in a file, in the same order."""
    rest = iter((ROOT / source).read_text(encoding="utf-8").splitlines())
    missing = [
        line
        for line in block.text.splitlines()
        if line and all(line.rstrip() not in other for other in rest)
    ]
    assert not missing, f"{page.name}, line {block.line}: {source} has no line {missing[0]!r} there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_code_runs(page, tmp_path, monkeypatch):
    """Every block runs, or is marked ``<!-- ci: ... -->`` or ``<!-- not run: reason -->``."""
    if page.parent == DOCS and page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for name in ("flowers.csv", "new-flowers.csv"):  # the files that the pages use
        (tmp_path / name).write_text(FLOWERS)
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if re.match(r"not run: .|ci: .", block.comment):
            continue
        if block.comment.startswith("excerpt of "):
            check_excerpt(block, page, block.comment.removeprefix("excerpt of "))
        elif block.language == "python":
            check_python(block, page, names)
        elif block.language == "sh":
            check_shell(block, page, tmp_path)
        else:
            known = block.language in ("text", "math") or re.fullmatch(
                r"\{[a-z-]+\}.*", block.language
            )
            assert known, (
                f"{page.name}, line {block.line}: a block must be python, sh or text, not"
                f" {block.language!r}"
            )


def places_of(page):
    """Names of the headings of a page, as hosts of repositories make them for links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_documentation_lead_somewhere(name):
    """To a file of the repository and, where they name one, to a heading; Sphinx checks others."""
    links = re.findall(r"\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)", (ROOT / name).read_text("utf-8"))
    assert links
    for path, place in links:
        assert (ROOT / path).exists(), path
        assert not place or place in places_of(ROOT / path), f"{path}#{place}"


def test_the_readme_is_short():
    """The README has at most 120 lines, and its first screen ends with code that can be run."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert lines.index("```python") < 15


def test_the_matrix_of_combinations_is_that_of_the_code():
    """The page shows what ``make_combinations.matrix()`` returns; copy it there."""
    page = (DOCS / "composition.md").read_text(encoding="utf-8")
    shown = page.split("<!-- matrix -->\n")[1].split("\n<!-- end of matrix -->")[0]
    assert shown == matrix()


def script_of_docs(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_tables_of_peers_are_those_of_the_rows():
    """The tables of peers match docs/peers.csv; docs/make_peers.py rebuilds them."""
    script = script_of_docs("make_peers")
    for path, tables in zip(script.PAGES, (34, 1), strict=True):
        page = path.read_text(encoding="utf-8")
        assert page == script.page(page, script.shown_rows(script.KEPT))
        assert page.count("made by docs/make_peers.py") == tables


def test_the_tables_of_logistic_regression_are_those_of_the_rows():
    """The tables match docs/logistic.csv; docs/make_logistic.py rebuilds them."""
    script = script_of_docs("make_logistic")
    for path, tables in zip(script.PAGES, (7, 1), strict=True):
        page = path.read_text(encoding="utf-8")
        assert page == script.page(page, script.shown_rows(script.KEPT))
        assert page.count("made by docs/make_logistic.py") == tables


@pytest.mark.parametrize(
    ("name", "data", "solver"),
    [("make_peers", "data", "peer"), ("make_logistic", "task", "solver")],
)
def test_scikit_learn_intelex_is_named_only_where_it_runs(name, data, solver):
    """On sparse rows it calls scikit-learn's own lbfgs, and is named after that."""
    script = script_of_docs(name)
    sets = {
        getattr(row, data).split(",")[0]
        for row in script.shown_rows(script.KEPT)
        if getattr(row, solver) == "scikit-learn-intelex"
    }
    assert len(sets) >= 5
    assert not sets & SPARSE_SETS


def test_the_table_of_claims_is_that_of_the_run():
    """The table matches docs/claims.csv; docs/make_claims.py rebuilds it."""
    script = script_of_docs("make_claims")
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.page(page)
    assert len(script.read(script.KEPT)) == 18


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few epochs
def test_every_call_in_the_table_of_the_paper_runs():
    """Each of the paper's 35 equations, algorithms and remarks has a call, which runs."""
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    names = {name: getattr(antithetic, name) for name in antithetic.__all__}
    names |= {name: getattr(antithetic.orders, name) for name in antithetic.orders.__all__}
    names |= {
        "X": X,
        "y": y,
        "y01": np.where(y > 0, 1, 0),
        "y3": np.digitize(X[:, 0], [-0.8, -0.6]),
        "table": antithetic.pair(X, y, "greedy"),
        "w": np.zeros(X.shape[1]),
    }
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    section = page.split("## From the paper to the package")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    equations = []
    for line in lines:
        numbers = [int(number) for number in re.findall(r"\((\d+)\)", line.split(" | ")[0])]
        equations += range(numbers[0], numbers[-1] + 1) if numbers else ()
        (call,) = re.findall(r"`([^`]*)`", line.split(" | ")[-1])
        assert eval(call, names) is not None, line
    assert equations == list(range(1, 36))


def test_every_picture_is_drawn_by_a_script_and_shown():
    """Each picture is drawn by a script and shown on a page.

    docs/make_pictures.py draws the SVG files, docs/make_screenshots.py the PNG files.
    """
    script = script_of_docs("make_pictures")
    drawn = {f"{draw.__name__.replace('_', '-')}.svg" for draw in script.PICTURES}
    drawn |= {
        f"{name}.png"
        for name in re.findall(
            r'"(report-\w+)":', (DOCS / "make_screenshots.py").read_text(encoding="utf-8")
        )
    }
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"pictures/([\w-]+\.\w+)\)", page.read_text(encoding="utf-8"))
    }
    assert {path.name for path in (DOCS / "pictures").iterdir()} == drawn == shown
