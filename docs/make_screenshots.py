"""Photograph a report for the documentation: ``python docs/make_screenshots.py REPORT.html``.

The pictures are written to ``docs/pictures/report-*.png``.

REPORT.html is what ``antithetic reproduce`` leaves. Needs Chromium; it is driven as in the tests.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import find_chromium, open_browser  # noqa: E402 - it lives beside the tests

WIDTH = 1000
# name: which element to begin with, and how many pixels of the page to show
PARTS = {
    "report-top": ("header", 700),
    "report-claims": ("#claims", 620),
    "report-figures": ("#sheets", 1130),
    "report-pairs": ("#pairs", 760),
}


def photograph(browser, selector, height, path):
    """Save the part of the page that begins with an element."""
    top = browser.run(
        f"document.querySelector({selector!r}).getBoundingClientRect().top + window.scrollY"
    )
    clip = {"x": 0, "y": top, "width": WIDTH, "height": height, "scale": 1}
    data = browser.send(
        "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
    )["data"]
    path.write_bytes(base64.b64decode(data))


def main(report):
    """Open the report and save its parts."""
    with open_browser(
        find_chromium() or sys.exit("no Chromium: install it, or name one in the variable CHROMIUM")
    ) as browser:
        browser.size(WIDTH, 900)
        browser.prefer(color_scheme="light", reduced_motion="reduce")
        browser.open(report.resolve())
        for name, (selector, height) in PARTS.items():
            photograph(browser, selector, height, ROOT / "docs" / "pictures" / f"{name}.png")
            print(f"docs/pictures/{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1])) if len(sys.argv) == 2 else sys.exit(__doc__)
