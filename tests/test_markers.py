"""Tests are chosen by their markers: each step of CI by one, without importing the other files."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import pytest_ignore_collect

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("wanted", "text", "is_ignored"),
    [
        ("", "", False),
        ("kernel", "@pytest.mark.kernel", False),
        ("kernel", "@pytest.mark.wheel", True),
        ("kernel and not optimum", "pytestmark = pytest.mark.kernel", False),
        ("wheel or kernel", "pytestmark = [pytest.mark.kernel]", False),
        ("wheel or kernel", "def test_kernel(): ...", True),
        ("not kernel", "def test_other(): ...", False),
    ],
)
def test_files_without_a_wanted_marker_are_not_imported(tmp_path, wanted, text, is_ignored):
    """A file is left out only if none of its tests can match the expression."""
    path = tmp_path / "test_some.py"
    path.write_text(text)
    config = SimpleNamespace(getoption={"markexpr": wanted}.get)
    assert pytest_ignore_collect(path, config) is (True if is_ignored else None)


def test_ci_names_no_test_and_no_file_of_tests():
    """Tests can be moved and renamed without a change of CI."""
    scripts = [*(ROOT / ".ci").iterdir(), *(ROOT / ".github/workflows").iterdir()]
    assert len(scripts) >= 5
    for path in (*scripts, ROOT / "Makefile"):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        assert not re.search(r"\btest_|pytest.* -k ", text), path
