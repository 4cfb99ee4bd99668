"""The binary problems that a classification is split into: targets and class weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._util.validation import MIXED

_WHOLE = 2**53  # below it a float tells whole numbers from others


@dataclass(frozen=True, slots=True, eq=False)
class OneVsRest:
    """One problem for two classes or for regression, otherwise one per class against the rest.

    Attributes
    ----------
    classes : ndarray or None
        Labels in order; None for regression.
    weights : ndarray or None
        Weight of each class; None if all are 1. With more than two classes, the rest has the
        weight 1 in each problem, as in scikit-learn.
    """

    classes: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def n_rows(self) -> int:
        """Rows of weights that ``coef_`` has."""
        return self.n_problems

    def positive(self, number: int) -> int:
        """Place among the classes of the one that is +1 in a problem."""
        return 1 if self.n_problems == 1 else number

    def label(self, number: int) -> Any:
        """Label that is +1 in a problem; None for regression."""
        return None if self.classes is None else self.classes.tolist()[self.positive(number)]

    def target(self, y: NDArray[Any], number: int) -> NDArray[np.float64]:
        """Targets of a problem: -1 and +1, or the numbers themselves."""
        if self.classes is None:
            return np.asarray(y, dtype=np.float64)
        if y.dtype == np.float64 and self.classes.tolist() == [-1.0, 1.0]:
            return y  # which are the targets already
        signs: NDArray[np.float64] = (y == self.classes[self.positive(number)]).astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        return signs

    def weigh(
        self, target: NDArray[np.float64], weight: NDArray[np.float64] | None, number: int
    ) -> NDArray[np.float64] | None:
        """Weights of the rows times those of their classes; None where all are 1."""
        if self.weights is None:
            return weight
        own = self.weights[self.positive(number)]
        other = self.weights[0] if self.n_problems == 1 else 1.0
        if own == other == 1.0:
            return weight
        of_class = np.where(target > 0.0, own, other)
        return of_class if weight is None else of_class * weight


@dataclass(frozen=True, slots=True, eq=False)
class AllClasses(OneVsRest):
    """One problem for all classes together, whose targets are codes from 0.

    Two classes have weights of opposite signs, so one row of ``coef_`` describes both: that of the
    second minus that of the first.
    """

    @property
    def n_problems(self) -> int:
        """One."""
        return 1

    @property
    def n_rows(self) -> int:
        """Rows of weights that ``coef_`` has."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        assert self.classes is not None
        return len(self.classes)

    def target(self, y: NDArray[Any], number: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Codes of the classes."""
        assert self.classes is not None
        return np.searchsorted(self.classes, y).astype(np.float64)

    def weigh(
        self,
        target: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        number: int,  # noqa: ARG002
    ) -> NDArray[np.float64] | None:
        """Weights of the rows times those of their classes; None where all are 1."""
        if self.weights is None:
            return weight
        of_class = self.weights[target.astype(np.intp)]
        return of_class if weight is None else of_class * weight

    def public(self, coef: NDArray[Any]) -> NDArray[Any]:
        """Weights or intercepts of all classes, first axis, as attributes have them."""
        return coef[1:] - coef[:1] if self.n_classes == 2 else coef

    def private(self, coef: NDArray[Any]) -> NDArray[Any]:
        """Weights or intercepts of all classes, from attributes."""
        return np.concatenate([-0.5 * coef, 0.5 * coef]) if self.n_classes == 2 else coef


def classes_of(y: NDArray[Any]) -> NDArray[Any]:
    """Labels in order; two numbers are found without sorting all rows."""
    if y.dtype in (np.float64, np.int64) and y.flags.c_contiguous:
        low, high = kernels.two_values(y)
        if low < high:
            return np.array([low, high], dtype=y.dtype)
    if y.dtype.kind in "biuf" and len(y):
        ends = np.array([y.min(), y.max()])
        if ends[0] == ends[1]:
            return ends[:1]
        if ((y == ends[0]) | (y == ends[1])).all():
            return ends
    try:
        return np.unique(y)
    except TypeError as error:
        raise ValueError(MIXED) from error


def check_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels that can be classes, at least two of them."""
    if not _can_only_be_classes(classes):
        # imported here, since Dask workers need the targets only
        from sklearn.utils.multiclass import check_classification_targets

        with warnings.catch_warnings():  # of many classes for few rows, which these are not
            warnings.simplefilter("ignore")
            check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
        )
    return classes


def _can_only_be_classes(labels: NDArray[Any]) -> bool:
    """Whether labels are strings or integers, which need no check for continuous targets."""
    if labels.dtype.kind == "f":
        return all(abs(label) < _WHOLE and label.is_integer() for label in labels.tolist())
    return labels.dtype.kind in "biuSU"


def check_known(classes: NDArray[Any], y: NDArray[Any]) -> None:
    """Raise ValueError for labels that are not among the classes, which are in order."""
    try:
        place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError as error:  # words and numbers have no order
        raise ValueError(
            f"y has labels of a different type than the classes {classes.tolist()}:"
            f" {y[:5].tolist()}"
        ) from error
    unknown = classes[place] != y
    if unknown.any():
        found = np.unique(y[unknown])[:5].tolist()
        raise ValueError(f"y has labels that are not among the classes {classes.tolist()}: {found}")


def weights_of_classes(
    given: Any, classes: NDArray[Any], y: NDArray[Any], counts: NDArray[np.intp] | None = None
) -> NDArray[np.float64] | None:
    """Weight of each class, from a ``class_weight``; None where all are 1.

    ``counts`` says how many rows each class has, where these are not all in ``y``.
    """
    if given is None:
        return None
    from sklearn.utils import compute_class_weight

    if isinstance(given, str) and counts is not None:  # "balanced"
        if not (counts > 0.0).all():
            label = classes[int(np.argmin(counts > 0.0))]
            raise ValueError(
                f'class_weight="balanced" needs rows of each class with a positive weight; class'
                f" {label!r} has none"
            )
        shares = counts / counts.max()  # whose sum cannot overflow
        weights = shares.sum() / (len(classes) * shares)
    else:
        weights = compute_class_weight(given, classes=classes, y=y)
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise ValueError(f"class_weight must be finite numbers, at least 0; got {given!r}")
    return None if (weights == 1.0).all() else weights
