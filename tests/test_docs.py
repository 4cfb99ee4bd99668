"""Pages that are made from the code are up to date."""

from __future__ import annotations

from pathlib import Path

from antithetic._combinations import matrix


def test_the_matrix_of_combinations_is_that_of_the_code():
    """After a change: put what ``python -c "from antithetic._combinations import matrix; print(matrix())"`` prints between the marks."""
    page = (Path(__file__).parents[1] / "docs" / "composition.md").read_text(encoding="utf-8")
    shown = page.split("<!-- matrix -->\n")[1].split("\n<!-- end of matrix -->")[0]
    assert shown == matrix()
