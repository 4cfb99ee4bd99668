"""Identity of a fit, so that a checkpoint is resumed only by the fit it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import fields_of
from antithetic.dask.scan import Glance

_LONGEST = 100  # characters of a parameter that are kept as they are


def mark_data(glances: list[Glance], starts: list[NDArray[np.float64]]) -> str:
    """Hash of what was seen of the blocks, and of the first weights."""
    mark = blake2b(digest_size=16)
    for one in glances:
        mark.update(f"{one.rows} {one.width} {one.kind} {one.mark};".encode())
    for start in starts:
        mark.update(start.tobytes())
    return mark.hexdigest()


def mark_settings(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as text; long ones are hashed."""
    texts = {name: _text(value) for name, value in parameters.items()}
    return {
        name: text if len(text) <= _LONGEST else blake2b(text.encode(), digest_size=16).hexdigest()
        for name, text in texts.items()
    }


def _text(value: Any) -> str:
    """Text of a parameter that is the same in every process.

    A user's object is identified by its type, name and attributes, not by its address.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(key)}: {_text(one)}' for key, one in value.items())}}}"
    if fields_of(value) and not isinstance(value, type):
        held = (f"{one.name}={_text(getattr(value, one.name))}" for one in fields_of(value))
        return f"{type(value).__name__}({', '.join(held)})"
    attributes = sorted(getattr(value, "__dict__", {}).items())
    code = getattr(value, "__code__", None)  # two functions may have one name
    body = "" if code is None else f"{code.co_code.hex()} {code.co_consts!r}"
    return f"{type(value).__qualname__} {getattr(value, '__name__', '')} {attributes!r} {body}"
