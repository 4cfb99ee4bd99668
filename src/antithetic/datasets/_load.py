"""Load a data set by name: from the package, a folder, the cache, or the LIBSVM data pages."""

from __future__ import annotations

import os
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.datasets import _download
from antithetic.datasets._content import describe
from antithetic.datasets._known import read_known
from antithetic.datasets._places import cache_folder, find, homes, wanted_files
from antithetic.datasets._sets import SETS as _SETS
from antithetic.datasets._sets import KnownSet as _Set


def names() -> list[str]:
    """Names that :func:`load` knows; those not in the package need a folder or a download."""
    return list(_SETS)


def load(
    name: str,
    data_home: str | os.PathLike[str] | None = None,
    *,
    return_X_y: bool = False,
    download: bool = True,
) -> Any:
    """Load a data set by name.

    Sonar, breast-cancer, splice and diabetes are in the package. The others are looked for in
    ``data_home``, in the folder that the environment variable ``ANTITHETIC_DATA`` names (and in
    ``bench`` and ``mnist`` below these), and in the cache folder; then they are downloaded from the
    LIBSVM data pages into the cache folder. That is the folder that ``ANTITHETIC_CACHE`` names,
    else ``antithetic`` in ``XDG_CACHE_HOME``, ``~/.cache`` or, on Windows, ``LOCALAPPDATA``. The
    values of every set from outside the package are checked.

    farm-ads, cod-rna_scale and MNIST have no download.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    data_home : path, default=None
        Folder to look into first: files as LIBSVM has them, or compressed with the ending ``.bz2``;
        the gzipped IDX files of MNIST.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    download : bool, default=True
        Download a set that is found nowhere.

    Returns
    -------
    Bunch
        ``data`` (n, d), float64, dense, or ``csr_array`` where less than a third of the entries is
        stored (MNIST: uint8); ``target`` (n,), as in the file; ``classes``, the labels in ascending
        order, and ``target_names``, what they mean; ``feature_names``; ``name``; ``DESCR``.

    Raises
    ------
    FileNotFoundError
        The set is found nowhere and cannot be downloaded. The message says which file to put where.
    ValueError
        The name is not known, or a file is damaged or holds another set.
    OSError
        The cache folder cannot be written to.

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
    X, y = _values(name, expected, data_home, download)
    if return_X_y:
        return X, y
    from sklearn.utils import Bunch

    classes = np.unique(y)
    return Bunch(
        data=X,
        target=y,
        classes=classes,
        target_names=list(expected.meanings) or [f"{label:g}" for label in classes.tolist()],
        # As features are numbered in the files.
        feature_names=[f"x{number}" for number in range(1, expected.d + 1)],
        name=name,
        DESCR=describe(name, expected, y),
    )


def _values(
    name: str, expected: _Set, data_home: str | os.PathLike[str] | None, download: bool
) -> tuple[Any, NDArray[Any]]:
    if expected.embedded:
        with resources.as_file(
            resources.files("antithetic.datasets") / "files" / f"{name}.bz2"
        ) as path:
            return read_known(name, expected, [path])
    paths = find(name, data_home)
    if paths is not None:
        return read_known(name, expected, paths)
    if expected.remote is None or not download:
        raise FileNotFoundError(
            _missing(
                name,
                expected,
                data_home,
                "" if expected.remote is None else "; download=False was given",
            )
        )
    address = _download.PAGES + expected.remote
    try:
        return _download.fetch(
            name,
            expected.remote,
            cache_folder(),
            lambda path: read_known(name, expected, [path], address),
        )
    except _download.DownloadError as error:
        raise FileNotFoundError(
            _missing(name, expected, data_home, f"; the download failed: {error}")
        ) from error


def _missing(name: str, expected: _Set, data_home: str | os.PathLike[str] | None, why: str) -> str:
    files = " and ".join(" or ".join(alternatives) for alternatives in wanted_files(name))
    places = ", ".join(map(str, homes(data_home)))
    if expected.remote is None:
        get = f"{name} cannot be downloaded; put {files}"
    else:
        get = f"get {_download.PAGES}{expected.remote} on a machine that reaches it, and put it"
    return (
        f"{name} is not in the package, and no file {files} was found in {places}{why}. To get it:"
        f" {get} into {cache_folder()}, or into a folder that data_home or the environment variable"
        " ANTITHETIC_DATA names"
    )
