"""Say which fits give other results than those recorded, so that moving code changes no bit.

Some sixty fits (estimators, losses, solvers, orders, penalties; dense and sparse rows, float32 and
float64) and twenty sequences (partial fits, resumed and interrupted runs, warm starts, clones,
pickles, callbacks, routed metadata) run with one thread, one instruction set and one kind of BLAS
kernels, so that any x86-64 machine with AVX2 repeats their bits. ``same_results.json`` beside this
file holds, for each, a hash of all weights and tables, iterations, objectives, gaps and seconds.

Run ``python benchmarks/same_results.py`` after a change that should alter nothing; the exit status
is 1 if a bit differs. ``--about`` accepts objectives that agree to 1e-10 and iterations within 1,
for changes of arithmetic; ``--record`` writes the results of this code, ``--seconds`` also compares
times, and words choose cases by parts of their names.
"""

from __future__ import annotations

import os
import sys

FIXED = {
    "ANTITHETIC_ISA": "v2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",  # names of NumPy 2.4
    "PYTHONWARNINGS": "ignore",
    "PYTHONHASHSEED": "0",
}
if any(os.environ.get(name) != value for name, value in FIXED.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **FIXED})

import argparse  # noqa: E402 - after the environment is fixed
import hashlib  # noqa: E402
import json  # noqa: E402
import pickle  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import sklearn  # noqa: E402
from scipy import sparse  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402

from antithetic import (  # noqa: E402
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
    minimize,
    pair,
    solve,
)
from antithetic.losses import Quantile, Tweedie  # noqa: E402
from antithetic.orders import (  # noqa: E402
    Balanced,
    Importance,
    Pairs,
    Shuffle,
    Stratified,
    Uniform,
)
from antithetic.penalties import GroupLasso  # noqa: E402
from antithetic.steps import InverseTime  # noqa: E402
from antithetic.stopping import Target  # noqa: E402

RECORDED = Path(__file__).with_name("same_results.json")
CLOSE = 1e-10
SLOWER = 1.5


# ---- data


def rows(n, d, seed=0, classes=2):
    """Correlated columns of unequal sizes, and labels that depend on them with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))
    score = X @ rng.normal(size=(d, classes)) / np.sqrt(d) + rng.gumbel(size=(n, classes))
    return X * np.geomspace(0.1, 3.0, d) + 0.3, np.argmax(score, axis=1)


def words(n, d, stored=12, seed=0):
    """Sparse counts in two classes."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=stored / d, random_state=rng, format="csr")
    return X, (np.asarray(X @ rng.normal(size=d)) + 0.1 * rng.normal(size=n) > 0).astype(int)


MANY, FEW, CLASSES = rows(6000, 25), rows(300, 8), rows(2500, 12, classes=4)
TEXT, LONG = words(400, 3000), words(5000, 200)
NUMBERS = (MANY[0][:3000], MANY[0][:3000] @ np.linspace(-1.0, 1.0, 25) + np.sin(np.arange(3000)))
COUNTS = (FEW[0], np.random.default_rng(1).poisson(np.exp(0.2 * FEW[0][:, 0])).astype(float))


def single(data):
    return data[0].astype(np.float32), data[1]


def thin(data):
    return sparse.csr_array(np.where(np.abs(data[0]) > 1.0, data[0], 0.0)), data[1]


def weight(data):
    return np.random.default_rng(2).integers(0, 4, data[0].shape[0]).astype(float)


# ---- cases

LR, CV, SGD, REG = LogisticRegression, LogisticRegressionCV, SGDClassifier, SGDRegressor


def fitted(kind, data, weighted=False, **given):
    """A case that fits an estimator."""
    random = {"random_state": 0} if kind in (LR, SGD, REG) else {}
    if kind in (LR, CV):
        given.setdefault("n_jobs", 1)

    def run():
        known = {"sample_weight": weight(data)} if weighted else {}
        return kind(**random, **given).fit(*data, **known)

    return run


def minimised(data, **given):
    """A case that calls `minimize`."""
    return lambda: minimize(*data, **{"epochs": 4, "trace": "objective", "seed": 0, **given})


CASES = {
    **{f"LR many C={C}": fitted(LR, MANY, C=C) for C in (0.01, 1.0, 100.0, np.inf)},
    "LR many tol=1e-10": fitted(LR, MANY, tol=1e-10),
    "LR many float32": fitted(LR, single(MANY)),
    "LR many csr": fitted(LR, thin(MANY)),
    "LR many weights": fitted(LR, MANY, weighted=True),
    "LR many balanced, no intercept": fitted(
        LR, MANY, class_weight="balanced", fit_intercept=False
    ),
    "LR many l1": fitted(LR, MANY, l1_ratio=1.0, C=0.1),
    "LR many elastic net csr": fitted(LR, thin(MANY), l1_ratio=0.5, C=0.1),
    "LR few": fitted(LR, FEW),
    "LR few C=inf": fitted(LR, FEW, C=np.inf),
    "LR few float32 csr": fitted(LR, single(thin(FEW))),
    "LR text": fitted(LR, TEXT, fit_intercept=False),
    "LR text intercept": fitted(LR, TEXT, C=10.0),
    "LR text l1": fitted(LR, TEXT, l1_ratio=1.0),
    "LR long csr": fitted(LR, LONG),
    "LR classes": fitted(LR, CLASSES),
    "LR classes C=100": fitted(LR, CLASSES, C=100.0, tol=1e-8),
    "LR classes C=inf": fitted(LR, CLASSES, C=np.inf),
    "LR classes csr float32": fitted(LR, single(thin(CLASSES))),
    "LR classes l1 weights": fitted(LR, CLASSES, weighted=True, l1_ratio=1.0, C=0.1),
    "CV two": fitted(CV, (MANY[0][:2000], MANY[1][:2000]), Cs=4, cv=3),
    "CV few": fitted(CV, FEW, Cs=4, cv=3),
    "CV classes": fitted(CV, CLASSES, Cs=3, cv=3),
    "CV elastic net": fitted(CV, FEW, Cs=3, cv=3, l1_ratios=(0.0, 0.7)),
    **{f"SGD {loss}": fitted(SGD, MANY, loss=loss) for loss in ("hinge", "log_loss")},
    **{
        f"SGD {loss} csr": fitted(SGD, thin(MANY), loss=loss, max_iter=10, tol=None)
        for loss in ("hinge", "squared_hinge", "modified_huber", "perceptron")
    },
    "SGD float32": fitted(SGD, single(MANY), loss="log_loss"),
    "SGD few": fitted(SGD, FEW),
    "SGD text": fitted(SGD, TEXT, loss="log_loss"),
    "SGD classes": fitted(SGD, CLASSES, loss="log_loss"),
    "SGD softmax": fitted(SGD, CLASSES, loss="softmax"),
    "SGD softmax csr": fitted(SGD, thin(CLASSES), loss="softmax", average=True),
    "SGD l1": fitted(SGD, MANY, penalty="l1", alpha=1e-3, loss="log_loss"),
    "SGD elastic net csr": fitted(SGD, LONG, penalty="elasticnet", alpha=1e-4),
    "SGD optimal average": fitted(SGD, MANY, learning_rate="optimal", average=10),
    "SGD pa1": fitted(SGD, FEW, learning_rate="pa1", eta0=0.1),
    "SGD early stopping": fitted(SGD, MANY, early_stopping=True),
    "SGD weights": fitted(SGD, MANY, weighted=True, class_weight="balanced"),
    "SGD tree pairs": fitted(
        SGD, FEW, loss="log_loss", order=Shuffle(pairs=Pairs("tree")), max_iter=20, tol=None
    ),
    "SGD svrg": fitted(SGD, FEW, loss="log_loss", solver="svrg"),
    "SGD saga csr": fitted(SGD, thin(FEW), loss="log_loss", solver="saga"),
    "SGD sdca": fitted(SGD, FEW, solver="sdca", fit_intercept=False),
    "REG squared": fitted(REG, NUMBERS),
    "REG huber csr": fitted(REG, thin(NUMBERS), loss="huber"),
    "REG insensitive": fitted(REG, NUMBERS, loss="epsilon_insensitive"),
    "REG quantile": fitted(REG, NUMBERS, loss=Quantile(0.8)),
    "REG poisson": fitted(REG, COUNTS, loss="poisson"),
    "REG tweedie": fitted(REG, COUNTS, loss=Tweedie(1.5)),
    "Ridge": fitted(Ridge, NUMBERS),
    "Ridge csr float32 weights": fitted(Ridge, single(thin(NUMBERS)), weighted=True),
    "Poisson": fitted(PoissonRegressor, COUNTS, alpha=1e-3),
    "gamma": fitted(GammaRegressor, (COUNTS[0], COUNTS[1] + 0.5)),
    "Tweedie weights": fitted(TweedieRegressor, COUNTS, weighted=True, power=1.5),
    "solve huber": lambda: solve(*NUMBERS, loss="huber", l2=1e-4),
    "solve l1": lambda: solve(*NUMBERS, loss="squared_error", l1=0.05),
    "solve squared hinge csr": lambda: solve(*thin(MANY), loss="squared_hinge", l2=1e-3),
    "minimize paper": minimised(
        FEW, order=Uniform(pairs="greedy"), steps=InverseTime(0.1), batch_size=2, l2=1e-2
    ),
    "minimize odd batches": minimised(
        FEW, order=Shuffle(pairs="greedy"), steps=0.01, batch_size=5, l2=1e-2
    ),
    "minimize balanced": minimised(FEW, order=Balanced(), l2=1e-2, loss="hinge"),
    "minimize importance": minimised(
        FEW, order=Importance("gradients", pairs="tree"), l2=1e-2, batch_size=4
    ),
    "minimize strata": minimised(thin(FEW), order=Stratified(4), l2=1e-2, batch_size=8),
    "minimize nested": minimised(FEW, order=Shuffle(pairs=Pairs(nest=4)), l2=1e-2, batch_size=8),
    "minimize refreshed": minimised(
        FEW, order=Balanced(pairs=Pairs("greedy", refresh=2)), l2=1e-2, epochs=6
    ),
    "minimize every step": minimised(
        FEW, order=Uniform(pairs=Pairs("greedy", refresh="step")), l2=1e-2, epochs=1
    ),
    "minimize svrg pairs": minimised(
        FEW, order=Uniform(pairs="greedy"), solver="svrg", l2=1e-2, l1=1e-3
    ),
    "minimize saga": minimised(thin(FEW), order="shuffle", solver="saga", l2=1e-2),
    "minimize sdca": minimised(FEW, solver="sdca", l2=1e-2, loss="hinge"),
    "minimize groups": minimised(
        FEW, penalty=GroupLasso([[0, 1], [2, 3, 4]]), l1=0.01, fit_intercept=True
    ),
    "minimize target": minimised(
        FEW, order="shuffle", solver="svrg", l2=1e-2, stop=Target("gradient", 1e-6), epochs=50
    ),
    **{f"pair {way}": lambda way=way: pair(*FEW, way) for way in ("greedy", "tree", "optimal")},
    "pair many": lambda: pair(*MANY),
    "pair groups": lambda: pair(*FEW, nest=4),
}


# ---- sequences


def partly(kind, data, **given):
    """Chunks, then a whole fit, then a chunk."""
    model = kind(random_state=0, **given)
    X, y = data
    first = {"classes": np.unique(y)} if kind is SGD else {}
    model.partial_fit(X[:100], y[:100], **first)
    states = [keep(model.partial_fit(X[100:250], y[100:250]))]
    states.append(keep(model.fit(X, y)))
    return [*states, keep(model.partial_fit(X[:50], y[:50]))]


def warm(kind, data, first, then, **given):
    """A fit, and a second one that begins where it ended, with other parameters."""
    model = kind(random_state=0, warm_start=True, **given, **first)
    before = keep(model.fit(*data))
    return [before, keep(model.set_params(**then).fit(*data))]


def resumed(**given):
    """Ten epochs at once, and three, two and five."""
    whole = minimised(FEW, epochs=10, l2=1e-2, **given)()
    result = minimised(FEW, epochs=3, l2=1e-2, **given)()
    for epochs in (2, 5):
        result = minimised(FEW, epochs=epochs, l2=1e-2, resume=result, **given)()
    return [keep(whole), keep(result)]


class _Stop:
    """A callback that presses Ctrl-C after three epochs or iterations."""

    max_propagation_depth = None

    def __init__(self):
        self.left = 3

    def setup(self, *_, **__):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, *_, **__):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def interrupted(model, data):
    """Ctrl-C, the state that it leaves, and a whole fit after that."""
    model.set_callbacks(_Stop())
    try:
        model.fit(*data)
    except KeyboardInterrupt:
        return [keep(model), keep(clone(model).set_callbacks().fit(*data))]
    raise AssertionError("the fit ended before it was interrupted")


def copied(model, data):
    """A clone and a pickle of a fitted model."""
    model.fit(*data)
    again = pickle.loads(pickle.dumps(model))
    return [
        keep(clone(model).fit(*data)),
        keep(again),
        {"same": np.asarray(again.predict(data[0]))},
    ]


def wide():
    """Very wide sparse rows: a fit, a chunk with other columns, sparsified weights."""
    X, y = words(300, 1 << 20, seed=3)
    model = SGD(random_state=0, loss="log_loss").fit(X, y)
    states = [keep(model)]
    states.append(keep(model.partial_fit(words(50, 1 << 20, seed=4)[0], y[:50])))
    return [*states, keep(model.sparsify())]


def routed():
    """Sample weights that a grid search passes on."""
    with sklearn.config_context(enable_metadata_routing=True):
        model = SGD(random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"alpha": [1e-4, 1e-2]}, cv=3)
        search.fit(*FEW, sample_weight=weight(FEW))
    return [keep(search.best_estimator_), {"scores": search.cv_results_["mean_test_score"]}]


SEQUENCES = {
    "chunks SGD": lambda: partly(SGD, FEW),
    "chunks SGD classes average": lambda: partly(SGD, CLASSES, average=True, loss="log_loss"),
    "chunks SGD softmax": lambda: partly(SGD, CLASSES, loss="softmax"),
    "chunks SGD csr l1": lambda: partly(SGD, thin(FEW), penalty="l1"),
    "chunks REG": lambda: partly(REG, NUMBERS),
    "chunks REG optimal": lambda: partly(REG, NUMBERS, learning_rate="invscaling"),
    "warm SGD": lambda: warm(SGD, FEW, {"alpha": 1e-3}, {"alpha": 1e-4}),
    "warm SGD classes": lambda: warm(SGD, CLASSES, {"alpha": 1e-3}, {"loss": "log_loss"}),
    "warm LR": lambda: warm(LR, MANY, {"C": 1.0}, {"C": 10.0}, n_jobs=1),
    "warm LR classes": lambda: warm(LR, CLASSES, {"C": 1.0}, {"C": 0.1}, n_jobs=1),
    "warm LR few": lambda: warm(LR, FEW, {"C": 1.0}, {"C": 2.0}, n_jobs=1),
    "resume shuffled pairs": lambda: resumed(order=Shuffle(pairs="greedy"), steps=0.01),
    "resume balanced": lambda: resumed(order=Balanced(), average=True),
    "resume saga": lambda: resumed(order="uniform", solver="saga"),
    "resume refreshed": lambda: resumed(
        order=Balanced(pairs=Pairs("greedy", refresh="auto")), steps=0.01
    ),
    "Ctrl-C SGD": lambda: interrupted(SGD(random_state=0, max_iter=8, tol=None), MANY),
    "Ctrl-C LR": lambda: interrupted(LR(random_state=0, n_jobs=1, tol=1e-10), MANY),
    "copies SGD": lambda: copied(SGD(random_state=0, order=Balanced()), FEW),
    "copies LR": lambda: copied(LR(random_state=0, n_jobs=1), CLASSES),
    "wide rows": wide,
    "routed weights": routed,
}


# ---- results


def keep(result):
    """What a user can see of a result, by name."""
    found = {}
    for name in ("coef", "intercept", "partner", "groups", "rest", "t", "n_iter", "gap", "C"):
        for spelt in (name, f"{name}_"):
            value = getattr(result, spelt, None)
            if spelt == "gap" and np.isnan(value if value is not None else 0.0):
                continue  # minimize does not know it
            if value is not None and not callable(value):
                found[name] = value.toarray() if sparse.issparse(value) else np.asarray(value)
    history = getattr(result, "history_", getattr(result, "trace", None))
    for number, one in enumerate(history if isinstance(history, list) else [history or {}]):
        for name, value in one.items():
            if name in ("objective", "gap"):
                found[f"{name} {number}"] = np.asarray(value)
    return found


def summary(states, seconds):
    """Hash and figures of the states of a case."""
    digest = hashlib.sha256()
    for state in states:
        for name, value in sorted(state.items()):
            digest.update(f"{name}".encode())
            digest.update(
                np.ascontiguousarray(value).tobytes()
                if isinstance(value, np.ndarray)
                else str(value).encode()
            )
    last = states[-1]
    figures = {
        name: [float(one) for one in np.ravel(last[name])[-4:]]
        for name in last
        if name in ("n_iter", "gap") or name.startswith("objective")
    }
    size = float(sum(np.abs(state["coef"]).sum() for state in states if "coef" in state))
    return {"hash": digest.hexdigest()[:16], "size": size, **figures, "seconds": round(seconds, 4)}


def measured(name):
    """Run a case."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = SEQUENCES[name]() if name in SEQUENCES else [keep(CASES[name]())]
    return summary(states, time.perf_counter() - began)


def differs(now, then, *, about):
    """Say what differs; nothing if results are the same."""
    if now["hash"] == then["hash"]:
        return ""
    changed = [
        f"{key} {then.get(key)} -> {now.get(key)}"
        for key in now
        if key not in ("hash", "seconds") and now[key] != then.get(key)
    ]
    if about and all(
        np.allclose(now[key], then[key], rtol=CLOSE, atol=0.0)
        if key.startswith("objective")
        else key != "n_iter" or np.abs(np.subtract(now[key], then[key])).max() <= 1
        for key in now
        if key in then
    ):
        return ""
    return "; ".join(changed) or "bits of weights or tables"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="parts of the names of cases")
    parser.add_argument("--record", action="store_true", help="write what this code gives")
    parser.add_argument("--about", action="store_true", help="accept differences of rounding")
    parser.add_argument("--seconds", action="store_true", help="name cases that became slower")
    given = parser.parse_args()
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    chosen = [
        name
        for name in (*CASES, *SEQUENCES)
        if not given.parts or any(part in name for part in given.parts)
    ]
    found, changed = {}, 0
    for name in chosen:
        found[name] = measured(name)
        then = known.get(name)
        what = "not recorded" if then is None else differs(found[name], then, about=given.about)
        if given.seconds and then and found[name]["seconds"] > SLOWER * then["seconds"] + 0.01:
            what += f" slower: {then['seconds']} -> {found[name]['seconds']} s"
        if what:
            changed += 1
            print(f"{name}: {what}", flush=True)
    print(f"{len(chosen) - changed} of {len(chosen)} as recorded")
    if given.record:
        kept = {
            name: (known | found)[name] for name in (*CASES, *SEQUENCES) if name in known | found
        }
        RECORDED.write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
