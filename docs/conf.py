"""Sphinx settings: ``sphinx-build -W --keep-going -n docs build/docs``, without network."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

import antithetic

sys.path.insert(0, str(Path(__file__).parent))  # where our own directive lives

project = "antithetic"
author = "The antithetic developers"
version = release = antithetic.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "example_directive",
]
html_theme = "furo"
html_title = f"antithetic {version}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sphinx = html_show_copyright = False
html_copy_source = False
html_theme_options = {"source_edit_link": ""}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # which browsers draw by themselves: no script, no network

autodoc_typehints = "none"  # numpydoc tells the types
autodoc_member_order = "bysource"
autodoc_mock_imports = [
    name for name in ("torch", "dask", "distributed") if find_spec(name) is None
]
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
python_use_unqualified_type_names = True

ELSEWHERE = re.compile(
    r"parameters are those of|shares all parameters|(made|created) by ``|"
    r"what :func:`[\w.]+` returns",
    re.IGNORECASE,
)
PUBLIC_MODULES = (
    "antithetic",
    "antithetic.datasets",
    "antithetic.orders",
    "antithetic.steps",
    "antithetic.stopping",
    "antithetic.penalties",
    "antithetic.losses",
    "antithetic.torch",
    "antithetic.dask",
)


def public_names() -> dict[str, object]:
    """Everything that the package offers, by its full name."""
    modules = [
        importlib.import_module(name) for name in PUBLIC_MODULES if find_spec(name) is not None
    ]
    return {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in modules
        for name in module.__all__
    }


def undocumented(thing) -> list[str]:
    """Parameters that a docstring lacks, or has too many.

    Where it has a section of parameters (of a result: of attributes), that must name them all and
    no others. Without one, a method may leave to its one line what must be given; all else must be
    mentioned, or be said to be as elsewhere, or not be made by users at all.
    """
    from numpydoc.docscrape import NumpyDocString

    text = inspect.getdoc(thing) or ""
    taken = [
        name.lstrip("*")
        for name in inspect.signature(thing).parameters
        if name not in ("self", "cls")
    ]
    sections = NumpyDocString(text)
    listed = [
        name
        for kind in ("Parameters", "Attributes")
        for entry in sections[kind]
        for name in re.split(", *", entry.name.replace("*", ""))
    ]
    if sections["Parameters"] or set(taken) <= set(listed):
        known = [
            name
            for entry in sections["Parameters"]
            for name in re.split(", *", entry.name.replace("*", ""))
        ]
        return sorted(set(taken) - set(listed)) + sorted(set(known) - set(taken))
    if not text or ELSEWHERE.search(text):
        return [] if text else ["everything"]
    required = [
        name
        for name, each in inspect.signature(thing).parameters.items()
        if each.default is each.empty and inspect.isroutine(thing)
    ]
    return [name for name in taken if name not in required and not re.search(rf"\b{name}\b", text)]


def members(name: str, thing: object) -> dict[str, object]:
    """A public function, or a class and those of its methods that are ours."""
    if not inspect.isclass(thing):
        return {name: thing}
    if issubclass(thing, BaseException):
        return {}  # raised, never made by a user
    ours = {key: getattr(thing, key) for key in dir(thing) if not key.startswith("_")}
    ours = {
        f"{name}.{key}": value
        for key, value in ours.items()
        if inspect.isroutine(value) and _is_ours(value)
    }
    return {name: thing, **ours}


def _is_ours(member) -> bool:
    return (getattr(member, "__module__", None) or "").startswith("antithetic")


def skip_what_is_not_ours(app, what, name, member, skip, options):  # noqa: ARG001 - Sphinx asks so
    """Leave out members that scikit-learn or Python wrote: their pages document them."""
    return True if callable(member) and not _is_ours(member) else None


def check_reference(app, env):  # noqa: ARG001 - Sphinx asks so
    """Fail if the reference lacks a public name, or a docstring lacks a parameter."""
    from sphinx.util import logging

    warn = logging.getLogger(__name__).warning
    described = {*env.get_domain("py").objects, *env.get_domain("py").modules}
    for name, thing in public_names().items():
        if name not in described:
            warn("%s is public, and no page of docs/reference describes it", name)
        for full_name, member in members(name, thing).items():
            if callable(member) and (wrong := undocumented(member)):
                warn(
                    "%s: the docstring and the signature do not agree on %s",
                    full_name,
                    ", ".join(wrong),
                )


def visit_formula(translator, node):
    """Write a formula as MathML; TeX that is not understood is an error."""
    from docutils.utils.math.latex2mathml import tex2mathml

    # docutils would read the two digits as one number.
    text = re.sub(r"(frac)(\d)(\d)", r"\1{\2}{\3}", node.astext())
    translator.body.append(tex2mathml(text, as_block=node.tagname == "math_block"))
    raise nodes.SkipNode


def trim_blocks(app, doctree):  # noqa: ARG001 - Sphinx asks so
    """Leave out the empty line that ends a session, which doctest needs and readers do not."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]


def setup(app):
    """Connect all this to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_formula, None), (visit_formula, None))
    app.connect("doctree-read", trim_blocks)
    app.connect("autodoc-skip-member", skip_what_is_not_ours)
    app.connect("env-check-consistency", check_reference)
