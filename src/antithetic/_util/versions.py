"""What is installed, for bug reports."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from antithetic._core import kernels

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "dask")


def show_versions() -> None:
    """Print the versions of this package and its dependencies, and the instruction set in use.

    Examples
    --------
    >>> import antithetic
    >>> antithetic.show_versions()  # doctest: +ELLIPSIS
    antithetic: ...
    """
    lines = {"antithetic": _version("antithetic"), "instruction set": describe_kernels()}
    lines |= {"python": platform.python_version(), "machine": platform.platform()}
    lines |= {name: _version(name) for name in _PACKAGES}
    for name, value in lines.items():
        print(f"{name}: {value}")


def describe_kernels() -> str:
    """Return the instruction set in use, and those that could be."""
    others = [name for name in kernels.available() if name != kernels.isa]
    return kernels.isa + (f" (also built: {', '.join(others)})" if others else "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
