"""Whether an objective without a penalty has no optimum, since some weights can grow for ever."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.exact.linear_algebra import Factor
from antithetic.exact.sums import Vector

_MOST_WEIGHTS = 4000  # of a Hessian that is formed
_FAR = 0.5  # of a step that leads away for ever: exp(-m) falls by as much with each step of 1 in m
_NEAR = 0.05  # of that: what rows that are not separated may move by, before they are at rest
_SURE = 1e-9  # of the largest margin: one that rounding has not made
_SMALL = 0.05  # of the largest: a contribution of a column that hardly separates alone
_ROWS_LOOKED_AT, _MOST_IN_PRODUCTS = 10_000, 1000
_DEPENDENT = 1e-9  # of the largest mean square along an axis: columns depend on each other
_MOST_ALONE, _MOST_TOGETHER = 50, 20  # columns that are tried one by one


class Separation(NamedTuple):
    """Classes, or some of their rows, that larger and larger weights tell apart ever better.

    Attributes
    ----------
    columns : tuple of int
        Each separates alone, or else all of them together do; those that count most come first.
    is_complete : bool
        Whether all rows are separated, rather than some of them.
    """

    columns: tuple[int, ...]
    is_complete: bool


def separation_of(sums: Any, theta: Vector) -> Separation | None:
    """Return what separates the classes of a run that has ended at a point; None if nothing does.

    All classes are separated if each row that counts is on its own side. Otherwise Newton's step
    decides. Near an optimum it is short. If some rows can be told apart perfectly by weights that
    change nothing for the others (quasi-separation), it adds about one to their margins, and takes
    nothing from any.

    Parameters
    ----------
    sums : RowSums or ClassSums
        Of labels, without a penalty.
    theta : ndarray
    """
    own = _Direction.of(sums, theta)
    least, most = own.margins()
    if least > 0.0:
        return Separation(own.columns(_SURE * most, _SURE * most), is_complete=True)
    if sums.d > _MOST_WEIGHTS:
        return None
    point = sums.at(theta)
    newton = -Factor(sums.hessian(point, exact=True)).solve(point.gradient)
    step = _Direction.of(sums, newton)
    least, most = step.margins()
    if most > _FAR and least > -_NEAR * most:
        return Separation(step.columns(-_NEAR * most, _FAR * most), is_complete=False)
    return None


def main_columns(coef: Vector, scale: Vector) -> tuple[int, ...]:
    """Return the columns whose weights change scores most, from their inverse standard deviations.

    Examples
    --------
    >>> main_columns(np.array([[0.0, 1.0, 3.0]]), np.array([1.0, 1.0, 10.0]))
    (1, 2)
    """
    of_column = np.abs(coef[0]) if len(coef) == 1 else np.ptp(coef, axis=0)
    sizes = np.divide(of_column, scale, out=np.zeros(len(scale)), where=scale > 0.0)
    order = np.argsort(-sizes, kind="stable")
    return tuple(order[sizes[order] > _SMALL * sizes.max()].tolist())


class _Direction(NamedTuple):
    """A direction of the weights of all classes, and the rows that count.

    Attributes
    ----------
    rows : ndarray or csc_array of shape (n, d)
    codes : ndarray of shape (n,)
        Class of each row.
    centre : ndarray of shape (d,)
    coef : ndarray of shape (classes, d)
        Those of two classes have zeros for the first.
    intercept : ndarray of shape (classes,) or None
        None if there is none; of columns that are not centred.
    """

    rows: Any
    codes: NDArray[np.intp]
    centre: Vector
    coef: Vector
    intercept: Vector | None

    @classmethod
    def of(cls, sums: Any, theta: Vector) -> _Direction:
        """Return the direction of a point from zero."""
        problem = sums.problem
        rows = slice(None) if problem.weight is None else np.flatnonzero(problem.weight > 0.0)
        chosen = problem.X[rows]
        coef, intercept = map(np.atleast_1d, sums.split(theta))
        if coef.ndim == 1:
            coef, intercept = np.stack([0.0 * coef, coef]), np.append(0.0, intercept)
        return cls(
            sparse.csc_array(chosen) if sparse.issparse(chosen) else chosen,
            problem.codes[rows],
            np.zeros(coef.shape[1]) if sums.centre is None else sums.centre,
            coef,
            intercept if sums.fit_intercept else None,
        )

    def margins(self) -> tuple[float, float]:
        """Least and largest margin between the own class of a row and another."""
        scores = self.rows @ self.coef.T
        least, most = self._between(scores if self.intercept is None else scores + self.intercept)
        others = ~np.eye(len(least), dtype=bool)
        return float(least[others].min()), float(most[others].max())

    def _between(self, scores: Vector) -> tuple[Vector, Vector]:
        """Least and largest margins of the rows of each class over each other class."""
        many = len(self.coef)
        least, most = np.full((many, many), np.inf), np.full((many, many), -np.inf)
        for k in range(many):
            own = scores[self.codes == k]
            if len(own):
                apart = own[:, [k]] - own
                least[k], most[k] = apart.min(axis=0), apart.max(axis=0)
        return least, most

    def _separates(self, scores: Vector, least: float, most: float) -> bool:
        """Whether the best intercepts give all rows a least margin, and some a larger one.

        Intercepts b exist if ``b_k - b_l`` can be at most the least margin of class l over k, for
        all pairs: if no way round some classes, along which these add up, is below zero.
        """
        paths, tops = self._between(scores)
        paths -= least
        np.fill_diagonal(paths, 0.0)
        if self.intercept is None:
            return bool(paths.min() >= 0.0 and tops.max() >= most)
        for k in range(len(paths)):
            paths = np.minimum(paths, paths[:, [k]] + paths[[k]])
        if paths.diagonal().min() < 0.0:
            return False
        intercepts = paths.min(axis=0)
        return bool((tops + intercepts[:, None] - intercepts).max() >= most)

    def columns(self, least: float, most: float) -> tuple[int, ...]:
        """Few columns that separate: each alone if there are such, else all together."""
        short, sizes = self._shortened()
        order = np.argsort(-sizes, kind="stable")
        order = order[sizes[order] > _SMALL**2 * sizes.max()]
        first = [int(j) for j in order[:_MOST_ALONE] if sizes[j] > _SMALL * sizes.max()]
        alone = [j for j in first if short._separates(short._scores(j), least, most)]
        if alone:
            return tuple(alone)
        total, chosen = np.zeros((self.rows.shape[0], len(self.coef))), []
        for j in map(int, order):
            total += short._scores(j)
            chosen.append(j)
            if short._separates(total, least, most):
                break
        for j in chosen[::-1] if len(chosen) <= _MOST_TOGETHER else ():
            without = total - short._scores(j)
            if short._separates(without, least, most):
                chosen.remove(j)
                total = without
        return tuple(chosen)

    def _scores(self, j: int) -> Vector:
        """What a column gives to the scores."""
        column = self.rows[:, [j]]
        column = column.toarray() if sparse.issparse(column) else column
        centre = 0.0 if self.intercept is None else self.centre[j]
        return np.asarray((column - centre) * self.coef[:, j])

    def _shortened(self) -> tuple[_Direction, Vector]:
        """Return the shortest direction of the same scores, and how much each column counts.

        Otherwise weights of columns that depend on each other could be large and cancel.
        """
        some = self.rows[:: max(1, self.rows.shape[0] // _ROWS_LOOKED_AT)]
        some = some.toarray() if sparse.issparse(some) else some
        table = np.subtract(some, self.centre, dtype=np.float64)
        unit = np.sqrt(np.square(table).mean(axis=0))
        varies = unit > 0.0
        unit[~varies] = 1.0
        table /= unit
        scaled = self.coef * unit * varies
        if len(unit) <= _MOST_IN_PRODUCTS:
            squares, axes = np.linalg.eigh(table.T @ table)
            axes = axes[:, squares > _DEPENDENT * squares[-1]]
            scaled = scaled @ axes @ axes.T
        return self._replace(coef=scaled / unit), np.asarray(np.ptp(scaled, axis=0))
