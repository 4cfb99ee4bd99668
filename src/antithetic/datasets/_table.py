"""From a table with named columns (CSV, Arrow, ``.npy``) to rows, labels and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import check_rows
from antithetic._util.warnings import warn
from antithetic.datasets._reading import Column, Reading, days, has_decimal_comma, is_date
from antithetic.datasets._svmlight import dense_if_full

ONE_HOT = "pass one_hot=True to get a column of zeros and ones for each word"
DATES = "pass dates=True to get days since 1970"
COMMAS = "numbers with decimal commas"
KINDS = {"dates": DATES, COMMAS: "pass decimal=',' to read them", "text": ONE_HOT}
_MOST_WORDS = 20  # so many different ones are words, however few rows there are
_TARGETS = {"target", "label", "class", "y"}


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Numbers, one column for each name.

    A column in ``words`` holds positions in that list of words instead, one in ``dates`` days since
    1970.
    """

    names: list[str]
    values: NDArray[np.float64]
    words: dict[int, list[str]] = field(default_factory=dict)
    dates: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Which column holds the labels, and which ones the features."""

    target: int
    features: list[int]

    @property
    def used(self) -> list[int]:
        """Both, in the order of the file."""
        return sorted({self.target, *self.features})

    def among_used(self) -> ColumnChoice:
        """Give the same choice in a table that has the used columns only."""
        position = {column: number for number, column in enumerate(self.used)}
        return ColumnChoice(position[self.target], [position[column] for column in self.features])


def choose(names: list[str], reading: Reading, where: str) -> ColumnChoice:
    """Find the columns that were asked for, by name or by number from 0 (from -1 backwards)."""
    check_names(names, where)
    dropped = {find_column(column, names, where) for column in reading.leave_out}
    if reading.target is None:
        label = _default_target(names, dropped, where)
    else:
        label = find_column(reading.target, names, where)
    if label in dropped:
        raise ValueError(f"{where}: column {names[label]!r} is the target and cannot be left out")
    if reading.features is None:
        chosen = [
            column for column in range(len(names)) if column != label and column not in dropped
        ]
    else:
        chosen = find_columns(reading.features, names, where)
        if label in chosen:
            raise ValueError(
                f"{where}: column {names[label]!r} is the target, so it cannot be a feature; name"
                " another target or other features"
            )
    if not chosen:
        left = " left" if dropped else ""
        raise ValueError(
            f"{where} has one column only{left}, {names[label]!r}; labels and at least one feature"
            " are needed"
        )
    return ColumnChoice(label, chosen)


def check_names(names: list[str], where: str) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)[:5]
        raise ValueError(
            f"{where} has more than one column called {', '.join(map(repr, twice))}; columns need"
            " different names"
        )


def _default_target(names: list[str], dropped: set[int], where: str) -> int:
    left = [column for column in range(len(names)) if column not in dropped]
    if not left:
        raise ValueError(f"{where}: all columns are left out")
    called = [column for column in left if names[column].lower() in _TARGETS]
    if len(called) > 1:
        raise ValueError(
            f"{where}: {' and '.join(repr(names[column]) for column in called)} could all be the"
            " labels; say which with target="
        )
    return called[0] if called else left[-1]


def find_columns(columns: Sequence[Column], names: list[str], where: str) -> list[int]:
    """Positions of several columns, which must differ."""
    if isinstance(columns, str):
        raise ValueError(
            f"features must be a list of columns, such as [{columns!r}]; got the string {columns!r}"
        )
    places = {name: place for place, name in enumerate(names)}
    found = [
        places[column]
        if isinstance(column, str) and column in places
        else find_column(column, names, where)
        for column in columns
    ]
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"features must name at least one column, and none twice; got {list(columns)!r}"
        )
    return found


def find_column(column: Column, names: list[str], where: str) -> int:
    """Position of a column given by name or number."""
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"{where} has no column {column!r}; it has {shown}")
    if isinstance(column, bool) or not -len(names) <= column < len(names):
        raise ValueError(
            f"{where} has no column {column!r}; columns are given by name, or by number from 0 to"
            f" {len(names) - 1}"
        )
    return int(column) % len(names)


def with_dates(table: NamedColumns, features: Sequence[int], where: str) -> NamedColumns:
    """Turn features whose words are all dates into days since 1970."""
    found = set[int]()
    for column in features:
        words = table.words.get(column, [])
        strange = [word for word in words if not is_date(word)]
        if len(strange) > len(words) / 2 or not words:
            continue
        if strange:
            raise ValueError(
                f"{where}: column {table.names[column]!r} holds dates, but also"
                f" {strange[0][:100]!r}, which is not"
                " an ISO 8601 date such as 2024-05-31 or 2024-05-31T08:15; correct it,"
                " or leave the column out with leave_out="
            )
        numbers = np.array([days(word) for word in words])
        table.values[:, column] = numbers[table.values[:, column].astype(np.intp)]
        found.add(column)
    words_left = {column: words for column, words in table.words.items() if column not in found}
    return NamedColumns(table.names, table.values, words_left, table.dates | found)


def rows_and_labels(
    table: NamedColumns, choice: ColumnChoice, one_hot: bool, where: str
) -> tuple[Any, NDArray[Any], list[str]]:
    """Take a table apart into rows, labels and names of the features.

    Words become columns ``name=word`` of zeros and ones.
    """
    text = [column for column in choice.features if column in table.words]
    if text and not one_hot:
        kinds = {column: kind_of(table.words[column]) for column in text}
        raise text_columns_error(
            {table.names[column]: kind for column, kind in kinds.items()}, where
        )
    y: NDArray[Any] = table.values[:, choice.target].copy()
    if choice.target in table.words:
        y = np.array(table.words[choice.target])[y.astype(np.intp)]
    if not text:
        return (
            np.ascontiguousarray(table.values[:, choice.features]),
            y,
            [table.names[column] for column in choice.features],
        )
    runs = groupby(choice.features, key=lambda column: column if column in table.words else None)
    blocks, names = zip(*(_block(table, list(run)) for _, run in runs), strict=True)
    X = sparse.hstack(blocks, format="csr")
    check_rows(X, where)
    return dense_if_full(X), y, [name for block in names for name in block]


def kind_of(words: Sequence[str]) -> str:
    """Say what words are, a key of ``KINDS``."""
    if all(map(is_date, words)):
        return "dates"
    return COMMAS if all(map(has_decimal_comma, words)) else "text"


def text_columns_error(kinds: dict[str, str], where: str) -> ValueError:
    """Say what columns hold that are not numbers, and what to do about each kind of them."""
    found = []
    for kind, advice in KINDS.items():
        if names := [name for name, held in kinds.items() if held == kind]:
            shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            several = len(names) > 1
            found.append(
                f"column{'s' if several else ''} {shown} hold{'' if several else 's'} {kind};"
                f" {advice}"
            )
    it = "them" if len(kinds) > 1 else "it"
    return ValueError(f"{where}: {'; '.join(found)}, or leave {it} out with leave_out=")


def warn_of_words(table: NamedColumns, features: Sequence[int], where: str) -> None:
    """Warn of one-hot encoded columns that hold dates, numbers or identifiers of the rows."""
    for column in features:
        words, n = table.words.get(column, []), len(table.values)
        if len(words) <= max(_MOST_WORDS, n // 2):
            continue
        kind = kind_of(words)
        warn(
            f"{where}: column {table.names[column]!r} has {len(words)} different words in {n} rows,"
            " and one_hot=True makes a column for each of them; "
            + (
                "if they only identify the rows, leave it out with leave_out="
                if kind == "text"
                else f"they are {kind}: {KINDS[kind]}"
            ),
            UserWarning,
        )


def _block(table: NamedColumns, columns: list[int]) -> tuple[sparse.csr_array, list[str]]:
    """Neighbouring columns of numbers, or the zeros and ones of a single column of words."""
    column = columns[0]
    if column not in table.words:
        return sparse.csr_array(table.values[:, columns]), [table.names[each] for each in columns]
    words = table.words[column]
    order = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), dtype=np.int32)
    rank[order] = np.arange(len(words), dtype=np.int32)
    n = len(table.values)
    ones = (
        np.ones(n),
        rank[table.values[:, column].astype(np.intp)],
        np.arange(n + 1, dtype=np.int32),
    )
    return sparse.csr_array(ones, shape=(n, len(words))), [
        f"{table.names[column]}={words[place]}" for place in order
    ]
