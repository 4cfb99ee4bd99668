"""Fit logistic regressions on unscaled columns, and print how near each is to the optimum.

scikit-learn's class and ours have their defaults.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as ScikitLearns

import antithetic
from antithetic import LogisticRegression, LogisticRegressionCV

NAMES = ("sonar_scale", "splice_scale", "diabetes_scale")
SCALES = (1e-3, 1e3)  # of the first and of the last column; the others lie in between


def unscaled(name):
    """Rows of a set with columns of very different scales, far from zero."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    scales = np.geomspace(*SCALES, X.shape[1])
    return (X + 5.0) * scales, y


def objective(model, X, y):
    """Mean logistic loss plus the penalty of C=1."""
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    coef = model.coef_[0]
    return np.logaddexp(0.0, -signs * model.decision_function(X)).mean() + coef @ coef / (
        2.0 * len(y)
    )


def compare(name):
    """Print one line."""
    X, y = unscaled(name)
    ours = LogisticRegression().fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        theirs = ScikitLearns().fit(X, y)
    share = np.mean(y == ours.classes_[1])
    constant = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
    least = objective(ours, X, y)
    left = (objective(theirs, X, y) - least) / (constant - least)
    print(f"{name:<16}{ours.gap_:>12.1e}{left:>14.1e}{len(caught):>10}")


def main():
    print("share of the way from a constant to the optimum still to go\n")
    print(f"{'':<16}{'ours, gap_':>12}{'scikit-learn':>14}{'warnings':>10}")
    for name in NAMES:
        compare(name)
    X, y = unscaled("diabetes_scale")
    search = LogisticRegressionCV(Cs=10, cv=5).fit(X, y)
    print(f"\ndiabetes_scale: the best of {len(search.Cs_)} values of C is {search.C_:.3g}")


if __name__ == "__main__":
    main()
