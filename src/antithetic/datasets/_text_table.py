"""CSV and TSV: NumPy's C reader for numbers, and a slow second pass where it fails.

The second pass reports line numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antithetic.datasets._reading import Reading, has_decimal_comma
from antithetic.datasets._stream import Lines, open_stream
from antithetic.datasets._table import (
    COMMAS,
    KINDS,
    ColumnChoice,
    NamedColumns,
    choose,
    kind_of,
    text_columns_error,
    with_dates,
)

_DELIMITERS = ",;\t"
_SAMPLED_LINES = 200
_SAMPLED_CHARACTERS = 1 << 20  # of wide tables, a few lines show as much as many of narrow ones
_FEWEST_SAMPLED = 5
_MISSING = {"", "na", "n/a", "nan", "null", "?", "-nan", "+nan"}


@dataclass(frozen=True, slots=True)
class _Layout:
    path: Path
    reading: Reading
    delimiter: str
    names: list[str]
    skip: int  # lines of the header

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        how = self.reading
        with open_stream(self.path, how.max_bytes, progress=how.progress) as stream:
            yield islice(Lines(stream, str(self.path)).text(), self.skip, None)


def read_text_table(path: Path, reading: Reading) -> tuple[NamedColumns, ColumnChoice]:
    """Read a table; columns that are not used may hold anything."""
    layout, rows = sampled_layout(path, reading)
    choice = choose(layout.names, reading, str(path))
    text = {
        column
        for column in choice.used
        if any(_is_word(row[column], reading) for row in rows if column < len(row))
    }
    if not reading.one_hot:
        _refuse_words(layout, choice, text, rows)
    try:
        table = _parse(layout, choice, text)
    except _DoubtfulError as doubt:
        text |= _look_closely(layout, choice, text)
        try:
            table = _parse(layout, choice, text)
        except _DoubtfulError:
            raise ValueError(f"{path}: {doubt}") from doubt
    return with_dates(table, choice.features, str(path)) if reading.dates else table, choice


def _refuse_words(
    layout: _Layout, choice: ColumnChoice, text: set[int], rows: list[list[str]]
) -> None:
    """Raise ValueError where features hold words in the first lines."""
    reading, width = layout.reading, len(layout.names)

    def kind(column: int) -> str:
        fields = (row[column].strip() for row in rows if column < len(row))
        return kind_of([field for field in fields if field.lower() not in _MISSING])

    kinds = {column: kind(column) for column in choice.features if column in text}
    wrong = [column for column, held in kinds.items() if not (reading.dates and held == "dates")]
    if not wrong:
        return
    if any(
        len(row) != width or any(reading.is_number(row[column]) for column in wrong) for row in rows
    ):
        # Numbers with a word among them, or a ragged row: find the line.
        _look_closely(layout, choice, text - set(wrong))
    raise text_columns_error(
        {layout.names[column]: kinds[column] for column in wrong}, str(layout.path)
    )


def sampled_layout(path: Path, reading: Reading) -> tuple[_Layout, list[list[str]]]:
    """Delimiter, names and header as the first lines show them, and the rows among these lines."""
    with open_stream(path, reading.max_bytes) as stream:
        sample = _sample(Lines(stream, str(path)).text())
    delimiter = _delimiter(path, sample, reading)
    reader = csv.reader(sample, delimiter=delimiter)
    try:
        first = next(row for row in reader if row)
        skip = reader.line_num
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    header = _is_header(first, rows, reading) if reading.header is None else reading.header
    if not header:
        return _Layout(
            path, reading, delimiter, [f"x{number}" for number in range(1, len(first) + 1)], 0
        ), [first, *rows]
    if not rows:
        raise ValueError(f"{path} has a header but no rows")
    names = [name.strip() or f"x{number}" for number, name in enumerate(first, 1)]
    return _Layout(path, reading, delimiter, names, skip), rows


def _sample(lines: Iterator[str]) -> list[str]:
    sample, characters = list[str](), 0
    for line in islice(lines, _SAMPLED_LINES):
        sample.append(line)
        characters += len(line)
        if characters > _SAMPLED_CHARACTERS and len(sample) >= _FEWEST_SAMPLED:
            break
    return sample


def _delimiter(path: Path, sample: list[str], reading: Reading) -> str:
    """Find the delimiter that cuts most first lines into equally many fields, two or more."""
    faults = list[csv.Error]()

    def score(delimiter: str) -> tuple[int, int]:
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=delimiter) if row]
        except csv.Error as fault:
            faults.append(fault)
            return 0, 0
        return (widths.count(widths[0]), widths[0]) if widths and widths[0] > 1 else (0, 0)

    if not any(line.strip() for line in sample):
        raise ValueError(f"{path} has no rows")
    allowed = [delimiter for delimiter in _DELIMITERS if delimiter != reading.decimal]
    scores = {delimiter: score(delimiter) for delimiter in allowed}
    best = max(scores, key=scores.__getitem__)
    if scores[best] == (0, 0):
        if faults:
            raise ValueError(f"{path} cannot be read as a table: {faults[0]}")
        raise ValueError(
            f"{path} is not a table: its first line has no"
            f" {'comma, ' if ',' in allowed else ''}semicolon or tab, and it is not SVMlight text"
            " either"
        )
    return best


def _is_header(first: list[str], rows: list[list[str]], reading: Reading) -> bool:
    """Whether the first line holds names.

    It holds no number, and either the rows hold numbers or no name occurs twice, unlike in rows of
    words.
    """
    if any(map(reading.is_number, first)):
        return False
    has_numbers = any(reading.is_number(field) for row in rows for field in row)
    return has_numbers or len(set(first)) == len(first)


def _is_word(field: str, reading: Reading) -> bool:
    return not reading.is_number(field) and field.strip().lower() not in _MISSING


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
    if layout.reading.decimal != ".":  # which the C reader does not know
        converters |= dict.fromkeys(set(choice.used) - text, layout.reading.number)
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
    is_number = layout.reading.is_number
    mixed = any(any(map(is_number, words[column])) for column in choice.features if column in words)
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
                    _check_field(layout, row[column].strip(), column, where, column in text)
                label = row[choice.target].strip()
                _check_field(layout, label, choice.target, where, None)
                if not layout.reading.is_number(label):
                    found.add(choice.target)
        except csv.Error as error:
            raise ValueError(
                f"{layout.path}, line {reader.line_num + layout.skip}: {error}"
            ) from error
    return found


def _check_field(layout: _Layout, field: str, place: int, where: str, words: bool | None) -> None:
    """Refuse what is missing or infinite, and a word among numbers or a number among words.

    ``words=None`` takes both; it stands for the target.
    """
    column, shown = f"column {layout.names[place]!r}", repr(field[:100])
    optional = words is not None and layout.reading.features is None
    instead = ", or leave the column out with leave_out=" if optional else ""
    if field.lower() in _MISSING:
        raise ValueError(
            f"{where} has no value in {column} ({shown}); fill in or remove such rows{instead}"
        )
    if layout.reading.is_number(field):
        if not isfinite(layout.reading.number(field)):
            raise ValueError(f"{where} has the infinite value {shown} in {column}")
        if words:
            raise ValueError(
                f"{where} has the number {shown} in {column}, which has words in other rows; use"
                " words or numbers in the whole column"
            )
    elif words is False:
        raise ValueError(
            f"{where} has the word {shown} in {column}, which has numbers in other rows;"
            f" {KINDS[COMMAS] if has_decimal_comma(field) else 'correct it'}{instead}"
        )
