"""Parquet and Arrow (Feather) files, by pyarrow, which is imported here only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.datasets._reading import Reading
from antithetic.datasets._table import DATES, ColumnChoice, NamedColumns, choose, with_dates

_SECONDS_OF_A_DAY = 86_400


def read_arrow(path: Path, form: str, reading: Reading) -> tuple[NamedColumns, ColumnChoice]:
    """Read the columns that are used, batch by batch; the others may hold anything.

    ``form`` is "parquet", "arrow" or "arrow stream".
    """
    try:
        pa = import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet or Arrow file, which needs pyarrow: pip install"
            " 'antithetic[tables]'"
        ) from error
    try:
        with _open(pa, path, form) as reader:
            schema = reader.schema_arrow if form == "parquet" else reader.schema
            # pandas stores its index as a column of this name: it is not a feature
            names = [
                name
                for name in schema.names
                if not (name.startswith("__index_level_") and name.endswith("__"))
            ]
            choice = choose(names, reading, str(path))
            used = [names[column] for column in choice.used]
            kinds = [_kind(pa, schema.field(name), reading.dates, str(path)) for name in used]
            table = _gather(
                _batches(reader, form, used, reading.max_bytes, str(path)),
                used,
                kinds,
                pa,
                str(path),
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged, or not a {form} file: {error}") from error
    choice = choice.among_used()
    return with_dates(table, choice.features, str(path)) if reading.dates else table, choice


@contextmanager
def _open(pa: Any, path: Path, form: str) -> Iterator[Any]:
    if form == "parquet":
        with import_module("pyarrow.parquet").ParquetFile(path) as reader:
            yield reader
        return
    ipc = import_module("pyarrow.ipc")
    with (
        pa.OSFile(str(path)) as file,
        (ipc.open_file if form == "arrow" else ipc.open_stream)(file) as reader,
    ):
        yield reader


def _kind(pa: Any, field: Any, dates: bool, where: str) -> str:
    """What a column holds: "numbers", "text" or "dates"."""
    types = pa.types
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if any(
        test(kind)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    ):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    advice = ""
    if types.is_date(kind) or types.is_timestamp(kind):
        if dates:
            return "dates"
        advice = f"{DATES}, or "
    raise ValueError(
        f"{where}: column {field.name!r} has type {field.type}, neither numbers nor text; {advice}"
        "leave it out with leave_out="
    )


def _batches(reader: Any, form: str, used: list[str], max_bytes: int, where: str) -> Iterator[Any]:
    too_large = ValueError(
        f"{where} holds more than {max_bytes:,} bytes; set a larger max_bytes to read it"
    )
    if form == "parquet":
        meta = reader.metadata
        if (
            sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
            > max_bytes
        ):
            raise too_large
        batches = reader.iter_batches(columns=used)
    elif form == "arrow":
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        batches = reader
    read = 0
    for batch in batches:
        batch.validate(full=True)  # offsets that point outside are otherwise believed
        read += batch.nbytes
        if read > max_bytes:
            raise too_large
        yield batch


def _gather(
    batches: Iterator[Any], used: list[str], kinds: list[str], pa: Any, where: str
) -> NamedColumns:
    words: dict[int, dict[str, int]] = {
        column: {} for column, kind in enumerate(kinds) if kind == "text"
    }
    blocks: list[NDArray[np.float64]] = []
    n = 0
    for batch in batches:
        block = np.empty((batch.num_rows, len(used)))
        for column, name in enumerate(used):
            values = batch.column(name)
            _check_present(
                values.is_null(nan_is_null=True), n, f"{where} has no value in column {name!r}"
            )
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            if kinds[column] == "dates":
                values = _days(values, pa)
            block[:, column] = (
                _encoded(values, words[column], pa)
                if column in words
                else values.cast(pa.float64(), safe=False)
            )
        blocks.append(block)
        n += batch.num_rows
    if not n:
        raise ValueError(f"{where} has columns but no rows")
    return NamedColumns(
        used,
        np.concatenate(blocks),
        {column: list(known) for column, known in words.items()},
        frozenset(column for column, kind in enumerate(kinds) if kind == "dates"),
    )


def _days(values: Any, pa: Any) -> Any:
    """Days since 1970, as in text, of dates and of times."""
    moments = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return pa.array(moments.to_numpy(zero_copy_only=False) / (_SECONDS_OF_A_DAY * 1e6))


def _check_present(is_missing: Any, rows_before: int, what: str) -> None:
    missing = is_missing.to_numpy(zero_copy_only=False)
    if missing.any():
        raise ValueError(
            f"{what}, first in row {rows_before + int(np.argmax(missing))}; fill in or remove such"
            " rows"
        )


def _encoded(values: Any, known: dict[str, int], pa: Any) -> NDArray[np.float64]:
    """Numbers of the words; those of earlier batches keep theirs."""
    local = values.cast(pa.large_string()).dictionary_encode()
    numbers = [known.setdefault(word.strip(), len(known)) for word in local.dictionary.to_pylist()]
    encoded: NDArray[np.float64] = np.array(numbers, dtype=np.float64)[
        local.indices.to_numpy(zero_copy_only=False)
    ]
    return encoded
