"""A pytest plugin that replaces scikit-learn's linear classifiers by ours in its own tests.

The replacement happens before scikit-learn's test modules are imported.

``--standin=ours`` keeps our defaults; ``--standin=sklearn`` takes scikit-learn's: one row a step,
reshuffled, and its learning rates; no ``l1_ratios``, accuracy and the older attributes in
`LogisticRegressionCV`. `LogisticRegression` has scikit-learn's defaults, so only ``sklearn`` runs
the tests that name no other of these classes. Tests that cannot pass are listed with their reasons
in `expected`; with the scikit-learn that the list was made for, each of them must be there and must
fail.
"""

from __future__ import annotations

import inspect
import random
import types

import expected
import numpy as np
import pytest
import sklearn.linear_model

import antithetic

# the tests that run: those of whole modules, and those in which one of these words stands
MODULES = {"ours": ("test_sgd",), "sklearn": ("test_sgd", "test_logistic")}
WORDS = {"ours": ("SGD", "LogisticRegressionCV"), "sklearn": ("SGD", "LogisticRegression")}


def _init(ours, **defaults):
    """Constructor with other defaults, which `get_params` and `clone` read from its signature."""
    given = ours.__init__
    init = types.FunctionType(
        given.__code__, given.__globals__, "__init__", given.__defaults__, given.__closure__
    )
    init.__kwdefaults__ = {**given.__kwdefaults__, **defaults}
    return init


# classes of this module, not of scikit-learn's: another process that unpickles them then finds
# these, and not those they stand in for
class SGDClassifier(antithetic.SGDClassifier):
    __init__ = _init(
        antithetic.SGDClassifier, order="shuffle", batch_size=1, learning_rate="optimal"
    )


class SGDRegressor(antithetic.SGDRegressor):
    __init__ = _init(
        antithetic.SGDRegressor, order="shuffle", batch_size=1, learning_rate="invscaling"
    )


class LogisticRegressionCV(antithetic.LogisticRegressionCV):
    __init__ = _init(
        antithetic.LogisticRegressionCV, l1_ratios=None, scoring=None, use_legacy_attributes=True
    )


STANDINS = {
    "ours": (
        antithetic.SGDClassifier,
        antithetic.SGDRegressor,
        antithetic.LogisticRegression,
        antithetic.LogisticRegressionCV,
    ),
    "sklearn": (SGDClassifier, SGDRegressor, antithetic.LogisticRegression, LogisticRegressionCV),
}


def pytest_addoption(parser):
    parser.addoption(
        "--standin",
        choices=("ours", "sklearn"),
        required=True,
        help="whose defaults our estimators have",
    )


def pytest_configure(config):
    for standin in STANDINS[config.getoption("standin")]:
        setattr(sklearn.linear_model, standin.__name__, standin)


def _is_about_a_standin(item, standin):
    """Whether a test is in a module about a replaced class, or names one.

    All other tests are not affected by the replacement.
    """
    given = getattr(item, "callspec", None)
    text = inspect.getsource(item.function) + repr(given.params if given else "")
    module = item.module.__name__.rpartition(".")[2]
    return module in MODULES[standin] or any(word in text for word in WORDS[standin])


class Missing(pytest.Item):
    """A listed test that scikit-learn does not have, as a failing test.

    An error raised in a worker of xdist would not be shown.
    """

    def runtest(self):
        pytest.fail("listed in expected.py, but not among scikit-learn's tests", pytrace=False)


@pytest.hookimpl(tryfirst=True)  # before -k takes items away
def pytest_collection_modifyitems(config, items):
    standin = config.getoption("standin")
    known = sklearn.__version__.startswith(expected.VERSION)
    found = {}
    for item in items:
        # a name without parameters stands for all cases of a test
        for name in {item.name, item.originalname}:
            found.setdefault(f"{item.module.__name__}::{name}", []).append(item)
    modules = {item.module.__name__ for item in items}
    # a result that is not as asserted, a refusal or warning that is missing (Failed), or what comes
    # of a mock that was not called: an error of another kind is not excused
    excused = (AssertionError, pytest.fail.Exception, TypeError)
    missing = []
    for name, reason in expected.FAILURES[standin].items():
        for item in found.get(name, ()):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=known, raises=excused))
        if known and name not in found and name.split("::")[0] in modules:
            missing.append(Missing.from_parent(items[0].session, name=name))
    items[:] = [item for item in items if _is_about_a_standin(item, standin)] + missing


def pytest_runtest_setup():
    """Seed the global generators, so that a test does not depend on the tests before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - scikit-learn's tests use it
