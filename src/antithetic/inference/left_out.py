r"""Bounds on the scores of rows, or small groups of rows, from the optimum without them.

Let :math:`F_-` be the objective without a group G, in units of the sum, :math:`H_-` its Hessian at
the point w, and :math:`\delta` the Newton step of :math:`F_-` from w. Only small matrices of the
group are needed for it. At the optimum w of all rows, with :math:`B = X_G H^{-1} X_G'`, slopes r
and curvatures W of the group,

.. math:: X_G \delta = B_- r, \quad B_- = B (I - W B)^{-1}, \quad
          |\delta|^2_{H_-} = D^2 = r' B_- r, \quad H_- \ge (1 - \theta) H,

where :math:`\theta` is the largest eigenvalue of :math:`W^{1/2} B W^{1/2}`. The losses have
:math:`|\phi'''| \le c\,\phi''`, so along the step no curvature changes by more than a factor
:math:`e^t`, with :math:`t = c \max_j |x_j'\delta| \le c \sqrt A D` over the rows j that stay and
:math:`A = \max_j x_j' H^{-1} x_j / (1 - \theta)`. So at :math:`w_1 = w + \delta`

.. math:: |\nabla F_-(w_1)|_{H_-^{-1}} \le \nu_0 = D\,\frac{e^t - 1 - t}{t},

and the optimum without G is within :math:`\rho` of :math:`w_1` in the norm of :math:`H_-`, where
:math:`1 - \exp(-c \sqrt A \rho) = c \sqrt A\, e^t \nu_0`. A score differs from that of :math:`w_1`
by at most :math:`\rho \sqrt{(B_-)_{ii}}`. Three tiers, each for the rows that the one before leaves
open:

1. The above, for all rows at once, from their leverages alone.
2. :math:`\max_j |x_j'\delta|` itself, and the least ratio of curvatures at :math:`w_1` and w in
   place of :math:`e^{-t}`: one product of all rows with the steps; or of those rows alone that
   could move most, which often suffices.
3. Further steps with the same factor: two products each, and the gradient is known, not bounded.

If w is not the optimum, the step is that for :math:`X_G' r - \nabla F(w)`, so what w lacks is part
of :math:`\delta` and of D, and nothing else changes.

If the objective is a mean, a row takes a share of the penalty along: the step is that for the
group's slopes plus the share of the penalty's gradient, which leaves a further residual of at most
``share * D``, because the penalty is at most H; and lower bounds on the Hessian are multiplied by
``1 - share``.

With many classes, a row has a score for each class, W holds :math:`s(\mathrm{diag}(p) - pp')` of
each row, and the range over the classes stands in place of absolute values.

**Rounding.** The Hessian's diagonal is lowered by more than the rounding of its sums and of its
factor can be, so that all leverages are bounds. What the lowering, the rounding of curvatures
(those of scores that are rounded) and that of gradients leave is added to the residual
(`Expansion.slack`, `Expansion.rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.exact.linear_algebra import NotDefiniteError, Root
from antithetic.exact.sums import Vector, diagonal_of, rounding_of
from antithetic.inference.fitted import Fitted, chances_of_others, to_slopes

Members = NDArray[np.intp]  # of groups of one size, shape (m, k)

LARGEST_Q = 0.999  # at 1, where a bound becomes infinite, rounding would decide
_FAR_OFF = 0.05  # change of a score on the way to the optimum, beyond which steps to it come first
_MOST_STEPS = 50
_NEAR = 1e-7  # standard errors from the optimum, at which a refit ends
_LARGEST_THETA = 1.0 - 1e-9
_LONGEST_STEP = 50.0  # of scores; the exponential of more is of no use
_MOST_CHORDS = 12
_LEAST_LENGTH = 1e-6
_SHRINKS = 0.7  # of the gradient in a step with an old factor, beyond which more are of no use
_CLOSE = 1e-5  # radius of a score that needs no further digits
_FEW = 2000  # rows, of which all are multiplied with steps at once
_PART = 20  # of the rows: those that steps move most
_ENTRIES = 1 << 21  # of scores for a batch of groups


class Found(NamedTuple):
    """Where the scores of groups without themselves are.

    Attributes
    ----------
    scores : ndarray of shape (m, k), or (m, k, K)
    rho : ndarray of shape (m,)
        Distance of the optimum; infinite if not bounded.
    spread : ndarray of shape (m, k), or (m, k, K, K)
        Of a row, the matrix of its scores in the norm that ``rho`` is in: a combination v of them
        is within ``rho * sqrt(v' spread v)``.
    """

    scores: Vector
    rho: Vector
    spread: Vector

    def size(self) -> Vector:
        """Return the root of the sum of the squared bounds of each group's scores."""
        sums = self.spread.sum(1) if self.spread.ndim == 2 else np.einsum("mkaa->m", self.spread)
        return radius_of(self.rho, sums)

    def better_of(self, other: Found) -> Found:
        """Take each group from where its bound is tighter."""
        is_ours = self.size() <= other.size()
        return Found(
            *(
                np.where(is_ours.reshape(-1, *[1] * (one.ndim - 1)), one, two)
                for one, two in zip(self, other, strict=True)
            )
        )

    def put(self, places: NDArray[np.intp], other: Found) -> None:
        """Replace some groups."""
        for one, two in zip(self, other, strict=True):
            one[places] = two


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Small matrices of groups of one size, with q = k scores each, or k K.

    Attributes
    ----------
    members : ndarray of shape (m, k)
    B : ndarray of shape (m, q, q)
        Products of their rows in the norm of the inverse Hessian.
    C : ndarray of shape (m, q, q)
        Roots of the curvatures: W is C C'.
    inner : ndarray of shape (m, q, q)
        I - C'BC.
    theta : ndarray of shape (m,)
    slopes : ndarray of shape (m, q)
        Weighted by s.
    share : ndarray of shape (m,)
        Share of the penalty that goes with them.
    reach : ndarray of shape (m,)
        The constant A.
    """

    members: Members
    B: Vector
    C: Vector
    inner: Vector
    theta: Vector
    slopes: Vector
    share: Vector
    reach: Vector

    def take(self, places: NDArray[np.intp]) -> Group:
        """Return some of the groups."""
        return Group(*(getattr(self, name)[places] for name in self.__slots__))

    def answer(self, products: Vector) -> Vector:
        """Return ``C (I - C'BC)^-1 C' v`` for a vector of each group, shape (m, q)."""
        return _times(self.C, self._inner(_times_transposed(self.C, products)))

    def square(self, products: Vector) -> Vector:
        """Return ``v' C (I - C'BC)^-1 C' v`` for a vector of each group, shape (m,)."""
        given = _times_transposed(self.C, products)
        return _dots(given, self._inner(given))

    def _inner(self, given: Vector) -> Vector:
        if given.shape[1] == 1:
            return given / self.inner[:, :, 0]
        solved: Vector = np.linalg.solve(self.inner, given[:, :, None])[:, :, 0].astype(np.float64)
        return solved

    def without(self) -> Vector:
        """Return the matrices B_-, shape (m, q, q)."""
        if self.B.shape[1] == 1:
            return self.B / self.inner
        right = np.swapaxes(self.C, 1, 2) @ self.B
        return self.B + np.swapaxes(right, 1, 2) @ np.linalg.solve(self.inner, right)


def _times(matrices: Vector, vectors: Vector) -> Vector:
    if vectors.shape[1] == 1:
        return matrices[:, :, 0] * vectors
    found: Vector = np.einsum("mab,mb->ma", matrices, vectors)
    return found


def _times_transposed(matrices: Vector, vectors: Vector) -> Vector:
    if vectors.shape[1] == 1:
        return matrices[:, :, 0] * vectors
    found: Vector = np.einsum("mba,mb->ma", matrices, vectors)
    return found


def _dots(one: Vector, other: Vector) -> Vector:
    """Return the products of the rows of two matrices."""
    found: Vector = np.einsum("ij,ij->i", one, other)
    return found


@dataclass(frozen=True, eq=False)
class Expansion:
    """The objective to second order at a point near its optimum, and what bounds need of it.

    Attributes
    ----------
    fitted : Fitted
    c : float
        The loss's ``concordance``.
    root : Root
        Factor of the Hessian, whose diagonal is lowered.
    leverages : ndarray of shape (n,), or (n, K, K)
    further : ndarray of shape (r, K p)
        Halves of the parts of Newton steps that are not a group's slopes: of minus the gradient,
        nearly zero, and, for means, of the penalty's gradient Pw.
    along : ndarray of shape (n, r), or (n, K, r)
        Products of the rows with these parts of the steps.
    nu : float
        Norm of the gradient in that of the inverse Hessian, its rounding included.
    rounding : float
        That rounding.
    of_scores : ndarray of shape (n,)
        Rounding of the scores.
    slack : float
        By how much of itself the Hessian may be above its factor, or below because curvatures are
        rounded.
    """

    fitted: Fitted
    c: float
    root: Root
    leverages: Vector
    further: Vector
    along: Vector
    nu: float
    rounding: float
    of_scores: Vector
    slack: float

    @classmethod
    def at(cls, fitted: Fitted, *, check: bool = False, polish: bool = True) -> Expansion:
        """Expand at a fitted model, or at the optimum itself if the model is far from it.

        ``check`` refuses a model that cannot come from these rows.
        """
        hessian, gradient, entries, of_scores = _first_pass(fitted)
        lowered, c = fitted.lowered(), fitted.loss.concordance
        root = Root(hessian, lowered)
        if check:
            fitted.check_optimum(root, gradient)
        inverse = _square_sums(root, len(hessian))
        curvatures = fitted.curvatures.reshape(fitted.n, -1)  # probabilities are at least theirs
        errors = of_scores + rounding_of(1)  # exponentials are rounded too
        of_slopes = float(fitted.weight @ (curvatures.sum(axis=1) * errors**2))
        rounding = float(entries @ np.sqrt(inverse)) + np.sqrt(of_slopes)
        nu = root.norm(gradient.ravel()) + rounding
        worst = float(errors.max(initial=0.0, where=fitted.weight > 0.0))
        slack = 2.0 * lowered * float(hessian.diagonal() @ inverse) + np.expm1(2.0 * c * worst)
        further = _further_halves(fitted, root, gradient)
        leverages, along = _second_pass(fitted, root, further)
        found = cls(fitted, c, root, leverages, further, along, nu, rounding, of_scores, slack)
        if polish and found.kappa * nu > _FAR_OFF:
            return cls.at(nearer(fitted, root, gradient, _FAR_OFF / found.kappa), polish=False)
        return found

    @cached_property
    def reaches(self) -> Vector:
        """Of each row that counts, its leverage, or the largest of a difference of two classes."""
        found = self.leverages
        if found.ndim == 3:
            own = np.einsum("nkk->nk", found)
            found = (own[:, :, None] + own[:, None, :] - 2.0 * found).max(axis=(1, 2))
        return np.where(self.fitted.weight > 0.0, found, 0.0)

    @property
    def kappa(self) -> float:
        """Largest change of a score, in the units of c, for a step of length 1."""
        return self.c * float(np.sqrt(self.reaches.max(initial=0.0)))

    @cached_property
    def distance(self) -> float:
        """Bound on the distance of the optimum in the norm of the Hessian; may be infinite."""
        nu = self.nu * (1.0 + self.slack)
        return float(_radius(np.array([self.kappa]), np.array([nu]))[0])

    # ---- groups

    def group(self, members: Members) -> Group:
        """Return the small matrices of groups of one size."""
        fitted, (m, k) = self.fitted, members.shape
        classes = fitted.n_classes
        q = k * classes
        if k > 1:
            halves = self._halves(members)
            B = halves @ np.swapaxes(halves, 1, 2)
        elif classes == 1:
            B = self.leverages[members][:, :, None]
        else:
            B = self.leverages[members[:, 0]]
        weight = fitted.weight[members]
        C = np.zeros((m, q, q))
        if classes == 1:
            C[:, np.arange(k), np.arange(k)] = np.sqrt(weight * fitted.curvatures[members])
            slopes = weight * fitted.slopes[members]
        else:
            for place in range(k):
                part = slice(place * classes, (place + 1) * classes)
                chances = fitted.curvatures[members[:, place]]
                root = np.sqrt(chances)
                blocks = -root[:, :, None] * root[:, None, :]
                blocks[:, np.arange(classes), np.arange(classes)] = chances_of_others(chances)
                C[:, part, part] = np.sqrt(weight[:, place, None, None]) * root[:, :, None] * blocks
            slopes = (weight[:, :, None] * fitted.slopes[members]).reshape(m, q)
        scaled = np.swapaxes(C, 1, 2) @ B @ C if q > 1 else C * B * C
        theta = scaled[:, 0, 0] if q == 1 else np.linalg.eigvalsh(scaled)[:, -1]
        is_known = theta < _LARGEST_THETA
        scaled[~is_known] = 0.0  # such groups have no bound, and their matrices are not used
        share = np.zeros(m)
        if fitted.penalty_share is not None:
            share = fitted.penalty_share[members].sum(axis=1)
        return Group(
            members,
            B,
            C,
            np.eye(q) - scaled,
            np.where(is_known, np.maximum(theta, 0.0), np.nan),
            slopes,
            share,
            self._largest_outside(members) / np.where(is_known, 1.0 - theta, 1.0),
        )

    def _halves(self, members: Members) -> Vector:
        """Return the halves of the rows of groups, shape (m, q, K p)."""
        fitted, (m, k) = self.fitted, members.shape
        classes, p = fitted.n_classes, fitted.p
        found = np.empty((m * k, classes, classes * p))
        for place, block in fitted.blocks(members.ravel()):
            if classes == 1:
                found[place, 0] = self.root.halves(block)
                continue
            for one in range(classes):
                placed = np.zeros((len(block), classes * p))
                placed[:, one * p : (one + 1) * p] = block
                found[place, one] = self.root.halves(placed)
        return found.reshape(m, k * classes, classes * p)

    def _largest_outside(self, members: Members) -> Vector:
        """Return the largest reach of the rows that stay, for each group."""
        k, reaches = members.shape[1], self.reaches
        if k == 1 < len(reaches):
            most = int(reaches.argmax())
            found = np.full(len(members), reaches[most])
            found[members[:, 0] == most] = np.delete(reaches, most).max()
            return found
        if len(reaches) <= k:
            return np.zeros(len(members))
        top = np.argpartition(reaches, -k - 1)[-k - 1 :]  # one of them at least stays
        is_member = (members[:, :, None] == top).any(axis=1)
        largest: Vector = np.where(is_member, 0.0, reaches[top]).max(axis=1)
        return largest

    def first(self, group: Group) -> Found:
        """Bound the scores by the leverages alone: tier 1."""
        shift, length = self._newton(group)
        with np.errstate(over="ignore"):
            t = self.c * np.sqrt(group.reach) * length
        ratio = np.exp(-np.minimum(t, _LONGEST_STEP))
        return self._found(group, shift, self._after_step(group, length, t, ratio))

    def _newton(self, group: Group) -> tuple[Vector, Vector]:
        """Return what the Newton step adds to the scores, and its length D."""
        products, square = self._products(group)
        answer = group.answer(products)
        shift = products + _times(group.B, answer)
        return shift, np.sqrt(np.maximum(square + group.square(products), 0.0))

    def _products(self, group: Group) -> tuple[Vector, Vector]:
        """Return products of the groups' rows with H^-1 v, and v' H^-1 v; -v is the gradient."""
        gram = self.further @ self.further.T
        products = _times(group.B, group.slopes)
        square = _dots(group.slopes, products)
        parts = self._parts(group)
        of_rows = self.along[group.members].reshape(*products.shape, -1)
        further = np.einsum("mqr,mr->mq", of_rows, parts)
        square += 2.0 * _dots(group.slopes, further)
        square += np.einsum("mr,rs,ms->m", parts, gram, parts, optimize=True)
        return products + further, square

    def _parts(self, group: Group) -> Vector:
        """Return how much of each further part belongs to the steps, shape (m, r)."""
        ones = np.ones(len(group.members))
        is_mean = self.fitted.penalty_share is not None
        return np.stack([ones, group.share] if is_mean else [ones], axis=1)

    def _after_step(self, group: Group, length: Vector, t: Vector, ratio: Vector) -> Vector:
        """Bound the distance of the optimum from the ends of Newton's steps.

        Along them, c times the change of a score is at most t; at their ends, curvatures are at
        least ``ratio`` of what they were.
        """
        left = 1.0 - group.theta
        slack = self.slack / left
        bend = _bend(np.minimum(t, _LONGEST_STEP)) + group.share
        residual = length * (bend * (1.0 + slack) + slack) + self.rounding / np.sqrt(left)
        return np.where(t < _LONGEST_STEP, self._distance(group, residual, ratio), np.inf)

    def _distance(self, group: Group, residual: Vector, ratio: Vector) -> Vector:
        """Bound the distance of the optimum from points with these gradients and curvatures."""
        kappa = self.c * np.sqrt(group.reach)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return _radius(kappa, residual * (1.0 + self.slack) / (ratio * (1.0 - group.share)))

    def _found(self, group: Group, shift: Vector, rho: Vector) -> Found:
        m, k = group.members.shape
        classes = self.fitted.n_classes
        without = group.without()
        scores = self.fitted.scores[group.members]
        if classes == 1:
            return Found(scores + shift, rho, np.einsum("mkk->mk", without).copy())
        blocks = without.reshape(m, k, classes, k, classes)
        places = np.arange(k)
        spread = np.moveaxis(blocks[:, places, :, places], 0, 1)
        return Found(scores + shift.reshape(scores.shape), rho, np.ascontiguousarray(spread))

    # ---- tiers 2 and 3, in batches

    def batch_size(self, k: int, tier: int = 3) -> int:
        """Return the number of groups whose steps are multiplied with all rows at once."""
        fitted = self.fitted
        of_rows = (len(self.foremost) if tier == 1 else fitted.n) * fitted.n_classes
        of_halves = k * fitted.n_classes**2 * fitted.p
        return max(1, min(_ENTRIES // of_rows, _ENTRIES // of_halves))

    @cached_property
    def foremost(self) -> NDArray[np.intp]:
        """Rows whose scores steps can change most: those of the largest reaches, in order."""
        n = self.fitted.n
        count = n if n <= _FEW else max(_FEW, n // _PART)
        return np.sort(np.argpartition(-self.reaches, count - 1)[:count])

    def nearly_second(self, group: Group) -> Found:
        """Bound the scores as tier 2 does, with a product of the foremost rows only.

        The change of all others is bounded by their reach, as in tier 1.
        """
        others = np.ones(self.fitted.n, dtype=bool)
        others[self.foremost] = False
        return self._second(group, self.foremost, float(self.reaches[others].max(initial=0.0)))

    def second(self, group: Group) -> Found:
        """Bound the scores by what the steps do to all others: tier 2."""
        return self._second(group, None, 0.0)

    def _second(self, group: Group, rows: NDArray[np.intp] | None, reach: float) -> Found:
        steps, shift, length = self._steps(group)
        furthest, ratio = self._change(group, self._moved(steps, rows), rows)
        others = np.sqrt(reach / (1.0 - group.theta)) * length
        t = self.c * np.maximum(furthest, others)
        ratio = np.minimum(ratio, np.exp(-self.c * np.minimum(others, _LONGEST_STEP)))
        return self._found(group, shift, self._after_step(group, length, t, ratio))

    def third(self, group: Group) -> Found:
        """Bound the scores after further steps with the same factor: tier 3."""
        fitted = self.fitted
        m = len(group.members)
        halves = self._halves(group.members)
        steps, shift, _ = self._steps(group, halves)
        best = self._found(group, shift, np.full(m, np.inf))
        before, active = np.full(m, np.inf), np.arange(m)
        for _ in range(_MOST_CHORDS):
            some, its_halves = group.take(active), halves[active]
            moved = self._moved(steps[active])
            _, ratio = self._change(some, moved)
            gradient = self._gradient(some, steps[active], moved)
            half = self.root.halves(gradient.reshape(len(active), -1))
            products = np.einsum("mqp,mp->mq", its_halves, half)
            square = _dots(half, half) + some.square(products)
            with np.errstate(invalid="ignore"):
                norm = np.sqrt(np.maximum(square, 0.0))
            residual = norm + 2.0 * self.rounding / np.sqrt(1.0 - some.theta)
            rho = self._distance(some, residual, ratio)
            rows = np.arange(len(active))[:, None]
            own = moved[some.members, rows] if moved.ndim == 2 else moved[some.members, rows, :]
            here = self._found(some, own.reshape(len(active), -1), rho)
            kept = Found(*(part[active] for part in best)).better_of(here)
            best.put(active, kept)
            goes_on = (norm < _SHRINKS * before[active]) & ~(kept.size() < _CLOSE)
            before[active] = norm
            if not goes_on.any():
                break
            step = half + np.einsum("mqp,mq->mp", its_halves, some.answer(products))
            back = self.root.backward(step[goes_on])
            active = active[goes_on]
            steps[active] -= back.reshape(len(active), fitted.n_classes, fitted.p)
        return best

    def _steps(self, group: Group, halves: Vector | None = None) -> tuple[Vector, Vector, Vector]:
        """Return the Newton steps, shape (m, K, p), what they add to the scores, and lengths."""
        fitted = self.fitted
        if halves is None:
            halves = self._halves(group.members)
        products, square = self._products(group)
        answer = group.answer(products)
        half = np.einsum("mqp,mq->mp", halves, group.slopes + answer)
        half += self._parts(group) @ self.further
        steps = self.root.backward(half).reshape(len(half), fitted.n_classes, fitted.p)
        shift = products + _times(group.B, answer)
        return steps, shift, np.sqrt(np.maximum(square + group.square(products), 0.0))

    def _moved(self, steps: Vector, rows: NDArray[np.intp] | None = None) -> Vector:
        """Return what steps add to the scores of rows, shape (n, m), or (n, m, K)."""
        m, classes, p = steps.shape
        flat = steps.reshape(m * classes, p)
        if rows is None:
            found = self.fitted.products(flat)
        else:
            found = np.empty((len(rows), len(flat)))
            for place, block in self.fitted.blocks(rows):
                found[place] = block @ flat.T
        return found if classes == 1 else found.reshape(-1, m, classes)

    def _change(
        self, group: Group, moved: Vector, rows: NDArray[np.intp] | None = None
    ) -> tuple[Vector, Vector]:
        """Return the largest change of a score and the least ratio of curvatures of rows that stay.

        The ratio is at most 1. With many classes the change is a range, the ratio is of matrices.
        """
        fitted = self.fitted
        chosen = slice(None) if rows is None else rows
        curvatures, scores = fitted.curvatures[chosen, None], fitted.scores[chosen, None]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if moved.ndim == 2:
                change = np.abs(moved)
                new = _derivative(fitted.loss.curvature, fitted.y[chosen], scores + moved)
                ratios = np.where(curvatures > 0.0, new / curvatures, 1.0)
            else:
                change = np.ptp(moved, axis=2)
                # p_k p_l of two classes weighs their difference in the matrix of a row
                most = moved.max(axis=2)
                total = np.einsum("nak,nmk->nm", curvatures, np.exp(moved - most[..., None]))
                lowest = np.partition(moved, 1, axis=2)[:, :, :2].sum(axis=2)
                ratios = np.exp(lowest - 2.0 * most) / total**2
                ratios = np.maximum(ratios, np.exp(-change))
        places = np.arange(fitted.n)
        if rows is not None:
            places = np.full(fitted.n, len(rows))
            places[rows] = np.arange(len(rows))
        left_out = places[group.members]
        which, column = np.nonzero(left_out < len(moved))[0], left_out[left_out < len(moved)]
        for values, neutral in ((change, 0.0), (ratios, 1.0)):
            values[~(fitted.weight[chosen] > 0.0)] = neutral
            values[column, which] = neutral
        least = ratios.min(axis=0)
        return change.max(axis=0), np.where(np.isnan(least), 0.0, np.minimum(1.0, least))

    def _gradient(self, group: Group, steps: Vector, moved: Vector) -> Vector:
        """Return the gradients of the objectives without the groups, shape (m, K, p)."""
        fitted = self.fitted
        m, classes, p = steps.shape
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = _slopes(fitted, moved)
        slopes *= fitted.weight.reshape(-1, *[1] * (slopes.ndim - 1))
        slopes[group.members, np.arange(m)[:, None]] = 0.0
        sums = fitted.sums(slopes.reshape(fitted.n, m * classes)).reshape(m, classes, p)
        theta = fitted.theta.reshape(classes, p) + steps
        return sums + (1.0 - group.share)[:, None, None] * fitted.penalty * theta

    # ---- refits

    def refitted(self, members: NDArray[np.intp]) -> Found:
        """Fit without one group, from where its Newton step leads, and bound its scores."""
        fitted = self.fitted
        weight = fitted.weight.copy()
        weight[members] = 0.0
        share = 0.0 if fitted.penalty_share is None else fitted.penalty_share[members].sum()
        rest = replace(fitted, weight=weight, penalty=(1.0 - share) * fitted.penalty)
        try:
            start = rest.at(fitted.theta)
            root = Root(start.hessian(), start.lowered())
            there = nearer(start, root, start.gradient(), _NEAR)
            found = Expansion.at(there, polish=False)
        except NotDefiniteError:
            k, classes = len(members), fitted.n_classes
            shape = (1, k) if classes == 1 else (1, k, classes)
            spread = np.ones(shape if classes == 1 else (*shape, classes))
            return Found(fitted.scores[members].reshape(shape), np.array([np.inf]), spread)
        return Found(
            there.scores[members][None],
            np.array([found.distance]),
            found.leverages[members][None],
        )


def radius_of(rho: Vector | float, squares: Vector) -> Vector:
    """Return ``rho`` times the roots of squares: 0 for a square of 0, even if rho is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(squares > 0.0, rho * np.sqrt(np.maximum(squares, 0.0)), 0.0)


def _square_sums(root: Root, size: int) -> Vector:
    """Return the diagonal of the inverse."""
    halves = root.halves(np.eye(size))
    return _dots(halves, halves)


def nearer(fitted: Fitted, root: Root, gradient: Vector, goal: float) -> Fitted:
    """Take Newton steps until the optimum is within so many standard errors.

    ``root`` and ``gradient`` belong to the point that is given.
    """
    height = fitted.objective()
    for _ in range(_MOST_STEPS):
        if root.norm(gradient.ravel()) <= goal:
            break
        step, length = root.solve(gradient.ravel()).reshape(gradient.shape), 1.0
        while length > _LEAST_LENGTH:
            there = fitted.at(fitted.theta - length * step)
            found = there.objective()
            if found <= height + 1e-13 * abs(height):
                break
            length /= 2.0
        else:
            break
        fitted, height = there, found
        root, gradient = Root(fitted.hessian(), fitted.lowered()), fitted.gradient()
    return fitted


def _first_pass(fitted: Fitted) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the Hessian, the gradient, and the rounding of the gradient and of each score."""
    n, p, classes = fitted.n, fitted.p, fitted.n_classes
    theta = np.abs(fitted.theta).reshape(classes, p)
    slopes = fitted.weight[:, None] * fitted.slopes.reshape(n, classes)
    gradient, entries = fitted.penalty * fitted.theta.reshape(classes, p), np.zeros((classes, p))
    of_scores = np.empty(n)
    gram = np.zeros((p, p)) if classes == 1 else fitted.hessian()
    for place, block in fitted.blocks():
        gradient += slopes[place].T @ block
        if classes == 1:
            shares = fitted.weight[place] * fitted.curvatures[place]
            gram += (block * shares[:, None]).T @ block
        np.abs(block, out=block)
        entries += np.abs(slopes[place]).T @ block
        of_scores[place] = (block @ theta.T).max(axis=1)
    if classes == 1:
        gram = (gram + gram.T) / 2.0
        diagonal_of(gram)[:] += fitted.penalty
    entries = rounding_of(n) * entries + rounding_of(1) * fitted.penalty * theta
    of_scores = rounding_of(p) * (of_scores + np.abs(fitted.offset))
    return gram, gradient.reshape(fitted.theta.shape), entries.ravel(), of_scores


def _further_halves(fitted: Fitted, root: Root, gradient: Vector) -> Vector:
    parts = [-gradient]
    if fitted.penalty_share is not None:
        parts.append(fitted.penalty * fitted.theta)
    return root.halves(np.reshape(parts, (len(parts), -1)))


def _second_pass(fitted: Fitted, root: Root, further: Vector) -> tuple[Vector, Vector]:
    """Return the leverages, and the products of the rows with further parts of the steps."""
    if fitted.n_classes == 1:
        leverages, along = np.empty(fitted.n), np.empty((fitted.n, len(further)))
        for place, block in fitted.blocks():
            halves = root.halves(block)
            leverages[place] = _dots(halves, halves)
            along[place] = halves @ further.T
        return leverages, along
    solved = root.backward(further).reshape(-1, fitted.p)
    products = fitted.products(solved).reshape(fitted.n, len(further), fitted.n_classes)
    return fitted.leverages(root), np.swapaxes(products, 1, 2)


def _radius(kappa: Vector, nu: Vector) -> Vector:
    """Solve ``1 - exp(-kappa rho) = kappa nu`` for rho; infinite if there is no safe solution."""
    with np.errstate(invalid="ignore", over="ignore"):
        q = kappa * nu
        is_safe = (q <= LARGEST_Q) & np.isfinite(nu)
        safe = np.where(is_safe, q, 0.0)
        grown = np.where(safe > 1e-8, -np.log1p(-safe) / np.where(safe > 1e-8, safe, 1.0), 1.0)
        return np.where(is_safe, nu * (grown + 1e-8), np.inf)


def _bend(t: Vector) -> Vector:
    """Return ``(exp(t) - 1 - t) / t``."""
    with np.errstate(over="ignore", invalid="ignore"):
        small = t < 1e-3
        safe = np.where(small, 1.0, t)
        return np.where(small, t * (0.5 + t / 6.0 * (1.0 + t)), (np.expm1(safe) - safe) / safe)


def _derivative(function: Any, y: Vector, scores: Vector) -> Vector:
    """Return derivatives of losses with one score, at scores of shape (n, m)."""
    targets = np.broadcast_to(y[:, None], scores.shape)
    return np.reshape(function(targets.ravel(), scores.ravel()), scores.shape)


def _slopes(fitted: Fitted, moved: Vector) -> Vector:
    """Return first derivatives of the losses, of all rows and groups."""
    if moved.ndim == 2:
        return _derivative(fitted.loss.slope, fitted.y, fitted.scores[:, None] + moved)
    scores = fitted.scores[:, None, :] + moved
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    to_slopes(scores, fitted.y)
    return scores
