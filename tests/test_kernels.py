"""Kernels: batches and indices that do not fit, losses, instruction sets and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import kernel_losses
import numpy as np
import pytest
import reference_losses
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.losses import DUAL_STEPS
from antithetic.problem.losses import LOSSES
from antithetic.problem.objective import kernel_rows

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

N, D = 12, 5
RULE = (0, 0.1, 0.01, 0.0, (1, 0.1, 0.01, 0.0), True, np.inf, True)


def make_rows(dtype=np.float64, index=None):
    X = np.random.default_rng(0).normal(size=(N, D)).astype(dtype)
    if index is None:
        return kernels.Rows.dense(X)
    S = sparse.csr_array(X)
    return kernels.Rows.csr(S.data, S.indices.astype(index), S.indptr.astype(index), D)


def sgd_arguments(dtype):
    return {
        "targets": kernels.Targets(np.resize([1.0, -1.0], N), np.empty(0)),
        "batches": kernels.Batches(np.arange(N), np.arange(0, N + 1, 2), 2, np.empty(0), 0, 0),
        "rule": kernels.StepRule(*RULE),
        "averaging": kernels.Averaging(0, False, 1),
        "coef": np.zeros(D, dtype),
        "intercept": 0.0,
        "average": np.empty(0),
        "average_intercept": 0.0,
        "average_weight": 0.0,
        "received": np.empty(0),
        "charged": 0.0,
        "unit": 1,
        "following": np.empty(N, np.intp),
    }


def corrected_arguments(dtype):
    none = np.empty(0, np.intp)
    return {
        "targets": kernels.Targets(np.resize([1.0, -1.0], N), np.empty(0)),
        "batches": kernels.Batches(np.arange(N), np.arange(0, N + 1, 2), 2, np.empty(0), 0, 0),
        "rule": kernels.StepRule(*RULE),
        "coef": np.zeros(D, dtype),
        "intercept": 0.0,
        "slopes": np.zeros(N),
        "mean": np.zeros(D + 1, dtype),
        "keeps": True,
        "members": none,
        "starts": none,
        "owner": none,
        "multiples": np.empty(N),
    }


CALLS = {"sgd_epoch": sgd_arguments, "corrected_epoch": corrected_arguments}


@pytest.mark.parametrize("call", ["sgd_epoch", "corrected_epoch"])
@given(
    rows=st.lists(st.integers(-3, N + 3), max_size=2 * N),
    starts=st.lists(st.integers(-3, 2 * N), max_size=8),
    size=st.integers(-1, 4),
    unit=st.integers(-1, 5),
    kind=st.sampled_from([(np.float64, None), (np.float32, np.int32), (np.float64, np.int64)]),
)
def test_batches_that_do_not_fit_are_refused(call, rows, starts, size, unit, kind):
    """Rows beyond the last, batches that overlap or end elsewhere, units of any size."""
    batches = kernels.Batches(
        np.array(rows, np.intp), np.array(starts, np.intp), size, np.empty(0), 0, 0
    )
    given = CALLS[call](kind[0]) | {"batches": batches}
    if call == "sgd_epoch":
        given |= {"unit": unit, "following": np.empty(len(rows), np.intp)}
    else:
        given |= {"multiples": np.empty(len(rows))}
    whole = 0 <= min(rows, default=0) <= max(rows, default=0) < N
    ends = starts[:1] == [0] and starts[-1:] == [len(rows)] and starts == sorted(starts)
    fits = whole and ends and size >= 1 and max(np.diff(starts), default=0) <= size
    if fits:
        getattr(make_rows(*kind), call)(**given)
        return
    with pytest.raises(ValueError, match=r"batch|row|size|begin"):
        getattr(make_rows(*kind), call)(**given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([0, D], np.int32)}, "outside"),
        ({"indices": np.array([0, -1], np.int32)}, "outside"),
        ({"indptr": np.array([0, 1, 3], np.int32)}, "indptr"),
        ({"indptr": np.array([1, 1, 2], np.int32)}, "indptr"),
        ({"indptr": np.array([0, 2, 1], np.int32)}, "indptr"),
        ({"indptr": np.empty(0, np.int32)}, "indptr"),
        ({"indices": np.array([0], np.int32)}, "as many"),
        ({"indices": np.array([0, 2**32], np.int64)}, "outside"),
        ({"indptr": np.array([0, 1, 2**32 + 2], np.int64)}, "indptr"),
        ({"d": 2**31}, "at most"),
        ({"d": -1}, "negative"),
    ],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sparse_rows_with_wrong_indices_are_refused(changes, message, kind):
    """Bounds are checked once, when the rows are made, before any index is narrowed."""
    given = {
        "data": np.ones(2),
        "indices": np.array([0, 1], np.int32),
        "indptr": np.array([0, 1, 2], np.int32),
        "d": D,
    }
    if any(np.asarray(value).dtype == np.int64 and name != "d" for name, value in changes.items()):
        kind = np.int64
    given = {n: v.astype(kind) if n[:3] == "ind" else v for n, v in given.items()}
    changes = {n: v.astype(kind) if n[:3] == "ind" else v for n, v in changes.items()}
    assert kernels.Rows.csr(**given).shape == (2, D)
    with pytest.raises(ValueError, match=message):
        kernels.Rows.csr(**(given | changes))


@given(
    st.sampled_from(list(LOSSES.values())),
    st.floats(-5.0, 5.0),
    st.floats(-5.0, 5.0),
    st.floats(0.0, 1.0),
)
def test_losses_are_those_of_their_twins(loss, y, p, epsilon):
    """Value, slope and conjugate agree with plain Python."""
    y = np.sign(y) or 1.0 if loss.classification else y
    for name in ("value", "slope", "conjugate"):
        ours = getattr(kernel_losses, name)(loss.code, epsilon, y, p)
        twin = getattr(reference_losses, name)(loss.code, epsilon, y, p)
        assert ours == pytest.approx(twin, rel=1e-13, abs=1e-15)


@given(
    st.sampled_from(sorted(DUAL_STEPS)),
    st.sampled_from([-1.0, 1.0]),
    st.floats(0.1, 5.0),
    st.floats(0.0, 1.0),
    st.floats(-3.0, 3.0),
    st.floats(0.0, 4.0),
)
def test_dual_steps_are_those_of_their_twins(code, y, weight, share, p, q):
    """The best dual variable of one row agrees with plain Python."""
    a = y * share * weight
    ours = kernels.dual_step(code, y, weight, a, p, q)
    twin = reference_losses.dual_step(code, y, weight, a, p, q)
    assert ours == pytest.approx(twin, rel=1e-12, abs=1e-12)


def test_wrong_instruction_sets_are_named():
    """An unknown ANTITHETIC_ISA is refused with the available ones; each of those can be set."""
    code = "from antithetic._core import kernels; print(kernels.isa)"
    for isa in kernels.available():
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"ANTITHETIC_ISA": isa},
        )
        assert done.stdout.strip() == isa
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANTITHETIC_ISA": "v9"},
    )
    assert "use one of" in done.stderr


def test_an_epoch_can_be_interrupted():
    """Ctrl-C ends a kernel within a second, however long its epoch is."""
    X = np.random.default_rng(0).normal(size=(20_000, 20))
    rows, order = kernel_rows(X), np.resize(np.arange(20_000), 60_000_000)
    given = {
        "targets": kernels.Targets(np.resize([1.0, -1.0], 20_000), np.empty(0)),
        "order": order,
        "squares": np.ones(20_000),
        "loss": 1,
        "share": 0.1,
        "watch": True,
        "gone": 0.0,
        "gone_at_least": 0.0,
        "coef": np.zeros(20),
        "duals": np.zeros(20_000),
        "signed_margins": np.empty(0),
        "limits": np.empty(0),
    }
    pressed = []

    def press():
        time.sleep(0.3)
        pressed.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            rows.dual_epoch(**given)
        assert time.perf_counter() - pressed[0] < 1.0
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize(
    ("column", "expected"),
    [([3, -1, 3], (-1, 3)), ([2, 2], (2, 2)), ([], (0, 0)), ([1, 2, 3], (0, 0)), ([5], (5, 5))],
)
def test_two_values_of_a_column(column, expected, dtype):
    """Both in order, and twice the same where there are not two."""
    assert kernels.two_values(np.array(column, dtype=dtype)) == expected


@pytest.mark.kernel
@pytest.mark.parametrize("place", [0, 1, 1023, 1024, 1025, 2999])
def test_a_third_value_is_found_anywhere(place):
    """Values are looked at in blocks of 1024."""
    column = np.resize([1.0, 0.0], 3000)
    assert kernels.two_values(column) == (0.0, 1.0)
    column[place] = 2.0
    low, high = kernels.two_values(column)
    assert low == high


@pytest.mark.kernel
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("many", [0, 1, 7, 8, 63, 64, 65, 1000])
def test_only_nan_and_infinity_are_not_finite(many, kind):
    """The largest and the smallest numbers of a type are finite; others are found anywhere."""
    limits = np.finfo(kind)
    column = np.resize([limits.max, limits.min, limits.smallest_subnormal, -0.0], many).astype(kind)
    assert kernels.are_finite(column)
    for place in range(many):
        for wrong in (np.nan, -np.nan, np.inf, -np.inf):
            other = column.copy()
            other[place] = wrong
            assert not kernels.are_finite(other)


@pytest.mark.kernel
@pytest.mark.parametrize("column", [[np.nan, 1.0], [1.0, np.nan], [1.0, 2.0, np.nan]])
def test_a_column_with_nan_has_not_two_values(column):
    low, high = kernels.two_values(np.array(column))
    assert low == high
