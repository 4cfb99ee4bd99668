"""scikit-learn's conventions for estimators, checked by scikit-learn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import antithetic
from antithetic import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from antithetic.orders import Balanced

REPEATED = (
    "the objective is the mean over all rows of weight times loss: twice the weight is not one row"
    " more; scikit-learn's classes say so too"
)
ONE_CALL = (
    "a first call of partial_fit refuses early_stopping, as in scikit-learn: it has no rows to hold"
    " back"
)
FEW_OF_A_CLASS = "a class of this check has fewer rows than there are folds, as in scikit-learn"

PARTIAL = ("check_n_features_in_after_fitting", "check_estimators_partial_fit_n_features")

DEFAULTS = [SGDClassifier(), SGDRegressor()]
LOGISTIC = [
    LogisticRegression(),
    LogisticRegression(l1_ratio=0.5),
    LogisticRegressionCV(Cs=3, cv=3),
]
REGRESSIONS = [
    Ridge(),
    PoissonRegressor(),
    GammaRegressor(),
    TweedieRegressor(power=1.5),
    TweedieRegressor(),
]
VARIANTS = [
    SGDClassifier(loss="log_loss", penalty="elasticnet", learning_rate="optimal", average=True),
    SGDRegressor(loss="huber", penalty="elasticnet", average=True),
    # Half of the rows, so that few rows still include each class.
    SGDClassifier(loss="log_loss", early_stopping=True, validation_fraction=0.5),
    SGDRegressor(penalty="l1", early_stopping=True, validation_fraction=0.5),
    SGDClassifier(loss="softmax"),
    SGDClassifier(order=Balanced(pairs="greedy")),
    SGDRegressor(order=Balanced(pairs="greedy")),
]


def expected(estimator):
    """Checks that fail, and why; that they do is strict."""
    failures = dict.fromkeys(
        (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ),
        REPEATED,
    )
    if estimator.early_stopping:
        failures |= dict.fromkeys(PARTIAL, ONE_CALL)
    return failures


def expected_of_logistic(estimator):
    if isinstance(estimator, LogisticRegressionCV):
        return {"check_class_weight_balanced_linear_classifier": FEW_OF_A_CLASS}
    return {}


def run(estimator, check):
    try:
        check(estimator)
    except (
        SkipTest
    ) as reason:  # no other check may be left out; this one has a test of its own below
        if "SCIPY_ARRAY_API" not in str(reason):
            raise


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # a few epochs of noise
@parametrize_with_checks(DEFAULTS, expected_failed_checks=expected)
def test_an_estimator_keeps_the_conventions(estimator, check):
    run(estimator, check)


@parametrize_with_checks(LOGISTIC, expected_failed_checks=expected_of_logistic)
def test_a_logistic_regression_keeps_the_conventions(estimator, check):
    run(estimator, check)


@parametrize_with_checks(REGRESSIONS)
def test_an_exact_regression_keeps_the_conventions(estimator, check):
    run(estimator, check)


# "optimal" begins with steps that are too long for unscaled rows, and some checks allow few epochs:
# to say so is right
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# One of two rows is held back.
@pytest.mark.filterwarnings(
    "ignore:R\\^2 score is not well-defined:sklearn.exceptions.UndefinedMetricWarning"
)
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected)
def test_other_parameters_keep_the_conventions(estimator, check):
    run(estimator, check)


def test_array_api_input_is_checked_with_scipy_array_api():
    """Array API input is checked with SCIPY_ARRAY_API set, which needs another process."""
    code = """
from sklearn.utils.estimator_checks import check_array_api_input
from antithetic import LogisticRegression, Ridge, SGDClassifier, SGDRegressor

for estimator in (LogisticRegression(), Ridge(), SGDClassifier(), SGDRegressor()):
    check_array_api_input(type(estimator).__name__, estimator, "numpy")
"""
    environment = {
        **os.environ,
        "SCIPY_ARRAY_API": "1",
        "PYTHONPATH": str(Path(antithetic.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
