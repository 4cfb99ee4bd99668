"""The problem that a fitted linear estimator solved, and its gradients' variances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix, check_rows, check_weights
from antithetic.estimators.one_vs_rest import OneVsRest, weights_of_classes
from antithetic.orders import Shuffle, Uniform
from antithetic.orders.variance import gradient_variance
from antithetic.pairing import AntitheticTable, pair
from antithetic.pairing.table import check_table
from antithetic.problem import ratio
from antithetic.problem.losses import Loss, get_loss

INNER = "for a pipeline, give its last step; for a search, its best_estimator_"


@dataclass(frozen=True, slots=True, eq=False)
class SolvedProblem:
    """The two-class or regression problem that a linear estimator solved, and its weights."""

    X: Matrix
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    loss: Loss
    fit_intercept: bool
    coef: NDArray[np.float64]
    intercept: float

    @classmethod
    def read(cls, estimator: Any, X: Any, y: Any, sample_weight: Any, target: Any) -> SolvedProblem:
        """Read a fitted estimator, and the data on which to measure."""
        loss = _check_linear(estimator)
        X = check_rows(X)
        weight = check_weights(sample_weight, X.shape[0])
        classes = getattr(estimator, "classes_", None)
        number = _number(type(estimator).__name__, classes, target)
        y = _column(y, X.shape[0])
        if classes is not None:
            classes = np.asarray(classes)
            _check_labels(y, OneVsRest(classes), number)
            given = getattr(estimator, "class_weight", None)
            parts = OneVsRest(classes, weights_of_classes(given, classes, y))
            y = parts.target(y, number)
            weight = parts.weigh(y, weight, number)
        coef = (
            estimator.coef_.toarray()
            if sparse.issparse(estimator.coef_)
            else np.asarray(estimator.coef_)
        )
        intercept = np.atleast_1d(estimator.intercept_)
        if classes is not None and len(classes) > 2:
            coef, intercept = coef[number], intercept[number:]
        return cls(X, y, weight, loss, bool(estimator.fit_intercept), coef, float(intercept[0]))

    def tables(self, table: Any, y: Any) -> dict[str, AntitheticTable]:
        """Tables by name, without fingerprints once they are known to match the data."""
        if table is None:
            made = pair(
                self.X,
                self.y,
                loss=self.loss,
                fit_intercept=self.fit_intercept,
                sample_weight=self.weight,
            )
            return {"antithetic pairs": made}
        given = table if isinstance(table, Mapping) else {"antithetic pairs": table}
        return {str(name): self._checked(check_table(one), y) for name, one in given.items()}

    def _checked(self, table: AntitheticTable, y: Any) -> AntitheticTable:
        """Accept a table of the given labels, or of one class against the rest.

        The latter may be written as signs or as True and False.
        """
        refusals = []
        for labels in (y, self.y, self.y == 1.0):
            try:
                table.check(self.X, labels)
            except ValueError as refusal:
                refusals.append(refusal)
            else:
                return AntitheticTable(table.partner)
        raise refusals[0]

    def ratios(
        self, coef: Any, intercept: float, tables: Mapping[str, AntitheticTable], batch_size: int
    ) -> tuple[NDArray[np.float64], float]:
        """Variance of each way of drawing divided by that of independent rows, and the latter."""
        orders = [Uniform(), Shuffle(), *(Uniform(pairs=table) for table in tables.values())]
        variances = [
            gradient_variance(
                self.X,
                self.y,
                coef,
                intercept=intercept,
                loss=self.loss,
                order=order,
                batch_size=batch_size,
                fit_intercept=self.fit_intercept,
                sample_weight=self.weight,
            )
            for order in orders
        ]
        return np.array([ratio(variance, variances[0]) for variance in variances]), variances[0]


def _check_linear(estimator: Any) -> Loss:
    """Loss of a fitted linear model, or an error that says what is missing."""
    from sklearn.utils.validation import check_is_fitted

    own = type(estimator).__name__
    advice = f"give a fitted SGDClassifier or SGDRegressor ({INNER})"
    if not hasattr(estimator, "loss"):
        raise ValueError(f"{own} has no loss, so its gradients are not known; {advice}")
    check_is_fitted(estimator)
    if not all(hasattr(estimator, name) for name in ("coef_", "intercept_", "fit_intercept")):
        raise ValueError(
            f"{own} is not a linear model with coef_, intercept_ and fit_intercept; {advice}"
        )
    loss = get_loss(estimator.loss)
    if loss.classification and not hasattr(estimator, "classes_"):
        raise ValueError(
            f"{own} has the loss {loss.name} of a classifier but no classes_; {advice}"
        )
    if isinstance(estimator.loss, Loss):
        return loss
    return loss.with_epsilon(getattr(estimator, "epsilon", loss.epsilon))


def _number(own: str, classes: Any, target: Any) -> int:
    """Number of the one-vs-rest problem: with more than two classes, that of the target."""
    if classes is None:
        if target is not None:
            raise ValueError(
                f"target={target!r} selects one of several classes, but {own} has none; leave it at"
                " None"
            )
        return 0
    labels = np.asarray(classes).tolist()
    shown = ", ".join(map(repr, labels))
    if target is None and len(labels) > 2:
        raise ValueError(
            f"{own} has {len(labels)} classes, and each has its own weights and gradients; give"
            f" target=, one of {shown}"
        )
    if target is not None and target not in labels:
        raise ValueError(f"target={target!r} is not a class of {own}; use one of {shown}")
    return 0 if len(labels) == 2 else labels.index(target)


def _column(y: Any, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape not in ((n,), (n, 1)):
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {labels.shape}")
    return labels.ravel()


def _check_labels(y: NDArray[Any], parts: OneVsRest, number: int) -> None:
    """Raise ValueError for labels of no class, and where all rows or none are of the target."""
    assert parts.classes is not None
    labels = parts.classes.tolist()
    unknown = sorted(map(repr, set(y.tolist()).difference(labels)))
    if unknown:
        raise ValueError(
            f"y has {', '.join(unknown[:5])}, which the estimator was not fitted to; its classes"
            f" are {labels}"
        )
    found = parts.target(y, number) > 0.0
    if found.all() or not found.any():
        raise ValueError(
            f"y must have rows of class {labels[parts.positive(number)]!r} and of other classes;"
            f" got {'only' if found.all() else 'no'} rows of that class"
        )
