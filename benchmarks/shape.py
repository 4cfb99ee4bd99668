"""The shape of the code: how many parameters, layers, long functions, modules and lines it has.

Counted from the source; fails when a limit is missed. Run with ``python benchmarks/shape.py``.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from common import Figure, close, report

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "antithetic"
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs")
WIDEST, LONGEST_FUNCTION, LONGEST_MODULE = 100, 60, 400


def docstring_lines(node: ast.AST) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = node.body[0] if isinstance(node, documented) and node.body else None
    text = getattr(getattr(first, "value", None), "value", None)
    return (first.end_lineno or 0) - first.lineno + 1 if isinstance(text, str) else 0


def parameters_of_minimize() -> int:
    tree = ast.parse((SOURCE / "training" / "minimize.py").read_text(encoding="utf-8"))
    found = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "minimize"
    )
    return len(found.args.args) + len(found.args.kwonlyargs)


def own_parameters_of_the_classifier() -> list[str]:
    from sklearn.linear_model import SGDClassifier

    tree = ast.parse((SOURCE / "estimators" / "sgd.py").read_text(encoding="utf-8"))
    kind = next(
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "SGDClassifier"
    )
    init = next(
        node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    ours = [argument.arg for argument in (*init.args.args, *init.args.kwonlyargs)]
    theirs = inspect.signature(SGDClassifier.__init__).parameters
    return [name for name in ours if name not in theirs]


def layers() -> int:
    tree = ast.parse((ROOT / "tests" / "test_package.py").read_text(encoding="utf-8"))
    listed = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS"
    )
    return len(ast.literal_eval(listed))


def long_functions() -> Iterator[str]:
    """Functions outside the kernels; docstrings do not count."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "_core" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node)
                if lines > LONGEST_FUNCTION:
                    yield f"{path.relative_to(ROOT)} {node.name}: {lines} lines"


def long_modules() -> Iterator[str]:
    """Modules that are not mostly docstrings."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        documented = sum(docstring_lines(node) for node in ast.walk(ast.parse(text)))
        if lines > LONGEST_MODULE and 2 * documented <= lines:
            yield f"{path.relative_to(ROOT)}: {lines} lines, {documented} of them docstrings"


def wide_lines() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if len(line) > WIDEST:
                    yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"


def main() -> int:
    own = own_parameters_of_the_classifier()
    functions, modules, lines = list(long_functions()), list(long_modules()), list(wide_lines())
    missed = report(
        [
            Figure("parameters of minimize", parameters_of_minimize(), most=20),
            Figure("own parameters of SGDClassifier", len(own), most=6, remark=", ".join(own)),
            Figure("layers", layers(), most=11),
            Figure("functions over 60 lines outside kernels", len(functions), most=0),
            Figure("modules over 400 lines, not mostly docstrings", len(modules), most=0),
            Figure("lines over 100 columns", len(lines), most=0),
        ]
    )
    for place in (*functions, *modules, *lines):
        print(f"  {place}")
    return close(missed)


if __name__ == "__main__":
    sys.exit(main())
