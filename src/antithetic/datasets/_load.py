"""Load a data set by name: those in the package, and the others from a folder."""

from __future__ import annotations

import bz2
import gzip
import io
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_FOLDERS = ("", "bench", "mnist")
_DENSE_FROM = 1 / 3  # share of stored entries from which a set is given dense


@dataclass(frozen=True, slots=True)
class _Set:
    n: int
    d: int
    origin: str
    embedded: bool = False


_SONAR = "UCI Connectionist Bench (Sonar, Mines vs. Rocks); Gorman and Sejnowski 1988"
_BREAST = "UCI Breast Cancer Wisconsin (Original) without its 16 incomplete rows; Wolberg and Mangasarian 1990"
_SPLICE = "UCI Molecular Biology (splice junctions), two classes; Noordewier, Towell and Shavlik 1991"
_IJCNN = "IJCNN 2001 challenge; Prokhorov 2001, as transformed by Chang and Lin 2001"
_FOURCLASS = "Ho and Kleinberg 1996, two classes"
_DIABETES = "UCI / Statlog Pima Indians Diabetes; Smith et al. 1988"
_MNIST = "MNIST handwritten digits; LeCun, Bottou, Bengio and Haffner 1998"

_SETS = {
    "sonar_scale": _Set(208, 60, _SONAR, embedded=True),
    "breast-cancer": _Set(683, 10, _BREAST, embedded=True),
    "breast-cancer_scale": _Set(683, 10, _BREAST, embedded=True),
    "splice": _Set(1000, 60, _SPLICE, embedded=True),
    "splice_scale": _Set(1000, 60, _SPLICE, embedded=True),
    "splice.t": _Set(2175, 60, _SPLICE, embedded=True),
    "diabetes": _Set(768, 8, _DIABETES, embedded=True),
    "diabetes_scale": _Set(768, 8, _DIABETES, embedded=True),
    "fourclass": _Set(862, 2, _FOURCLASS),
    "fourclass_scale": _Set(862, 2, _FOURCLASS),
    "ijcnn1.tr": _Set(35000, 22, _IJCNN),
    "ijcnn1.val": _Set(14990, 22, _IJCNN),
    "ijcnn1.t": _Set(91701, 22, _IJCNN),
    "a9a": _Set(32561, 123, "UCI Adult; Kohavi 1996, made binary by Platt 1998"),
    "w8a": _Set(49749, 300, "web pages; Platt 1998"),
    "phishing": _Set(11055, 68, "UCI Phishing Websites; Mohammad, Thabtah and McCluskey 2012"),
    "mushrooms": _Set(8124, 112, "UCI Mushroom; Schlimmer 1987"),
    "cod-rna_scale": _Set(59535, 8, "Uzilov, Keegan and Mathews 2006, scaled to [-1, 1]"),
    "farm-ads": _Set(4143, 54877, "UCI Farm Ads; Mesterharm and Pazzani 2011"),
    "skin_nonskin": _Set(245057, 3, "UCI Skin Segmentation; Bhatt and Dhall 2012"),
    "mnist": _Set(60000, 784, _MNIST),
    "mnist.t": _Set(10000, 784, _MNIST),
}
_MNIST_FILES = {"mnist": "train", "mnist.t": "t10k"}


def names() -> list[str]:
    """Names that :func:`load` knows; those not in the package need a folder."""
    return list(_SETS)


def load(name: str, data_home: str | os.PathLike[str] | None = None, *, return_X_y: bool = False) -> Any:
    """Load a data set by name.

    Sonar, breast-cancer, splice and diabetes are in the package. The others are read from ``data_home``, or from the folder that the
    environment variable ``ANTITHETIC_DATA`` names, or from ``bench`` or ``mnist`` below it: files of the LIBSVM collection with the ending
    ``.bz2``, and the gzipped IDX files of MNIST.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_home : path, default=None
        Folder to look into first.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        ``data`` (n, d), float64, dense, or ``csr_array`` where less than a third of the entries is stored (MNIST: uint8); ``target`` (n,),
        as in the file; ``name``; ``DESCR``.

    Examples
    --------
    >>> from antithetic.datasets import load
    >>> X, y = load("diabetes_scale", return_X_y=True)
    >>> X.shape, sorted(set(y.tolist()))
    ((768, 8), [-1.0, 1.0])
    """
    if name not in _SETS:
        raise ValueError(f"data set {name!r} is not known; use one of {', '.join(_SETS)}")
    expected = _SETS[name]
    X, y = _read_mnist(name, data_home) if name in _MNIST_FILES else _read_svmlight(name, data_home)
    if X.shape != (expected.n, expected.d):
        raise ValueError(f"the file of {name} has shape {X.shape} instead of {(expected.n, expected.d)}: it is not the set of that name")
    if return_X_y:
        return X, y
    from sklearn.utils import Bunch

    description = f"{name}: {expected.n} rows, {expected.d} features. Origin: {expected.origin}."
    return Bunch(data=X, target=y, name=name, DESCR=description)


def _read_svmlight(name: str, data_home: str | os.PathLike[str] | None) -> tuple[Any, NDArray[np.float64]]:
    if _SETS[name].embedded:
        source = resources.files("antithetic.datasets") / "files" / f"{name}.bz2"
        compressed = source.read_bytes()
    else:
        compressed = _find(f"{name}.bz2", name, data_home).read_bytes()
    from sklearn.datasets import load_svmlight_file  # a slow import that few need

    try:
        text = bz2.decompress(compressed)
        X, y = load_svmlight_file(io.BytesIO(text), n_features=_SETS[name].d, zero_based=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"the file of {name} cannot be read: {error}") from error
    X = sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return (X.toarray() if X.nnz >= _DENSE_FROM * X.shape[0] * X.shape[1] else X), y


def _read_mnist(name: str, data_home: str | os.PathLike[str] | None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images, labels = (_read_idx(_find(f"{_MNIST_FILES[name]}-{kind}-ubyte.gz", name, data_home)) for kind in ("images-idx3", "labels-idx1"))
    return images.reshape(len(images), -1), labels


def _read_idx(path: Path) -> NDArray[np.uint8]:
    with gzip.open(path) as file:
        content = file.read()
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", count=n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _find(filename: str, name: str, data_home: str | os.PathLike[str] | None) -> Path:
    homes = [Path(home) for home in (data_home, os.environ.get("ANTITHETIC_DATA")) if home]
    for home in homes:
        for folder in _FOLDERS:
            if (home / folder / filename).is_file():
                return home / folder / filename
    looked = f"looked in {', '.join(map(str, homes))}" if homes else "neither data_home nor ANTITHETIC_DATA is set"
    raise FileNotFoundError(
        f"{name} is not in the package, and no file {filename} was found ({looked}); "
        "set the environment variable ANTITHETIC_DATA to a folder that holds it"
    )
