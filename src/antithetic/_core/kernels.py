"""The compiled kernels for this CPU.

The same C++ is built as one extension module per instruction set, and the best that the CPU can run
is imported; the environment variable ``ANTITHETIC_ISA`` selects one.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_LEVELS = {"v4": 4, "v3": 3, "v2": 2}  # x86-64 levels; "plain" on other machines


def available() -> tuple[str, ...]:
    """Instruction sets that were built and that this CPU can run, the best first."""
    built = [name for name in (*_LEVELS, "plain") if find_spec(f"{__package__}._{name}")]
    try:
        level = import_module(f"{__package__}._cpu").level()
    except ImportError:  # one instruction set was built; or the CPU is unknown: the lowest is safe
        return tuple(built[-1:])
    return tuple(name for name in built if _LEVELS.get(name, 0) <= level)


def _load() -> ModuleType:
    names = available()
    wanted = os.environ.get("ANTITHETIC_ISA") or (names[0] if names else "")
    if not names:
        raise ImportError(
            "no kernels can be loaded: either the CPU lacks x86-64-v2 (SSE4.2, POPCNT), which a"
            " virtual machine may hide (let it show its host's CPU), or the package was not built"
            " (run pip install . in its folder)"
        )
    if wanted not in names:
        raise ImportError(
            f"ANTITHETIC_ISA={wanted!r} is not available here; use one of {', '.join(names)}"
        )
    return import_module(f"{__package__}._{wanted}")


_module = _load()
isa: str = _module.isa.removeprefix("_")
globals().update(
    {name: getattr(_module, name) for name in dir(_module) if name[0] != "_"} | {"isa": isa}
)
