r"""A fitted model together with the rows that it was fitted on, in one frozen object.

Everything is in units of the *sum*: :math:`F(w) = \sum_i s_i\,\phi_i(\langle w, x_i\rangle + o_i)
+ \tfrac12 w'Pw`, where P is diagonal. The intercept is the last column, with a penalty of zero.
Arithmetic is in float64, for rows in float32 too, in blocks of bounded size. With an intercept, the
columns are centred by their means: that changes only the intercept, and no score, no leverage and
no product in the norm of the Hessian, but a column far from zero no longer looks like a multiple of
the intercept's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax

from antithetic._util.validation import (
    BLOCK_ENTRIES,
    Matrix,
    check_classes,
    check_column,
    check_rows,
    check_weights,
)
from antithetic.exact.linear_algebra import NotDefiniteError, Root
from antithetic.exact.sums import Vector, diagonal_of, rounding_of
from antithetic.problem.constant import constant_of
from antithetic.problem.losses import Loss
from antithetic.problem.result import Result
from antithetic.problem.terms import Terms

MOST_WEIGHTS = 5000  # whose Hessian takes 200 MB
_GAP_SLACK = 10.0  # between a gap and its estimate by half the squared Newton decrement
_LEAST_GAP = 1e-9  # of the objective, that rounding of a fit leaves
_DEPENDENT = 1e-9  # share of a column's norm that others leave, if it depends on them
_AT_OPTIMUM = 1e-10  # standard errors: where Newton's method ends
_MOST_STEPS = 40
_UNSURE = 100.0  # standard error of a weight times the spread of its column, if it grows for ever
_LOSSES = ("log_loss", "softmax", "squared_error", "poisson", "gamma", "tweedie")


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model with its rows.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n, d)
        As given, float32 or float64.
    loss : Loss
    y : ndarray of shape (n,)
        Signs -1 and +1 of two classes, codes from 0 of many, otherwise numbers.
    weight : ndarray of shape (n,)
        Weights s of the rows, those of their classes included.
    offset : ndarray of shape (n,)
    classes : ndarray or None
    names : list of str
        Of the columns, without the intercept.
    fit_intercept : bool
    penalty : ndarray of shape (p,)
        Diagonal of P: p is d, or d + 1 with an intercept.
    penalty_share : ndarray of shape (n,) or None
        Share of P that goes when a row is left out, if the objective is a mean; None for a sum.
    centre : ndarray of shape (d,)
        Subtracted from the rows; zeros without an intercept.
    theta : ndarray of shape (p,), or (K, p) for K classes
        Weights for centred columns, and the intercept.
    scores, slopes : ndarray of shape (n,), or (n, K)
        Linear predictions, offsets included, and first derivatives of the loss (without s).
    curvatures : ndarray of shape (n,), or (n, K)
        Second derivatives of the loss (without s); of many classes, the probabilities.
    gap : float
        What the fit says of its distance from the optimum.
    """

    rows: Matrix
    loss: Loss
    y: NDArray[Any]
    weight: Vector
    offset: Vector
    classes: NDArray[Any] | None
    names: list[str]
    fit_intercept: bool
    penalty: Vector
    penalty_share: Vector | None
    centre: Vector
    theta: Vector
    scores: Vector
    slopes: Vector
    curvatures: Vector
    gap: float

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def p(self) -> int:
        """Number of weights per class, the intercept included."""
        return len(self.penalty)

    @property
    def n_classes(self) -> int:
        """Number of rows of weights: 1, or K for many classes."""
        return 1 if self.theta.ndim == 1 else len(self.theta)

    def blocks(
        self, chosen: NDArray[np.intp] | None = None, at_least: int = 1
    ) -> Iterator[tuple[slice, Vector]]:
        """Yield places and centred rows, with a column of ones if there is an intercept.

        The rows are all rows, or those chosen; places are slices of these.
        """
        size = max(at_least, BLOCK_ENTRIES // self.p)
        count, d = self.n if chosen is None else len(chosen), len(self.centre)
        for start in range(0, count, size):
            place = slice(start, min(start + size, count))
            part = self.rows[place if chosen is None else chosen[place]]
            block = np.ones((place.stop - start, self.p))
            given = part.toarray() if sparse.issparse(part) else part
            np.subtract(given, self.centre, out=block[:, :d], dtype=np.float64)
            yield place, block

    def products(self, theta: Vector) -> Vector:
        """Multiply all centred rows with weights of the form of ``theta``."""
        found = np.empty((self.n, *theta.shape[:-1]))
        for place, block in self.blocks():
            found[place] = block @ theta.T
        return found

    def sums(self, values: Vector) -> Vector:
        """Add up the centred rows, each times its value, in the form of ``theta``."""
        total = np.zeros((*values.shape[1:], self.p))
        for place, block in self.blocks():
            total += values[place].T @ block
        return total

    def gradient(self) -> Vector:
        """Return the gradient of F, of the form of ``theta``."""
        weight = self.weight if self.slopes.ndim == 1 else self.weight[:, None]
        return self.sums(weight * self.slopes) + self.penalty * self.theta

    def hessian(self, *, data_only: bool = False) -> Vector:
        """Return the Hessian of F in float64, of shape (p, p), or (K p, K p) by classes.

        For many classes it is made definite along the directions that change no probability, the
        same vector added to all classes, on the columns without a penalty. With ``data_only``
        neither that nor the penalty is included.
        """
        if self.n_classes == 1:
            found = self.gram(self.weight * self.curvatures)
            if not data_only:
                diagonal_of(found)[:] += self.penalty
            return found
        k, p = self.n_classes, self.p
        found = np.zeros((k, p, k, p))
        for place, block in self.blocks():
            chances, weight = self.curvatures[place], self.weight[place]
            rest = chances_of_others(chances)
            for one in range(k):
                for other in range(one + 1):
                    shares = chances[:, one] * (rest if one == other else -chances)[:, other]
                    found[one, :, other] += (block * (weight * shares)[:, None]).T @ block
        for one in range(k):
            for other in range(one):
                found[other, :, one] = found[one, :, other]
        if not data_only:
            free = np.flatnonzero(self.penalty == 0.0)
            flat = np.mean([found[one, :, one] for one in range(k)], axis=0)[np.ix_(free, free)] / k
            for one in range(k):
                for other in range(k):
                    found[one, free[:, None], other, free] += flat
                found[one, :, one][np.diag_indices(p)] += self.penalty
        return found.reshape(k * p, k * p)

    def gram(self, shares: Vector) -> Vector:
        """Return the sum of ``shares_i x_i x_i'`` over centred rows, shape (p, p)."""
        total = np.zeros((self.p, self.p))
        for place, block in self.blocks():
            total += (block * shares[place][:, None]).T @ block
        return (total + total.T) / 2.0

    def root(self, shares: Vector | None = None) -> Root:
        """Return the factor of the Hessian, as accurate as the rows allow.

        If the Hessian is ill-conditioned, it comes from an orthogonal factor of the rows times the
        root of their curvatures, without a product that would square their condition number; not so
        for many classes. ``shares`` of the rows take the place of weights times curvatures.
        """
        if self.n_classes > 1:
            return Root(self.hessian())
        given = self.weight * self.curvatures if shares is None else shares
        with suppress(NotDefiniteError):
            found = Root(self.gram(given) + np.diag(self.penalty))
            if not found.loses_digits:
                return found
        return Root.of_triangle(
            _qr(np.vstack([self.triangle(given), np.diag(np.sqrt(self.penalty))]))
        )

    def triangle(self, shares: Vector) -> Vector:
        """Return the upper triangle R for which R'R is the sum of ``shares_i x_i x_i'``."""
        found = np.zeros((self.p, self.p))
        for place, block in self.blocks(at_least=self.p):
            block *= np.sqrt(shares[place])[:, None]
            found = _qr(np.vstack([found, block]))
        return found

    def dependent_columns(self) -> list[int]:
        """Return columns that are constant or linear functions of those before them, by R's rule.

        Rows of weight zero do not count.
        """
        counted = (self.weight > 0.0).astype(np.float64)
        rounding = 4.0 * np.finfo(self.rows.dtype).eps * self._sizes()
        d = len(self.centre)
        gram = self.gram(counted)
        with suppress(NotDefiniteError):
            if (np.sqrt(gram.diagonal()[:d]) > rounding).all() and not Root(gram).loses_digits:
                return []
        upper = self.triangle(counted)
        places = list(range(d))
        dropped: list[int] = []
        upper = _qr(upper[:, [*range(d, self.p), *places]])  # the intercept first
        while True:
            free = self.p - d
            norms = np.linalg.norm(upper[:, free:], axis=0)
            left = np.abs(upper.diagonal()[free:])
            bound = _DEPENDENT * norms + rounding[places]
            found = np.flatnonzero(left <= bound)
            if not len(found):
                return dropped
            dropped.append(places.pop(int(found[0])))
            upper = np.delete(upper, free + int(found[0]), axis=1)
            upper = _qr(upper)

    def _sizes(self) -> Vector:
        """Return the norms of the columns as they were given."""
        total = np.zeros(len(self.centre))
        for _, block in self.blocks():
            total += ((block[:, : len(total)] + self.centre) ** 2).sum(axis=0)
        return np.sqrt(total)

    def without(self, columns: list[int]) -> Fitted:
        """Return the model without some columns, whose part of the scores goes to the others."""
        kept = np.setdiff1d(np.arange(self.p), columns)
        features = kept[kept < len(self.centre)]
        fewer = replace(
            self,
            rows=self.rows[:, features],
            names=[self.names[k] for k in features],
            penalty=self.penalty[kept],
            centre=self.centre[features],
            theta=self.theta[..., kept],
        )
        scores = self.products(self.theta)
        root = Root.of_triangle(fewer.triangle(fewer.weight))
        weight = self.weight if scores.ndim == 1 else self.weight[:, None]
        return fewer.at(root.solve(fewer.sums(weight * scores)))

    def lowered(self) -> float:
        """Return a share of the Hessian's diagonal that is above its rounding, and the factor's."""
        size = self.p * self.n_classes
        return size * (rounding_of(self.n) + 3.0 * rounding_of(size))  # of sums, factor, solutions

    def leverages(self, root: Root) -> Vector:
        """Return ``x_i' H^-1 x_i`` of each row, shape (n,); of many classes, (n, K, K)."""
        k = self.n_classes
        found = np.empty((self.n,) if k == 1 else (self.n, k, k))
        inverse_root = root.inverse_root() if k > 1 else None
        for place, block in self.blocks():
            if inverse_root is None:
                halves = root.halves(block)
                found[place] = np.einsum("ij,ij->i", halves, halves)
            else:
                found[place] = class_leverages(inverse_root, block, k)
        return found

    def at(self, theta: Vector) -> Fitted:
        """Return the model with other weights; the model itself is not changed."""
        scores = self.products(theta)
        scores += self.offset if scores.ndim == 1 else self.offset[:, None]
        slopes, curvatures = _derivatives(self.loss, self.y, scores)
        return replace(self, theta=theta, scores=scores, slopes=slopes, curvatures=curvatures)

    def losses(self, scores: Vector | None = None) -> Vector:
        """Return the loss of each row (without s), at other scores if they are given."""
        given = self.scores if scores is None else scores
        if self.n_classes == 1:
            return self.loss.value(self.y, given)
        of_own_class: Vector = -log_softmax(given, axis=1)[np.arange(self.n), self.y]
        return of_own_class

    def objective(self) -> float:
        """Return F at ``theta``."""
        penalty = 0.5 * float(np.sum(self.penalty * self.theta**2))
        return float(self.weight @ self.losses()) + penalty

    def constant_objective(self) -> float:
        """Return F of the best constant; without an intercept, of zero weights."""
        scores = self.offset.copy()
        if self.n_classes > 1:
            counts = np.bincount(self.y, self.weight, minlength=self.n_classes)
            with np.errstate(divide="ignore"):
                row = np.log(counts / counts.sum()) if self.fit_intercept else np.zeros(len(counts))
            return float(self.weight @ self.losses(scores[:, None] + np.maximum(row, -700.0)))
        if self.fit_intercept:
            y, weight = self.y, self.weight
            if self.offset.any() and not self.loss.classification:
                y, given = self.loss.without_offset(y, weight, self.offset)
                weight = weight if given is None else given
            scores += constant_of(self.loss, y, weight)
        return float(self.weight @ self.losses(scores))

    def optimum(self, root: Root) -> tuple[Fitted, Root]:
        """Return the model at the optimum, up to rounding, and the factor of the Hessian there.

        Newton's method from the model's weights; ``root`` is the factor there.
        """
        here, before = self, math.inf
        for _ in range(_MOST_STEPS):
            gradient = here.gradient()
            decrement = root.norm(gradient.ravel())
            if decrement <= _AT_OPTIMUM or (decrement < 1e-6 and decrement > before / 2.0):
                if here._has_optimum(root, decrement):
                    return here, root
                break
            step, before = -root.solve(gradient.ravel()).reshape(gradient.shape), decrement
            height, length, there = here.objective(), 1.0, here.at(here.theta + step)
            while not there.objective() <= height + 1e-12 * abs(height) and length > 1e-6:
                length /= 2.0
                there = here.at(here.theta + length * step)
            try:
                here, root = there, there.root()
            except NotDefiniteError:
                break
        raise NotDefiniteError(
            "the model has no optimum: without a penalty, columns separate the classes, or have"
            f" targets of 0 only, so weights grow without end{here._growing(root)}. Use a penalty,"
            " or leave such columns out"
        )

    def _has_optimum(self, root: Root, decrement: float) -> bool:
        """Return whether a small decrement proves that there is an optimum.

        If weights grow without end, the decrement tends to 0 too, but its product with the root of
        the largest leverage stays above 1: the third derivative of these losses is never larger
        than the second. Rounding of the gradient is added, which is large along such directions.
        """
        if self.penalty.any() or self.loss.name == "squared_error":
            return True
        leverages, weight = self.leverages(root), self.weight
        leverages = leverages[weight > 0.0]
        if self.n_classes > 1:
            own = np.einsum("ikk->ik", leverages)
            leverages, weight = own[:, :, None] + own[:, None, :] - 2.0 * leverages, weight[:, None]
        sizes = np.zeros_like(self.theta)
        for place, block in self.blocks():
            sizes += np.abs(weight[place] * self.slopes[place]).T @ np.abs(block)
        errors = np.linalg.norm(root.inverse_root(), axis=0)
        rounding = rounding_of(self.n) * float(sizes.ravel() @ errors)
        return bool((decrement + rounding) * np.sqrt(leverages.max()) < 0.5)

    def _growing(self, root: Root) -> str:
        """Name the columns whose weights are known least, next to their spread."""
        errors = np.linalg.norm(root.inverse_root(), axis=0).reshape(self.n_classes, self.p)
        spread = np.sqrt(np.diag(self.gram(self.weight)) / self.weight.sum())
        unsure = (errors * spread).max(axis=0)[: len(self.centre)]
        found = [self.names[k] for k in np.flatnonzero(unsure > _UNSURE)]
        if not found or len(found) == len(self.names):
            return ""
        return f" (those of {', '.join(found[:5])}{', ...' if len(found) > 5 else ''})"

    def check_optimum(self, root: Root, gradient: Vector) -> float:
        """Return the Newton decrement; ValueError unless the model can come from these rows.

        A fit leaves a gap that it states. The Newton step from its weights must not promise much
        more than that, or they are the weights of another objective.
        """
        decrement = root.norm(gradient.ravel())
        objective, constant = self.objective(), self.constant_objective()
        unit = max(constant - objective, 1e-12 * abs(constant))
        stated = self.gap if math.isfinite(self.gap) else 1e-4
        allowed = math.sqrt(2.0 * (_GAP_SLACK * stated * unit + _LEAST_GAP * abs(objective)))
        if not decrement <= allowed:
            size = np.finfo(self.rows.dtype).eps * (np.abs(self.theta) + self._shift())
            allowed += float(np.sum(size * self._column_norms()))
        if not decrement <= allowed:
            raise ValueError(
                "the model's weights are not an optimum for these rows: a Newton step would lower"
                f" the objective by about {decrement**2 / 2.0 / unit:.1e} of what the model"
                f" explains, but its fit states a gap of {stated:.1e}. Pass the X, y,"
                " sample_weight and offset of the fit, transformed as there, and fit again if"
                " parameters such as C, alpha or class_weight were changed since"
            )
        return decrement

    def _shift(self) -> Vector:
        """Return the size of what centring moves into the intercept, of the form of ``theta``."""
        moved = np.zeros_like(self.theta)
        if self.fit_intercept:
            moved[..., -1] = np.abs(self.theta[..., :-1]) @ np.abs(self.centre)
        return moved

    def _column_norms(self) -> Vector:
        """Return the columns' norms in the data part of the Hessian, of the form of ``theta``."""
        shares = (
            self.curvatures * (1.0 - self.curvatures) if self.n_classes > 1 else self.curvatures
        )
        weight = self.weight if shares.ndim == 1 else self.weight[:, None]
        total = np.zeros_like(self.theta)
        for place, block in self.blocks():
            total += (weight * shares)[place].T @ block**2
        return np.sqrt(total)


def _qr(rows: Vector) -> Vector:
    """Return the upper triangle of the QR factorisation of at least as many rows as columns."""
    return np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64)


def class_leverages(inverse_root: Vector, block: Vector, k: int) -> Vector:
    """Return the matrices ``x_i' [H^-1]_kl x_i`` of rows, shape (m, k, k).

    ``inverse_root`` is that of :class:`Root`.
    """
    m, p = block.shape
    found, size = np.empty((m, k, k)), max(1, m // k**2)
    by_class = inverse_root.reshape(-1, k, p)
    for start in range(0, m, size):
        part = block[start : start + size]
        halves = np.stack([part @ by_class[:, one].T for one in range(k)], axis=1)
        found[start : start + size] = halves @ halves.transpose(0, 2, 1)
    return found


def read_fitted(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    caller: str = "summary",
) -> Fitted:
    """Read a fitted model and the rows that it was fitted on; ValueError if they do not fit.

    Parameters
    ----------
    model : LogisticRegression, LogisticRegressionCV, Ridge, a GLM, or the Result of ``solve``
    X, y, sample_weight, offset
        Of the fit. X is not copied.
    caller : str
        The function that is named in the advice about pipelines.
    """
    _refuse_model(model, caller)
    rows = check_rows(X)
    n, d = rows.shape
    coef, intercept = _weights_of(model)
    names = _names_of(model, X, d)
    if coef.shape[-1] != d:
        raise ValueError(
            f"the model has {coef.shape[-1]} weights per class, X has {d} columns; pass the X that"
            " it was fitted on"
        )
    given = check_weights(sample_weight, n)
    shift = np.zeros(n) if offset is None else check_column(offset, n, "offset")
    classes = getattr(model, "classes", None) if isinstance(model, Result) else None
    classes = getattr(model, "classes_", classes)
    target, labels = _targets(y, n, classes)
    terms = _terms_of(model, labels, given)
    p = d + terms.fit_intercept
    _check_terms(terms, target, n, p, len(coef))
    weight = np.ones(n) if terms.weight is None else terms.weight
    centre = _centre(rows, weight) if terms.fit_intercept else np.zeros(d)
    theta = np.empty((len(coef), p))
    theta[:, :d] = coef
    penalty = np.full(p, terms.l2)
    if terms.fit_intercept:
        theta[:, d] = intercept + coef @ centre
        penalty[d] = 0.0
    share = terms.penalty_share if terms.l2 > 0.0 else None
    plain = theta if len(coef) > 1 else theta[0]
    empty = np.empty(0)
    fitted = Fitted(
        rows, terms.loss, target, weight, shift, classes, names, terms.fit_intercept, penalty,
        share, centre, plain, empty, empty, empty, terms.gap,
    )  # fmt: skip
    return fitted.at(plain)


def _check_terms(terms: Terms, target: NDArray[Any], n: int, p: int, k: int) -> None:
    """Raise ValueError for an objective of k times p weights that is not supported."""
    if terms.l1 > 0.0:
        raise ValueError(
            "the model has an L1 penalty, which is not supported: its optimum moves by kinks, so"
            " neither standard errors nor leave-one-out have the formulas used here; fit with"
            " l1_ratio=0"
        )
    if terms.loss.name not in _LOSSES:
        raise ValueError(
            f'loss "{terms.loss.name}" is not supported; use one of {", ".join(_LOSSES)}'
        )
    terms.loss.check_targets(target)
    if p * k > MOST_WEIGHTS:
        raise ValueError(
            f"the model has {p * k} weights; at most {MOST_WEIGHTS} are supported, because"
            " this factors their Hessian: choose fewer columns"
        )
    counted = n if terms.weight is None else int(np.count_nonzero(terms.weight))
    if terms.l2 == 0.0 and counted < p:
        raise ValueError(
            f"{counted} rows of positive weight cannot determine {p} weights without a penalty;"
            " use fewer columns or add a penalty"
        )


def _refuse_model(model: Any, caller: str) -> None:
    """Raise TypeError or ValueError for what is not one of the models, with what helps."""
    name = type(model).__name__
    if hasattr(model, "steps") and hasattr(model, "named_steps"):
        raise TypeError(
            "a pipeline is not supported, because its X is not the X of its model; use"
            f" {caller}(pipe[-1], pipe[:-1].transform(X), y)"
        )
    if isinstance(model, Result):
        if "l2" not in model.settings:
            raise TypeError("a Result of minimize is not supported; use antithetic.solve")
        return
    if not hasattr(model, "_terms"):
        raise TypeError(
            f"{name} is not supported; use antithetic's LogisticRegression, LogisticRegressionCV,"
            " Ridge, PoissonRegressor, GammaRegressor or TweedieRegressor, or the Result of"
            " antithetic.solve"
        )
    if getattr(model, "coef_", None) is None:
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {name} is not fitted yet; call fit first")


def _weights_of(model: Any) -> tuple[Vector, Vector]:
    """Return weights of shape (k, d) and intercepts of shape (k,), in float64."""
    is_result = isinstance(model, Result)
    coef = model.coef if is_result else model.coef_
    intercept = model.intercept if is_result else model.intercept_
    dense = coef.toarray() if sparse.issparse(coef) else coef
    weights = np.atleast_2d(np.asarray(dense, dtype=np.float64))
    constants = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    if not (np.isfinite(weights).all() and np.isfinite(constants).all()):
        raise ValueError("the model's weights have NaN or infinity; fit it again")
    return weights, constants


def _names_of(model: Any, X: Any, d: int) -> list[str]:
    """Return the names of the columns; ValueError if they are not those of the fit."""
    known = getattr(model, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    given = None if columns is None else [str(name) for name in columns]
    if known is not None:
        names = [str(name) for name in known]
        if given is not None and given != names:
            place = next((k for k in range(min(len(names), len(given))) if names[k] != given[k]), 0)
            said = "the same names in another order" if set(given) == set(names) else "other names"
            raise ValueError(
                f"X has columns of {said} than the fit: column {place} is {given[place]!r}, in the"
                f" fit {names[place]!r}; pass X[list(model.feature_names_in_)]"
            )
        return names
    return given if given is not None and len(given) == d else [f"x{k}" for k in range(d)]


def _targets(y: Any, n: int, classes: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return signs, codes or numbers, and the labels or numbers themselves."""
    if classes is None:
        numbers = check_column(y, n, "y")
        return numbers, numbers
    codes, found = check_classes(y, n)
    if len(found) != len(classes) or (found != classes).any():
        raise ValueError(
            f"y has the classes {_few(found)}, the model {_few(classes)}; pass the y that it was"
            " fitted on"
        )
    if len(found) > 2:
        return codes, found[codes]
    return np.where(codes == 1, 1.0, -1.0), found[codes]


def _few(classes: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in classes[:5].tolist())
    return f"{shown}, ... ({len(classes)})" if len(classes) > 5 else shown


def _terms_of(model: Any, labels: NDArray[Any], weight: Vector | None) -> Terms:
    """Return what a model minimises."""
    if not isinstance(model, Result):
        found: Terms = model._terms(labels, weight)  # which all estimators here have
        return found
    given, n = model.settings, len(labels)
    shares, intercept = np.full(n, 1.0 / n), bool(given["fit_intercept"])
    l2, l1 = n * float(given["l2"]), float(given["l1"])
    return Terms(given["loss"], weight, l2, l1, intercept, shares, float(model.gap))


def _centre(rows: Matrix, weight: Vector) -> Vector:
    """Return the weighted means of the columns."""
    total = np.zeros(rows.shape[1])
    size = max(1, BLOCK_ENTRIES // rows.shape[1])
    for start in range(0, rows.shape[0], size):
        part = rows[start : start + size].astype(np.float64)
        total += np.asarray(part.T @ weight[start : start + size]).ravel()
    centre: Vector = total / weight.sum()
    return centre


def _derivatives(loss: Loss, y: NDArray[Any], scores: Vector) -> tuple[Vector, Vector]:
    """Return two derivatives of each loss; of many classes, slopes and probabilities."""
    if scores.ndim == 1:
        return loss.slope(y, scores), loss.curvature(y, scores)
    chances: Vector = np.exp(log_softmax(scores, axis=1))
    slopes = chances.copy()
    to_slopes(slopes, y)
    return slopes, chances


def to_slopes(chances: Vector, y: NDArray[Any]) -> None:
    """Turn probabilities, shape (n, ..., K), into derivatives of the loss in the scores.

    That of a row's own class is minus the sum of the others: 1 - p would lose all digits near 1.
    """
    own = (np.arange(len(y)), ..., y)
    chances[own] = 0.0
    chances[own] = -chances.sum(axis=-1)


def chances_of_others(chances: Vector) -> Vector:
    """Return one minus each probability to its last digit, shape (n, K)."""
    return chances @ (1.0 - np.eye(chances.shape[1]))
