"""The directive ``example``: run a program of ``examples/`` and show its purpose and output.

The program runs while the page is built. The page shows its docstring, what it prints and what it
draws.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import runpy
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

EXAMPLES = Path(__file__).parents[1] / "examples"


class Example(SphinxDirective):
    """``.. example:: variance`` runs ``examples/variance.py``.

    With ``:needs: faiss``, only where faiss is installed, and says so.
    """

    required_arguments = 1
    option_spec = {"needs": directives.unchanged}  # noqa: RUF012 - docutils' name and form

    def run(self):
        """Docstring, output, pictures and source."""
        path = EXAMPLES / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(path))
        source = path.read_text(encoding="utf-8")
        shown = self._text(ast.get_docstring(ast.parse(source)))
        missing = [
            name for name in self.options.get("needs", "").split() if find_spec(name) is None
        ]
        if missing:
            shown += self._text(f"*Not run here: it needs {', '.join(missing)}.*")
        else:
            printed, pictures = run_example(path)
            shown += [_block(printed, "text"), *map(_picture, pictures)]
        return [
            *shown,
            *self._text(f"The program, ``examples/{path.name}``:"),
            _block(source.rstrip(), "python"),
        ]

    def _text(self, text):
        part = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source=""), self.content_offset, part)
        return part.children


def run_example(path):
    """Run a program in a folder of its own.

    Return what it printed, and the pictures that it left there.
    """
    printed = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(printed),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(path), run_name="__main__")
        return printed.getvalue().rstrip(), [
            picture.read_bytes() for picture in sorted(Path().glob("*.png"))
        ]


def _block(text, language):
    return nodes.literal_block(text, text, language=language)


def _picture(png):
    """Embed the picture, so that a page keeps it even if it is not rebuilt."""
    data = base64.b64encode(png).decode()
    return nodes.raw(
        "",
        '<img class="light-ground" alt="the picture that the program saves"'
        f' src="data:image/png;base64,{data}">',
        format="html",
    )


def setup(app):
    """Register the directive."""
    app.add_directive("example", Example)
    return {"parallel_read_safe": True}
