"""Check rows, labels, weights and numbers, and bring them into one form.

Nothing is copied unless necessary.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels

# C-contiguous NDArray[float32 | float64], or csr_array of the same without repeated entries
Matrix: TypeAlias = Any

BLOCK_ENTRIES = 1 << 20
MIXED = "y mixes labels that cannot be compared (numbers with strings, or None); use one kind"


def check_rows(X: Any, name: str = "X", *, finite: bool = True) -> Matrix:
    """Return rows as C-contiguous float32 or float64, or as a ``csr_array`` without duplicates.

    float32 and float64 keep their type, float16 becomes float32, everything else float64. What has
    the right form already is not copied. Raises ValueError naming the first row and column that
    hold NaN or infinity, unless ``finite`` is False, which saves a pass over rows that were checked
    before.
    """
    refuse_dates_and_masks(X, name)
    rows = _check_csr(X, name) if sparse.issparse(X) else _check_dense(X, name)
    if finite:
        _refuse_nan(rows, name, getattr(X, "columns", None))
    return rows


def _refuse_nan(rows: Matrix, name: str, columns: Any) -> None:
    if sparse.issparse(rows):
        finite = np.isfinite(rows.data)
    else:
        # a sum is finite unless an entry is not (or the sum overflows): one fast pass, and the
        # exact one only in doubt
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.True_ if np.isfinite(rows.sum()) else np.isfinite(rows)
    if not finite.all():
        position = int(np.argmin(finite))  # the first False
        if sparse.issparse(rows):
            row = int(np.searchsorted(rows.indptr, position, side="right")) - 1
            column = int(rows.indices[position])
        else:
            row, column = divmod(position, rows.shape[1])
        raise ValueError(
            f"{name} has NaN or infinity, first in row {row}, {_column(column, columns)}; remove or"
            " impute such rows"
        )


def refuse_dates_and_masks(X: Any, name: str) -> None:
    """Refuse what NumPy would silently convert to numbers: dates, and masked entries."""
    if type(X) is np.ndarray and X.dtype.kind in "biuf":
        return
    if isinstance(X, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(X)
        if masked.any():
            row = np.argwhere(masked)[0][0] if masked.ndim else 0
            raise ValueError(
                f"{name} has masked entries, first in row {row}; fill them in, with"
                f" {name}.filled(value), or remove such rows"
            )
    columns, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if columns is not None and types is not None:
        dated = [column for column, kind in zip(columns, types, strict=False) if _is_date(kind)]
        if dated:
            raise ValueError(
                f"{name} has dates or durations in column {dated[0]!r}; convert them to"
                " numbers first, for example days since a date"
            )
    elif _is_date(getattr(X, "dtype", None)):
        raise ValueError(
            f"{name} holds dates or durations ({X.dtype}); convert them to numbers first, for"
            " example days since a date"
        )


def _is_date(kind: Any) -> bool:
    """Whether a type of NumPy, pandas or Polars is one of dates or durations."""
    if getattr(kind, "kind", None) in ("m", "M"):
        return True
    # those of Polars and of Arrow in pandas have no such letter
    return str(kind).lower().startswith(("date", "duration", "timestamp", "time"))


def refuse_indices(X: Any, name: str) -> None:
    """Refuse compressed matrices with an index out of range, which would read other memory."""
    if not sparse.issparse(X) or X.format not in ("csr", "csc"):
        return
    width, ends = X.shape[1 if X.format == "csr" else 0], X.indptr
    stored = min(len(X.indices), len(X.data))
    if ends[0] != 0 or ends[-1] > stored or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"{name} has rows outside its {stored} entries; the matrix is damaged")
    if X.nnz and (X.indices.min() < 0 or X.indices.max() >= width):
        raise ValueError(f"{name} has an index outside its shape {X.shape}; the matrix is damaged")


def refuse_mixed_labels(y: Any) -> None:
    """Refuse strings among numbers: NumPy would convert a list of both to strings."""
    if isinstance(y, np.ndarray) and y.dtype.kind == "O":
        y = y.ravel().tolist()
    if isinstance(y, (list, tuple)):
        kinds = (str, numbers.Number, type(None))
        found = {kind for kind in kinds if any(isinstance(label, kind) for label in y)}
        if len(found) > 1:
            raise ValueError(MIXED)


def _check_dense(X: Any, name: str) -> NDArray[np.floating]:
    rows = np.asarray(X)
    _check_shape(rows.shape, name)
    try:
        return np.ascontiguousarray(rows, dtype=_float_type(rows.dtype, name))
    except (TypeError, ValueError) as error:
        if rows.dtype.kind not in "OSU":
            raise
        place = _first_without_number(rows, getattr(X, "columns", None)) or f"got {rows.dtype}"
        raise ValueError(f"{name} must be real numbers; {place}") from error


def _first_without_number(rows: NDArray[Any], columns: Any = None) -> str | None:
    """Say which entry cannot be converted to a number; None if all can."""
    for place, entry in zip(np.ndindex(rows.shape), rows.flat, strict=True):
        try:
            float(entry)
        except (TypeError, ValueError):
            return f"row {place[0]} has {str(entry)[:40]!r} in {_column(place[1], columns)}"
    return None


def _column(number: int, columns: Any) -> str:
    return f"column {number if columns is None else list(columns)[number]!r}"


@contextmanager
def naming_columns(X: Any) -> Iterator[None]:
    """Add the column to scikit-learn's errors about text and missing values in X."""
    try:
        yield
    except ValueError as error:
        place = _misplaced(X, str(error))
        if place is None:
            raise
        raise ValueError(f"{error}\n{place}") from error


def _misplaced(X: Any, message: str) -> str | None:
    """Where X holds what scikit-learn complains of, and what helps; None for other complaints."""
    is_text = "could not convert string to float" in message
    if sparse.issparse(X) or not (is_text or re.match(r"Input X contains (NaN|infinity)", message)):
        return None
    columns, rows = getattr(X, "columns", None), np.asarray(X)
    if rows.ndim != 2:
        return None
    place = _first_without_number(rows, columns) if rows.dtype.kind in "OSU" else None
    if is_text:  # of y, if there is none in X
        return place and (
            f"X: {place}; turn words into numbers first, for example with"
            " sklearn.preprocessing.OneHotEncoder"
        )
    if place is None:  # otherwise it holds pandas.NA
        undefined = ~np.isfinite(rows.astype(np.float64))
        if not undefined.any():  # infinite in float32 alone
            return None
        row, column = np.argwhere(undefined)[0]
        place = f"row {row} has {rows[row, column]} in {_column(column, columns)}"
    return (
        f"X: {place}; remove such rows, or fill in missing values first, for example with"
        " sklearn.impute.SimpleImputer"
    )


def _check_csr(X: Any, name: str) -> sparse.csr_array:
    _check_shape(X.shape, name)
    refuse_indices(X, name)
    rows = sparse.csr_array(X)  # shares the arrays of a CSR input
    return canonical_csr(rows.astype(_float_type(rows.dtype, name), copy=False))


def canonical_csr(rows: Any) -> sparse.csr_array:
    """Return a CSR matrix as a ``csr_array`` without repeated entries and with one index type.

    It is not copied if it already has this form.
    """
    rows = sparse.csr_array(rows)  # shares the arrays of a CSR input
    kind = rows.indices.dtype
    if kind != rows.indptr.dtype or kind not in (np.int32, np.int64):
        rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    for part in ("data", "indices", "indptr"):  # SciPy keeps columns of other arrays as they are
        setattr(rows, part, np.ascontiguousarray(getattr(rows, part)))
    if _has_rising_columns(rows):
        rows.has_canonical_format = True
    else:  # repeated entries would spoil norms and hashes
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _has_rising_columns(rows: sparse.csr_array) -> bool:
    """Whether SciPy would call the format canonical, in a fifth of its time."""
    if len(rows.indices) != rows.indptr[-1]:  # with room for more entries
        return bool(rows.has_canonical_format)
    return kernels.columns_rise(rows.indices, rows.indptr)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} must have two dimensions, rows and features; got shape {shape}")
    if 0 in shape:
        raise ValueError(f"{name} must have at least one row and one feature; got shape {shape}")


def _float_type(dtype: np.dtype[Any], name: str) -> type[np.floating]:
    if dtype in (np.float32, np.float16):
        return np.float32
    if dtype.kind == "c":
        raise ValueError(f"{name} must be real; got complex numbers")
    return np.float64


def check_column(values: Any, n: int, name: str) -> NDArray[np.float64]:
    """Return ``n`` finite numbers as float64."""
    refuse_dates_and_masks(values, name)
    column = np.asarray(values)
    if column.shape == (n, 1):
        column = column.ravel()
    if column.shape != (n,):
        raise ValueError(
            f"{name} must have shape ({n},), one entry per row of X; got {column.shape}"
        )
    if column.dtype.kind not in "biuf":
        try:
            column = column.astype(
                np.float64, casting="same_kind" if column.dtype.kind == "c" else "unsafe"
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be real numbers; got {column.dtype}") from error
    column = column.astype(np.float64, copy=False)
    finite = np.isfinite(column)
    if not finite.all():
        raise ValueError(f"{name} has NaN or infinity, first in row {int(np.argmin(finite))}")
    return column


def check_weights(
    sample_weight: Any, n: int, *, all_zero: bool = False
) -> NDArray[np.float64] | None:
    """Return weights of the rows, at least 0 and (unless ``all_zero``) not all 0.

    None where every row counts the same.
    """
    if sample_weight is None:
        return None
    refuse_dates_and_masks(sample_weight, "sample_weight")
    given = np.asarray(sample_weight)
    weight = check_column(np.full(n, given) if given.ndim == 0 else given, n, "sample_weight")
    if (weight < 0.0).any():
        row = int(np.argmax(weight < 0.0))
        raise ValueError(f"sample_weight must be at least 0; row {row} has {weight[row]}")
    if not all_zero and not weight.any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    return weight


def check_classes(y: Any, n: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the class of each label as a number from 0, and the classes in order.

    At least two are needed.
    """
    refuse_dates_and_masks(y, "y")
    refuse_mixed_labels(y)
    labels = np.asarray(y)
    if labels.shape == (n, 1):
        labels = labels.ravel()
    if labels.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {labels.shape}")
    if labels.dtype.kind == "f":
        check_column(labels, n, "y")
    if labels.dtype.kind == "O" and (labels != labels).any():  # NaN differs from itself
        raise ValueError(f"y has NaN, first in row {int(np.argmax(labels != labels))}")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(MIXED) from error
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; a classifier needs two")
    if len(classes) > 2 and labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError(
            "y has continuous values, which are not classes; use a regression loss such as"
            ' loss="squared_error"'
        )
    return codes.ravel(), classes


def check_labels(y: Any, n: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Map labels of any two values to -1 and +1, the smaller to -1.

    Returns
    -------
    signs : ndarray of shape (n,)
        -1.0 or +1.0.
    classes : ndarray of shape (2,)
        The label that became -1, and the one that became +1.
    """
    codes, classes = check_classes(y, n)
    if len(classes) > 2:
        shown = ", ".join(repr(label) for label in classes[:5].tolist())
        raise ValueError(
            f"y has {len(classes)} classes ({shown}{', ...' if len(classes) > 5 else ''}), but two"
            " are needed: split it into one problem per class, or use a regression loss such as"
            ' "squared_error"'
        )
    return np.where(codes == 1, 1.0, -1.0), classes


def check_coef(coef: Any, d: int, name: str = "coef") -> NDArray[np.float64]:
    """Return ``d`` finite weights; None means zeros, and shape (1, d) is taken as (d,)."""
    if coef is None:
        return np.zeros(d)
    weights = np.asarray(coef, dtype=np.float64)
    if weights.shape == (1, d):
        weights = weights.ravel()
    if weights.shape != (d,):
        raise ValueError(
            f"{name} must have shape ({d},), one weight per feature of X; got {weights.shape}"
        )
    if not np.isfinite(weights).all():
        raise ValueError(
            f"{name} has NaN or infinity, first at feature {int(np.argmin(np.isfinite(weights)))}"
        )
    return weights


def check_number(value: Any, name: str) -> float:
    """Return a finite number."""
    if not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
    return float(value)


def block_rows(X: Matrix) -> int:
    """Rows of a block whose stored entries take 8 MB: what is worked on at once."""
    per_row: int = X.nnz // X.shape[0] if sparse.issparse(X) else X.shape[1]
    return max(1, BLOCK_ENTRIES // max(1, per_row))


def power_of_two_near(values: NDArray[np.floating], beside: float = 0.0) -> float:
    """Power of two that brings the largest value near 1; 1 where all are 0.

    Multiplying by it changes no digit.
    """
    largest = (
        max(abs(float(values.max())), abs(float(values.min())), beside) if values.size else beside
    )
    if largest == 0.0 or not np.isfinite(largest):
        return 1.0
    return float(np.ldexp(1.0, min(-int(np.frexp(largest)[1]), 1000)))


def did_you_mean(given: Any, allowed: Iterable[str]) -> str:
    """Name the allowed word that a wrong one resembles, as the end of a message.

    >>> did_you_mean("log", ["hinge", "log_loss"])
    "; did you mean 'log_loss'?"
    """
    word, words = str(given), sorted(allowed)
    near = [each for each in words if word and each.startswith(word)]
    near = near or get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_count(count: Any, name: str, least: int, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most``."""
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {count!r}")
    if most is not None and int(count) > most:
        raise ValueError(f"{name} must be a whole number, at most {most}; got {count!r}")
    return int(count)
