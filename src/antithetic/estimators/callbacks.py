"""scikit-learn's callbacks (1.9 and later): a fit is a task, its epochs or iterations are leaves.

With more than two classes, each class is a task in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antithetic.estimators.sgd_fit import Job, Watch

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]  # one of the two is defined
        """Stands in where scikit-learn has no callbacks."""


__all__ = [
    "CallbackSupportMixin",
    "Iterations",
    "StoppedByCallback",
    "fit_context",
    "is_observed",
    "watch_epochs",
]


def is_observed(estimator: Any) -> bool:
    """Whether an estimator has callbacks, its own or those of one around it."""
    return bool(getattr(estimator, "_skl_callbacks", None))


class StoppedByCallback(Exception):  # noqa: N818 - not an error
    """A callback asks for the end of a fit."""


@contextmanager
def fit_context(
    estimator: Any, shown: dict[str, Any], max_tasks: int, *, sequential: bool = True
) -> Iterator[None]:
    """Open the task of a fit, if it or an estimator around it has callbacks.

    ``shown`` is what they receive: X, y and metadata. The task has at most ``max_tasks`` subtasks.
    """
    if not (is_observed(estimator) or hasattr(estimator, "_parent_callback_ctx")):
        yield
        return
    root = estimator._init_callback_context(max_subtasks=max_tasks, sequential_subtasks=sequential)
    root.call_on_fit_task_begin(estimator=estimator, **shown)
    yield
    root.call_on_fit_task_end(estimator=estimator, **shown, reconstruction_attributes={})


def watch_epochs(
    estimator: Any,
    jobs: list[Job],
    shown: dict[str, Any],
    fitted: Callable[[], dict[str, Any]],
) -> Watch:
    """Return what is to be called after each epoch; it is True when a callback asks for the end.

    None where there are no callbacks.
    ``fitted()`` returns the public attributes of the current model.
    """
    if not is_observed(estimator):
        return None
    seen = {"estimator": estimator, **shown}
    root = estimator._callback_fit_ctx
    parents = {id(job): root for job in jobs}
    if len(jobs) > 1:
        for number, job in enumerate(jobs):
            parent = root.subcontext(
                task_name="class", task_id=number, max_subtasks=job.most_epochs
            )
            parents[id(job)] = parent.call_on_fit_task_begin(**seen)

    def begin(job: Job) -> Any:
        return parents[id(job)].subcontext(task_name="epoch").call_on_fit_task_begin(**seen)

    epochs = {id(job): begin(job) for job in jobs}

    def end(job: Job) -> bool:
        stop = bool(epochs[id(job)].call_on_fit_task_end(**seen, reconstruction_attributes=fitted))
        if not (stop or job.is_over):
            epochs[id(job)] = begin(job)
        elif parents[id(job)] is not root:
            parents[id(job)].call_on_fit_task_end(**seen, reconstruction_attributes=fitted)
        return stop

    return end


class Iterations:
    """Tasks of a fit that is observed from iteration to iteration, as scikit-learn's solvers are.

    A task begins with the weights before its iteration and ends with those after it. The last one
    is empty: it begins when the fit has ended.

    Parameters
    ----------
    estimator : object
    shown : dict
        What callbacks receive: X, y and metadata.
    fitted : callable
        Gives the public attributes of a model, from its state.

    Attributes
    ----------
    last : callable or None
        Gives the state after the last iteration; states are made only where they are used.
    """

    def __init__(
        self, estimator: Any, shown: dict[str, Any], fitted: Callable[[Any], dict[str, Any]]
    ) -> None:
        # as in scikit-learn, callbacks do not observe the fits of a cross-validation
        root = getattr(estimator, "_callback_fit_ctx", None)
        self._root = root if is_observed(estimator) else None
        self._seen, self._fitted = {"estimator": estimator, **shown}, fitted
        self._task: Any = None
        self.last: Callable[[], Any] | None = None

    def watch(self, state: Callable[[], Any]) -> None:
        """End the iteration that led to a state, if there was one, and begin the next."""
        self.last = state
        if self._root is None:
            return
        seen = {**self._seen, "reconstruction_attributes": lambda: self._fitted(state())}
        if self._task is not None and self._task.call_on_fit_task_end(**seen):
            raise StoppedByCallback
        self._task = self._root.subcontext(task_name="iteration")
        self._task.call_on_fit_task_begin(**seen)

    def close(self) -> None:
        """End the task of the iteration that did not take place."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._seen["estimator"])
