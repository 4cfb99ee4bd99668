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

from antithetic.paper.report import (
    Content,
    Explorer,
    Figure,
    PageClaim,
    PageTable,
    Plane,
    Series,
    TrainingFrames,
    render,
    write_page,
)
from antithetic.paper.report.payload import MAX_POINTS, MAX_ROWS
from antithetic.paper.report.thin import thin_curve, thin_rows

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


def hostile_content(text):
    series = Series(text, [0, 1], [1, 2], [0, 1], [2, 3], runs=[[1, 2]])
    method = TrainingFrames(text, [(1, 1, -1)], [0.5])
    explorer = Explorer(
        text,
        SQUARE,
        [1, 1, -1, -1],
        [3, 2, 1, 0],
        [0],
        [method],
        axis_labels=(text, text),
        frame_label=text,
        classes=(text, text),
        note=text,
    )
    return Content(
        text,
        text,
        summary=[text, f"**{text}** 12 %"],
        figures=[Figure("a-figure", text, [series], text, text, text, group=text)],
        claims=[PageClaim(text, "holds", text, text)],
        tables=[PageTable(text, [text], [[text]])],
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
    assert embedded(render(hostile_content(text)))["title"] == text


@given(st.text())
def test_any_text_comes_back_from_the_embedded_json(text):
    page = render(Content(text, summary=[text]))
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set(data[1]) & set("<>&\u2028\u2029")
    assert json.loads(data[1])["summary"] == [text]


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
    for name in ("tools.js", "chart.js", "explorer.js", "page.js"):
        script = files("antithetic.paper.report").joinpath(name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new"
            r" Function|import\(|fetch\(|XMLHttp|</",
            script,
        )


def test_empty_content_makes_a_page():
    page = render(Content("Nothing yet"))
    assert "<h1>Nothing yet</h1>" in page
    assert "<section" not in page


def test_gaps_are_null():
    series = Series(
        "a",
        [0, 1, 2, 3],
        [1.0, np.nan, np.inf, -np.inf],
        [0, 0, np.nan, 0],
        [2, 2, 2, np.inf],
        runs=[[np.nan] * 4],
    )
    held = embedded(render(Content("t", figures=[Figure("f", "f", [series])])))["figures"][0][
        "series"
    ][0]
    assert held["y"] == [1.0, None, None, None]
    assert held["low"] == [0, 0, None, 0]
    assert held["high"] == [2, 2, 2, None]
    assert held["runs"] == [[None] * 4]


def test_points_without_a_place_on_the_axis_are_left_out():
    series = Series("a", [np.nan, 0, -1, 10, 1], [1, 2, 3, 4, 5])
    held = embedded(render(Content("t", figures=[Figure("f", "f", [series], log_x=True)])))[
        "figures"
    ][0]["series"][0]
    assert (held["x"], held["y"], held["points"]) == ([1, 10], [5, 4], 5)


def test_a_long_curve_is_thinned_and_keeps_its_spikes():
    y = np.sin(np.arange(100_000) / 5000)
    y[12_345], y[54_321], y[77_777] = 50, -50, np.nan
    held = embedded(
        render(Content("t", figures=[Figure("f", "f", [Series("a", np.arange(100_000), y)])]))
    )["figures"][0]["series"][0]
    assert MAX_POINTS / 2 < len(held["x"]) <= MAX_POINTS
    assert held["points"] == 100_000
    assert {(12_345, 50), (54_321, -50), (77_777, None), (0, 0)} <= set(
        zip(held["x"], held["y"], strict=True)
    )
    assert held["x"][-1] == 99_999


@given(st.lists(st.floats(), max_size=60), st.integers(5, 20), st.booleans())
def test_thinning_keeps_within_the_limit_and_in_order(x, limit, log):
    x = np.array(x)
    kept = thin_curve(x, np.cos(np.arange(len(x))), limit, log=log)
    assert len(kept) <= limit
    assert len(set(kept)) == len(kept)
    assert (np.diff(x[kept]) >= 0).all()


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
    gradients = rng.normal(size=(90, n, 2))
    frames = list(range(90))
    content = Content(
        "t",
        explorer=[
            Explorer("e", rng.normal(size=(n, 2)), np.ones(n), partner, frames, gradients=gradients)
        ],
    )
    page = render(content)
    held = embedded(page)["explorer"][0]
    rows = np.array(held["rows"])
    assert (len(rows), held["size"]) == (MAX_ROWS, n)
    assert held["partnerRows"] == partner[rows].tolist()
    assert rows[held["partner"]].tolist() == partner[rows].tolist()
    kept = [k for k, frame in enumerate(held["gradients"]) if frame is not None]
    assert (kept[0], kept[-1]) == (0, 89)
    np.testing.assert_allclose(held["gradients"][0], gradients[0][rows], rtol=1e-4)
    assert len(page) < 3_000_000


def test_lines_have_unit_normals_and_none_is_none():
    method = TrainingFrames("m", [(3, 4, 5), None, (0, 0, 1), (np.nan, 1, 1)], [1, 2, 3, np.nan])
    content = Content(
        "t",
        explorer=[
            Explorer(
                "e", SQUARE, [1, 1, -1, -1], [1, 0, 3, 2], range(4), [method], optimum=(0, 2, 1)
            )
        ],
    )
    held = embedded(render(content))["explorer"][0]
    assert held["methods"][0]["boundaries"] == [[0.6, 0.8, 1.0], None, None, None]
    assert held["optimum"] == [0, 1, 0.5]


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
    page = render(
        Content(
            "t",
            tables=[
                PageTable(
                    "T", ["name", "n", "ratio"], [["a", np.int64(-3), 0.123456], [True, 4, np.nan]]
                )
            ],
        )
    )
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
        Content("t", claims=[PageClaim("c", verdict)])
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series("a", [1, 2], [1]), "y of series 'a' has shape"),
        (lambda: Series("a", [1], [1], low=[0]), "needs both"),
        (lambda: Figure("Not a slug", "t", []), "sonar-objective"),
        (lambda: Figure("f", "t", [Series("a", [], []), Series("a", [], [])]), "twice"),
        (lambda: Content("t", figures=[Figure("f", "t", []), Figure("f", "t", [])]), "twice"),
        (lambda: PageClaim("c", "maybe"), "use one of 'holds'"),
        (lambda: PageTable("t", ["a", "b"], [[1]]), "2 columns"),
        (lambda: Explorer("e", SQUARE, [1, 1, -1, -1], [0, 0, 1, 2]), "permutation"),
        (lambda: Explorer("e", SQUARE, [1, 1, 0, -1], [0, 1, 2, 3]), "-1 and \\+1"),
        (lambda: Explorer("e", SQUARE * np.nan, [1, 1, 1, -1], [0, 1, 2, 3]), "NaN"),
        (
            lambda: Explorer(
                "e",
                SQUARE,
                [1, 1, 1, -1],
                [0, 1, 2, 3],
                [0, 1],
                [TrainingFrames("m", [(1, 1, 1)], [1])],
            ),
            "has 1 frames, the explorer 2",
        ),
        (
            lambda: Explorer("e", SQUARE, [1, 1, 1, -1], [0, 1, 2, 3], [0, 1], gradients=[SQUARE]),
            "one per frame",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_string_is_not_a_list_of_sentences():
    with pytest.raises(TypeError, match="list of sentences"):
        Content("t", summary="One sentence.")


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
    np.testing.assert_allclose(plane.points(make(rows)) @ [a, b] + c, rows @ w + 0.3, atol=1e-12)


def test_the_plane_holds_the_most_variance():
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 5, 0.1, 3]
    plane = Plane.of(X)
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    captured = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(plane.points(X), axis=0), captured)
