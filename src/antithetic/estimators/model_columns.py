"""How the columns of a table become the features of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antithetic.estimators.model_file import LinearModel


def columns_of(estimator: Any, data: Any, *, are_given: bool) -> dict[str, Any]:
    """What is known of the columns: from a file that was read, or from a data frame.

    Nothing of a data frame if the caller has given names of its own.
    """
    if data is None:
        names = getattr(estimator, "feature_names_in_", None)
        if are_given or names is None or len(set(names)) < len(names):
            return {"feature_names": None}
        return {"feature_names": names.tolist(), "checks_names": True}
    if not isinstance(data, Mapping) or "words" not in data:
        raise ValueError(
            "data must be what antithetic.datasets.read_file returned; got"
            f" {type(data).__name__} without an entry 'words'. For other data, pass feature_names="
        )
    found, expected = data["data"].shape[1], estimator.n_features_in_
    if found != expected:
        raise ValueError(
            f"data has {found} features, but the model was fitted on {expected}; pass the data that"
            " it was fitted on, for example read_file(..., features=...)"
        )
    return {
        "feature_names": data["feature_names"],
        "target_name": data["target_name"],
        "one_hot": bool(data["words"]),
        "words": data["words"] or None,
        "first_index": data["first_index"],
        "dates": data["date_names"] or None,
    }


def feature_keys(model: LinearModel) -> list[tuple[str, str | None]]:
    """Return the column that each feature is made from, and the word it represents, if any."""
    names = model.feature_names or []
    if model.words is not None:
        made = {
            f"{column}={word}": (column, word)
            for column, held in model.words.items()
            for word in held
        }
        return [made.get(name, (name, None)) for name in names]
    return [_split(name) if model.one_hot and "=" in name else (name, None) for name in names]


def are_words(words: Any, names: list[str]) -> bool:
    """Lists of strings by column, each of which makes one of the features, and no two the same."""
    if not isinstance(words, Mapping) or not all(
        isinstance(held, list) and held for held in words.values()
    ):
        return False
    if not all(isinstance(word, str) for held in words.values() for word in held):
        return False
    made = [f"{column}={word}" for column, held in words.items() for word in held]
    return len(set(made)) == len(made) and set(made) <= set(names)


def _split(name: str) -> tuple[str, str]:
    column, _, word = name.partition("=")
    return column, word
