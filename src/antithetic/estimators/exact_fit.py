"""What fits of the exact estimators share: the run, its threads, what it chose, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from antithetic._util.threads import limit_blas, threads_of
from antithetic.estimators.callbacks import Iterations, StoppedByCallback
from antithetic.estimators.data import LARGEST_SEED, TrainingData
from antithetic.exact.path import Solved, Watch
from antithetic.exact.separation import Separation

_FAR = 1e4  # times its spread, or another column's size: a column that rounding may come from
_NO_SPREAD = 1e-12  # of a column's size: such a column is constant up to rounding
_ROWS_LOOKED_AT = 10_000
_MOST_NAMED = 5  # columns in a warning


@dataclass(frozen=True, slots=True)
class NewtonPlan:
    """What a fit chose by itself, and why.

    Attributes
    ----------
    method : str
        How steps are found: "newton" (from a matrix of second derivatives, of a sample or of all
        rows), "conjugate gradients" (from products with it), "dual ascent" (one row at a time, if
        sparse data have fewer rows than columns), with an L1 penalty and very many weights "working
        set", or with many classes "whitened L-BFGS" (from a matrix that all classes share). "least
        squares" needs no steps: the products of all columns with each other have the minimum.
    samples : tuple of int
        Rows of the samples that were solved before all rows were visited; empty if there were none.
        Their rows are drawn by importance.
    threads : int
        Maximum number of threads of a pass over the rows; few rows use fewer.
    why : str
        The reasons in a sentence.
    """

    method: str
    samples: tuple[int, ...]
    threads: int
    why: str


def judgement_of(fit: Solved, threads: int) -> dict[str, Any]:
    """Return the attributes that say how good a fit is and what it chose, the reasons in order."""
    return {
        "gap_": float(fit.gap),
        "gap_certified_": bool(fit.certified),
        "coef_error_": float(fit.coef_error),
        "plan_": NewtonPlan(fit.method, fit.samples, threads, "; ".join(fit.why)),
    }


def seed_of(random_state: Any) -> int:
    """Seed of the samples; None is always the same one, so that fits repeat."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(LARGEST_SEED))


@contextmanager
def threads_for(n_jobs: int | None) -> Iterator[int]:
    """Give the number of threads for sums over the rows; BLAS itself uses one.

    Its own threads would wait in a loop between its calls, on the cores that the sums need.
    """
    threads = threads_of(n_jobs)
    with limit_blas(1):
        yield threads


def first_weights(
    model: Any, shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return weights and intercepts of the last fit, with warm_start, if it has this shape."""
    if not getattr(model, "warm_start", False) or getattr(model, "coef_", None) is None:
        return None
    coef = np.asarray(model._dense_coef(), dtype=np.float64)
    if coef.shape != shape:
        raise ValueError(
            f"warm_start=True begins with the weights of the last fit, of shape {coef.shape};"
            f" these data need {shape}: fit a new estimator"
        )
    return coef, np.asarray(model.intercept_, dtype=np.float64)


def run_watched(
    model: Any,
    data: TrainingData,
    attributes: Callable[[Solved], dict[str, Any]],
    solve: Callable[[Watch], Solved],
    *,
    verbose: bool,
) -> Solved:
    """Fit, and write the attributes of the result; on Ctrl-C, of that before the last iteration.

    ``solve`` fits, and shows its iterations to what it is given, for callbacks.
    """
    iterations = Iterations(model, data.shown(), attributes)
    try:
        fit = solve(iterations.watch)
        iterations.close()
    except StoppedByCallback:
        assert iterations.last is not None
        fit = iterations.last()._replace(ended="callback")
    except KeyboardInterrupt:
        if iterations.last is not None:
            model.__dict__.update(attributes(iterations.last()))
        raise
    model.__dict__.update(attributes(fit))
    if verbose:
        print(f"{type(model).__name__}: gap {fit.gap:.1e} ({model.plan_.why})")
    return fit


# ---- warnings


def separation(found: Separation, names: NDArray[Any] | None) -> str:
    """Say that there is no optimum, which columns are the cause, and what to do."""
    which = "some rows are perfectly separated (say, all of one category have the same label)"
    if found.is_complete:
        which = "the classes are perfectly separated (all training margins are positive)"
    more = len(found.columns) - _MOST_NAMED
    named = ", ".join(_named(column, names) for column in found.columns[:_MOST_NAMED])
    of = f"column{'s' * (len(found.columns) > 1)} {named}" + (
        f" and {more} more" if more > 0 else ""
    )
    return (
        f"{which} and C is infinite, so no optimum exists: larger weights of {of} always lower the"
        " loss, and coef_ is only where the fit ended. Use a finite C, say the default C=1.0"
    )


def shortfall(
    fit: Solved,
    X: Any,
    *,
    tol: float,
    max_iter: int,
    names: NDArray[Any] | None,
    penalty: tuple[str, float],
    stronger: str,
    is_weak: bool,
) -> str:
    """Say why a fit ended early, which column or setting is the cause, and what to do.

    ``penalty`` is the parameter that sets the penalty, and its value; ``stronger`` says how to
    change it for a stronger one. More iterations may be of no use if the penalty ``is_weak``.
    """
    gap = f"the gap to the optimum is {fit.gap:.1e}, above tol={tol:g}"
    column, (name, value) = _odd_column(X, names), penalty
    if fit.ended == "max_iter":
        weak = f" or {stronger} {name}={value:g}" if is_weak else ""
        more = f" The likely cause: {column}." if column else ""
        return f"max_iter={max_iter} ended the fit: {gap}. Increase max_iter{weak}.{more}"
    kind = X.dtype.name
    if column:
        return f"rounding in {kind} ended the fit: {gap}. The likely cause: {column}."
    return (
        f"rounding in {kind} ended the fit: {gap}. The likely cause: the penalty is so weak"
        f" ({name}={value:g}) that the objective is flat around the optimum."
        f" {stronger.capitalize()} {name} or increase tol."
    )


def _odd_column(X: Any, names: NDArray[Any] | None) -> str:
    """Name a column that is far from zero or of another scale; empty if there is none."""
    rows = X[:: max(1, X.shape[0] // _ROWS_LOOKED_AT)]
    tops = np.ravel(sparse.csr_array(abs(rows)).max(axis=0).toarray()).astype(np.float64)
    j = int(tops.argmax())
    if tops[j] > np.sqrt(np.sqrt(np.finfo(X.dtype).max)):
        return (
            f"{_name(j, names)} has values up to {tops[j]:.1e}, whose products overflow: scale it"
            " down, say with StandardScaler"
        )
    unit = tops[j] if tops[j] > 0.0 else 1.0  # squares do not vanish
    rows = sparse.csr_array(rows).astype(np.float64) / unit
    size, least, most = np.sqrt(_mean(rows.multiply(rows))), *_extremes(rows)
    nearest = np.maximum(least, 0.0) + np.minimum(most, 0.0)  # to zero: so digits do not cancel
    rows.data -= nearest[rows.indices]
    mean = _mean(rows)
    spread = np.sqrt(np.maximum(_mean(rows.multiply(rows)) - mean * mean, 0.0))
    mean += nearest
    far = np.divide(np.abs(mean), spread, out=np.zeros_like(mean), where=spread > _NO_SPREAD * size)
    j = int(far.argmax())
    if far[j] > _FAR:
        return (
            f"{_name(j, names)} is far from zero (mean {mean[j] * unit:.1e}, standard deviation"
            f" {spread[j] * unit:.1e}): subtract its mean, say with StandardScaler"
        )
    typical = float(np.median(size[size > 0.0])) if size.any() else 0.0
    j = int(size.argmax())
    if typical > 0.0 and size[j] > _FAR * typical:
        return (
            f"{_name(j, names)} is on a much larger scale (root mean square {size[j] * unit:.1e},"
            f" the median column {typical * unit:.1e}): scale it down, say with StandardScaler"
        )
    return ""


def _mean(rows: Any) -> NDArray[np.float64]:
    return np.ravel(rows.mean(axis=0))


def _extremes(rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest entry of each column."""
    least, most = rows.min(axis=0).toarray(), rows.max(axis=0).toarray()
    return np.ravel(least), np.ravel(most)


def _name(column: int, names: NDArray[Any] | None) -> str:
    return f"column {_named(column, names)}"


def _named(column: int, names: NDArray[Any] | None) -> str:
    return str(column) if names is None else repr(names[column])
