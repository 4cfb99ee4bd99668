"""Public names that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_later(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports a name when it is first asked for.

    Parameters
    ----------
    package : str
    homes : mapping of str to str
        Of each name, the module that defines it, from the package on; a module's own name is the
        module itself.

    Examples
    --------
    >>> import_later("collections", {"Mapping": "abc"})("Mapping")
    <class 'collections.abc.Mapping'>
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        value = module if name == homes[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find
