"""`LogisticRegression` for Dask collections, with the names of one machine."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning

from antithetic._util.warnings import warn
from antithetic.dask.blocks import join_classes
from antithetic.dask.cluster import client_of
from antithetic.dask.common import Common
from antithetic.dask.learner import BlockData, BlockLearner
from antithetic.dask.mark import mark_data
from antithetic.dask.newton import HISTORY, NewtonRounds, Standings
from antithetic.dask.newton_fit import NewtonFit
from antithetic.dask.predictor import BlockPredictor
from antithetic.dask.reading import read_blocks
from antithetic.dask.scan import Glance, Look, census_of, look
from antithetic.estimators import logistic
from antithetic.estimators.logistic_base import LogisticParameters
from antithetic.estimators.logistic_fit import (
    LEAST_TOL,
    LogisticFit,
    NewtonPlan,
    seed_of,
    separation,
    strengths,
)
from antithetic.estimators.one_vs_rest import (
    AllClasses,
    OneVsRest,
    check_classes,
    weights_of_classes,
)
from antithetic.orders.in_order import InOrder
from antithetic.problem.losses import LOSSES
from antithetic.solvers.newton.iterate import Iterate


class LogisticRegression(  # type: ignore[misc]  # scikit-learn is untyped
    BlockPredictor, ClassifierMixin, BlockLearner, LogisticParameters
):
    """Logistic regression of data in blocks: :class:`antithetic.LogisticRegression` on Dask.

    It minimises the same objective with the same iterations, for two classes or many. First, one
    worker solves a sample of the rows, drawn from all blocks. Then each iteration needs only sums
    from the blocks: the objective and the gradient. A fit takes about ten rounds over all blocks,
    or two to five times as many with many classes. Columns need not be scaled, and rows may be
    sorted. ``gap_`` is a bound on the distance of the objective from its optimum. Sums are added in
    the order of the blocks, so the result does not depend on the workers, nor on which of them are
    lost during the fit, provided that all machines have the same type of CPU.

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
        ``antithetic-sample``, ``antithetic-solve``, ``antithetic-gradient``, ``antithetic-hessian``
        (``antithetic-data-hessian`` with many classes) and ``antithetic-scaled-dual``
        (``antithetic-moved-dual``), which computes the bound on the gap.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the last call instead of a sample.
    client : Client, str or None, default=None
        A client or the address of a scheduler. None means the current client or, if there is none,
        a local cluster that exists only during the fit.
    checkpoint : path or None, default=None
        A file to which each iteration is written. A fit of the same data with the same parameters
        resumes from it.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, gap_, gap_certified_, plan_
        As in :class:`antithetic.LogisticRegression`.
    n_rounds_ : int
        Passes over all blocks: the first look, the sample, the iterations and the bound on the gap.
    history_ : dict of str to ndarray of shape (n_iter,)
        After each iteration: ``"epoch"``, ``"seconds"`` since the fit began, ``"rounds"`` so far,
        ``"objective"`` (mean loss plus penalty) and the norm of its ``"gradient"``.
    n_features_in_, feature_names_in_
        As in :class:`antithetic.LogisticRegression`.

    Notes
    -----
    Blocks stay on the workers that read them. Only a sample is collected on one worker: at most
    200 rows per column or 1/256 of all rows, whichever is more, and at most 128 MB.

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
            If the scheduler was lost. With ``checkpoint=``, fitting again resumes after the last
            complete iteration.
        """
        C, l1_ratio = self._read_penalty()
        self._check_solver()
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels: y is None")
        with self._unchanged_on_errors(), client_of(self.client) as client:
            blocks = read_blocks(X, y, sample_weight, client=client)
            aim = Look(
                LOSSES["log_loss"],
                bool(self.fit_intercept),
                0,
                for_newton=True,
                marks=self.checkpoint is not None,
            )
            glances = look(client, blocks, aim, after_loss=self._after_loss())
            self._learn(blocks, glances)
            seen = BlockData(blocks, glances)
            fit = self._run(self._rounds(client, seen, C, l1_ratio), seen)
        self._warn_after_fit(fit, seen, C)
        return self

    # ---- from blocks to a fit

    def _learn_labels(self, glances: list[Glance]) -> None:
        seen = [one for one in glances if one.rows]
        self.classes_ = check_classes(join_classes([one.classes for one in seen]))

    def _rounds(self, client: Any, seen: BlockData, C: float, l1_ratio: float) -> NewtonRounds:
        census = census_of(seen.glances, self.classes_)
        weights = weights_of_classes(
            self.class_weight,
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
        common = Common(
            LOSSES["log_loss"],
            strengths(C, l1_ratio, seen.rows),
            bool(self.fit_intercept),
            parts(self.classes_, weights),
            seen.rows,
            1,
            InOrder(),
            (0,),
        )
        tol = max(float(self.tol), LEAST_TOL)
        return NewtonRounds(
            client,
            seen.blocks,
            common,
            census,
            tol,
            None,
            int(self.max_iter),
            self._after_loss(),
        )

    def _run(self, rounds: NewtonRounds, seen: BlockData) -> LogisticFit:
        """Fit and keep the result; on errors, keep the last complete iteration."""
        first = self._first_weights(self.n_features_in_)
        start, marks = first, [] if first is None else list(first)
        if first is not None and not rounds.common.is_classed:
            start = (first[0][0], first[1][0])
        last: list[LogisticFit] = []

        def adopt(standings: Standings, ends: list[Iterate]) -> None:
            last.append(_fit_of(rounds, standings, ends[0]))
            plan = NewtonPlan.of(last[-1], seen.rows, 1, is_warm=first is not None)
            self.__dict__.update(_attributes(last[-1], standings, seen.real) | {"plan_": plan})

        if self.verbose:
            print(f"{type(self).__name__}: {len(seen.blocks)} blocks of {seen.rows} rows in all")
        NewtonFit(
            rounds,
            [start],
            seed_of(self.random_state),
            self.random_state is not None and not hasattr(self.random_state, "randint"),
            {"settings": self._settings(), "data": mark_data(seen.glances, marks)},
            self.checkpoint if self.max_iter else None,  # zero weights are nothing to resume
            bool(self.verbose),
            bounds=True,
        ).run(adopt)
        return last[-1]

    def _warn_after_fit(self, fit: LogisticFit, seen: BlockData, C: float) -> None:
        objective = self.history_["objective"]
        if np.isinf(C) and len(objective) and objective[-1] * seen.rows < np.log(2.0):
            warn(separation(), ConvergenceWarning)  # each row's loss is below log 2
        elif fit.is_short_of(float(self.tol)):
            by = "rounding" if fit.ended == "rounding" else f"max_iter={self.max_iter}"
            advice = (
                "Increase tol, or scale columns that are far from zero or very large"
                if fit.ended == "rounding"
                else "Increase max_iter"
            )
            warn(
                f"{by} ended the fit: the gap to the optimum is {fit.gap:.1e}, above"
                f" tol={self.tol:g}. {advice}.",
                ConvergenceWarning,
            )

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


def _fit_of(rounds: NewtonRounds, standings: Standings, end: Iterate) -> LogisticFit:
    coef, intercepts = rounds.weights(end)
    newton = standings.reached[0].newton
    return LogisticFit(
        np.array(np.atleast_2d(coef)),
        np.atleast_1d(intercepts),
        end.gap,
        end.certified,
        end.iterations,
        end.ended or "max_iter",
        newton.sizes,
        newton.method,
    )


def _attributes(
    fit: LogisticFit, standings: Standings, real: np.dtype[Any]
) -> dict[str, NDArray[Any] | Any]:
    table = np.array(standings.reached[0].history).reshape(-1, len(HISTORY))
    history = {name: table[:, place] for place, name in enumerate(HISTORY)}
    return {
        "coef_": fit.coef.astype(real),
        "intercept_": fit.intercept.astype(real),
        "n_iter_": np.array([fit.iterations], dtype=np.int32),
        "gap_": float(fit.gap),
        "gap_certified_": bool(fit.certified),
        "n_rounds_": standings.rounds,
        "history_": {"epoch": np.arange(1, len(table) + 1), **history},
    }
