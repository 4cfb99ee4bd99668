"""The report's page, without a browser: what it embeds, escapes, leaves out and refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from antithetic.paper.claims import Claim
from antithetic.paper.report.explorer import MAX_ROWS, Explorer, Plane, Training, thin_rows
from antithetic.paper.report.page import Content, Table, render, write_page
from antithetic.paper.report.pictures import (
    FORMATS,
    Figure,
    Picture,
    Series,
    draw_figures,
    write_pictures,
)

pytestmark = pytest.mark.wheel

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"' onmouseover='alert(1)",
    "&lt;b&gt; & \u2028\u2029 \x00",
    "${alert(1)}`",
    "]]></style><script>alert(1)</script>",
]
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


class Reader(HTMLParser):
    """Elements and text of a page, as a browser's parser would see them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.scripts, self.within = [], [], [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.within = tag

    def handle_endtag(self, _):
        self.within = None

    def handle_data(self, data):
        if self.within == "script":
            self.scripts.append(data)
        elif self.within != "style":
            self.texts.append(data)


def embedded(page):
    return json.loads(Reader(page).scripts[0])


def made_claim(text="c", verdict="holds"):
    by_measure = {"chosen": {"own runs": text}}
    return Claim(1, text, verdict, text, by_measure, text, text, ())


def hostile_content(text):
    series = Series(text, [0, 1], [1, 2], [0, 1], [2, 3])
    training = Training(text, [(0.6, 0.8, -1.0)], [0.5], [SQUARE], [SQUARE[:, 0]])
    explorer = Explorer(
        text,
        SQUARE,
        [1, 1, -1, -1],
        [3, 2, 1, 0],
        [0],
        [training],
        axis_labels=(text, text),
        note=text,
    )
    figures = [
        Figure(f"figure-{k}", text, [series], text, text, text, group=group)
        for k, group in enumerate(["", text])
    ]
    drawn = draw_figures(figures)
    return Content(
        text,
        text,
        summary=[text, f"**{text}** 12 %"],
        sheets=drawn[:1],
        pictures=drawn,
        claims=[made_claim(text)],
        tables=[Table(text, [text], [[text]])],
        explorer=[explorer],
        settings={text: text},
        versions={text: text},
        machine={text: text},
        citation=text,
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_what_comes_from_data_is_never_markup(text):
    """The page has the same elements for any texts, and no attribute that runs code."""
    plain, hostile = Reader(render(hostile_content("plain"))), Reader(render(hostile_content(text)))
    # Numbers are emphasised, so <strong> may differ.
    assert [tag for tag in hostile.tags if tag != "strong"] == [
        tag for tag in plain.tags if tag != "strong"
    ]
    assert [name for name, _ in hostile.attributes] == [name for name, _ in plain.attributes]
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    assert hostile.scripts[1:] == plain.scripts[1:]
    assert embedded(render(hostile_content(text)))[0]["name"] == text


@given(st.text())
def test_any_text_comes_back_from_the_embedded_json(text):
    explorer = Explorer("e", SQUARE, [1, 1, -1, -1], [3, 2, 1, 0], [0], [], note=text)
    page = render(Content("t", explorer=[explorer]))
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set(data[1]) & set("<>&\u2028\u2029")
    assert json.loads(data[1])[0]["note"] == text


def test_a_lone_surrogate_does_not_stop_the_writing(tmp_path):
    write_page(Content("\ud800"), tmp_path / "page.html")
    assert "<title>?</title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_only_our_own_style_and_script_may_run():
    page = render(Content("A page"))
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    for kind, text in (
        ("script-src", page.split("<script>")[1].split("</script>")[0]),
        ("style-src", page.split("<style>")[1].split("</style>")[0]),
    ):
        assert (
            rules.pop(kind)
            == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        )
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_links_to_nowhere():
    page = render(hostile_content("plain"))
    # A namespace, which is never requested.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not [
        value
        for name, value in Reader(page).attributes
        if name in ("src", "href") and not value.startswith(("#", "data:"))
    ]


def test_the_script_writes_text_only():
    script = files("antithetic.paper.report").joinpath("explorer.js").read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new"
        r" Function|import\(|fetch\(|XMLHttp|</",
        script,
    )


def test_empty_content_makes_a_page():
    page = render(Content("Nothing yet"))
    assert "<h1>Nothing yet</h1>" in page
    assert "<section" not in page


# ---- pictures


def drawn_svg(figure):
    return draw_figures([figure])[0].svg.decode()


def test_a_picture_on_the_page_is_that_of_its_file(tmp_path):
    """The page shows the same bytes that the folder of figures has; PNG comes from one drawing."""
    pictures = draw_figures([Figure("f", "A title", [Series("a", [0, 1], [1, 2])], "A caption.")])
    paths = write_pictures(pictures, tmp_path / "figures")
    assert [path.name for path in paths] == [f"f.{ending}" for ending in FORMATS]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    page = render(Content("t", pictures=pictures))
    (source,) = re.findall(r'<img src="data:image/svg\+xml;base64,(.*?)" alt="A title">', page)
    assert base64.b64decode(source) == paths[1].read_bytes()
    assert "<figcaption>A caption.</figcaption>" in page


def test_a_figure_is_drawn_the_same_each_time():
    figure = Figure("f", "t", [Series("a", [0, 1, 2], [1, 2, 3], [0, 1, 2], [2, 3, 4])], log_y=True)
    assert drawn_svg(figure) == drawn_svg(figure)


def test_gaps_and_what_has_no_place_on_the_axis_are_not_drawn():
    """NaN, infinity, and on a logarithmic axis zero, leave a gap in a curve."""
    whole = Series("a", [0, 1, 2, 3, 4], [1.0, 2.0, 4.0, 8.0, 16.0])
    for hole in (np.nan, np.inf, 0.0):
        cut = Series("a", [0, 1, 2, 3, 4], [1.0, 2.0, hole, 8.0, 16.0])
        counts = [
            drawn_svg(Figure("f", "t", [series], log_y=True)).count("<use ")
            for series in (whole, cut)
        ]
        assert counts[0] - counts[1] == 1  # one marker less
    empty = Figure("f", "t", [Series("a", [0, 1], [np.nan, -1.0])], log_y=True)
    assert "<svg" in drawn_svg(empty)


def test_names_of_curves_stand_above_the_axes_and_do_not_collide():
    names = [f"a long name of order {k}" for k in range(6)]
    series = [Series(name, [0, 1], [k, 1.0]) for k, name in enumerate(names)]  # they end as one
    picture = draw_figures([Figure("f", "t", series)])[0]
    sheet = picture.sheet
    sheet.draw_without_rendering()
    (legend,) = sheet.legends
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert len(boxes) == len(names)
    for place, box in enumerate(boxes):
        assert box.y0 >= sheet.axes[0].get_window_extent().y1
        assert box.x1 <= sheet.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:place])


def test_an_axis_starts_at_zero_if_asked():
    """Values far above zero, as variances may be, are not blown up."""
    series = [Series("SGD", [0, 1, 2], [10.0, 9.5, 9.0])]
    for from_zero in (True, False):
        picture = draw_figures([Figure("f", "t", series, from_zero=from_zero)])[0]
        assert (picture.sheet.axes[0].get_ylim()[0] == 0.0) == from_zero


def test_a_name_looks_the_same_in_all_figures():
    first = Figure("f", "t", [Series("a", [0], [1]), Series("b", [0], [1])])
    second = Figure("g", "t", [Series("b", [0], [1])])
    sheets = [picture.sheet for picture in draw_figures([first, second])]
    looks = [
        {
            line.get_label(): (line.get_color(), line.get_marker(), str(line.get_linestyle()))
            for line in sheet.axes[0].get_lines()
        }
        for sheet in sheets
    ]
    assert looks[0]["b"] == looks[1]["b"] != looks[0]["a"]


def test_sheets_stand_before_the_explorer_and_fold_the_groups():
    """Any drawing can be a sheet; with sheets, groups of pictures are folded."""
    import matplotlib.pyplot as plt

    sheet = plt.Figure()
    sheet.subplots(2, 2)
    explorer = Explorer("e", SQUARE, [1, 1, -1, -1], [3, 2, 1, 0], [0], [])
    pictures = draw_figures([Figure("f", "t", [Series("a", [0], [1])], group="sonar")])
    page = render(
        Content(
            "t",
            sheets=[Picture("figure-2", "Figure 2", sheet, "All sets.")],
            explorer=[explorer],
            claims=[made_claim()],
            pictures=pictures,
        )
    )
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections == ["sheets", "pairs", "claims", "figures"]
    assert '<figure id="figure-figure-2">' in page
    assert '<details class="group"><summary>sonar</summary>' in page
    alone = render(Content("t", pictures=pictures))
    assert '<details class="group" open><summary>sonar</summary>' in alone


# ---- the explorer


@given(st.integers(0, 60), st.integers(2, 20), st.randoms(use_true_random=False))
def test_of_a_matching_whole_pairs_are_left_out(n, limit, random):
    order = list(range(n))
    random.shuffle(order)
    partner = np.arange(n)
    for a, b in zip(order[::2], order[1::2], strict=False):
        partner[a], partner[b] = b, a
    rows = thin_rows(partner, limit)
    assert min(n, limit - 1) <= len(rows) <= limit
    assert set(partner[rows]) == set(rows)


@given(st.permutations(range(30)), st.integers(2, 20))
def test_of_any_table_few_rows_lose_their_partner(permutation, limit):
    partner = np.array(permutation)
    rows = thin_rows(partner, limit)
    assert len(rows) <= limit
    assert len(set(partner[rows]) - set(rows)) <= 1


def test_an_explorer_of_many_rows_keeps_partners_together():
    n = 5000
    partner = np.arange(n)[::-1]
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=(n, 2)), None, rng.normal(size=(n, 2))]
    training = Training("SGD", [None] * 3, np.ones(3), gradients, [None] * 3)
    explorer = Explorer("e", rng.normal(size=(n, 2)), np.ones(n), partner, range(3), [training])
    page = render(Content("t", explorer=[explorer]))
    held = embedded(page)[0]
    rows = np.array(held["rows"])
    assert (len(rows), held["size"]) == (MAX_ROWS, n)
    assert held["partnerRows"] == partner[rows].tolist()
    assert rows[held["partner"]].tolist() == partner[rows].tolist()
    found = held["methods"][0]["gradients"]
    assert found[1] is None
    np.testing.assert_allclose(found[2], gradients[2][rows], rtol=1e-4)


def test_numbers_that_json_cannot_hold_are_null():
    training = Training("m", [None, (0.6, 0.8, 1.0)], [1.0, np.nan], [None] * 2, [None] * 2)
    explorer = Explorer("e", SQUARE, [1, 1, -1, -1], [1, 0, 3, 2], range(2), [training])
    (method,) = embedded(render(Content("t", explorer=[explorer])))[0]["methods"]
    assert method["objective"] == [1.0, None]
    assert method["boundaries"] == [None, [0.6, 0.8, 1.0]]


def test_lines_have_unit_normals_and_none_is_none():
    plane = Plane(np.zeros(2), np.eye(2))
    assert plane.line([3.0, 4.0], 5.0) == pytest.approx((0.6, 0.8, 1.0))
    assert plane.line([0.0, 0.0], 1.0) is None
    assert plane.line([np.nan, 1.0]) is None


def test_key_numbers_are_emphasised():
    page = render(
        Content(
            "t",
            summary=[
                "On ijcnn1.tr 3 seeds gain 40 % & 1.5x, not 2-fold.",
                "Only **this <b>** counts, not 7.",
            ],
        )
    )
    assert (
        "<p>On ijcnn1.tr <strong>3</strong> seeds gain <strong>40 %</strong> &amp;"
        " <strong>1.5x</strong>, not 2-fold.</p>" in page
    )
    assert "<p>Only <strong>this &lt;b&gt;</strong> counts, not 7.</p>" in page


def test_numbers_of_tables():
    rows = [["a", np.int64(-3), 0.123456], [True, 4, np.nan]]
    page = render(Content("t", tables=[Table("T", ["name", "n", "ratio"], rows)]))
    for cell in (
        '<td class="number">\N{MINUS SIGN}3</td>',
        '<td class="number">0.1235</td>',
        '<td class="number">\N{EN DASH}</td>',
        '<th scope="row">True</th>',
    ):
        assert cell in page


@pytest.mark.parametrize("verdict", ["holds", "does not hold", "holds in part", "not measured"])
def test_verdicts_are_worded_and_coloured(verdict):
    assert f'<span class="badge {verdict.replace(" ", "-")}">{verdict}</span>' in render(
        Content("t", claims=[made_claim(verdict=verdict)])
    )


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_rows_on_the_decision_are_on_its_line_in_the_plane(d, make):
    """A row in the plane has the same margin as its image under the decision line."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(40, d)) * np.arange(1, d + 1)
    plane = Plane.of(make(X))
    w, image = rng.normal(size=d), rng.normal(size=(7, 2))[:, : max(1, min(d, 2))]
    rows = plane.centre + image @ plane.axes[: image.shape[1]]
    a, b, c = plane.line(w, 0.3)
    length = np.linalg.norm(plane.axes @ w)
    heights = (rows @ w + 0.3) / length
    np.testing.assert_allclose(plane.points(make(rows)) @ [a, b] + c, heights, atol=1e-12)


def test_the_plane_holds_the_most_variance():
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 5, 0.1, 3]
    plane = Plane.of(X)
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    captured = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(plane.points(X), axis=0), captured)
