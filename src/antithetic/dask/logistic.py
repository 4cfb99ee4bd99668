"""`LogisticRegression` for Dask collections, with the names of one machine."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning

from antithetic._util.warnings import warn
from antithetic.dask.blocks import join_classes
from antithetic.dask.common import Common
from antithetic.dask.learner import BlockLearner
from antithetic.dask.moments import Census
from antithetic.dask.newton import First
from antithetic.dask.predictor import BlockPredictor
from antithetic.dask.scan import Glance
from antithetic.estimators import logistic
from antithetic.estimators.exact_fit import first_weights, separation
from antithetic.estimators.logistic import LogisticSetting, penalty_of
from antithetic.estimators.one_vs_rest import (
    AllClasses,
    OneVsRest,
    check_classes,
    weights_of_classes,
)
from antithetic.exact.path import Solved
from antithetic.exact.separation import Separation, main_columns
from antithetic.problem.losses import LOSSES


class LogisticRegression(  # type: ignore[misc]  # scikit-learn is untyped
    BlockPredictor, ClassifierMixin, BlockLearner
):
    """Logistic regression of data in blocks: :class:`antithetic.LogisticRegression` on Dask.

    It minimises the same objective with the same iterations, for two classes or many. First, a
    sample of the rows, drawn from all blocks, is brought to this process and solved. Then each
    iteration needs only sums from the blocks, which also bound the gap. A fit takes about ten
    rounds over all blocks, or up to twice as many with an L1 penalty. Columns need not be scaled,
    and rows may be sorted. ``gap_`` is a bound on the distance of the objective from its optimum.
    Sums are added in the order of the blocks, so the result does not depend on the workers, nor on
    which of them are lost during the fit, provided that all machines have the same type of CPU.

    Parameters
    ----------
    penalty, C, l1_ratio, dual, tol, fit_intercept, intercept_scaling, class_weight, solver
        As in :class:`antithetic.LogisticRegression`; ``C`` multiplies the sum of all losses.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample. None always means the same seed, so that fits are reproducible.
    max_iter : int, default=100
        Maximum number of iterations over all rows. Most take one round each.
    verbose : int, default=0
        1 prints a line per iteration. Dask's dashboard shows tasks as ``antithetic-look``,
        ``antithetic-sample``, ``antithetic-gradient`` and ``antithetic-after``, one for each
        iteration; ``antithetic-restored-cost`` and ``antithetic-scaled-dual`` bound the gap if an
        iteration has not done so.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the last call instead of a sample.
    client : Client, str or None, default=None
        A client or the address of a scheduler. None means the current client or, if there is none,
        a local cluster that exists only during the fit.
    checkpoint : path or None, default=None
        A file to which the weights are written after each iteration. If it exists, the fit starts
        from them; it must belong to this class and the same blocks of data.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_
        As in :class:`antithetic.LogisticRegression`.
    n_rounds_ : int
        Passes over all blocks: the first look, the sample and the iterations.
    history_ : dict of str to ndarray of shape (n_iter,)
        After each iteration: ``"epoch"``, ``"seconds"`` since the fit began, ``"rounds"`` so far,
        ``"objective"`` (mean loss plus penalty) and the norm of its ``"gradient"``.
    n_features_in_, feature_names_in_
        As in :class:`antithetic.LogisticRegression`.

    Notes
    -----
    Blocks stay on the workers that read them. Only a sample is brought to this process: up to some
    600 rows per column, or all rows if these are few, and at most 1 GB or a quarter of the memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from antithetic.dask import LogisticRegression
    >>> from distributed import Client
    >>> X = da.from_array([[1.0, 0.1], [0.9, -0.2], [-1.0, 0.3], [-0.8, 0.0]], chunks=(2, 2))
    >>> y = da.from_array([1, 1, 0, 0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = LogisticRegression(client=client).fit(X, y)
    >>> model.gap_ <= 1e-4, model.gap_certified_
    (True, True)
    >>> model.predict(X).compute(scheduler="sync").tolist()
    [1, 1, 0, 0]
    """

    _y_numeric = False
    _local_class = logistic.LogisticRegression
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **{
            name: allowed
            for name, allowed in logistic.LogisticRegression._parameter_constraints.items()
            if name != "n_jobs"
        },
        "client": [object],
        "checkpoint": [str, os.PathLike, None],
    }

    def __init__(
        self,
        penalty: str | None = "deprecated",
        *,
        C: float = 1.0,
        l1_ratio: float | None = 0.0,
        dual: bool = False,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.client = client
        self.checkpoint = checkpoint

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model in rounds over all blocks.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed blocks, or array-like
            Rows, of shape (n_samples, n_features); blocks dense or CSR. Blocks are read again in
            each round unless they were persisted.
        y : Dask array or series, list of delayed blocks, or array-like
            Labels of two or more classes, of shape (n_samples,), in the same blocks as X or in
            blocks of known lengths.
        sample_weight : like y, default=None
            Weights of the rows, at least 0, multiplied by ``class_weight``.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C, or if the cluster was lost, it holds the last
            complete iteration.

        Raises
        ------
        ClusterLostError
            If the scheduler was lost. With ``checkpoint=``, fitting again starts from the weights
            of the last complete iteration.
        """
        setting = LogisticSetting.of(self, *penalty_of(self))
        common = partial(self._common, setting)
        fit, seen = self._fit_blocks(X, y, sample_weight, LOSSES["log_loss"], common)
        objective = self.history_["objective"]
        if (
            np.isinf(setting.C)
            and not fit.certified
            and len(objective)
            and objective[-1] * seen.rows < np.log(2.0)
        ):
            # each row's loss is below log 2; which columns count most, no row need be asked
            scale = np.sqrt(seen.census.columns_of(common(seen.census), 0).scale)
            names = getattr(self, "feature_names_in_", None)
            found = Separation(main_columns(fit.coef, scale), is_complete=True)
            warn(separation(found, names), ConvergenceWarning)
        else:
            self._warn_if_short(fit)
        return self

    # ---- from blocks to a fit

    def _learn_labels(self, glances: list[Glance]) -> None:
        seen = [one for one in glances if one.rows]
        self.classes_ = check_classes(join_classes([one.classes for one in seen]))

    def _common(self, setting: LogisticSetting, census: Census) -> Common:
        weights = weights_of_classes(
            setting.class_weight,
            self.classes_,
            self.classes_,
            census.weights,  # type: ignore[arg-type]
        )
        if not (census.weights * (1.0 if weights is None else weights)).any():
            raise ValueError(
                "sample_weight times class_weight is zero for every row; at least one must be"
                " positive"
            )
        parts = OneVsRest if len(self.classes_) == 2 else AllClasses
        return Common(
            LOSSES["log_loss"],
            setting.penalty(census.rows),
            setting.fit_intercept,
            parts(self.classes_, weights),
            census.rows,
        )

    def _start(self) -> First | None:
        k, d = len(self.classes_), self.n_features_in_
        first = first_weights(self, (1 if k == 2 else k, d))
        return (first[0][0], first[1][0]) if first and k == 2 else first

    def _as_attributes(self, fit: Solved, real: np.dtype[Any]) -> dict[str, Any]:
        return {
            "coef_": fit.coef.astype(real),
            "intercept_": fit.intercept.astype(real),
            "n_iter_": np.array([fit.iterations], dtype=np.int32),
        }

    # ---- predictions

    def decision_function(self, X: Any) -> Any:
        """Log odds of the second class, or scores of many classes, lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        many = len(getattr(self, "classes_", ()))
        real = getattr(self, "coef_", np.empty(0)).dtype
        return self._apply("decision_function", X, many if many > 2 else None, real)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, computed lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._of_classes("predict_proba", X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, computed lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._of_classes("predict_log_proba", X)

    def _of_classes(self, method: str, X: Any) -> Any:
        real = getattr(self, "coef_", np.empty(0)).dtype
        return self._apply(method, X, len(getattr(self, "classes_", ())), real)
