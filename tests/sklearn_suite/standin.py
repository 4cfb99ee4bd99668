"""A pytest plugin that puts our two estimators in the place of scikit-learn's before its test modules are imported.

``ANTITHETIC_STANDIN=ours`` keeps our defaults; ``sklearn`` gives the stand-ins scikit-learn's: one row a step, reshuffled, no pairing, and
its learning rates.
"""

from __future__ import annotations

import os
import types

import sklearn.linear_model

import antithetic

DEFAULTS = {"pairing": None, "sampling": "shuffle", "batch_size": 1}
RATES = {"SGDClassifier": "optimal", "SGDRegressor": "invscaling"}


def stand_in(name):
    ours = getattr(antithetic, name)
    if os.environ["ANTITHETIC_STANDIN"] == "ours":
        return ours
    given = ours.__init__
    init = types.FunctionType(given.__code__, given.__globals__, "__init__", given.__defaults__, given.__closure__)
    init.__kwdefaults__ = {**given.__kwdefaults__, **DEFAULTS, "learning_rate": RATES[name]}
    return type(name, (ours,), {"__init__": init, "__module__": "sklearn.linear_model", "__doc__": ours.__doc__})


for name in RATES:
    setattr(sklearn.linear_model, name, stand_in(name))
