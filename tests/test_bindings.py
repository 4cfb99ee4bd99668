"""No arguments make a binding of the kernels read or write out of bounds."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from antithetic._core import kernels

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

N, D, K = 12, 5, 3
NONE = np.empty(0)
NO_ROWS = np.empty(0, np.intp)
HARMLESS = (TypeError, ValueError, MemoryError)
EXTREME = (-(2**63), -1, 0, 1, 2**62, 2**63 - 1)


class Struct(NamedTuple):
    """A plain struct of the bindings, and what it is made of."""

    kind: type
    fields: dict[str, Any]

    def make(self) -> Any:
        return self.kind(**self.fields)


def make_rows(dtype, index):
    X = np.random.default_rng(0).normal(size=(N, D)).astype(dtype)
    if index is None:
        return kernels.Rows.dense(X)
    S = sparse.csr_array(X)
    return kernels.Rows.csr(S.data, S.indices.astype(index), S.indptr.astype(index), D)


KINDS = [
    pytest.param((dtype, index), id=f"{dtype.__name__}-{getattr(index, '__name__', 'dense')}")
    for dtype in (np.float64, np.float32)
    for index in (None, np.int32, np.int64)
]

TARGETS = Struct(kernels.Targets, {"y": np.resize([1.0, -1.0], N), "weight": np.ones(N)})
CLASSES = Struct(
    kernels.ClassTargets, {"codes": np.arange(N) % K, "weight": np.ones(N), "n_classes": K}
)
BATCHES = Struct(
    kernels.Batches,
    {
        "rows": np.arange(N),
        "starts": np.arange(0, N + 1, 2),
        "size": 2,
        "factors": np.ones(N),
        "steps": 0,
        "samples": 0,
    },
)
RULE = Struct(
    kernels.StepRule,
    {
        "loss": 0,
        "epsilon": 0.1,
        "l2": 0.01,
        "l1": 0.0,
        "schedule": (1, 0.1, 0.01, 0.0),
        "fit_intercept": True,
        "steepest": np.inf,
        "watch": True,
    },
)
AVERAGING = Struct(kernels.Averaging, {"start": 1, "linear": False, "every": 1})
RESTORATION = Struct(
    kernels.Restoration,
    {"factor": 0.9, "shift": 0.0, "up": 0.9, "down": 1.0, "kept": 0.5, "side": 1},
)


def sgd_epoch(dtype, index, precondition):
    products = NONE if index is None else np.zeros(N)
    fields = {"centre": np.zeros(D, dtype), "metric": np.ones(D, dtype), "products": products}
    return {
        "targets": TARGETS,
        "batches": BATCHES,
        "rule": RULE,
        "averaging": AVERAGING,
        "coef": np.zeros(D, dtype),
        "intercept": 0.0,
        "average": np.zeros(D),
        "average_intercept": 0.0,
        "average_weight": 0.0,
        "received": np.zeros(D),
        "charged": 0.0,
        "unit": 1,
        "following": np.empty(N, np.intp),
        "preconditioner": Struct(kernels.Preconditioner, fields) if precondition else None,
    }


def softmax_epoch(dtype):
    return {
        "targets": CLASSES,
        "batches": BATCHES,
        "rule": RULE,
        "averaging": AVERAGING,
        "coef": np.zeros(K * D, dtype),
        "intercept": np.zeros(K),
        "average": np.zeros(K * D),
        "average_intercept": np.zeros(K),
        "average_weight": 0.0,
        "unit": 1,
        "sketch_bytes": 64,
        "following": np.empty(N, np.intp),
        "threads": 2,
        "preconditioner": Struct(
            kernels.Preconditioner,
            {"centre": np.zeros(D, dtype), "metric": np.ones(D, dtype), "products": NONE},
        ),
    }


def corrected_epoch(dtype):
    return {
        "targets": TARGETS,
        "batches": BATCHES,
        "rule": RULE,
        "coef": np.zeros(D, dtype),
        "intercept": 0.0,
        "slopes": np.zeros(N),
        "mean": np.zeros(D + 1, dtype),
        "keeps": True,
        "members": np.arange(D),
        "starts": np.array([0, 2, 4]),
        "owner": np.array([0, 0, 1, 1, 2]),
        "multiples": np.empty(N),
    }


def dual_epoch(dtype):
    return {
        "targets": TARGETS,
        "order": np.arange(N),
        "squares": np.ones(N),
        "loss": 1,
        "share": 0.1,
        "watch": True,
        "gone": 0.0,
        "gone_at_least": 0.0,
        "coef": np.zeros(D, dtype),
        "duals": np.zeros(N),
        "signed_margins": np.zeros(N),
        "limits": np.zeros(N),
    }


def solve_buckets(dtype):
    return {
        "scale": np.ones(N, dtype),
        "codes": np.arange(N) % K,
        "share": 1.0,
        "constant": 1.0,
        "order": np.arange(N),
        "partners": np.arange(N)[::-1].copy(),
        "starts": np.array([0, 6, N]),
        "partner": np.empty(N, np.intp),
    }


def evaluate(_dtype):
    columns = {name: np.empty(N) for name in ("slopes", "curvatures", "predictions")}
    return {
        "targets": TARGETS,
        "loss": 0,
        "epsilon": 0.1,
        "coef": np.zeros(D),
        "intercept": 0.0,
        **columns,
        "gradient": np.empty(D),
        "threads": 2,
    }


def visit_after_step(_dtype):
    return {
        "targets": TARGETS,
        "loss": 0,
        "epsilon": 0.1,
        "coef": np.zeros(D),
        "intercept": 0.0,
        "before": np.zeros(N),
        "after": np.empty(N),
        "sums": np.empty((2, D)),
        "threads": 2,
    }


def losses_at(dtype):
    return {
        "targets": TARGETS,
        "loss": 0,
        "epsilon": 0.1,
        "coef": np.zeros(D, dtype),
        "intercept": 0.0,
        "other": np.zeros(D, dtype),
        "other_intercept": 0.0,
    }


def table_problem():
    return {
        "table": np.random.default_rng(0).normal(size=(N, D)),
        "targets": TARGETS,
        "loss": 0,
        "epsilon": 0.1,
        "offset": np.zeros(N),
        "ridge": np.full(D, 0.01),
    }


METHODS = {
    "sgd_epoch": lambda dtype, index: sgd_epoch(dtype, index, precondition=False),
    "sgd_epoch centred": lambda dtype, index: sgd_epoch(dtype, index, precondition=True),
    "softmax_epoch": lambda dtype, _: softmax_epoch(dtype),
    "corrected_epoch": lambda dtype, _: corrected_epoch(dtype),
    "dual_epoch": lambda dtype, _: dual_epoch(dtype),
    "balance": lambda _dtype, _: {
        "order": np.arange(N),
        "multiples": np.ones(N),
        "fit_intercept": True,
        "unit": 2,
        "following": np.empty(N, np.intp),
    },
    "losses_at": lambda dtype, _: losses_at(dtype),
    "evaluate": lambda dtype, _: evaluate(dtype),
    "visit_after_step": lambda dtype, _: visit_after_step(dtype),
    "reach": lambda *_: {"centre": np.zeros(D), "scale": np.ones(D), "out": np.empty(N)},
    "combine": lambda *_: {"factors": np.ones(N), "total": np.empty(D), "threads": 2},
    "gram_product": lambda *_: {
        "weight": np.ones(N),
        "vector": np.ones(D),
        "constant": 1.0,
        "total": np.empty(D),
        "threads": 2,
    },
    "weighted_squares": lambda *_: {"weight": np.ones(N), "total": np.zeros(D)},
    "column_sums": lambda *_: {
        "weight": np.ones(N),
        "shift": np.zeros(D),
        "total": np.zeros(D),
        "square": np.zeros(D),
        "least": np.full(D, np.inf),
        "greatest": np.full(D, -np.inf),
    },
    "weigh_rows": lambda *_: {
        "roots": np.ones(N),
        "centre": np.zeros(D),
        "start": 2,
        "table": np.empty((4, D + 1)),
        "threads": 2,
    },
    "gram": lambda *_: {"weight": np.ones(N), "gram": np.zeros((D, D))},
    "squares": lambda *_: {
        "y": np.ones(N),
        "weight": np.ones(N),
        "centre": np.zeros(D),
        "target_centre": 0.5,
        "has_intercept": True,
        "is_single": False,
        "products": np.zeros((D + 2, D + 2)),
        "threads": 2,
    },
    "squares without targets": lambda *_: {
        "y": NONE,
        "weight": np.ones(N),
        "centre": np.zeros(D),
        "target_centre": 0.0,
        "has_intercept": False,
        "is_single": True,
        "products": np.zeros((D, D)),
        "threads": 1,
    },
    "solve_buckets": lambda dtype, _: solve_buckets(dtype),
}


def scores(**more):
    columns = {"labels": np.arange(N) % K, "weight": np.ones(N)}
    return {"scores": np.zeros((N, K)), **columns, **more}


def score_change(**more):
    columns = {"labels": np.arange(N) % K, "weight": np.ones(N)}
    return {"before": np.zeros((N, K)), "after": np.ones((N, K)), **columns, **more}


def losses_of(name):
    return {"loss": 0, "epsilon": 0.1, "y": np.ones(N), "p": np.zeros(N), name: np.ones(N)}


def predictions(**more):
    return {"targets": TARGETS, "loss": 0, "epsilon": 0.1, "predictions": np.zeros(N), **more}


FUNCTIONS = {
    "values": lambda: losses_of("out"),
    "slopes": lambda: losses_of("out"),
    "curvatures": lambda: losses_of("out"),
    "conjugates": lambda: losses_of("out"),
    "sum_of_losses": lambda: losses_of("weight"),
    "bend_predictions": lambda: predictions(slopes=np.empty(N), curvatures=np.empty(N)),
    "loss_along": lambda: predictions(after=np.ones(N), step=0.5),
    "dual_cost": lambda: predictions(after=np.ones(N), restoration=RESTORATION, slopes=np.empty(N)),
    "newton_on_table": lambda: (
        table_problem()
        | {
            "steps": 3,
            "enough": 1e-4,
            "least_ridge": 1e-10,
            "point": np.zeros(D),
            "hessian": np.zeros((D, D)),
        }
    ),
    "columns_rise": lambda: {
        "indices": np.arange(N, dtype=np.int32),
        "indptr": np.array([0, 3, N], dtype=np.int32),
    },
    "two_values": lambda: {"y": np.resize([1.0, -1.0], N)},
    "are_finite": lambda: {"numbers": np.ones(N)},
    "minimise_products": lambda: {
        "products": np.diag(np.arange(1.0, D + 2.0)) + 0.1,
        "l2": 0.1,
        "has_intercept": True,
        "rounding": 1e-14,
        "point": np.zeros(D),
    },
    "along_axes": lambda: {
        "matrix": np.diag(np.arange(1.0, D + 1.0)) + 0.1,
        "values": np.zeros(D),
        "components": np.ones(D),
    },
    "descend": lambda: {
        "hessian": np.eye(D),
        "l1": np.ones(D),
        "start": np.zeros(D),
        "slopes": np.ones(D),
        "step": np.zeros(D),
        "enough": 1e-3,
        "most_sweeps": 5,
    },
    "softmax_slopes": lambda: scores(sums=np.zeros(K)),
    "softmax_chances": lambda: {"scores": np.zeros((N, K)), "curvatures": np.zeros((N, K))},
    "softmax_step": lambda: score_change(both=np.empty((N, 2 * K)), sums=np.zeros(2 * K)),
    "softmax_along": lambda: score_change(step=0.5),
    "softmax_step_cost": lambda: score_change(kept=np.ones(K), given=np.zeros(K), share=1.0),
    "dual_step": lambda: {"loss": 0, "y": 1.0, "weight": 1.0, "a": 0.5, "p": 0.0, "q": 1.0},
    "rest_limits": lambda: {
        "loss": 1,
        "targets": TARGETS,
        "squares": np.ones(N),
        "duals": np.zeros(N),
        "predictions": np.zeros(N),
        "margins": np.empty(N),
        "limits": np.empty(N),
    },
    "draw_order": lambda: {"order": np.arange(N), "seed": np.arange(4, dtype=np.uint64)},
    "draw_by_hash": lambda: {"share": np.full(N, 0.1), "size": 5.0, "seed": 3, "first": 7},
    "invert": lambda: {
        "sums": np.arange(1, N + 1) / N,
        "numbers": np.linspace(0.0, 0.9, N),
        "drawn": np.empty(N, np.intp),
    },
    "balance_observed": lambda: {
        "rows": np.arange(4),
        "vectors": np.ones((4, D), np.float32),
        "slopes": np.ones((4, K), np.float32),
        "placed": np.zeros(N, bool),
        "following": np.empty(N, np.intp),
        "marks": np.array([0, N, -1]),
        "signed_sum": np.zeros(K * D),
        "held": np.zeros(K * D),
    },
    "offer": lambda: {
        "products": np.ones((4, N)),
        "first": 0,
        "values": np.full((4, K), np.inf),
        "positions": np.full((4, K), -1),
    },
    "offer_panels": lambda: {
        "rows": np.ones((4, D), np.float32),
        "panels": np.ones((2 * D, 32), np.float32),
        "values": np.full((4, K), np.inf, np.float32),
        "positions": np.full((4, K), -1),
    },
    "sharpen": lambda: {
        "rows": np.ones((4, D)),
        "vectors": np.ones((N, D)),
        "rounded": np.full((4, K), np.inf, np.float32),
        "slack": np.zeros(4),
        "scale": 1.0,
        "positions": np.zeros((4, K), np.intp),
    },
    "choose": lambda: {"positions": np.arange(N).reshape(4, 3), "n_free": N},
    "choose_pairs": lambda: {"positions": np.arange(N).reshape(4, 3), "n_free": N},
    "alternate_links": lambda: {"partner": np.roll(np.arange(N), 1), "products": np.zeros(N)},
    "skip_missing": lambda: {
        "partner": np.roll(np.arange(N), 1),
        "kept": np.arange(0, N, 2),
        "place": np.where(np.arange(N) % 2 == 0, np.arange(N) // 2, -1),
    },
    "buckets": lambda: {
        "points": np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32),
        "low": 0,
        "high": N,
        "leaf": 4,
        "rows": np.arange(N),
        "others": np.arange(N),
    },
    "assign": lambda: {"cost": np.eye(D)},
}


def wrong_arrays(value):
    """Arrays like a given one, of other types, shapes and contents, of which most do not fit."""
    with np.errstate(all="ignore"):
        yield value.astype(np.float32 if value.dtype != np.float32 else np.float64)
        yield value.astype(np.int8)
    yield value[..., None]
    yield np.repeat(value, 2, axis=0)[::2]
    yield np.concatenate([value, value[:1] if len(value) else np.zeros(1, value.dtype)])
    yield value[:-1].copy()
    yield value[:0].copy()
    if value.ndim == 2:
        yield value[:, :-1].copy()
        yield value[:, :0].copy()
        yield np.asfortranarray(value)
    if value.dtype.kind == "i":
        bounds = np.iinfo(value.dtype)
        for far in (-1, N, bounds.max // 2, bounds.min, bounds.max):
            for place in range(0 if value.size == 0 else 2):
                changed = value.copy()
                changed.flat[-place] = far
                yield changed
    if value.dtype.kind == "f" and value.size:
        for odd in (np.nan, np.inf, -np.inf, 1e300):
            with np.errstate(over="ignore"):
                yield np.full_like(value, odd)
    yield value.tolist()
    yield None


def wrong_values(value):
    if isinstance(value, np.ndarray):
        yield from wrong_arrays(value)
    elif isinstance(value, Struct):
        for fields in wrongs(value.fields):
            yield Struct(value.kind, fields)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from EXTREME
    elif isinstance(value, float):
        yield from (np.nan, np.inf, -np.inf, -1.0, 0.0)


def wrongs(given):
    """Arguments of which one is wrong."""
    for name, value in given.items():
        for wrong in wrong_values(value):
            yield {**given, name: wrong}


def own(value):
    """A copy that a kernel may write to, with structs made of their fields."""
    if isinstance(value, Struct):
        return value.kind(**{name: own(field) for name, field in value.fields.items()})
    return value.copy() if isinstance(value, np.ndarray) else value


def call(function, given):
    return function(**{name: own(value) for name, value in given.items()})


def survives(function, given):
    for wrong in wrongs(given):
        try:
            call(function, wrong)
        except HARMLESS:
            continue


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_method_survives_every_wrong_argument(kind, name):
    """A wrong argument is an error of ours, or harmless; never a crash."""
    given = METHODS[name](*kind)
    called = name.split()[0]
    method, is_dense = getattr(make_rows(*kind), called), kind[1] is None
    refused = {("gram", True): "dense", ("squares", False): "sparse"}.get((called, is_dense))
    if refused is not None:
        with pytest.raises(ValueError, match=refused):
            call(method, given)
    else:
        call(method, given)
    survives(method, given)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_survives_every_wrong_argument(name):
    """A wrong argument is an error of ours, or harmless; never a crash."""
    call(getattr(kernels, name), FUNCTIONS[name]())
    survives(getattr(kernels, name), FUNCTIONS[name]())


@pytest.mark.parametrize("name", ["dense", "csr"])
def test_rows_survive_every_wrong_array(name):
    """Rows that are made of a wrong array are refused, or harmless when they are used."""
    S = sparse.csr_array(np.random.default_rng(0).normal(size=(N, D)))
    given = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "d": D}
    given = {"X": S.toarray()} if name == "dense" else given
    for wrong in wrongs(given):
        try:
            rows = getattr(kernels.Rows, name)(**wrong)
            n, d = rows.shape
            if d < 10**6:
                rows.weighted_squares(np.ones(n), np.zeros(d))
        except HARMLESS:
            continue


def test_every_binding_is_among_these_and_in_the_stub():
    """Every binding is fuzzed here and has types in the stub."""
    public = {name for name in dir(kernels) if not name.startswith("_")}
    bound = {name for name in public if "nb_" in type(getattr(kernels, name)).__name__}
    structs = {"Rows", "Targets", "ClassTargets", "Batches", "StepRule", "Averaging"}
    assert bound == {*FUNCTIONS, *structs, "Preconditioner", "Restoration"}
    methods = {name for name in vars(kernels.Rows) if not name.startswith("_")}
    assert methods == {*(name.split()[0] for name in METHODS), "dense", "csr", "shape"}
    stub = Path(inspect.getfile(kernels)).with_suffix(".pyi").read_text(encoding="utf-8")
    said = set(re.findall(r"^(?:def|class) (\w+)|^(\w+):", stub, re.MULTILINE))
    assert {a or b for a, b in said} == bound | {"isa", "available"}
    assert set(re.findall(r"^    def ([a-z]\w+)", stub, re.MULTILINE)) == methods
