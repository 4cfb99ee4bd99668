"""`SGDClassifier` and `SGDRegressor` on a cluster: the names and parameters of one machine, fitted to Dask's collections."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if

from antithetic.dask._pair import BlockTable, join_classes
from antithetic.dask.model import Distributed
from antithetic.dask.scan import Glance
from antithetic.estimators import sgd as linear_model
from antithetic.estimators.sgd import _has_probabilities

_OWN_CONSTRAINTS: dict[str, list[Any]] = {
    "client": [object],
    "checkpoint": [str, os.PathLike, None],
}


class SGDClassifier(Distributed, linear_model.SGDClassifier):
    """Linear classifier of data in blocks: :class:`antithetic.SGDClassifier` on a Dask cluster.

    Each round, every block makes an epoch of steps on its own rows, from common weights, corrected
    by the gradient of all rows; the mean of their moves is searched for the best of a few points
    (:mod:`antithetic.dask.search`). The order of a block follows from the seed, its number and the
    round alone, and sums are in the order of the blocks, so that the result depends neither on the
    workers nor on which of them are lost on the way, as long as they are machines of one kind.
    Labels, weights and steps are found on a first look at the blocks.

    Parameters
    ----------
    loss, penalty, alpha, l1_ratio, fit_intercept, epsilon, eta0, power_t, decay, groups,
    random_state, class_weight
        As in :class:`antithetic.SGDClassifier`.
    max_iter : int, default=1000
        Most rounds. One reads each block twice: for its epoch, and to measure the points.
    tol, n_iter_no_change : float or None, default=1e-3; int, default=5
        End when the objective of all rows has not fallen by ``tol`` for so many rounds in a row.
    stopping : {"objective", "gradient"}, default="objective"
        What ``tol`` is compared with.
    solver : {"svrg", "sgd"}, default="svrg"
        ``"svrg"`` is the above. ``"sgd"`` averages plain epochs by rows: it reads each block once
        (with ``trace=None, tol=None``), but is less exact, and wrong for long where blocks differ,
        say by label.
    learning_rate : {"auto", "inverse_time", "constant", "optimal", "invscaling"}, default="auto"
        "auto" finds steps for the first round on a few rows of at most 64 blocks; later ones follow
        from the curvature of each block.
    shuffle : bool, default=True
        False takes the rows of a block in the order given.
    sampling : {"auto", "shuffle", "uniform"}, default="auto"
        How rows or pairs of a block are drawn; "auto" is shuffle.
    pairing : {"auto", "greedy", "optimal", "tree", "random"}, callable or None, default="auto"
        Tables within the blocks; "auto" makes none.
    nest : int, bool, "auto" or None, default="auto"
        With a pairing, groups instead of pairs.
    batch_size : int, default=2
    warm_start : bool, default=False
        Whether ``fit`` begins with the weights of the last call.
    trace : {"objective", "gradient"}, sequence of these, or None, default="objective"
        What ``history_`` holds besides the seconds.
    verbose : int, default=0
        1 prints a line per round. Dask's dashboard shows tasks as ``antithetic-epoch`` and
        ``antithetic-measure``.
    client : Client, str or None, default=None
        A client, the address of a scheduler, or None: the current client, or else a local cluster
        for the time of the fit.
    checkpoint : path or None, default=None
        A file to which each round is written, and from which a fit of the same data with the same
        parameters goes on; one that has ``max_iter`` rounds or more is the result.
    early_stopping, validation_fraction, average, refresh, importance, n_strata, allocation, n_jobs
        There for the sake of the same names: what cannot be had on blocks is refused, the others
        have no effect.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, t_, eta0_, decay_, plan_, n_features_in_,
    feature_names_in_
        As in :class:`antithetic.SGDClassifier`.
    history_ : dict of str to ndarray of shape (rounds,), or a list of dicts, one per class
        ``"epoch"``, ``"seconds"`` since the fit began, and what ``trace`` asks for, of all rows
        after each round.

    Notes
    -----
    No block leaves the worker that reads it. A worker needs memory for one block per thread,
    a copy of it if it is not C-contiguous float32 or float64 or CSR, and some 40 bytes a row.

    Examples
    --------
    >>> import dask.array as da, antithetic.dask
    >>> from distributed import Client
    >>> X = da.from_array([[1.0, 0.1], [0.9, -0.2], [-1.0, 0.3], [-0.8, 0.0]], chunks=(2, 2))
    >>> y = da.from_array([1, 1, 0, 0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = antithetic.dask.SGDClassifier("log_loss", max_iter=3, tol=None, client=client).fit(X, y)
    ...     score = model.score(X, y)
    >>> score, model.n_iter_
    (1.0, 3)
    >>> model.predict(X).compute(scheduler="sync").tolist()
    [1, 1, 0, 0]
    """

    _local_class = linear_model.SGDClassifier
    _parameter_constraints: dict[str, list[Any]] = {
        **linear_model.SGDClassifier._parameter_constraints,
        **_OWN_CONSTRAINTS,
    }  # noqa: RUF012

    def __init__(
        self,
        loss: str = "hinge",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        average: bool | int | str = False,
        pairing: Any = "auto",
        sampling: str = "auto",
        solver: str = "svrg",
        batch_size: int = 2,
        nest: str | None = "auto",
        refresh: str | None = "auto",
        decay: float | None = None,
        stopping: str = "objective",
        groups: Any = None,
        importance: str = "bounds",
        n_strata: int | None = None,
        allocation: str = "proportional",
        trace: Any = "objective",
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            loss,
            penalty=penalty,
            alpha=alpha,
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            shuffle=shuffle,
            verbose=verbose,
            epsilon=epsilon,
            n_jobs=n_jobs,
            random_state=random_state,
            learning_rate=learning_rate,
            eta0=eta0,
            power_t=power_t,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            class_weight=class_weight,
            warm_start=warm_start,
            average=average,
            pairing=pairing,
            sampling=sampling,
            solver=solver,
            batch_size=batch_size,
            nest=nest,
            refresh=refresh,
            decay=decay,
            stopping=stopping,
            groups=groups,
            importance=importance,
            n_strata=n_strata,
            allocation=allocation,
            trace=trace,
        )
        self.client = client
        self.checkpoint = checkpoint

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: BlockTable | None = None,
    ) -> SGDClassifier:
        """Fit the model, one round of all blocks after the other.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed blocks, or array-like, of shape
        (n_samples, n_features)
            Rows; blocks dense or CSR. Blocks are read anew in each round unless they were
            persisted.
        y : Dask array or series, list of delayed blocks, or array-like, of shape (n_samples,)
            Labels of at least two classes, in the blocks of X, or blocks of known lengths.
        coef_init, intercept_init : array-like, default=None
            Weights to begin with.
        sample_weight : like y, default=None
            Weights of the rows.
        table : BlockTable, default=None
            Tables of these collections, made by :func:`antithetic.dask.pair`; where it dealt the
            rows anew, its blocks are trained on.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C, or when the cluster was lost, it holds the last
            whole round.

        Raises
        ------
        ClusterLostError
            When the scheduler was lost; with ``checkpoint=``, fitting again goes on from the last
            round.
        """
        self._fit_blocks(X, y, sample_weight, coef_init, intercept_init, table)
        return self

    def partial_fit(self, X: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse: a round has all blocks.

        Parameters
        ----------
        X, y, *args, **kwargs
            Whatever they are.
        """
        raise NotImplementedError(
            "a round has all blocks; use fit, with warm_start=True to go on, or"
            " to_local().partial_fit for one chunk"
        )

    def _learn_labels(self, glances: list[Glance]) -> None:
        classes = join_classes([one.classes for one in glances if one.rows])
        counts = np.zeros(len(classes), np.intp)
        for one in glances:
            if one.rows:
                np.add.at(counts, np.searchsorted(classes, one.classes), one.counts)
        given, self.class_weight = (
            self.class_weight,
            (None if self.class_weight == "balanced" else self.class_weight),
        )
        try:
            self._set_classes(classes, classes)
        finally:
            self.class_weight = given
        if given == "balanced":
            self._class_weights = counts.sum() / (len(classes) * counts)

    def decision_function(self, X: Any) -> Any:
        """Signed distances of the rows from the boundary, times a constant: lazily for Dask's collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        columns = (
            None if len(getattr(self, "classes_", ())) == 2 else len(getattr(self, "classes_", ()))
        )
        return self._apply(
            "decision_function", X, columns, getattr(self, "coef_", np.empty(0)).dtype
        )

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, for the losses ``"log_loss"`` and ``"modified_huber"``: lazily for Dask's collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._apply("predict_proba", X, len(getattr(self, "classes_", ())), np.float64)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class: lazily for Dask's collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._apply("predict_log_proba", X, len(getattr(self, "classes_", ())), np.float64)


class SGDRegressor(Distributed, linear_model.SGDRegressor):
    """Linear regression of data in blocks: :class:`antithetic.SGDRegressor` on a Dask cluster.

    How it is fitted, and to what, is said of :class:`antithetic.dask.SGDClassifier`.

    Parameters
    ----------
    loss, penalty, alpha, l1_ratio, fit_intercept, epsilon, eta0, power_t, decay, groups,
    random_state
        As in :class:`antithetic.SGDRegressor`.
    max_iter, tol, n_iter_no_change, stopping, solver, learning_rate, shuffle, sampling, pairing,
    nest, batch_size, warm_start, trace
        As in :class:`antithetic.dask.SGDClassifier`.
    verbose : int, default=0
        1 prints a line per round.
    client : Client, str or None, default=None
        A client, the address of a scheduler, or None: the current client, or else a local cluster
        for the time of the fit.
    checkpoint : path or None, default=None
        A file to which each round is written, and from which a fit of the same data with the same
        parameters goes on.
    early_stopping, validation_fraction, average, refresh, importance, n_strata, allocation
        There for the sake of the same names: what cannot be had on blocks is refused, the others
        have no effect.

    Attributes
    ----------
    coef_, intercept_, n_iter_, t_, eta0_, decay_, plan_, history_, n_features_in_,
    feature_names_in_
        As in :class:`antithetic.dask.SGDClassifier`.

    Examples
    --------
    >>> import dask.array as da, antithetic.dask
    >>> from distributed import Client
    >>> X = da.from_array([[0.0], [1.0], [2.0], [3.0]], chunks=(2, 1))
    >>> y = da.from_array([1.0, 3.0, 5.0, 7.0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = antithetic.dask.SGDRegressor(alpha=0.0, max_iter=12, tol=None, client=client).fit(X, y)
    >>> model.predict([[4.0]]).round(2).tolist()
    [9.0]
    """

    _local_class = linear_model.SGDRegressor
    _parameter_constraints: dict[str, list[Any]] = {
        **linear_model.SGDRegressor._parameter_constraints,
        **_OWN_CONSTRAINTS,
    }  # noqa: RUF012

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int | str = False,
        pairing: Any = "auto",
        sampling: str = "auto",
        solver: str = "svrg",
        batch_size: int = 2,
        nest: str | None = "auto",
        refresh: str | None = "auto",
        decay: float | None = None,
        stopping: str = "objective",
        groups: Any = None,
        importance: str = "bounds",
        n_strata: int | None = None,
        allocation: str = "proportional",
        trace: Any = "objective",
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            loss,
            penalty=penalty,
            alpha=alpha,
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            shuffle=shuffle,
            verbose=verbose,
            epsilon=epsilon,
            random_state=random_state,
            learning_rate=learning_rate,
            eta0=eta0,
            power_t=power_t,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            average=average,
            pairing=pairing,
            sampling=sampling,
            solver=solver,
            batch_size=batch_size,
            nest=nest,
            refresh=refresh,
            decay=decay,
            stopping=stopping,
            groups=groups,
            importance=importance,
            n_strata=n_strata,
            allocation=allocation,
            trace=trace,
        )
        self.client = client
        self.checkpoint = checkpoint

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: BlockTable | None = None,
    ) -> SGDRegressor:
        """Fit the model, one round of all blocks after the other.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed blocks, or array-like, of shape
        (n_samples, n_features)
            Rows; blocks dense or CSR. Blocks are read anew in each round unless they were
            persisted.
        y : Dask array or series, list of delayed blocks, or array-like, of shape (n_samples,)
            Numbers, in the blocks of X, or blocks of known lengths.
        coef_init, intercept_init : array-like, default=None
            Weights to begin with.
        sample_weight : like y, default=None
            Weights of the rows.
        table : BlockTable, default=None
            Tables of these collections, made by :func:`antithetic.dask.pair`; where it dealt the
            rows anew, its blocks are trained on.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C, or when the cluster was lost, it holds the last
            whole round.

        Raises
        ------
        ClusterLostError
            When the scheduler was lost; with ``checkpoint=``, fitting again goes on from the last
            round.
        """
        self._fit_blocks(X, y, sample_weight, coef_init, intercept_init, table)
        return self

    def partial_fit(self, X: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse: a round has all blocks.

        Parameters
        ----------
        X, y, *args, **kwargs
            Whatever they are.
        """
        raise NotImplementedError(
            "a round has all blocks; use fit, with warm_start=True to go on, or"
            " to_local().partial_fit for one chunk"
        )

    def _learn_labels(self, glances: list[Glance]) -> None:
        """Any number will do."""
