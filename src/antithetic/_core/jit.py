"""The only import of numba: compilation and caching, and a prefetch hint for kernels.

Importing this module costs about 0.2 s, so only kernel modules import it, and those are imported
when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise. NaN and infinity keep their meaning: the divergence
# check needs them.
_REORDERED_SUMS = {"reassoc", "contract", "nsz"}


def jit(function: Function) -> Function:
    """Compile a function with plain floating-point rules, and cache the machine code on disk."""
    return _compile(function, fastmath=False)


def jit_sums(function: Function) -> Function:
    """Compile a function in which sums may be reordered, and cache the machine code on disk."""
    return _compile(function, fastmath=_REORDERED_SUMS)


def _compile(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for a cache can be written: compile in each process instead
        compiled = numba.njit(**options)(function)
    return compiled  # type: ignore[no-any-return]  # numba is untyped


def unsigned(index: np.ndarray) -> np.ndarray:
    """View integer indices as unsigned, without a copy: numba then omits the sign test."""
    return index.view(np.dtype(f"u{index.itemsize}"))


def read_only(array: np.ndarray) -> np.ndarray:
    """View an array as read-only, so that kernels see one type for all arrays of a user."""
    view = array.view()
    view.flags.writeable = False
    return view


@intrinsic
def _prefetch_in_kernel(_typing: Any, array: Any, index: Any) -> Any:
    signature = numba.types.void(array, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        try:
            hint = builder.module.get_global("llvm.prefetch.p0")
        except KeyError:
            hint = ir.Function(builder.module, hint_type, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        # Arguments: read, keep in all caches, data.
        builder.call(hint, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


def _prefetch_in_python(array: np.ndarray, index: int) -> None:
    """Do nothing: with the JIT switched off there is nothing to hint at."""


# prefetch(array, index): start to load the cache line of array[index] (one-dimensional, contiguous)
_without_jit = numba.config.DISABLE_JIT  # type: ignore[attr-defined]  # set at run time
prefetch: Any = _prefetch_in_python if _without_jit else _prefetch_in_kernel
