"""scikit-learn's callbacks (1.9 and later): a fit is a task, and its epochs are leaves.

Of more than two classes, each is a task in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from antithetic.estimators.jobs import Job, Watch

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]  # one of the two is defined
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "fit_context", "watch_epochs", "with_callbacks"]


@contextmanager
def fit_context(estimator: Any, shown: dict[str, Any], n_tasks: int) -> Iterator[None]:
    """Open the task of a fit, where scikit-learn has callbacks.

    ``shown`` is what they are given to see: X, y and metadata.
    """
    if not hasattr(estimator, "_init_callback_context"):
        yield
        return
    several = n_tasks > 1
    root = estimator._init_callback_context(
        max_subtasks=n_tasks if several else estimator.max_iter, sequential_subtasks=not several
    )
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

    ``fitted()`` gives the public attributes of the model as it stands.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        return lambda _job: False
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
