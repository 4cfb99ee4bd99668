"""What is installed: for bug reports, and to say how numbers were made."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from antithetic._core import kernels

_NEEDED = ("numpy", "scipy", "scikit-learn")
_OPTIONAL = ("torch", "dask")


def package_version() -> str:
    """Return the version of this package, which is defined in a module above this one."""
    return str(sys.modules["antithetic"].__version__)


def versions() -> dict[str, str | int]:
    """Return the versions of what computes, and the machine."""
    found: dict[str, str | int] = {"antithetic": package_version()}
    found |= {"python": platform.python_version()}
    found |= {name: _version(name) for name in _NEEDED}
    return found | {
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 0,
    }


def show_versions() -> None:
    """Print the versions of this package and its dependencies, and the instruction set in use.

    Examples
    --------
    >>> import antithetic
    >>> antithetic.show_versions()  # doctest: +ELLIPSIS
    antithetic: ...
    """
    lines = {"antithetic": package_version(), "instruction set": describe_kernels()}
    lines |= {"python": platform.python_version(), "machine": platform.platform()}
    lines |= {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    for name, value in lines.items():
        print(f"{name}: {value}")


def describe_kernels() -> str:
    """Return the instruction set in use, and those that could be."""
    others = [name for name in kernels.available() if name != kernels.isa]
    return kernels.isa + (f" (also built: {', '.join(others)})" if others else "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # not installed, or a copy without metadata
        return "not installed"
