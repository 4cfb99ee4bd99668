"""A trained linear model as a file: JSON, without pickle, checked in every part when it is read.

Any language can read it. Weights are decimal numbers that give back every bit.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from antithetic._util.files import write_atomically
from antithetic._util.settings import same
from antithetic.datasets._reading import MAX_BYTES as MAX_BYTES_OF_ROWS
from antithetic.datasets._reading import Reading
from antithetic.estimators.described import describe, restore
from antithetic.estimators.logistic import LogisticRegression
from antithetic.estimators.logistic_cv import LogisticRegressionCV
from antithetic.estimators.model_checks import (
    are_classes,
    check_names,
    numbers,
    once,
    refuse,
    require,
)
from antithetic.estimators.model_columns import are_words, columns_of
from antithetic.estimators.regression import (
    GammaRegressor,
    PoissonRegressor,
    RegressionParameters,
    Ridge,
    TweedieRegressor,
)
from antithetic.estimators.sgd import SGDClassifier, SGDEstimator, SGDRegressor
from antithetic.problem.losses import ALL_LOSSES, read_loss

FORMAT, VERSION = "antithetic linear model", 2
MAX_BYTES = 1 << 30
Kind = Literal["classifier", "regressor"]
_ENTRIES = (
    "kind",
    "loss",
    "coef",
    "intercept",
    "classes",
    "feature_names",
    "target_name",
    "one_hot",
    "settings",
    "parameters",
)
_OPTIONAL = ("words", "first_index", "dates", "estimator_name", "checks_names")
_EXACT: dict[str, Any] = {  # others are SGDClassifier or SGDRegressor
    kind.__name__: kind
    for kind in (
        LogisticRegression,
        LogisticRegressionCV,
        Ridge,
        PoissonRegressor,
        GammaRegressor,
        TweedieRegressor,
    )
}
_OF_A_PIPELINE = "; pass its last step, pipeline[-1], or pickle the whole pipeline with joblib.dump"
_OTHER_FORMATS = {".pkl", ".pickle", ".joblib", ".skops", ".onnx", ".pt", ".npz", ".npy"}
_BEGINNING = 4096  # bytes among which a model file says what it is


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """Weights, and what is needed to use them.

    Parameters
    ----------
    kind : {"classifier", "regressor"}
    loss : str
        The loss of the training: a name, or an object of `antithetic.losses` such as
        ``Quantile(0.9)``.
    coef : array-like of shape (k, d)
        One row, or for K > 2 classes one per class.
    intercept : array-like of shape (k,)
    classes : list of str or of numbers, or None
        In the order of the weights; None for a regressor.
    feature_names : list of str or None
        One per column of ``coef``.
    target_name : str, default="y"
    one_hot : bool, default=False
        Whether features ``name=word`` represent words in a column ``name``.
    settings : dict, default={}
        How it was trained: strings, numbers, and None.
    parameters : dict, default={}
        Parameters of the estimator that are not its defaults, as plain JSON.
    words : dict of str to list of str, default=None
        For each column of words, the words that have a feature ``name=word``. None: ``name`` is
        the part before the first ``=``.
    first_index : {0, 1}, default=None
        Index of the first feature in SVMlight files. None: by the names, if these are ``x0, x1,
        ...`` or ``x1, x2, ...``.
    dates : list of str, default=None
        Features that are days since 1970, converted from dates.
    estimator_name : str, default=None
        Class of the estimator, if it is one of the exact ones. None: ``SGDClassifier`` or
        ``SGDRegressor``.
    checks_names : bool, default=None
        Whether the estimator was fitted on a data frame, and so checks the names of columns.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    >>> model = antithetic.SGDClassifier("log_loss", alpha=1e-2, order="shuffle", random_state=0)
    >>> model = model.fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.json")
    ...     antithetic.LinearModel.of(model).save(path)
    ...     again = antithetic.LinearModel.load(path).estimator()
    >>> again.order, bool((again.predict(X) == model.predict(X)).all())
    ('shuffle', True)
    """

    kind: Kind
    loss: str
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes: list[Any] | None
    feature_names: list[str] | None
    target_name: str = "y"
    one_hot: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, list[str]] | None = None
    first_index: int | None = None
    dates: list[str] | None = None
    estimator_name: str | None = None
    checks_names: bool | None = None

    def __post_init__(self) -> None:
        require(
            self.kind in get_args(Kind),
            f"kind is {self.kind!r}, neither 'classifier' nor 'regressor'",
        )
        require(
            isinstance(self.loss, str) and read_loss(self.loss) is not None,
            f"loss {self.loss!r} is not known",
        )
        coef, intercept = numbers(self.coef, 2, "coef"), numbers(self.intercept, 1, "intercept")
        require(
            coef.shape[1] > 0 and len(coef) == len(intercept),
            f"coef has shape {coef.shape} for {len(intercept)} intercepts",
        )
        require(
            (
                are_classes(self.classes, len(coef))
                if self.kind == "classifier"
                else self.classes is None and len(coef) == 1
            ),
            "classes",
        )
        names = self.feature_names
        if names is not None:
            check_names(names, coef.shape[1])
        require(
            isinstance(self.target_name, str) and isinstance(self.one_hot, bool),
            "target_name or one_hot",
        )
        require(
            self.estimator_name is None
            or (isinstance(self.estimator_name, str) and self.estimator_name in _EXACT),
            f"estimator_name is {self.estimator_name!r}, not one of {', '.join(_EXACT)}",
        )
        for name in ("settings", "parameters"):
            require(isinstance(getattr(self, name), Mapping), f"{name} must be an object")
        made = self._unfitted()  # parameters that an estimator would refuse
        require(
            self.estimator_name is None
            or (_kind_of(made) == self.kind and _loss_of(made) == self.loss),
            f"a {self.kind} with loss {self.loss!r} is not a {self.estimator_name}",
        )
        require(
            self.words is None or are_words(self.words, names or []),
            "words must name features of the model",
        )
        first = self.first_index
        require(
            first is None or (type(first) is int and first in (0, 1)),
            f"first_index is {first!r}, neither 0 nor 1",
        )
        dates = self.dates
        require(
            dates is None or (isinstance(dates, list) and set(dates) <= set(names or [])),
            "dates must name features of the model",
        )
        require(
            self.checks_names is None
            or (isinstance(self.checks_names, bool) and not (self.checks_names and names is None)),
            "checks_names must be true, false or missing, and needs feature_names",
        )
        object.__setattr__(self, "coef", coef)
        object.__setattr__(self, "intercept", intercept)

    @classmethod
    def of(cls, estimator: Any, data: Any = None, **about: Any) -> LinearModel:
        """Take the weights and parameters of a fitted estimator of this package.

        Parameters that hold your own code, such as ``order=Given(function)``, are refused; a random
        state that is not a number is left out.

        Parameters
        ----------
        estimator : estimator
        data : Bunch, default=None
            What `antithetic.datasets.read_file` returned: how the columns of the file became
            features, so that :meth:`read` and ``antithetic predict`` find them in other files. Not
            needed for an estimator that was fitted on a data frame: it knows its columns.
        **about
            Entries of the model, which replace those found in ``data``: ``feature_names``,
            ``target_name``, ``one_hot``, ``settings``, ``words``, ``first_index``, ``dates``.
        """
        if hasattr(estimator, "to_local"):  # one of a cluster
            estimator = estimator.to_local()
        is_exact = isinstance(estimator, tuple(_EXACT.values()))
        if not (is_exact or isinstance(estimator, SGDEstimator)):
            raise ValueError(
                "LinearModel.of takes an SGDClassifier, SGDRegressor or"
                f" {', '.join(_EXACT)} of antithetic; got"
                f" {type(estimator).__module__}.{type(estimator).__name__}"
                f"{_OF_A_PIPELINE if hasattr(estimator, 'named_steps') else ''}"
            )
        check_is_fitted(estimator)
        classes = estimator.classes_.tolist() if hasattr(estimator, "classes_") else None
        coef = estimator.coef_.toarray() if hasattr(estimator.coef_, "toarray") else estimator.coef_
        return cls(
            _kind_of(estimator),
            _loss_of(estimator),
            np.atleast_2d(coef),
            np.atleast_1d(estimator.intercept_),
            classes,
            **{
                **columns_of(estimator, data, are_given="feature_names" in about),
                "parameters": _parameters(estimator),
                "estimator_name": _exact_name(estimator) if is_exact else None,
                **about,
            },
        )

    def read(
        self,
        path: str | os.PathLike[str],
        *,
        decimal: str = ".",
        header: bool | None = None,
        max_bytes: int = MAX_BYTES_OF_ROWS,
        progress: bool = False,
    ) -> Any:
        """Read rows to predict: the features of this model, in its order, from any supported file.

        Columns are found by their names and may stand in any order; labels and other columns are
        not used. Words are encoded as in training; a warning names some that training did not have.
        The rows have no names: for a model that was fitted on a data frame, use
        ``estimator(check_names=False)``.

        Parameters
        ----------
        path : path
        decimal, header, max_bytes, progress
            As in `antithetic.datasets.read_file`.

        Returns
        -------
        ndarray or csr_array of shape (n, d)

        Raises
        ------
        ValueError
            The file is damaged, or lacks features; the message names them.
        """
        from antithetic.estimators.model_features import read_features

        reading = Reading(decimal=decimal, header=header, max_bytes=max_bytes, progress=progress)
        X, notes = read_features(Path(path), self, reading)
        for note in notes:
            warnings.warn(f"{os.fspath(path)}: {note}", stacklevel=2)
        return X

    def estimator(self, *, check_names: bool = True) -> Any:
        """Make a fitted estimator that predicts the same as the saved one, to the last bit.

        One that was fitted on a data frame checks names, unless ``check_names`` is False.
        """
        made = self._unfitted()
        if self.kind == "classifier":
            made.classes_ = np.array(self.classes)
            made.coef_ = self.coef.copy()
        else:
            made.coef_ = self.coef[0].copy()
        one = self.kind == "regressor" and self.estimator_name is not None
        made.intercept_ = float(self.intercept[0]) if one else self.intercept.copy()
        made.n_features_in_ = self.coef.shape[1]
        if self.checks_names and check_names:
            made.feature_names_in_ = np.array(self.feature_names, dtype=object)
        return made

    def _unfitted(self) -> Any:
        """Make an estimator with the parameters of the one that was saved."""
        given = {name: restore(value) for name, value in self.parameters.items()}
        if self.estimator_name is not None:
            made = _EXACT[self.estimator_name](**given)
        else:
            kind: Any = SGDClassifier if self.kind == "classifier" else SGDRegressor
            made = kind(loss=read_loss(self.loss), **given)
        made._validate_params()
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model. The file appears only once it is complete.

        An existing file stays until then.
        """
        refuse_other_formats(path)
        held: dict[str, Any] = {"format": FORMAT, "version": VERSION} | {
            name: getattr(self, name) for name in _ENTRIES
        }
        held |= {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        held |= {
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
            "settings": dict(self.settings),
            "parameters": dict(self.parameters),
        }
        write_atomically(path, (json.dumps(held, allow_nan=False, indent=1) + "\n").encode("ascii"))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> LinearModel:
        """Read a model that :meth:`save` wrote; ValueError for anything else.

        No code in the file is run.

        Parameters
        ----------
        path : path
        max_bytes : int, default=1 GiB
            A larger file is refused before it is read.
        """
        with open(path, "rb") as file:
            content = file.read(max_bytes + 1)
        try:
            require(len(content) <= max_bytes, f"it is longer than {max_bytes} bytes")
            held = json.loads(
                content.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once
            )
            require(
                isinstance(held, dict) and held.get("format") == FORMAT,
                f"it does not say that its format is {FORMAT!r}",
            )
            version = held.get("version")
            require(
                isinstance(version, int) and not isinstance(version, bool) and version >= 1,
                f"its version is {version!r}",
            )
            require(
                version >= VERSION,
                f"it has version {version} of the format, from an earlier antithetic: train"
                " the model again, with `antithetic train` or LinearModel.of(estimator).save(path)",
            )
            require(
                version <= VERSION,
                f"it has version {version} of the format, but this antithetic reads {VERSION};"
                " install a newer antithetic",
            )
            missing = [name for name in _ENTRIES if name not in held]
            require(not missing, f"it lacks {', '.join(missing)}")
            return cls(**{name: held[name] for name in (*_ENTRIES, *_OPTIONAL) if name in held})
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"{os.fspath(path)} is not a model file, or it is damaged: {error}"
            ) from error


def _exact_name(estimator: Any) -> str:
    """Name of the class, or, for the user's own subclass, of the class that it extends."""
    return next(kind.__name__ for kind in type(estimator).__mro__ if kind.__name__ in _EXACT)


def _kind_of(estimator: Any) -> Kind:
    return "classifier" if is_classifier(estimator) else "regressor"


def _loss_of(estimator: Any) -> str:
    """A loss as a model file has it."""
    if isinstance(estimator, LogisticRegression):
        return "log_loss"
    loss = estimator._loss() if isinstance(estimator, RegressionParameters) else estimator.loss
    if isinstance(loss, str):
        return loss
    is_named = isinstance(estimator, RegressionParameters) and ALL_LOSSES[loss.name] == loss
    return str(loss.name) if is_named else repr(loss)


def _parameters(estimator: Any) -> dict[str, Any]:
    """Parameters that are not the defaults, without the loss, which has its own entry."""
    kind = type(estimator)
    defaults = kind().get_params(deep=False)
    given = estimator.get_params(deep=False)
    left_out = {"loss"}
    if not isinstance(given.get("random_state"), (int, np.integer)):
        left_out.add("random_state")
    return {
        name: describe(value, name)
        for name, value in given.items()
        if name not in left_out and not same(value, defaults[name])
    }


def refuse_other_formats(path: str | os.PathLike[str]) -> None:
    """Refuse to name a model file like a file of another format, which other tools would open."""
    ending = Path(path).suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ValueError(
            f"{os.fspath(path)}: a model is saved as JSON, not as {ending}; name a file that ends"
            " in .json"
        )


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is a model; nothing else of it is checked."""
    with open(path, "rb") as file:
        return json.dumps(FORMAT).encode("ascii") in file.read(_BEGINNING)
