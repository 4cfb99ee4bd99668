"""Fits along values of ``C`` in the folds of a cross-validation, and their scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, make_scorer
from sklearn.utils.validation import _check_method_params

from antithetic.estimators.data import TrainingData
from antithetic.estimators.logistic import LogisticRegression
from antithetic.estimators.logistic_fit import strengths
from antithetic.exact.path import Effort, Solved
from antithetic.problem.penalties import ElasticNet

Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Place: TypeAlias = tuple[int, int]  # of an l1_ratio and of a C
Solve: TypeAlias = Callable[[TrainingData, list[ElasticNet], Any, Effort], list[Solved]]
Score: TypeAlias = Callable[[list[Solved], TrainingData, NDArray[np.intp]], NDArray[np.float64]]

_AT_ONCE = ("accuracy", "neg_log_loss")
_MOST_LOSS = -float(np.log(np.finfo(np.float64).eps))


class Path(NamedTuple):
    """Fits of one fold with one ``l1_ratio``, in the order in which ``Cs`` were given."""

    fits: list[Solved]
    scores: NDArray[np.float64]


def find_path(
    train: TrainingData,
    data: TrainingData,
    test: NDArray[np.intp],
    Cs: NDArray[np.float64],
    l1_ratio: float,
    effort: Effort,
    solve: Solve,
    score: Score,
) -> Path:
    """Fit the rows of a fold from strong to weak penalties, and score the rows that it left out."""
    order = np.argsort(Cs, kind="stable")
    penalties = [strengths(float(C), l1_ratio, train.X.shape[0]) for C in Cs[order]]
    found = solve(train, penalties, None, effort)
    fits = [found[place] for place in np.argsort(order)]
    return Path(fits, score(fits, data, test))


def scores_of(
    classes: NDArray[Any],
    scoring: Any,
    params: dict[str, Any],
    fits: list[Solved],
    data: TrainingData,
    test: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Score each fit on some rows."""
    X, y = data.X[test], data.y[test]
    params = _check_method_params(data.X, params, indices=test)
    scoring = "accuracy" if scoring is None else scoring
    is_known = isinstance(scoring, str) and scoring in _AT_ONCE and set(params) <= {"sample_weight"}
    given = params.get("sample_weight")
    if given is not None and not np.any(given):
        raise ValueError(
            f"sample_weight is zero for all {len(test)} rows of a fold, which gives it no score;"
            " use fewer folds, or leave out rows without weight"
        )
    if is_known and len(classes) == 2:
        return _scores_at_once(scoring, fits, X, y == classes[1], given)
    scorer = _with_labels(get_scorer(scoring), classes)
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = classes, X.shape[1]
    scores = []
    for fit in fits:
        model.coef_, model.intercept_ = fit.coef, fit.intercept
        scores.append(float(scorer(model, X, y, **params)))
    return np.array(scores)


def _scores_at_once(
    scoring: str, fits: list[Solved], X: Any, is_second: NDArray[np.bool_], weight: Any
) -> NDArray[np.float64]:
    """Score all fits of two classes in one pass: scikit-learn's checks take longer than fits."""
    coef = np.concatenate([fit.coef for fit in fits])
    predictions = X @ coef.T + np.concatenate([fit.intercept for fit in fits])
    if scoring == "accuracy":
        of_rows = (predictions > 0.0) == is_second[:, None]
    else:
        np.negative(predictions, where=is_second[:, None], out=predictions)
        # a probability of zero counts as the least that scikit-learn knows
        of_rows = -np.minimum(np.logaddexp(0.0, predictions), _MOST_LOSS)
    return np.asarray(np.average(of_rows, axis=0, weights=weight), dtype=np.float64)


def _with_labels(scorer: Any, classes: NDArray[Any]) -> Any:
    """Tell a metric which labels there are: some rows may lack one."""
    metric = getattr(scorer, "_score_func", None)
    known = inspect.signature(metric).parameters if metric is not None else {}
    if "labels" not in known:
        return scorer
    given = {"labels": classes}
    if "pos_label" in known and len(classes) == 2:
        given["pos_label"] = classes[-1]
    return make_scorer(
        metric,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **(given | scorer._kwargs),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Paths of all folds.

    Attributes
    ----------
    Cs : ndarray of shape (n_cs,)
    l1_ratios : ndarray of shape (n_l1_ratios,)
    found : list of lists of Path
        By fold and ``l1_ratio``.
    fit_intercept : bool
    """

    Cs: NDArray[np.float64]
    l1_ratios: NDArray[np.float64]
    found: list[list[Path]]
    fit_intercept: bool

    def scores(self) -> NDArray[np.float64]:
        """By fold, ``l1_ratio`` and ``C``."""
        return np.array([[path.scores for path in fold] for fold in self.found])

    def iterations(self) -> NDArray[np.int32]:
        """By fold, ``l1_ratio`` and ``C``."""
        return np.array(
            [[[fit.iterations for fit in path.fits] for path in fold] for fold in self.found],
            dtype=np.int32,
        )

    def coefs(self) -> NDArray[np.float64]:
        """By fold, ``l1_ratio``, ``C`` and class, intercepts last."""
        return np.array(
            [[[self._row(fit) for fit in path.fits] for path in fold] for fold in self.found]
        )

    def _row(self, fit: Solved) -> NDArray[np.float64]:
        return np.column_stack([fit.coef, fit.intercept]) if self.fit_intercept else fit.coef

    def best(self) -> Place:
        """Place of the best sum of scores; of several the first ``C``, as in scikit-learn."""
        return self._place(self.scores().sum(axis=0))

    def best_of_each(self) -> list[Place]:
        """Place of each fold's best score."""
        return [self._place(scores) for scores in self.scores()]

    def _place(self, scores: NDArray[np.float64]) -> Place:
        C, ratio = np.unravel_index(int(scores.T.argmax()), scores.T.shape)
        return int(ratio), int(C)

    def mean_of(self, places: list[Place]) -> NDArray[np.float64]:
        """Mean of the weights at a place in each fold."""
        rows = [
            self._row(fold[ratio].fits[C])
            for fold, (ratio, C) in zip(self.found, places, strict=True)
        ]
        return np.asarray(np.mean(rows, axis=0))

    def legacy(
        self, fitted: dict[str, Any], classes: NDArray[Any], *, has_ratios: bool
    ) -> dict[str, Any]:
        """Attributes in the form of scikit-learn up to 1.9, by class.

        ``has_ratios`` says whether ``l1_ratios`` was given. If not, arrays have no axis for it.
        """
        labels = classes[1:] if len(classes) == 2 else classes
        coefs = np.moveaxis(fitted["coefs_paths_"], (3, 0, 2, 1), (0, 1, 2, 3))
        scores = np.swapaxes(fitted["scores_"], 1, 2)
        n_iter = np.swapaxes(fitted["n_iter_"], 1, 2)[None]
        if not has_ratios:
            coefs, scores, n_iter = coefs[..., 0, :], scores[..., 0], n_iter[..., 0]
        return fitted | {
            "C_": np.full(len(labels), fitted["C_"]),
            "l1_ratio_": np.full(len(labels), fitted["l1_ratio_"]),
            "coefs_paths_": dict(zip(labels, coefs, strict=True)),
            "scores_": {label: scores.copy() for label in labels},
            "n_iter_": n_iter,
        }
