"""The last observed gradient of each row, from which the next groups are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antithetic._util.validation import check_rows
from antithetic.torch.coordinates import Vectors, tensor_coordinates
from antithetic.torch.data import Indices, to_indices, to_numpy
from antithetic.torch.shards import least, mean_over_processes


class Observations:
    """Both factors of the last gradient of each row, float32: slopes, and reduced inputs.

    Nothing is allocated before there is one. Rows that are not seen again keep their last vector;
    those never seen count as zero.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._clear()

    def _clear(self) -> None:
        self.vectors: NDArray[np.float32] | None = None  # slopes and then inputs
        self.n_slopes = 0
        self.seen = np.zeros(0, dtype=np.bool_)  # since the processes last shared what they saw
        self.ever = np.zeros(0, dtype=np.bool_)

    @property
    def share(self) -> float:
        """Share of the rows that have a vector."""
        return float((self.ever | self.seen).mean()) if len(self.ever) else 0.0

    def record(self, rows: Indices, inputs: Vectors, slopes: Vectors) -> None:
        """Keep the factors of some rows."""
        if not len(rows):
            return
        if self.vectors is None:
            self._allocate(slopes.shape[1] + inputs.shape[1])
            self.n_slopes = slopes.shape[1]
        assert self.vectors is not None
        check_width(slopes.shape[1], self.n_slopes, "slopes")
        check_width(inputs.shape[1], self.vectors.shape[1] - self.n_slopes, "vectors")
        self.vectors[rows, : self.n_slopes] = slopes
        self.vectors[rows, self.n_slopes :] = inputs
        self.seen[rows] = True

    def points(self, rows: Indices, seed: int) -> NDArray[np.float32]:
        """Gradients of some rows, in a few coordinates."""
        assert self.vectors is not None
        found = self.vectors[rows]
        return tensor_coordinates(found[:, : self.n_slopes], found[:, self.n_slopes :], seed)

    def _allocate(self, width: int) -> None:
        self.vectors = np.zeros((self.n, width), dtype=np.float32)
        self.seen, self.ever = np.zeros(self.n, dtype=np.bool_), np.zeros(self.n, dtype=np.bool_)

    def begin_epoch(self, processes: int) -> None:
        """Share what was seen among all processes, after which nothing counts as just seen.

        All take part, also those that saw nothing.
        """
        if processes > 1:
            own = 0 if self.vectors is None else self.vectors.shape[1]
            width, slopes = (-number for number in least([-own, -self.n_slopes]))
            if self.vectors is None and width:
                self._allocate(width)
                self.n_slopes = slopes
            if self.vectors is not None:
                mean_over_processes(self.vectors, self.seen)
        self.ever |= self.seen
        self.seen[:] = False

    def forget(self) -> None:
        """Give up what was seen since it was last shared: these rows count as never seen."""
        if self.vectors is not None:
            self.vectors[self.seen] = 0.0
            self.ever &= ~self.seen
            self.seen[:] = False

    def state(self) -> dict[str, Any]:
        """Tensors that share the memory; empty before anything was seen."""
        if self.vectors is None:
            return {}
        arrays = {"vectors": self.vectors, "seen": self.seen, "ever": self.ever}
        return {
            "n_slopes": self.n_slopes,
            **{name: torch.from_numpy(array) for name, array in arrays.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over a state, as a copy."""
        if "vectors" not in state:
            self._clear()
            return
        vectors = to_numpy(state["vectors"], "vectors")
        if vectors.ndim != 2 or any(
            len(to_numpy(state[name], name)) != self.n for name in ("vectors", "seen", "ever")
        ):
            raise ValueError(
                f"the state must have one vector for each of the {self.n} rows; got shape"
                f" {vectors.shape}"
            )
        self._allocate(vectors.shape[1])
        self.n_slopes = int(state["n_slopes"])
        assert self.vectors is not None
        for name, array in (("vectors", self.vectors), ("seen", self.seen), ("ever", self.ever)):
            array[...] = to_numpy(state[name], name)


def read_observed(
    indices: Any, vectors: Any, slopes: Any, n: int
) -> tuple[Indices, Vectors, Vectors]:
    """Return row numbers, as many finite vectors, and their slopes.

    Vectors are multiplied by their slopes; without slopes the last array has no columns.
    """
    rows = to_indices(indices, n)
    found = _read_vectors(vectors, len(rows), "vectors")
    return (
        rows,
        found,
        (
            np.empty((len(rows), 0), np.float32)
            if slopes is None
            else _read_vectors(slopes, len(rows), "slopes")
        ),
    )


def _read_vectors(vectors: Any, count: int, name: str) -> NDArray[np.float32]:
    found = to_numpy(vectors, name)
    if found.ndim < 2 or len(found) != count:
        raise ValueError(
            f"{name} must have one row for each of the {count} indices; got shape {found.shape}"
        )
    found = found.reshape(count, -1) if count else found
    return (check_rows(found, name) if count else found).astype(np.float32, copy=False)


def check_width(found: int, width: int, name: str) -> None:
    """Raise ValueError unless what is observed is as long as what was before."""
    if found != width:
        raise ValueError(
            f"{name} with {found} numbers were observed after {name} with {width}; all must have"
            " the same length"
        )
