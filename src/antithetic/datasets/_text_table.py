"""CSV and TSV: NumPy's C reader for numbers, and a slow second pass where it fails.

The second pass reports line numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antithetic.datasets._stream import Lines, open_stream
from antithetic.datasets._table import (
    Column,
    ColumnChoice,
    NamedColumns,
    choose,
    text_columns_error,
)

_DELIMITERS = ",;\t"
_SAMPLED_LINES = 200
_SAMPLED_CHARACTERS = 1 << 20  # of wide tables, a few lines show as much as many of narrow ones
_FEWEST_SAMPLED = 5
_MISSING = {"", "na", "n/a", "nan", "null", "?", "-nan", "+nan"}


@dataclass(frozen=True, slots=True)
class _Layout:
    path: Path
    max_bytes: int
    delimiter: str
    names: list[str]
    skip: int  # lines of the header

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        with open_stream(self.path, self.max_bytes) as stream:
            yield islice(Lines(stream, str(self.path)).text(), self.skip, None)


def read_text_table(
    path: Path,
    max_bytes: int,
    target: Column | None,
    features: Sequence[Column] | None,
    one_hot: bool,
    header: bool | None,
) -> tuple[NamedColumns, ColumnChoice]:
    """Read a table; columns that are not used may hold anything."""
    layout, rows = sampled_layout(path, max_bytes, header)
    choice = choose(layout.names, target, features, str(path))
    text = {
        column
        for column in choice.used
        if any(_is_word(row[column]) for row in rows if column < len(row))
    }
    if not one_hot and (wrong := [column for column in choice.features if column in text]):
        if any(
            len(row) != len(layout.names) or any(_is_number(row[column]) for column in wrong)
            for row in rows
        ):
            # Numbers with a word among them, or a ragged row: find the line.
            _look_closely(layout, choice, text - set(wrong))
        raise text_columns_error([layout.names[column] for column in wrong], str(path))
    try:
        return _parse(layout, choice, text), choice
    except _DoubtfulError as doubt:
        text |= _look_closely(layout, choice, text)
        try:
            return _parse(layout, choice, text), choice
        except _DoubtfulError:
            raise ValueError(f"{path}: {doubt}") from doubt


def sampled_layout(
    path: Path, max_bytes: int, header: bool | None
) -> tuple[_Layout, list[list[str]]]:
    """Delimiter, names and header as the first lines show them, and the rows among these lines."""
    with open_stream(path, max_bytes) as stream:
        sample = _sample(Lines(stream, str(path)).text())
    delimiter = _delimiter(path, sample)
    reader = csv.reader(sample, delimiter=delimiter)
    try:
        first = next(row for row in reader if row)
        skip = reader.line_num
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    if header is None:
        header = _is_header(first, rows)
    if not header:
        return _Layout(
            path, max_bytes, delimiter, [f"x{number}" for number in range(1, len(first) + 1)], 0
        ), [first, *rows]
    if not rows:
        raise ValueError(f"{path} has a header and no rows")
    names = [name.strip() or f"x{number}" for number, name in enumerate(first, 1)]
    return _Layout(path, max_bytes, delimiter, names, skip), rows


def _sample(lines: Iterator[str]) -> list[str]:
    sample, characters = list[str](), 0
    for line in islice(lines, _SAMPLED_LINES):
        sample.append(line)
        characters += len(line)
        if characters > _SAMPLED_CHARACTERS and len(sample) >= _FEWEST_SAMPLED:
            break
    return sample


def _delimiter(path: Path, sample: list[str]) -> str:
    """Find the delimiter that cuts most first lines into equally many fields, two or more."""

    def score(delimiter: str) -> tuple[int, int]:
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=delimiter) if row]
        except csv.Error:
            return 0, 0
        return (widths.count(widths[0]), widths[0]) if widths and widths[0] > 1 else (0, 0)

    if not any(line.strip() for line in sample):
        raise ValueError(f"{path} has no rows")
    scores = {delimiter: score(delimiter) for delimiter in _DELIMITERS}
    best = max(scores, key=scores.__getitem__)
    if scores[best] == (0, 0):
        raise ValueError(
            f"{path} is no table: its first line has no comma, semicolon or tab, and it is not"
            " SVMlight text either"
        )
    return best


def _is_header(first: list[str], rows: list[list[str]]) -> bool:
    """Whether the first line holds names.

    It holds no number, and either the rows hold numbers or no name occurs twice, unlike in rows of
    words.
    """
    if any(_is_number(name) for name in first):
        return False
    return any(_is_number(field) for row in rows for field in row) or len(set(first)) == len(first)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word  # Python's own way of writing numbers


def _is_word(field: str) -> bool:
    return not _is_number(field) and field.strip().lower() not in _MISSING


class _DoubtfulError(Exception):
    """The fast reader met something that the slow one has to name."""


def _parse(layout: _Layout, choice: ColumnChoice, text: set[int]) -> NamedColumns:
    """Read everything at once: words become their numbers, unused columns become zeros."""
    codes: dict[int, dict[str, int]] = {column: {} for column in sorted(text)}
    converters: dict[int | str, Callable[[str], float]] = {
        column: _encoder(known) for column, known in codes.items()
    }
    unused = set(range(len(layout.names))).difference(choice.used)
    converters |= dict.fromkeys(unused, lambda _word: 0.0)
    with layout.lines() as lines:
        try:
            values: NDArray[np.float64] = np.loadtxt(
                lines,
                delimiter=layout.delimiter,
                quotechar='"',
                comments=None,
                converters=converters,
                ndmin=2,
                encoding=None,
            )
        except ValueError as error:
            # An error of the stream already says all there is to say.
            if str(error).startswith(str(layout.path)):
                raise
            raise _DoubtfulError(str(error)) from error
    words = {column: list(known) for column, known in codes.items()}
    mixed = any(
        any(map(_is_number, words[column])) for column in choice.features if column in words
    )
    missing = any(word.lower() in _MISSING for known in codes.values() for word in known)
    if values.shape[1] != len(layout.names) or missing or mixed or not np.isfinite(values).all():
        raise _DoubtfulError("it has missing or mixed values")
    return NamedColumns(layout.names, values, words)


def _encoder(known: dict[str, int]) -> Callable[[str], float]:
    def encode(word: str) -> float:
        return float(known.setdefault(word.strip(), len(known)))

    return encode


def _look_closely(layout: _Layout, choice: ColumnChoice, text: set[int]) -> set[int]:
    """Go through the file row by row and raise a ValueError at the first fault.

    Return the target if that holds words, else nothing.
    """
    found: set[int] = set()
    with layout.lines() as lines:
        reader = csv.reader(lines, delimiter=layout.delimiter, strict=True)
        try:
            for row in filter(None, reader):
                where = f"{layout.path}, line {reader.line_num + layout.skip}"
                if len(row) != len(layout.names):
                    raise ValueError(
                        f"{where} has {len(row)} fields instead of {len(layout.names)}"
                    )
                for column in choice.features:
                    _check_field(
                        row[column].strip(),
                        f"column {layout.names[column]!r}",
                        where,
                        column in text,
                    )
                label = row[choice.target].strip()
                _check_field(label, f"column {layout.names[choice.target]!r}", where, None)
                if not _is_number(label):
                    found.add(choice.target)
        except csv.Error as error:
            raise ValueError(
                f"{layout.path}, line {reader.line_num + layout.skip}: {error}"
            ) from error
    return found


def _check_field(field: str, column: str, where: str, words: bool | None) -> None:
    """Refuse what is missing or infinite, and a word among numbers or a number among words.

    ``words=None`` takes both.
    """
    if field.lower() in _MISSING:
        raise ValueError(
            f"{where} has no value in {column} ({field!r}); remove or fill in such rows, or leave"
            " the column out with features="
        )
    if _is_number(field):
        if not isfinite(float(field)):
            raise ValueError(f"{where} has the infinite value {field!r} in {column}")
        if words:
            raise ValueError(
                f"{where} has the number {field!r} in {column}, which has words in other rows; make"
                " it one or the other"
            )
    elif words is False:
        raise ValueError(
            f"{where} has the word {field[:100]!r} in {column}, which has numbers in other rows;"
            " correct it, or leave it out with features="
        )
