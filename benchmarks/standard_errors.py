"""Part of proof.py: standard errors of `antithetic.inference.summary` against statsmodels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure, load
from scipy import sparse
from sklearn.datasets import load_diabetes

from antithetic import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge
from antithetic.inference import summary

CLASSES = (
    "breast-cancer",
    "diabetes",
    "fourclass",
    "splice",
    "splice.t",
    "ijcnn1.tr",
    "cod-rna_scale",
    "skin_nonskin",
)
MOST = 1e-6
_Task = tuple[str, Any, np.ndarray, np.ndarray]


def tasks(quick: bool) -> Iterator[_Task]:
    """Yield names, models without a penalty, rows and targets: eight sets of two classes first."""
    for name in CLASSES[: 2 if quick else None]:
        found = load(name)
        if found is None:
            continue
        X, y = found
        X = X.toarray() if sparse.issparse(X) else X
        yield f"Logit, {name}", LogisticRegression(C=np.inf), X, (y > y.min()).astype(int)
    X, _ = load("diabetes")  # pregnancies, glucose, ..., age
    ages = np.searchsorted([25.0, 35.0], X[:, 7])
    yield "MNLogit, age in diabetes", LogisticRegression(C=np.inf), X[:, :7], ages
    yield "Poisson, pregnancies in diabetes", PoissonRegressor(alpha=0.0), X[:, 1:], X[:, 0]
    X, y = load_diabetes(return_X_y=True, scaled=False)
    yield "gamma, progression of diabetes", GammaRegressor(alpha=0.0), X, y
    yield "OLS, progression of diabetes", Ridge(alpha=0.0), X, y


def reference(name: str, X: np.ndarray, y: np.ndarray) -> Callable[..., Any]:
    """Return what fits the same model by statsmodels, to the last digits."""
    import statsmodels.api as sm

    rows = sm.add_constant(X)
    if name.startswith("OLS"):
        return sm.OLS(y, rows).fit
    if name.startswith("gamma"):
        family = sm.families.Gamma(sm.families.links.Log())
        model = sm.GLM(y, rows, family=family)
        return lambda **given: model.fit(tol=1e-14, maxiter=200, **given)
    kind = {"L": sm.Logit, "M": sm.MNLogit, "P": sm.Poisson}[name[0]]
    model = kind(y, rows)
    return lambda **given: model.fit(method="newton", tol=1e-14, maxiter=200, disp=0, **given)


def standard_errors(quick: bool) -> Iterator[Figure]:
    """Standard errors: largest relative difference from those of statsmodels."""
    for name, model, X, y in tasks(quick):
        groups, kinds = np.arange(len(y)) % 50, {"classical": {}, "HC0": {"cov_type": "HC0"}}
        if name.startswith("OLS"):
            kinds["HC1"] = {"cov_type": "HC1"}
        kinds["clustered"] = {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
        model.fit(X, y)
        dropped = [int(column[1:]) for column in summary(model, X, y).dropped]
        fit, worst = reference(name, np.delete(X, dropped, axis=1), y), 0.0
        for kind, given in kinds.items():
            clusters = groups if kind == "clustered" else None
            ours = summary(model, X, y, covariance=kind, groups=clusters).std_err
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = np.asarray(fit(**given).bse).T.ravel()
            worst = max(worst, float(np.abs(ours / theirs - 1.0).max()))
        without = f", {len(dropped)} dropped" if dropped else ""
        remark = f"{len(y)} x {X.shape[1]}{without}; {', '.join(kinds)}"
        yield Figure(name, worst, most=MOST, remark=remark)
