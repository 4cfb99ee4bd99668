"""The report in a real browser: Debian's ``chromium``, or the one named by CHROMIUM."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from browser import find_chromium, open_browser
from test_report import HOSTILE, hostile_content, made_claim

from antithetic.paper.report.explorer import Explorer, Training
from antithetic.paper.report.page import Content, Table, write_page
from antithetic.paper.report.pictures import Figure, Series, draw_figures

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: apt-get install chromium, or name one in the variable CHROMIUM",
)
N = 12
PARTNER = np.array([3, 2, 1, 0, 7, 9, 11, 4, 10, 5, 8, 6])
CYCLE = np.roll(np.arange(N), 1)
FRAMES = 5
PANEL = ".panel:nth-child({}) .plot"


def study():
    rng = np.random.default_rng(0)
    curve = Series("SGD", range(8), np.exp(-np.arange(8.0)))
    figures = [
        Figure(
            f"figure-{k}", f"Figure {k}", [curve], "A caption.", "epoch", "objective", group=group
        )
        for k, group in enumerate(["sonar", "sonar", "diabetes"])
    ]
    points = rng.normal(size=(N, 2)) * [3, 1]
    labels = np.where(np.arange(N) % 2, 1, -1)
    angles = np.linspace(0.2, 1.2, FRAMES)
    lines = [None, *np.column_stack([np.cos(angles), np.sin(angles), 0.1 * angles])[1:].tolist()]
    gradients = [rng.normal(size=(N, 2)), None, None, rng.normal(size=(N, 2)), None]
    product = [None if of is None else (of * of[PARTNER]).sum(axis=1) for of in gradients]
    methods = [
        Training("SGD", lines, np.linspace(0.7, 0.5, FRAMES), gradients, product),
        Training("SGD-as", lines[::-1], np.linspace(0.7, 0.4, FRAMES), gradients, product),
    ]
    cycle = [Training("SGD", lines[1:2], [0.7], gradients[:1], product[:1])]
    explorers = [
        Explorer(
            "sonar", points, labels, PARTNER, range(0, 10 * FRAMES, 10), methods, (0.6, 0.8, 0.0)
        ),
        Explorer("cycle", points, labels, CYCLE, [0], cycle),
    ]
    pictures = draw_figures(figures)
    return Content(
        "A study",
        "In a browser",
        ["It gains 40 %."],
        claims=[made_claim("It is faster.")],
        pictures=pictures,
        explorer=explorers,
        tables=[Table("Many columns", [f"column {k}" for k in range(20)], [list(range(20))])],
        settings={"a" * 80: "b" * 200},
        citation="c" * 300,
    )


@pytest.fixture(scope="module")
def browser():
    with open_browser(CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "page.html"
    write_page(study(), path)
    return path


@pytest.fixture
def page(browser, path):
    """The study's page, newly opened, with which nothing may have gone wrong in the end."""
    browser.size(1280, 900)
    browser.prefer()
    browser.open(path)
    yield browser
    assert browser.problems() == []


def count(page, selector):
    return page.run(f"document.querySelectorAll({json.dumps(selector)}).length")


def text(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)}).textContent")


def focus(page, selector):
    page.run(f"document.querySelector({json.dumps(selector)}).focus()")


def go_to(page, frame):
    page.run(f"document.querySelector('.player input').value = {frame}")
    page.run("document.querySelector('.player input').dispatchEvent(new Event('input'))")
    page.settle()


def place(page, selector, row):
    """Where a row of the explorer is on the screen, by the marker drawn for it."""
    page.middle(selector)
    x, y = page.run(f"""(() => {{
            const samples = document.querySelectorAll({json.dumps(selector + " .samples > *")});
            const sample = samples[{row}];
            const {{left, top, width, height}} = sample.getBoundingClientRect();
            return [left + width / 2, top + height / 2];
        }})()""")
    return x, y


def highlighted(page, panel=1):
    """Rows that a panel highlights: the chosen one and its partner."""
    return page.run(
        f"""["chosen", "partner"].map((kind) => [
            ...document.querySelectorAll(".panel:nth-child({panel}) .pair ." + kind)
        ].map((element) => Number(element.dataset.row))).flat()"""
    )


def boundary(page, panel=1):
    line = f"document.querySelector('.panel:nth-child({panel}) .boundary:not(.ghost)')"
    return page.run(f'["x1", "y1", "x2", "y2"].map((name) => {line}.getAttribute(name))')


def test_every_picture_is_shown(page):
    """Pictures within the page are drawn by the browser, under the page's own security policy."""
    assert page.run("document.documentElement.classList.contains('alive')")
    widths = page.run("[...document.querySelectorAll('figure img')].map((one) => one.naturalWidth)")
    assert len(widths) == 3
    assert min(widths) > 300


def test_a_group_stands_side_by_side(page):
    top = "document.querySelector('#figure-figure-{}').getBoundingClientRect().top"
    assert page.run(top.format(0)) == page.run(top.format(1)) < page.run(top.format(2))


def wait_for_file(page, path: Path):
    for _ in range(200):
        if path.exists() and path.stat().st_size:
            return True
        page.run("new Promise((done) => setTimeout(() => done(true), 25))")
    return False


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_panel_as_a_picture(page, tmp_path, ending):
    page.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click(f".panel .quiet:nth-child({1 + (ending == 'png')})")
    path = tmp_path / f"pairs-SGD.{ending}"
    assert wait_for_file(page, path)
    if ending == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    held = path.read_text(encoding="utf-8")
    assert held.startswith("<svg")
    assert "rgb(0, 158, 115)" in held  # the colour of gradients goes with the picture
    assert "var(" not in held


@pytest.mark.parametrize("panel", [1, 2])
def test_pointing_at_a_sample_highlights_exactly_its_partner(page, panel):
    for row in range(N):
        page.move(*place(page, PANEL.format(panel), row))
        expected = [row] if PARTNER[row] == row else [row, PARTNER[row]]
        assert highlighted(page, 1) == highlighted(page, 2) == expected
        assert text(page, ".pair-text .row") == str(row)
        if len(expected) == 2:
            assert text(page, ".pair-text .partner") == str(PARTNER[row])
        else:
            assert "its own partner" in text(page, ".pair-text")
        assert count(page, ".panel:nth-child(1) .link") == len(expected) - 1


def test_gradients_are_drawn_and_their_product_is_told(page):
    gradients = study().explorer[0].methods[0].gradients
    page.move(*place(page, PANEL.format(1), 0))
    for frame, given in [(0, 0), (2, 0), (3, 3), (4, 3)]:
        go_to(page, frame)
        product = gradients[given][0] @ gradients[given][3]
        told = text(page, ".pair-text .product").replace("\N{MINUS SIGN}", "-")
        assert float(told.split(" at ")[0]) == pytest.approx(product, rel=1e-3)
        assert told.endswith("" if given == frame else f" at epoch {10 * given}")
        assert count(page, ".panel:nth-child(1) .pair .arrow.head") == 3


def test_the_keyboard_goes_from_sample_to_sample(page):
    points = study().explorer[0].points
    focus(page, PANEL.format(1))
    page.press("Home")
    assert highlighted(page) == [0, PARTNER[0]]
    page.press("Enter")
    assert highlighted(page) == [PARTNER[0], 0]
    page.press("ArrowLeft")
    left = highlighted(page)[0]
    assert points[left, 0] < points[PARTNER[0], 0]
    page.press("ArrowRight")
    assert points[highlighted(page)[0], 0] > points[left, 0]


def test_a_row_can_be_asked_for(page):
    page.run(
        "(() => {const field = document.querySelector('.finder input'); field.value = 5;"
        " field.dispatchEvent(new Event('change'));})()"
    )
    assert highlighted(page) == [5, 9]
    page.click(".finder button")
    assert highlighted(page) == [9, 5]


def test_touching_chooses_too(page):
    page.send("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        page.tap(*place(page, PANEL.format(2), 6))
        assert highlighted(page) == [6, 11]
    finally:
        page.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_playing_moves_both_decisions(page):
    hidden = (
        "document.querySelector('.panel:nth-child(1)"
        " .boundary:not(.ghost)').getAttribute('visibility')"
    )
    assert text(page, ".player output") == "epoch 40"  # it opens where training ended
    assert page.run(hidden) == "visible"
    page.click(".play")
    assert text(page, ".player output") in ("epoch 0", "epoch 10")  # and plays from where it began
    page.click(".play")
    go_to(page, 0)
    assert page.run(hidden) == "hidden"  # the first frame has no line
    second = boundary(page, 2)
    assert text(page, ".panel:nth-child(1) .objective") == "objective 0.7000"
    page.click(".play")
    assert text(page, ".play") == "Pause"
    page.wait_for("document.querySelector('.play').textContent === 'Play'")
    assert text(page, ".player output") == "epoch 40"
    assert text(page, ".panel:nth-child(2) .objective") == "objective 0.4000"
    assert page.run(hidden) == "visible"
    assert (
        page.run(
            "document.querySelector('.panel:nth-child(2)"
            " .boundary:not(.ghost)').getAttribute('visibility')"
        )
        == "hidden"
    )
    assert count(page, ".panel:nth-child(1) .boundary.ghost") == 3
    page.click(".player button:nth-child(2)")
    assert text(page, ".player output") == "epoch 30"
    page.wait_for(
        "document.querySelector('.panel:nth-child(2) .boundary:not(.ghost)').getAttribute('x1')"
        f" !== {json.dumps(second[0])}"
    )


def test_the_decision_is_drawn_where_it_is(page):
    """Both ends of the drawn line, mapped back to the plane, satisfy a x + b y + c = 0."""
    explorer = study().explorer[0]
    page.prefer(reduced_motion="reduce")
    go_to(page, 2)
    boxes = (
        "[...document.querySelectorAll('.panel:nth-child(1) .samples > *')].map((sample) =>"
        " sample.getBBox())"
    )
    pixels = np.array(
        page.run(f"{boxes}.map((box) => [box.x + box.width / 2, box.y + box.height / 2])")
    )
    low, high = np.argmin(explorer.points[:, 0]), np.argmax(explorer.points[:, 0])
    p, q = pixels[[low, high]]
    unit = (q - p)[0] / (explorer.points[high] - explorer.points[low])[0]
    ends = np.array(boundary(page), dtype=float).reshape(2, 2)
    plane = explorer.points[low] + (ends - p) / [unit, -unit]
    a, b, c = explorer.methods[0].boundaries[2]
    np.testing.assert_allclose(plane @ [a, b] + c, 0, atol=0.02)


def test_without_motion_the_decision_jumps(page):
    page.prefer(reduced_motion="reduce")
    go_to(page, 1)
    before = boundary(page, 2)
    page.click(".player button:nth-child(4)")
    assert boundary(page, 2) != before
    there = boundary(page, 2)
    page.run("new Promise((done) => setTimeout(() => done(true), 400))")
    assert boundary(page, 2) == there


def test_another_data_set_with_any_table(page):
    page.click(".tabs button:nth-child(2)")
    assert count(page, ".panel") == 1
    assert count(page, ".player") == 0
    for row in range(N):
        page.move(*place(page, PANEL.format(1), row))
        assert highlighted(page) == [row, CYCLE[row]]


@pytest.mark.parametrize("text_of_data", HOSTILE)
def test_hostile_names_do_not_run(browser, tmp_path, text_of_data):
    tags = "[...document.querySelectorAll('*')].map((element) => element.localName).sort().join()"
    seen = []
    browser.size(1280, 900)
    browser.prefer()
    for k, name in enumerate(["plain", text_of_data]):
        write_page(hostile_content(name), tmp_path / f"{k}.html")
        browser.open(tmp_path / f"{k}.html")
        browser.click("details summary")
        browser.move(*place(browser, PANEL.format(1), 0))
        seen.append(browser.run(tags).replace("strong,", ""))
        assert count(browser, "img:not(figure > img), iframe, object, embed") == 0
        sources = browser.run("[...document.images].map((image) => image.src)")
        assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
        assert browser.problems() == []
    assert seen[0] == seen[1]


def test_the_policy_stops_what_would_run(browser, tmp_path):
    """If an element were injected after all, the browser would refuse to run it."""
    write_page(Content("A page"), tmp_path / "page.html")
    injected = (
        (tmp_path / "page.html")
        .read_text(encoding="utf-8")
        .replace("</main>", "<script>alert(1)</script><img src=x onerror=alert(2)></main>")
    )
    (tmp_path / "page.html").write_text(injected, encoding="utf-8")
    browser.open(tmp_path / "page.html")
    problems = browser.problems()
    assert len(problems) >= 2
    assert not [problem for problem in problems if problem.startswith("dialog")]


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_scrolls_sideways(browser, path, tmp_path, width):
    write_page(hostile_content("long" * 60), tmp_path / "long.html")
    browser.prefer()
    for file in path, tmp_path / "long.html":
        browser.size(width, 740, phone=width < 700)
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth") <= width
        figures = browser.run(
            "[...document.querySelectorAll('figure')].map((figure) =>"
            " figure.getBoundingClientRect().right)"
        )
        assert max(figures) <= width


def test_dark_by_preference_and_by_button(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.run(paper)
    page.prefer(color_scheme="dark")
    dark = page.run(paper)
    assert dark != light
    page.click("#tools button:last-child")
    assert page.run(paper) == light
    page.click("#tools button:last-child")
    assert page.run(paper) == dark


def test_every_control_has_a_name_and_is_reached_by_the_keyboard(page):
    nameless = """[...document.querySelectorAll('button, input, [tabindex]')].filter(
        (element) => element.tabIndex < 0 || !(
            element.getAttribute('aria-label') || element.textContent || element.labels?.length
        )
    ).length"""
    assert page.run(nameless) == 0


def test_paper_is_light_and_two_figures_wide(page):
    page.prefer(color_scheme="dark")
    page.send(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    page.size(700, 900)
    try:
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
        test_a_group_stands_side_by_side(page)
    finally:
        page.send("Emulation.setEmulatedMedia", media="")


def test_an_empty_page_opens(browser, tmp_path):
    write_page(Content("Nothing yet"), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run("document.documentElement.classList.contains('alive')")
    assert browser.problems() == []


def test_a_group_can_be_folded(page):
    height = "document.querySelector('details.group').getBoundingClientRect().height"
    assert page.run(height) > 200
    page.click("details.group summary")
    assert page.run(height) < 60


def test_row_labels_stay_in_view_when_a_table_is_scrolled(browser, tmp_path):
    columns = ["data", *(f"a long name of column {k}" for k in range(9))]
    rows = [[name, *map(float, range(9))] for name in ("sonar", "splice")]
    write_page(Content("Wide", tables=[Table("Wide", columns, rows)]), tmp_path / "wide.html")
    browser.prefer()
    browser.size(390, 740, phone=True)
    browser.open(tmp_path / "wide.html")
    lefts = "['tbody th', 'thead th'].map((cell) => document.querySelector('.scroll ' + cell)"
    lefts = f"[...{lefts}.getBoundingClientRect().left)]"
    before = browser.run(lefts)
    browser.run("document.querySelector('.scroll').scrollLeft = 300")
    assert browser.run("document.querySelector('.scroll').scrollLeft") == 300
    assert browser.run(lefts) == pytest.approx(before, abs=1)
    assert browser.run("document.querySelector('.scroll tbody th').scope") == "row"


def test_a_shadow_hints_that_a_table_scrolls(browser, tmp_path):
    """At 390 pixels the right edge of a wide table is darker; scrolled to its end, it is not."""
    columns = [f"column {k}" for k in range(20)]
    write_page(Content("Wide", tables=[Table("Wide", columns, [range(20)])]), tmp_path / "w.html")
    browser.prefer()
    browser.size(390, 740, phone=True)
    browser.open(tmp_path / "w.html")

    def edge():
        right, top = browser.run(
            "(({right, top}) => [right, top])(document.querySelector('.scroll')"
            ".getBoundingClientRect())"
        )
        browser.screenshot(tmp_path / "page.png")
        image = matplotlib.image.imread(tmp_path / "page.png")
        scale = image.shape[1] / 390
        return image[int(scale * (top + 4)), int(scale * (right - 2)), :3]

    assert max(edge()) < 0.9
    browser.run("document.querySelector('.scroll').scrollLeft = 10000")
    browser.settle()
    assert min(edge()) > 0.97
