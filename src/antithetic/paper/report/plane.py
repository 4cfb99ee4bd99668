"""The plane in which an explorer shows rows of many features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.paper.report.content import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane through ``centre`` with orthonormal ``axes``.

    Rows, gradients and decisions all have an image in it.

    Attributes
    ----------
    centre : ndarray of shape (d,)
    axes : ndarray of shape (2, d)

    Examples
    --------
    >>> import numpy as np
    >>> from antithetic.paper.report import Plane
    >>> X = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 1.0, 1.0], [6.0, -1.0, 1.0]])
    >>> plane = Plane.of(X)
    >>> plane.points(X).shape
    (4, 2)
    """

    centre: Numbers
    axes: Numbers

    @classmethod
    def of(cls, X: Any) -> Self:
        """Plane of the first two principal components.

        Of two features, the features themselves, and of one, that and a zero.
        """
        X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        d = X.shape[1]
        if d <= 2:
            return cls(np.zeros(d), np.eye(2, d))
        centre = X.mean(axis=0)
        _, vectors = np.linalg.eigh((X - centre).T @ (X - centre))
        axes = vectors[:, :-3:-1].T
        # Eigenvectors have no sign: choose one.
        signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
        return cls(centre, axes * signs[:, np.newaxis])

    def points(self, X: Any) -> Numbers:
        """Images of rows, (n, 2)."""
        return self.directions(X) - self.axes @ self.centre

    def directions(self, G: Any) -> Numbers:
        """Images of gradients, which have a direction and no place: (n, 2)."""
        image: NDArray[np.float64] = np.asarray(G @ self.axes.T, dtype=np.float64)
        return image

    def line(self, coef: Any, intercept: float = 0.0) -> tuple[float, float, float]:
        """Line in which ``<coef, x> + intercept = 0`` cuts the plane: ``a x + b y + c = 0``."""
        coef = np.asarray(coef, dtype=np.float64)
        a, b = self.axes @ coef
        return float(a), float(b), float(coef @ self.centre + intercept)
