"""The list of files that a reproduction wrote into a folder.

Files of an earlier run are removed by this list; nothing else is ever removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from antithetic._util.files import write_atomically

PAGE, PARTIAL_PAGE = "report.html", "report-partial.html"
_NAME = "manifest.json"
_FOLDERS = {"figures": (".png", ".svg"), "csv": (".csv",)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was written.

    Attributes
    ----------
    settings : str
        Fingerprint of all that the numbers depend on.
    files : tuple of str
        Paths below the folder, with slashes.
    """

    settings: str
    files: tuple[str, ...]


def read_manifest(folder: Path) -> Manifest | None:
    """Read the list of a folder; None where there is none, or it cannot be read."""
    try:
        given = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        settings, files = given["settings"], given["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not (isinstance(settings, str) and isinstance(files, list)):
        return None
    return Manifest(settings, tuple(name for name in files if isinstance(name, str)))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the list of a folder."""
    write_atomically(folder / _NAME, json.dumps(asdict(manifest), indent=1).encode("utf-8"))


def remove(folder: Path, names: Iterable[str]) -> None:
    """Remove figures, tables and partial pages that a list names.

    What else it may name is left alone.
    """
    for name in names:
        if _ours(name):
            (folder / name).unlink(missing_ok=True)


def _ours(name: str) -> bool:
    """Whether a reproduction writes files of this name.

    So a list that somebody edited cannot reach out of the folder.
    """
    path = PurePosixPath(name)
    if name == PARTIAL_PAGE:
        return True
    return (
        len(path.parts) == 2 and "\\" not in name and path.suffix in _FOLDERS.get(path.parts[0], ())
    )
