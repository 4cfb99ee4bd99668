"""Pictures: lines and bars match their numbers, names are shown verbatim, refusals are clear."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDOneClassSVM, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import antithetic
from antithetic import AntitheticTable, gradient_variance, pair
from antithetic.display import ConvergenceDisplay, VarianceDisplay
from antithetic.orders import Shuffle, Uniform
from antithetic.problem.losses import Huber, get_loss

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def shown_texts(artist):
    """Texts of an axes or legend as drawn; drawing them proves that none is read as a formula."""
    artist.figure.canvas.draw()
    for text in artist.get_texts() if hasattr(artist, "get_texts") else artist.get_yticklabels():
        plain, is_formula = text._preprocess_math(text.get_text())
        assert not is_formula
        yield plain


def legend_of(display):
    return list(shown_texts(display.ax_.get_legend()))


# ---- convergence


class Recorded(BaseEstimator):
    """An estimator that has recorded what it was given."""

    def fit(self, history, classes=(0, 1)):
        self.history_ = history
        self.classes_ = np.array(classes)
        return self


def history(epochs=5, scale=1.0):
    epoch = np.arange(1, epochs + 1)
    return {
        "epoch": epoch,
        "seconds": 0.5 * epoch,
        "objective": 0.25 + scale / epoch,
        "variance_ratio": 1.0 - 0.1 / epoch,
    }


def test_a_line_is_the_history():
    """The line shows history_; axes are labelled, and the legend names the estimator."""
    recorded = history()
    display = ConvergenceDisplay.from_estimator(Recorded().fit(recorded))
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), recorded["epoch"])
    np.testing.assert_array_equal(line.get_ydata(), recorded["objective"])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel(), display.ax_.get_yscale()) == (
        "epoch",
        "objective",
        "linear",
    )
    assert legend_of(display) == ["Recorded"]
    assert display.figure_ is display.ax_.figure
    assert all(tick == int(tick) for tick in display.ax_.get_xticks())


def test_metric_and_seconds():
    recorded = history()
    display = ConvergenceDisplay.from_estimator(
        Recorded().fit(recorded), metric="variance_ratio", x="seconds", line_kw={"color": "red"}
    )
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), recorded["seconds"])
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), recorded["variance_ratio"])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("seconds", "variance ratio")
    assert display.lines_[0].get_color() == "red"


def test_distance_to_the_optimum_without_the_points_that_reached_it():
    """A log axis shows what is above zero; the display keeps all points."""
    recorded = {"epoch": np.arange(1, 6), "objective": np.array([2.0, 1.5, 1.0, 0.5, np.nan])}
    display = ConvergenceDisplay.from_estimator(Recorded().fit(recorded), optimum=1.0)
    drawn = display.lines_[0].get_ydata()
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), [False, False, True, True, True])
    np.testing.assert_array_equal(drawn.compressed(), [1.0, 0.5])
    np.testing.assert_array_equal(display.curves["Recorded"][1], [1.0, 0.5, 0.0, -0.5, np.nan])
    assert (display.ax_.get_yscale(), display.ax_.get_ylabel()) == (
        "log",
        "objective minus optimum",
    )
    display.figure_.canvas.draw()


def test_two_estimators_on_one_axes_share_the_legend():
    first = ConvergenceDisplay.from_estimator(Recorded().fit(history()), name="a")
    second = ConvergenceDisplay.from_estimator(Recorded().fit(history(8)), name="b", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert legend_of(second) == ["a", "b"]
    assert len(first.ax_.lines) == 2


def test_a_line_per_class():
    """Each class has its own line, length and, if wanted, optimum.

    A name is put before the class.
    """
    estimator = Recorded().fit([history(3), history(5), history(4)], classes=["x", "y", "z"])
    display = ConvergenceDisplay.from_estimator(estimator)
    assert [len(line.get_xdata()) for line in display.lines_] == [3, 5, 4]
    assert legend_of(display) == ["class x", "class y", "class z"]
    named = ConvergenceDisplay.from_estimator(estimator, name="mine", optimum=[0.25, 0.0, -0.25])
    assert legend_of(named) == ["mine, class x", "mine, class y", "mine, class z"]
    for line, shift in zip(named.lines_, (0.25, 0.0, -0.25), strict=True):
        np.testing.assert_allclose(
            line.get_ydata(), history(len(line.get_xdata()))["objective"] - shift
        )


def test_many_classes_fit_the_legend():
    display = ConvergenceDisplay.from_estimator(
        Recorded().fit([history()] * 30, classes=np.arange(30))
    )
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    assert box.height < display.figure_.bbox.height


def test_a_display_can_be_drawn_again():
    display = ConvergenceDisplay(
        {"a": ([1, 2], [0.5, 0.25]), "b": ([1], [0.5])}, x_label="step", y_label="gap", log=True
    )
    _, axes = plt.subplots(2)
    for ax in axes:
        assert display.plot(ax=ax) is display
        assert display.ax_ is ax
        assert ax.get_yscale() == "log"
        assert [line.get_label() for line in display.lines_] == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["$x$", "$1 or $2", "a$b", r"\$a$", "_hidden", "100 %", "a_b^c", "$"]
)
def test_names_are_shown_as_given(name):
    """No formulas, and nothing hidden: a leading underscore would keep a line out of the legend."""
    line = ConvergenceDisplay.from_estimator(Recorded().fit(history()), name=name)
    assert [text.lstrip() for text in legend_of(line)] == [name]
    classes = ConvergenceDisplay.from_estimator(
        Recorded().fit([history()] * 3, classes=[name, "b", "c"])
    )
    assert legend_of(classes)[0] == f"class {name}"
    bars = VarianceDisplay([name], [1.0], [1.0], (1.0, 1.0)).plot()
    assert [text.lstrip() for text in shown_texts(bars.ax_)] == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"metric": "loss"},
            (
                r"metric='loss' was not recorded; history_ has epoch, seconds, objective,"
                r" variance_ratio .*trace="
            ),
        ),
        ({"x": "steps"}, "x must be one of epoch, seconds; got 'steps'"),
        (
            {"optimum": np.inf},
            "optimum must be a finite number, or one for each of the 1 lines; got inf",
        ),
        ({"optimum": [0.0, 0.0]}, "optimum must be"),
        ({"optimum": 5.0}, "no objective lies above optimum=5.0"),
    ],
)
def test_convergence_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay.from_estimator(Recorded().fit(history()), **arguments)
    assert not plt.get_fignums()


def test_a_metric_must_be_in_every_class():
    partial = history()
    del partial["variance_ratio"]
    with pytest.raises(ValueError, match="history_ has epoch, seconds, objective "):
        ConvergenceDisplay.from_estimator(
            Recorded().fit([history(), partial]), metric="variance_ratio"
        )


def test_x_must_be_recorded_too():
    with pytest.raises(
        ValueError, match="x='seconds' was not recorded; history_ has epoch, objective"
    ):
        ConvergenceDisplay.from_estimator(
            Recorded().fit({"epoch": [1], "objective": [1.0]}), x="seconds"
        )


def test_an_estimator_without_a_history():
    """An estimator that is not fitted, or not ours, is refused."""
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(Recorded())
    with pytest.raises(ValueError, match=r"SGDRegressor has no history_; give .*last step"):
        ConvergenceDisplay.from_estimator(SGDRegressor().fit([[0.0], [1.0]], [0.0, 1.0]))


# ---- variance


def some_data(n=40, d=3, classes=2):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, d)) + 0.2
    scores = X @ rng.normal(size=(d, classes)) + rng.normal(size=(n, classes))
    return X, np.array(["a", "b", "c", "d"])[np.argmax(scores, axis=1)]


def classifier(**parameters):
    return SGDClassifier(**{"loss": "log_loss", "alpha": 1e-2, "random_state": 0, **parameters})


def expected(X, y, tables, coef=None, intercept=0.0, **options):
    """Ratios of independent rows, reshuffled rows, and pairs of each table.

    And what they are relative to.
    """
    orders = [Uniform(), Shuffle(), *(Uniform(pairs=table) for table in tables)]
    variances = [
        gradient_variance(X, y, coef, intercept=intercept, order=order, **options)
        for order in orders
    ]
    return np.array(variances) / variances[0], variances[0]


def check_bars(display, X, y, tables, coef, intercept, **options):
    """Attributes, bars and written numbers are those of gradient_variance."""
    zero, iid_zero = expected(X, y, tables, **options)
    fit, iid_fit = expected(X, y, tables, coef, intercept, **options)
    np.testing.assert_allclose(display.ratios_at_zero, zero, rtol=1e-12)
    np.testing.assert_allclose(display.ratios_at_fit, fit, rtol=1e-12)
    np.testing.assert_allclose(display.iid_variances, (iid_zero, iid_fit), rtol=1e-12)
    for bars, ratios in zip(display.bars_, (zero, fit), strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in bars], ratios, rtol=1e-12)
    written = [text.get_text() for text in display.ax_.texts]
    assert written == [f"{ratio:.3g}" for ratio in (*zero, *fit)]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_bars_of_a_classifier(form, fit_intercept):
    """The bars are those of the table that ``pair`` makes, for batches of 2."""
    X, y = some_data()
    X = form(X)
    model = classifier(fit_intercept=fit_intercept).fit(X, y)
    display = VarianceDisplay.from_estimator(model, X, y)
    assert display.names == ["independent rows", "reshuffled rows", "antithetic pairs"]
    table = pair(X, y, fit_intercept=fit_intercept)
    check_bars(
        display, X, y, [table], model.coef_, float(model.intercept_[0]), fit_intercept=fit_intercept
    )
    assert display.ratios_at_zero[0] == 1.0
    assert display.ratios_at_zero[2] < display.ratios_at_zero[1] < 1.0


def test_labels_and_reference_line():
    """The figure says what it shows, and what 1 is."""
    X, y = some_data()
    display = VarianceDisplay.from_estimator(classifier().fit(X, y), X, y, batch_size=4)
    assert (
        display.ax_.get_xlabel()
        == "variance of the gradient of 4 rows, relative to independent rows"
    )
    assert display.ax_.get_ylabel()
    assert list(shown_texts(display.ax_)) == display.names
    zero, fit = (f"{variance:.3g}" for variance in display.iid_variances)
    assert legend_of(display) == [
        f"at zero weights (1 stands for {zero})",
        f"at the fitted weights (1 stands for {fit})",
    ]
    (line,) = display.ax_.lines
    assert line.get_linestyle() == ":"
    assert list(line.get_xdata()) == [1.0, 1.0]
    assert display.figure_ is display.ax_.figure


def test_several_tables_keep_their_names():
    """Several tables keep their names and order, first on top, in a figure that grows.

    Long names are wrapped.
    """
    X, y = some_data()
    model = classifier(fit_intercept=False).fit(X, y)
    tables = {
        "greedy": pair(X, y, "greedy"),
        "best": pair(X, y, "optimal"),
        "a name that is far too long for one line": pair(X, y, "random"),
    }
    display = VarianceDisplay.from_estimator(model, X, y, table=tables, batch_size=5)
    assert display.names[2:] == list(tables)
    check_bars(display, X, y, tables.values(), model.coef_, 0.0, batch_size=5)
    assert display.ax_.yaxis_inverted()
    few = VarianceDisplay.from_estimator(model, X, y, table=tables["best"])
    assert few.names[2:] == ["antithetic pairs"]
    assert display.figure_.get_figheight() > few.figure_.get_figheight()
    assert "\n" in display.ax_.get_yticklabels()[4].get_text()


@pytest.mark.parametrize("size", [1, 3, 100])
def test_batch_size_is_the_estimators_and_at_most_n(size):
    """One row has no partner; all rows have no variance when reshuffled."""

    class Batched(SGDClassifier):
        batch_size = size

    X, y = some_data()
    model = Batched(loss="log_loss", random_state=0, fit_intercept=False).fit(X, y)
    table = pair(X, y)
    display = VarianceDisplay.from_estimator(model, X, y, table=table)
    assert display.batch_size == min(size, len(y))
    check_bars(display, X, y, [table], model.coef_, 0.0, batch_size=display.batch_size)


def test_weights_of_rows():
    X, y = some_data()
    weight = np.random.default_rng(1).random(len(y))
    model = classifier().fit(X, y, sample_weight=weight)
    display = VarianceDisplay.from_estimator(model, X, y, sample_weight=weight)
    table = pair(X, y, fit_intercept=True, sample_weight=weight)
    check_bars(
        display,
        X,
        y,
        [table],
        model.coef_,
        float(model.intercept_[0]),
        fit_intercept=True,
        sample_weight=weight,
    )


@pytest.mark.parametrize("class_weight", [{"a": 3.0, "b": 0.5}, "balanced"])
def test_weights_of_classes(class_weight):
    """Two classes: each its own. They multiply the rows' weights."""
    X, y = some_data()
    weight = np.random.default_rng(1).random(len(y))
    model = classifier(class_weight=class_weight, fit_intercept=False).fit(X, y)
    of_class = (
        class_weight
        if class_weight != "balanced"
        else {label: len(y) / 2 / np.sum(y == label) for label in "ab"}
    )
    factors = np.array([of_class[label] for label in y])
    for given, used in ((None, factors), (weight, weight * factors)):
        display = VarianceDisplay.from_estimator(model, X, y, sample_weight=given)
        check_bars(
            display, X, y, [pair(X, y, sample_weight=used)], model.coef_, 0.0, sample_weight=used
        )


def test_one_class_against_the_rest():
    """One class against the rest uses the weights and the intercept of that class.

    Of the class weights, only its own counts.
    """
    X, y = some_data(classes=3)
    model = classifier(class_weight={"a": 3.0, "b": 2.0, "c": 1.0}).fit(X, y)
    for place, label in enumerate("abc"):
        weight = np.where(y == label, 3.0 - place, 1.0)
        display = VarianceDisplay.from_estimator(model, X, y, target=label)
        table = pair(X, y == label, fit_intercept=True, sample_weight=weight)
        options = {"fit_intercept": True, "sample_weight": weight}
        check_bars(
            display,
            X,
            y == label,
            [table],
            model.coef_[place],
            float(model.intercept_[place]),
            **options,
        )


def test_a_table_of_the_labels_or_of_one_class_is_accepted():
    """Made for y, for the signs of the class, or for True and False.

    A table of other labels is refused.
    """
    X, y = some_data(classes=3)
    model = classifier(fit_intercept=False).fit(X, y)
    one = y == "b"
    for labels in (y, one, np.where(one, 1, -1)):
        table = pair(X, labels)
        display = VarianceDisplay.from_estimator(model, X, y, table=table, target="b")
        check_bars(display, X, one, [AntitheticTable(table.partner)], model.coef_[1], 0.0)
    with pytest.raises(ValueError, match="the table was made for other labels"):
        VarianceDisplay.from_estimator(model, X, y, table=pair(X, y == "c"), target="b")
    with pytest.raises(ValueError, match="the table was made for other values of X"):
        VarianceDisplay.from_estimator(model, X, y, table=pair(X + 1.0, y), target="b")


@pytest.mark.parametrize("loss", ["squared_error", "huber", "epsilon_insensitive"])
def test_a_classifier_with_a_regression_loss_trains_on_signs(loss):
    """A classifier with a regression loss trains on signs, with its own epsilon."""
    X, y = some_data()
    model = classifier(loss=loss, epsilon=0.4, fit_intercept=False).fit(X, y)
    signs, loss = np.where(y == "b", 1.0, -1.0), get_loss(loss).with_epsilon(0.4)
    display = VarianceDisplay.from_estimator(model, X, y)
    check_bars(display, X, signs, [pair(X, signs, loss=loss)], model.coef_, 0.0, loss=loss)


@pytest.mark.parametrize("column", [False, True])
def test_a_regressor(column):
    X, _ = some_data()
    y = X @ [1.0, -2.0, 0.5] + 0.1
    model = SGDRegressor(loss="huber", epsilon=0.7, random_state=0).fit(X, y)
    options = {"loss": Huber(0.7), "fit_intercept": True}
    display = VarianceDisplay.from_estimator(model, X, y[:, None] if column else y)
    check_bars(
        display, X, y, [pair(X, y, **options)], model.coef_, float(model.intercept_[0]), **options
    )


def test_sparse_weights():
    X, y = some_data()
    model = classifier().fit(X, y)
    dense = VarianceDisplay.from_estimator(model, X, y)
    thin = VarianceDisplay.from_estimator(model.sparsify(), X, y)
    np.testing.assert_array_equal(thin.ratios_at_fit, dense.ratios_at_fit)


def test_bars_can_be_drawn_again():
    """Bars can be drawn again, on other axes and on the same ones, without flipping them."""
    display = VarianceDisplay(["a", "b"], [1.0, 0.0], [1.0, 3.0], (0.5, 0.25), batch_size=1)
    _, axes = plt.subplots(2)
    for ax in (*axes, axes[1]):
        assert display.plot(ax=ax, bar_kw={"alpha": 0.5}) is display
        assert display.ax_ is ax
        assert ax.yaxis_inverted()
        assert display.bars_[0][0].get_alpha() == 0.5
        assert ax.get_xlabel().startswith("variance of the gradient of 1 row,")


def test_where_nothing_varies_all_ratios_are_one():
    """Beyond the margin the hinge loss has no slope, so 0 / 0."""
    X, y = np.array([[3.0], [4.0], [-3.0], [-5.0]]), np.array([1, 1, 0, 0])
    model = classifier(loss="hinge", fit_intercept=False).fit(X, y)
    model.coef_ = np.array([[1.0]])
    display = VarianceDisplay.from_estimator(model, X, y)
    assert display.iid_variances[1] == 0.0
    assert display.ratios_at_fit.tolist() == [1.0, 1.0, 1.0]


def test_what_is_not_finite_is_left_out():
    display = VarianceDisplay(
        ["a", "b", "c"], [1.0, np.inf, np.nan], [1.0, 1.0, 1.0], (0.0, 1.0)
    ).plot()
    display.figure_.canvas.draw()
    assert [text.get_text() for text in display.ax_.texts] == ["1", "", "", "1", "1", "1"]


def refused(message, estimator, X, y, error=ValueError, **arguments):
    with pytest.raises(error, match=message):
        VarianceDisplay.from_estimator(estimator, X, y, **arguments)
    assert not plt.get_fignums()


def test_what_is_not_a_fitted_linear_model_is_refused():
    X, y = some_data()
    refused(
        r"LogisticRegression has no loss, so .*; give a fitted SGDClassifier",
        LogisticRegression().fit(X, y),
        X,
        y,
    )
    refused(
        r"Pipeline has no loss, .*give its last step",
        make_pipeline(StandardScaler(), classifier()).fit(X, y),
        X,
        y,
    )
    refused("not fitted yet", classifier(), X, y, error=NotFittedError)

    class Forest(BaseEstimator):
        loss = "log_loss"

        def fit(self):
            self.trees_ = []
            return self

    refused("Forest is not a linear model with coef_", Forest().fit(), X, y)
    outliers = SGDOneClassSVM().fit(X)
    outliers.loss, outliers.intercept_ = "hinge", np.zeros(1)
    refused("SGDOneClassSVM has the loss hinge of a classifier but no classes_", outliers, X, y)
    odd = classifier().fit(X, y)
    odd.loss = "squared"
    refused("loss 'squared' is not known", odd, X, y)
    several = SGDRegressor().fit(X, X[:, 0])
    several.coef_ = np.ones((2, X.shape[1]))
    refused(
        r"coef must have shape \(3,\), one weight per feature of X; got \(2, 3\)",
        several,
        X,
        X[:, 0],
    )


def test_targets_that_do_not_fit_are_refused():
    X, y = some_data(classes=3)
    model = classifier().fit(X, y)
    refused("3 classes.*; give target=, one of 'a', 'b', 'c'", model, X, y)
    refused(
        "target='z' is not a class of SGDClassifier; use one of 'a', 'b', 'c'",
        model,
        X,
        y,
        target="z",
    )
    refused(
        "target='a' selects one of several classes, but SGDRegressor has none",
        SGDRegressor().fit(X, X[:, 0]),
        X,
        X[:, 0],
        target="a",
    )


def test_of_two_classes_the_target_changes_nothing():
    X, y = some_data()
    model = classifier().fit(X, y)
    first, last, neither = (
        VarianceDisplay.from_estimator(model, X, y, target=label) for label in ("a", "b", None)
    )
    np.testing.assert_array_equal(first.ratios_at_fit, neither.ratios_at_fit)
    np.testing.assert_array_equal(last.ratios_at_fit, neither.ratios_at_fit)


def test_labels_that_do_not_fit_are_refused():
    X, y = some_data(classes=3)
    model = classifier().fit(X, y)
    refused(
        r"y has 'z', which the estimator was not fitted to; its classes are \['a'",
        model,
        X,
        np.where(y == "a", "z", y),
        target="b",
    )
    refused(
        "y must have rows of class 'a' and of other classes; got no rows of that class",
        model,
        X,
        np.where(y == "a", "b", y),
        target="a",
    )
    refused(
        "y must have rows of class 'a' and of other classes; got only rows of that class",
        model,
        X,
        np.full(len(y), "a"),
        target="a",
    )
    refused(r"y must have shape \(40,\)", model, X, y[:-1], target="a")
    refused(r"coef must have shape \(2,\)", model, X[:, :2], y, target="a")


def test_tables_and_sizes_that_do_not_fit_are_refused():
    X, y = some_data()
    model = classifier().fit(X, y)
    refused("must be an AntitheticTable", model, X, y, table=np.arange(len(y)))
    refused("must be an AntitheticTable", model, X, y, table={"groups": pair(X, y, nest=4)})
    refused("the table has 3 rows and X has 40", model, X, y, table=AntitheticTable([1, 0, 2]))
    refused("batch_size must be a whole number, at least 1; got 0", model, X, y, batch_size=0)


# ---- matplotlib itself


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    """Without matplotlib the error says what to install, before anything is computed."""
    calls = count()
    monkeypatch.setattr(
        "antithetic.display._linear_model.gradient_variance", lambda *_, **__: next(calls)
    )
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    X, y = some_data()
    for draw in (
        lambda: ConvergenceDisplay.from_estimator(Recorded().fit(history())),
        lambda: VarianceDisplay.from_estimator(classifier().fit(X, y), X, y),
        lambda: VarianceDisplay(["a"], [1.0], [1.0], (1.0, 1.0)).plot(),
    ):
        with pytest.raises(
            ImportError, match=r'needs matplotlib; install it with pip install "antithetic\[cli\]"'
        ):
            draw()
    assert next(calls) == 0


@pytest.mark.parametrize("module", ["antithetic", "antithetic.display"])
def test_importing_does_not_import_matplotlib(module):
    """Importing antithetic imports neither matplotlib nor scikit-learn."""
    code = f"import sys, {module}; print(sorted({{'matplotlib', 'sklearn'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_matplotlib_is_imported_in_one_place():
    package = Path(antithetic.__file__).parent
    importing = {
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in getattr(node, "names", ()) if hasattr(a, "name")]
        )
        if name.split(".")[0] == "matplotlib"
    }
    assert importing == {"_axes.py"}


def test_a_report_of_the_batch_samplers_is_drawn():
    """One bar for each arm, with its error; the one in use is named so."""
    trust = pytest.importorskip("antithetic.torch.trust")
    report = trust.TrustReport(
        ("shuffled", "groups", "importance"),
        (90, 0, 90),
        (1.0, float("nan"), 0.4),
        (0.0, float("nan"), 0.1),
        (False, False, True),
    )
    display = VarianceDisplay.from_report(report)
    (bars,) = display.bars_
    np.testing.assert_array_equal([bar.get_width() for bar in bars], [1.0, np.nan, 0.4])
    ends = bars.errorbar[2][0].get_segments()[2][:, 0]
    np.testing.assert_allclose(ends, [0.3, 0.5])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        "shuffled",
        "groups",
        "importance (in use)",
    ]
    assert display.ax_.get_xlim()[0] == 0.0
    assert "shuffled batches" in display.ax_.get_xlabel()
