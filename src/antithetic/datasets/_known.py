"""Files of a known set -> rows and labels, checked against the table of sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.datasets._content import check_content
from antithetic.datasets._sets import KnownSet
from antithetic.datasets._stream import open_stream
from antithetic.datasets._svmlight import dense_if_full, read_svmlight

# Bytes of the largest set's text or images, with room: anything longer is another file.
LARGEST = 1 << 26


def read_known(
    name: str, expected: KnownSet, paths: list[Path], where: str | None = None
) -> tuple[Any, NDArray[Any]]:
    """Read one SVMlight file, or the images and the labels of MNIST.

    Every error names the set and the file, or ``where`` instead.
    """
    where = where or str(paths[-1])
    y: NDArray[Any]
    try:
        if len(paths) == 2:
            X, y = (_read_idx(path) for path in paths)
            X = X.reshape(len(X), -1)
        else:
            with open_stream(paths[0], LARGEST, where) as stream:
                X, y, _first = read_svmlight(stream, where, expected.d, first=1)
            X = dense_if_full(X)
    except ValueError as error:
        raise ValueError(f"the file of {name} cannot be read: {error}") from error
    check_content(name, expected, X, y, where)
    return X, y


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in MNIST's format (IDX).

    The file has two zeros, 8 for bytes, the number of axes, and the axes as big-endian int32.
    """
    with open_stream(path, LARGEST) as stream:
        content = stream.read()
    n_axes = content[3] if content[:3] == b"\x00\x00\x08" and len(content) > 3 else 0
    start = 4 + 4 * n_axes
    if not 1 <= n_axes <= 3 or len(content) < start:
        raise ValueError(f"{path} is not an IDX file of bytes")
    shape = np.frombuffer(content, ">i4", count=n_axes, offset=4).tolist()
    if min(shape) < 1 or int(np.prod(shape, dtype=object)) != len(content) - start:
        raise ValueError(
            f"{path} is damaged: its axes {shape} do not fit its {len(content) - start} bytes"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
