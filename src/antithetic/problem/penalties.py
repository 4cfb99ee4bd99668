r"""Penalties: value and proximal step.

A penalty has ``value(w)``, ``prox(w, step)``, the point :math:`\arg\min_v r(v) + |v - w|^2 /
(2\,\mathrm{step})`, and ``separable``: whether it is a sum over the weights. Your own penalty needs
only these three; :class:`OwnPenalty` adds an L2 part to it.

Solvers take the quadratic part of a penalty, of strength ``l2``, as a gradient, as the paper does,
and the rest by its proximal step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import Settings

Weights = NDArray[np.floating]


def _take_strengths(penalty: object, *names: str) -> None:
    """Check strengths of a penalty, and convert them to float, as the kernels require."""
    for name in names:
        strength = getattr(penalty, name)
        is_number = not isinstance(strength, bool) and isinstance(strength, Real)
        if not (is_number and math.isfinite(strength) and strength >= 0.0):
            raise ValueError(f"{name} must be a finite number, at least 0; got {strength!r}")
        object.__setattr__(penalty, name, float(strength))


@runtime_checkable
class HasProx(Protocol):
    """What your own penalty must have."""

    separable: bool

    def value(self, w: Weights) -> float:
        """Value of the penalty."""

    def prox(self, w: Weights, step: float) -> Weights:
        """Proximal step."""


@dataclass(frozen=True, slots=True)
class ElasticNet:
    r""":math:`\frac{l_2}{2} |w|^2 + l_1 |w|_1`; zero strengths leave a part out.

    Parameters
    ----------
    l2, l1 : float, default=0.0
        Strengths, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> lasso = ElasticNet(l1=1.0)
    >>> lasso.value(np.array([2.0, -0.5]))
    2.5
    >>> lasso.prox(np.array([2.0, -0.5]), step=1.0)
    array([ 1., -0.])
    """

    l2: float = 0.0
    l1: float = 0.0
    separable = True

    def __post_init__(self) -> None:
        _take_strengths(self, "l2", "l1")

    def value(self, w: Weights) -> float:
        """Value of the penalty."""
        w = w.astype(np.float64, copy=False)
        quadratic = 0.5 * self.l2 * float(np.vdot(w, w))  # which does not warn of an overflow
        if self.l1 == 0.0:
            return quadratic
        with np.errstate(over="ignore"):
            return quadratic + self.l1 * float(np.abs(w).sum())

    def smooth_gradient(self, w: Weights) -> Weights:
        """Gradient of the quadratic part."""
        return self.l2 * w

    def nonsmooth_prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the other part."""
        return np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0)

    def prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the whole penalty."""
        return self.nonsmooth_prox(w, step) / (1.0 + step * self.l2)


# Several parts of a fit ask for the same one, and on few rows each check counts.
elastic_net = lru_cache(maxsize=64)(ElasticNet)


@dataclass(frozen=True, eq=False, repr=False)
class GroupLasso(Settings):
    r"""Whole groups of weights are zero together: :math:`l_1 \sum_g \sqrt{|g|}\, |w_g|`.

    Its strength is ``l1`` of :func:`antithetic.minimize`, where ``l2`` adds
    :math:`\frac{l_2}{2} |w|^2`; in the estimators it is ``alpha``.

    Parameters
    ----------
    groups : array-like of shape (d,) or list of lists of int
        A label for each feature, or the features of each group. A feature is in one group at most,
        and is not penalised if it is in none.

    Examples
    --------
    >>> from antithetic.penalties import GroupLasso
    >>> GroupLasso([[0, 1], [2]])
    GroupLasso(((0, 1), (2,)))
    """

    groups: Any

    def __post_init__(self) -> None:
        groups = self.groups
        if groups is None or isinstance(groups, str) or not np.size(np.asarray(groups, object)):
            raise ValueError(
                "GroupLasso(groups) needs a label for each feature or a list of lists of features;"
                f" got {groups!r}"
            )
        if has_lists(groups):
            object.__setattr__(self, "groups", tuple(_features_of(group) for group in groups))
            return
        labels = np.array(groups)
        labels.flags.writeable = False
        object.__setattr__(self, "groups", labels)

    def on(self, d: int, l1: float, l2: float = 0.0) -> GroupNorms:
        """Return the penalty of d weights, with the strengths ``l1`` and ``l2``."""
        return GroupNorms(read_groups(self.groups, d), l1, l2)


@dataclass(frozen=True, slots=True)
class GroupNorms:
    r"""A group lasso of a known number of weights, with its strengths.

    It is :math:`\frac{l_2}{2} |w|^2 + l_1 \sum_g \sqrt{|g|}\, |w_g|`.

    Attributes
    ----------
    groups : tuple of tuple of int
        Features of each group; a feature is in one group at most, and is not in the second sum if
        it is in none.
    l1 : float
    l2 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> penalty = GroupLasso([[0, 1], [2]]).on(3, l1=1.0)
    >>> penalty.prox(np.array([3.0, 4.0, 0.5]), step=1.0).round(3).tolist()
    [2.151, 2.869, 0.0]
    """

    groups: tuple[tuple[int, ...], ...]
    l1: float
    l2: float = 0.0
    separable = False
    _members: NDArray[np.intp] = field(init=False, repr=False, compare=False)
    _starts: NDArray[np.intp] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _take_strengths(self, "l1", "l2")
        object.__setattr__(
            self,
            "_members",
            np.array([feature for group in self.groups for feature in group], dtype=np.intp),
        )
        object.__setattr__(self, "_starts", np.cumsum([0, *map(len, self.groups)], dtype=np.intp))

    def _norms(self, w: Weights) -> NDArray[np.float64]:
        squares = np.square(w[self._members].astype(np.float64))
        norms: NDArray[np.float64] = (
            np.sqrt(np.add.reduceat(squares, self._starts[:-1])) if len(squares) else np.zeros(0)
        )
        return norms

    @property
    def _roots(self) -> NDArray[np.float64]:
        roots: NDArray[np.float64] = np.sqrt(np.diff(self._starts))
        return roots

    def value(self, w: Weights) -> float:
        """Value of the penalty."""
        long = w.astype(np.float64, copy=False)
        return float(0.5 * self.l2 * (long @ long) + self.l1 * (self._roots @ self._norms(w)))

    def smooth_gradient(self, w: Weights) -> Weights:
        """Gradient of the quadratic part."""
        return self.l2 * w

    def nonsmooth_prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the other part."""
        norms, owed = self._norms(w), step * self.l1 * self._roots
        kept = 1.0 - np.divide(owed, norms, out=np.ones_like(norms), where=norms > owed)
        shrunk = w.copy()
        shrunk[self._members] *= np.repeat(kept, np.diff(self._starts)).astype(w.dtype)
        return shrunk

    def prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the whole penalty."""
        return self.nonsmooth_prox(w, step) / (1.0 + step * self.l2)

    def layout(self, d: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Members by group, then those of none; where each group begins; each feature's group."""
        owner = np.full(d, len(self.groups), dtype=np.intp)
        owner[self._members] = np.repeat(np.arange(len(self.groups)), np.diff(self._starts))
        return np.argsort(owner, kind="stable"), self._starts, owner


@dataclass(frozen=True, slots=True)
class OwnPenalty:
    r""":math:`\frac{l_2}{2} |w|^2` plus a penalty of the user's, by its ``value`` and ``prox``.

    Attributes
    ----------
    given : object
        With ``value(w)``, ``prox(w, step)`` and ``separable``.
    l2 : float, default=0.0
    """

    given: Any
    l2: float = 0.0
    l1 = 0.0  # none that a kernel would know

    def __post_init__(self) -> None:
        _take_strengths(self, "l2")
        if isinstance(self.given, type):
            raise ValueError(
                f"penalty= is the class {self.given.__name__}; pass an object,"
                f" {self.given.__name__}()"
            )
        missing = [
            name for name in ("value", "prox") if not callable(getattr(self.given, name, None))
        ]
        missing += [] if hasattr(self.given, "separable") else ["separable"]
        if missing:
            lacks = ", ".join(missing)
            raise ValueError(
                "a penalty of your own needs value(w), prox(w, step) and separable;"
                f" {self.given!r} lacks {lacks}"
            )

    @property
    def separable(self) -> bool:
        """Whether it is a sum over the weights."""
        return bool(self.given.separable)

    def value(self, w: Weights) -> float:
        """Value of the penalty."""
        long = w.astype(np.float64, copy=False)
        return 0.5 * self.l2 * float(long @ long) + float(self.given.value(w))

    def smooth_gradient(self, w: Weights) -> Weights:
        """Gradient of the quadratic part."""
        return self.l2 * w

    def nonsmooth_prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the other part."""
        answer = self.given.prox(w, step)
        moved = np.asarray(answer)
        if answer is None or moved.shape != w.shape:
            what = "None" if answer is None else f"shape {moved.shape}"
            raise ValueError(f"prox of the penalty returned {what} for weights of shape {w.shape}")
        if not np.isfinite(moved).all() and np.isfinite(w).all():
            raise ValueError(
                "prox of the penalty returned NaN or infinite numbers for finite weights"
            )
        return moved

    def prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the whole penalty: that of its other part, at a shorter step."""
        shrink = 1.0 / (1.0 + step * self.l2)
        return self.nonsmooth_prox(shrink * w, shrink * step)


Penalty = ElasticNet | GroupNorms | OwnPenalty


def make_penalty(penalty: Any, d: int, *, l2: float, l1: float) -> Penalty:
    """Return the penalty of ``d`` weights.

    That is L2 and L1 for None, an :class:`ElasticNet` or :class:`GroupLasso`, or one of the user's.
    """
    if penalty is None:
        return ElasticNet(l2, l1)
    if isinstance(penalty, ElasticNet):
        if l2 != 0.0 or l1 != 0.0:
            raise ValueError("l2= and l1= are given twice: ElasticNet(l2, l1) sets them already")
        return penalty
    if isinstance(penalty, GroupLasso):
        if l1 == 0.0:
            raise ValueError(
                "penalty=GroupLasso(groups) takes its strength from l1=; set l1= above 0"
            )
        return penalty.on(d, l1, l2)
    if isinstance(penalty, str):
        raise ValueError(
            f"penalty {penalty!r} is not known; use l2= and l1= without penalty=, or"
            " penalty=GroupLasso(groups), or an object with value, prox and separable"
        )
    if l1 != 0.0:
        raise ValueError(
            "l1= cannot be added to a penalty of your own, since the prox of the sum is not known;"
            " make it part of the penalty"
        )
    return OwnPenalty(penalty, l2)


def read_groups(groups: Any, d: int) -> tuple[tuple[int, ...], ...]:
    """Return the features of each group, from labels of the d features or lists of features."""
    if has_lists(groups):
        return _check_lists(tuple(_features_of(group) for group in groups), d)
    labels = np.asarray(groups)
    if labels.shape != (d,):
        raise ValueError(
            f"groups must be a label for each of the {d} features, or a list of lists of"
            f" features; got shape {labels.shape}"
        )
    try:
        names, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "groups mixes labels that cannot be compared (numbers with strings, or None); use one"
            " kind"
        ) from error
    return tuple(tuple(np.flatnonzero(codes == code).tolist()) for code in range(len(names)))


def has_lists(groups: Any) -> bool:
    """Whether groups are lists of features, rather than a label for each feature."""
    several = isinstance(groups, (Sequence, np.ndarray)) and not isinstance(groups, str)
    return several and any(_is_list(group) for group in groups)


def _is_list(group: Any) -> bool:
    return isinstance(group, (Sequence, np.ndarray)) and not isinstance(group, str)


def _features_of(group: Any) -> tuple[int, ...]:
    """Features of one group, from a list of them."""
    features = np.asarray(group)
    if _is_list(group) and not len(group):
        raise ValueError("groups has a group without features; leave it out")
    if features.ndim != 1 or features.dtype.kind not in "iu":
        raise ValueError(
            f"groups as a list of lists of features needs whole numbers in each; got {group!r}"
        )
    return tuple(features.tolist())


def _check_lists(groups: tuple[tuple[int, ...], ...], d: int) -> tuple[tuple[int, ...], ...]:
    """Return the features of each group after checking that each is in range and in one group."""
    flat = [feature for group in groups for feature in group]
    if any(not 0 <= feature < d for feature in flat):
        raise ValueError(
            f"groups must name features from 0 to {d - 1}; got {min(flat)} to {max(flat)}"
        )
    if len(set(flat)) != len(flat):
        twice = next(feature for feature in flat if flat.count(feature) > 1)
        raise ValueError(f"groups has feature {twice} twice; a feature can be in one group only")
    return groups
