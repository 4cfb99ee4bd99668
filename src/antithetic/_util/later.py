"""Public names that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_later(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports names when they are used.

    Type checkers must not see the first: they would accept every name.

    Parameters
    ----------
    package : str
    homes : mapping of str to str
        Of each name, the module that defines it, from the package on; a module's own name is the
        module itself.

    Examples
    --------
    >>> find, names = import_later("json", {"JSONDecoder": "decoder"})
    >>> find("JSONDecoder")
    <class 'json.decoder.JSONDecoder'>
    >>> "JSONDecoder" in names()
    True
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        value = module if name == homes[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
