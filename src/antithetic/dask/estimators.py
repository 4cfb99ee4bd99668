"""`SGDClassifier` and `SGDRegressor` for Dask collections, with the names of one machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from antithetic.dask.blocks import join_classes
from antithetic.dask.model import BlockModel
from antithetic.dask.predictor import BlockPredictor
from antithetic.dask.scan import Glance
from antithetic.estimators import sgd
from antithetic.estimators.one_vs_rest import OneVsRest, check_classes, weights_of_classes
from antithetic.estimators.sgd import has_probabilities
from antithetic.orders import Order


class SGDClassifier(BlockPredictor, ClassifierMixin, BlockModel):  # type: ignore[misc]
    """Linear classifier of data in blocks: :class:`antithetic.SGDClassifier` on a Dask cluster.

    If loss and penalty are smooth, it is fitted by the Newton iterations of
    :class:`antithetic.dask.LogisticRegression`, one class against the rest. Otherwise, in each
    round every block makes an epoch of steps on its own rows. All blocks start from the same
    weights, and their steps are corrected by the gradient of all rows; the next round starts from
    the best of a few points along the mean of their moves (:mod:`antithetic.dask.search`). Both
    methods depend only on the seed, the numbers of the blocks and the round, and sums are added in
    the order of the blocks. So the result does not depend on the workers, nor on which of them are
    lost during the fit, provided that all machines have the same type of CPU.

    Parameters
    ----------
    loss, penalty, alpha, l1_ratio, fit_intercept, epsilon, eta0, power_t, decay, random_state
        As in :class:`antithetic.SGDClassifier`.
    max_iter : int, default=1000
        Maximum number of iterations over all rows. With Newton's method, most iterations read each
        block once; with corrected steps, each reads it twice: for its epoch and to measure points.
    tol, n_iter_no_change : float or None, default=1e-3; int, default=5
        Stop when the objective of all rows has not fallen by ``tol`` for this many iterations in
        a row. Newton's method also stops when a bound shows that the gap to the optimum is at most
        ``1e-3 * tol`` of the gap of the best constant prediction.
    shuffle : bool, default=True
        False visits the rows of a block in the given order.
    verbose : int, default=0
        1 prints a line per iteration. Dask's dashboard shows tasks as ``antithetic-gradient`` and
        ``antithetic-hessian``, or ``antithetic-epoch`` and ``antithetic-measure``.
    learning_rate : {"auto", "inverse_time", "constant", "optimal", "invscaling"}, default="auto"
        "auto" finds the steps of the first round on a few rows of at most 64 blocks; later steps
        follow from the curvature of each block.
    class_weight : dict, "balanced" or None, default=None
        As in :class:`antithetic.SGDClassifier`; "balanced" counts the rows of all blocks.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the last call.
    order : {"auto", "shuffle", "uniform"}, Shuffle or Uniform, default="auto"
        How each block draws its rows; "auto" is shuffle. For example, ``Shuffle(pairs="tree")``
        builds tables within the blocks. ``pairs`` may have ``nest``, but not ``refresh`` or a
        table.
    solver : {"auto", "newton", "svrg", "sgd"}, default="auto"
        ``"newton"`` is Newton's method, for losses without a kink. ``"svrg"`` makes local corrected
        steps and supports every loss and penalty. ``"auto"`` is ``"newton"`` for a smooth loss with
        an L2 penalty or none, and ``"svrg"`` otherwise, or if an order, batch size, learning rate
        or table is given, which Newton's method does not have. ``"sgd"`` averages plain epochs,
        weighted by rows: it reads each block once (with ``trace=None, tol=None``), but is less
        accurate, and far off for many rounds if blocks differ, for example by label.
    batch_size : int, default=2
        Rows per step.
    stopping : {"objective", "gradient"}, default="objective"
        What ``tol`` is compared with.
    trace : {"objective", "gradient"}, sequence of these, or None, default=None
        What ``history_`` holds besides the seconds. The objective is always included, except with
        ``solver="sgd"`` and ``tol=None``, where it is not computed.
    client : Client, str or None, default=None
        A client or the address of a scheduler. None means the current client or, if there is none,
        a local cluster that exists only during the fit.
    checkpoint : path or None, default=None
        A file to which each iteration is written. A fit of the same data with the same parameters
        resumes from it; if the file has ``max_iter`` iterations or more, it is the result.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, t_, eta0_, decay_, plan_
        As in :class:`antithetic.SGDClassifier`; Newton's method has no ``eta0_`` and ``decay_``.
    history_ : dict of str to ndarray of shape (n_iter,), or a list of dicts, one per class
        After each iteration: ``"epoch"``, ``"seconds"`` since the fit began, and what ``trace``
        asks for, of all rows. With Newton's method also ``"rounds"``, the passes over all blocks so
        far.
    n_features_in_, feature_names_in_
        As in :class:`antithetic.SGDClassifier`.

    Notes
    -----
    Blocks stay on the workers that read them. Newton's method collects a sample of the rows on one
    worker: at most 200 rows per column or 1/256 of all rows, whichever is more, and at most 128 MB.
    A worker needs memory for one block per thread, for a copy of it unless it is C-contiguous
    float32 or float64 or CSR, and about 40 bytes per row.

    Examples
    --------
    >>> import dask.array as da
    >>> from antithetic.dask import SGDClassifier
    >>> from distributed import Client
    >>> X = da.from_array([[1.0, 0.1], [0.9, -0.2], [-1.0, 0.3], [-0.8, 0.0]], chunks=(2, 2))
    >>> y = da.from_array([1, 1, 0, 0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = SGDClassifier("log_loss", max_iter=4, tol=None, client=client).fit(X, y)
    ...     score = model.score(X, y)
    >>> score, model.n_iter_
    (1.0, 4)
    >>> model.predict(X).compute(scheduler="sync").tolist()
    [1, 1, 0, 0]
    """

    _local_class = sgd.SGDClassifier
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **BlockModel._parameter_constraints,
        "loss": sgd.SGDClassifier._parameter_constraints["loss"],
        "class_weight": sgd.SGDClassifier._parameter_constraints["class_weight"],
    }

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
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.5,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        order: str | Order = "auto",
        solver: str = "auto",
        batch_size: int = 2,
        decay: float | None = None,
        stopping: str = "objective",
        trace: str | Sequence[str] | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.order = order
        self.solver = solver
        self.batch_size = batch_size
        self.decay = decay
        self.stopping = stopping
        self.trace = trace
        self.client = client
        self.checkpoint = checkpoint

    def _learn_labels(self, glances: list[Glance]) -> None:
        seen = [one for one in glances if one.rows]
        self.classes_ = check_classes(join_classes([one.classes for one in seen]))
        counts = np.zeros(len(self.classes_), np.intp)
        for one in seen:
            np.add.at(counts, np.searchsorted(self.classes_, one.classes), one.counts)
        self._class_weights = weights_of_classes(
            self.class_weight, self.classes_, self.classes_, counts
        )

    def _one_vs_rest(self) -> OneVsRest:
        return OneVsRest(self.classes_, getattr(self, "_class_weights", None))

    def _n_classes(self) -> int:
        return len(getattr(self, "classes_", ()))

    def decision_function(self, X: Any) -> Any:
        """Scores of the rows, proportional to their signed distances from the boundary.

        They are computed lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        columns = None if self._n_classes() == 2 else self._n_classes()
        real = getattr(self, "coef_", np.empty(0)).dtype
        return self._apply("decision_function", X, columns, real)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, for the losses ``"log_loss"`` and ``"modified_huber"``.

        It is computed lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._apply("predict_proba", X, self._n_classes(), np.float64)

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, computed lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
        """
        return self._apply("predict_log_proba", X, self._n_classes(), np.float64)


class SGDRegressor(BlockPredictor, RegressorMixin, BlockModel):  # type: ignore[misc]
    """Linear regression of data in blocks: :class:`antithetic.SGDRegressor` on a Dask cluster.

    It is fitted in the same way as :class:`antithetic.dask.SGDClassifier`.

    Parameters
    ----------
    loss, penalty, alpha, l1_ratio, fit_intercept, epsilon, eta0, power_t, decay, random_state
        As in :class:`antithetic.SGDRegressor`.
    max_iter, tol, n_iter_no_change, shuffle, verbose, learning_rate, warm_start
        As in :class:`antithetic.dask.SGDClassifier`.
    order, solver, batch_size, stopping, trace, client, checkpoint
        As in :class:`antithetic.dask.SGDClassifier`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, t_, eta0_, decay_, plan_, history_
        As in :class:`antithetic.dask.SGDClassifier`.
    n_features_in_, feature_names_in_
        As in :class:`antithetic.dask.SGDClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from antithetic.dask import SGDRegressor
    >>> from distributed import Client
    >>> X = da.from_array([[0.0], [1.0], [2.0], [3.0]], chunks=(2, 1))
    >>> y = da.from_array([1.0, 3.0, 5.0, 7.0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = SGDRegressor(alpha=0.0, max_iter=12, tol=None, client=client).fit(X, y)
    >>> model.predict([[4.0]]).round(2).tolist()
    [9.0]
    """

    _local_class = sgd.SGDRegressor
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **BlockModel._parameter_constraints,
        "loss": sgd.SGDRegressor._parameter_constraints["loss"],
    }

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
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        order: str | Order = "auto",
        solver: str = "auto",
        batch_size: int = 2,
        decay: float | None = None,
        stopping: str = "objective",
        trace: str | Sequence[str] | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.order = order
        self.solver = solver
        self.batch_size = batch_size
        self.decay = decay
        self.stopping = stopping
        self.trace = trace
        self.client = client
        self.checkpoint = checkpoint

    def _learn_labels(self, glances: list[Glance]) -> None:
        """Accept any number."""

    def _one_vs_rest(self) -> OneVsRest:
        return OneVsRest()

    def _shape(self, coef: NDArray[Any]) -> NDArray[Any]:
        return coef.reshape(-1)
