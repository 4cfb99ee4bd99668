"""Sums of one machine and of many: the same problem gives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("dask")
pytest.importorskip("distributed")
from dask_cases import cluster, in_blocks

from antithetic.dask.common import Common
from antithetic.dask.reading import read_blocks
from antithetic.dask.scan import Look, census_of, look
from antithetic.dask.sums import BlockSums
from antithetic.estimators.one_vs_rest import OneVsRest
from antithetic.exact.models import Proposal
from antithetic.exact.newton import move, value
from antithetic.exact.path import sums_of
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Sums
from antithetic.problem import Problem
from antithetic.problem.losses import ALL_LOSSES, Tweedie
from antithetic.problem.penalties import ElasticNet

N, D = 900, 5
LENGTHS = [200, 0, 300, 400]
PENALTY = ElasticNet(1e-2, 1e-3)
LOSS_OF = {**ALL_LOSSES, "tweedie": Tweedie(1.5)}
COVERED = {
    *("with_penalty", "split", "join", "given_back", "constant", "at", "after", "line", "between"),
    *("hessian", "hessian_of", "curvature_above", "dual_points", "restored_cost", "stay"),
    *("rounded_diagonal", "largest_leverage"),
    *("rounding", "samples", "regauged", "refined"),
}


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def data_of(loss, rng):
    """Rows sorted by target, so that blocks differ, some of weight zero and one far out."""
    X = rng.normal(size=(N, D)) + 0.5
    X[7] *= 8.0
    scores = X @ np.linspace(0.5, -0.5, D) / (1.0 + np.abs(X).max(axis=1))
    noise = rng.normal(size=N)
    y = {
        "poisson": lambda: rng.poisson(np.exp(scores)).astype(float),
        "gamma": lambda: np.exp(scores + 0.3 * noise),
        "tweedie": lambda: np.where(noise < -0.5, 0.0, np.exp(scores)),
    }.get(loss, lambda: scores + noise)()
    if LOSS_OF[loss].classification:
        y = np.where(scores + noise > 1.0, 1.0, -1.0)
    order = np.argsort(y, kind="stable")
    return X[order], y[order], np.maximum(0.0, rng.random(N) - 0.1)


def both(client, loss, *, fit_intercept, weighted, form=np.asarray, lengths=LENGTHS):
    """The same sums over blocks and here."""
    X, y, weight = data_of(loss, np.random.default_rng(3))
    weight, chosen = weight if weighted else None, LOSS_OF[loss]
    by_class = np.array([1.0, 2.5]) if chosen.classification and weighted else None
    parts = OneVsRest(np.array([-1.0, 1.0]) if chosen.classification else None, by_class)
    X = form(X)
    if sparse.issparse(X):
        rows, labels = in_blocks(X.toarray(), y, lengths)
        rows = rows.map_blocks(sparse.csr_array)
    else:
        rows, labels = in_blocks(X, y, lengths)
    blocks = read_blocks(rows, labels, weight, client=client)
    census = census_of(look(client, blocks, Look(chosen)), parts.classes, chosen)
    far = BlockSums(client, blocks, Common(chosen, PENALTY, fit_intercept, parts, N), census)
    target = parts.target(y, 0)
    own = parts.weigh(target, weight, 0)
    return far, sums_of(Problem(X, target, chosen, PENALTY, own, fit_intercept, None))


def same(one, other, size=1e-12):
    """Equal to twelve digits of the largest entry."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    most = size * max(1e-12, float(np.abs(other[np.isfinite(other)]).max(initial=0.0)))
    np.testing.assert_allclose(one, other, rtol=size, atol=most)


def same_point(one, other):
    for name in ("theta", "objective", "gradient", "noise"):
        same(getattr(one, name), getattr(other, name))


def same_leverage(one, other):
    for name in ("largest", "gradient", "of_scores", "pearson"):
        same(getattr(one, name), getattr(other, name))
    for mine, theirs in ((one.rounding, other.rounding), (other.rounding, one.rounding)):
        assert (mine <= 4.0 * theirs).all()  # sums of other lengths are rounded


def compare_dual_points(far, near, afar, at_hand):
    """Each begins with what costs it least."""
    same(afar[1].expected, at_hand[1].expected)
    restored = [list(far.dual_points(*afar)), list(near.dual_points(*at_hand))]
    if isinstance(near, RowSums):
        restored = [sorted(points, key=lambda one: sorted(one.how)) for points in restored]
    assert len(restored[0]) == len(restored[1])
    for mine, theirs in zip(*restored, strict=True):
        same(mine.gradient, theirs.gradient)
        for kept in (1.0, 0.9):
            cost, other = (
                near.restored_cost(*at_hand, theirs, kept),
                far.restored_cost(*afar, mine, kept),
            )
            np.testing.assert_allclose(other, cost, rtol=1e-12, atol=1e-15)


def compare(far, near, step_size, *, has_same_samples=True):
    """Ask everything that the protocol has of both."""
    rng = np.random.default_rng(0)
    for name in ("n", "size", "d", "fit_intercept", "is_single"):
        assert getattr(far, name) == pytest.approx(getattr(near, name), rel=1e-12)
    theta, step = rng.normal(size=(2, near.columns)) * np.array([[0.2], [step_size]])
    assert far.hessian_visits == near.hessian_visits
    assert far.refined() is near.refined() is None
    for one, other in zip(far.constant(), near.constant(), strict=True):
        same(one, other)
    for one, other in zip(far.split(theta), near.split(theta), strict=True):
        same(one, other)
    same(far.join(*near.split(theta)), theta)
    same(far.given_back(theta), near.given_back(theta))
    there, here = far.at(theta), near.at(theta)
    same_point(there, here)
    same_point(far.regauged(there), near.regauged(here))
    assert far.rounding(there) == pytest.approx(near.rounding(here), rel=0.5)
    bare = [sums.with_penalty(ElasticNet()).at(theta) for sums in (far, near)]
    same_point(*bare)
    some = np.array([0, 3])
    for options in ({"exact": True}, {"exact": True, "damping": 0.5}):
        same(far.hessian(there, **options), near.hessian(here, **options))
        same(far.hessian_of(there, some, **options), near.hessian_of(here, some, **options))
    hessian = near.hessian(here, exact=True)
    same(far.rounded_diagonal(hessian), near.rounded_diagonal(hessian))
    if near.loss.concordance < np.inf:
        definite = hessian + 1e-3 * np.diag(hessian.diagonal())
        root, asked = np.linalg.inv(np.linalg.cholesky(definite)), far.rounds
        same_leverage(far.largest_leverage(there, root), near.largest_leverage(here, root))
        assert far.rounds == asked + 1
    visit, own = far.after(there, step), near.after(here, step)
    for beside in (step, rng.normal(size=len(step))):
        same(far.curvature_above(there, beside), near.curvature_above(here, beside))
    same_point(visit.after, own.after)
    for name in ("step", "expected", "square"):
        same(getattr(visit, name), getattr(own, name))
    assert visit.lengths[0] == 1.0
    assert not own.lengths  # all are known
    for length in visit.lengths:
        same(far.line(there, visit)(length), near.line(here, own)(length))
        same_point(far.between(there, visit, length), near.between(here, own, length))
    for seen, mine in ((visit, own), (far.stay(there), near.stay(here))):
        compare_dual_points(far, near, (there, seen), (here, mine))
    if not has_same_samples:
        return
    sizes, asked = (60.0, 200.0), far.rounds
    for mine, theirs in zip(far.samples(sizes, 5), near.samples(sizes, 5), strict=True):
        assert mine.n == theirs.n > 0
        same_point(mine.sums.at(theta), theirs.sums.at(theta))
        same(mine.hessian(there, exact=True), theirs.hessian(here, exact=True))
        same(mine.inverse(there).solve(step), theirs.inverse(here).solve(step), 1e-3)
        stronger = ElasticNet(0.5)
        renewed = [one.with_penalty(stronger).sums.at(theta) for one in (mine, theirs)]
        same_point(*renewed)
    assert far.rounds == asked + 1  # one round for both


def test_nothing_of_the_protocol_is_left_out():
    asked = {name for name, value in vars(Sums).items() if callable(value) and name[0] != "_"}
    assert asked == COVERED


@pytest.mark.parametrize("step_size", [0.01, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "poisson", "tweedie"])
def test_blocks_give_the_sums_of_one_machine(client, loss, fit_intercept, weighted, step_size):
    """Every answer to the solver is that of all rows together."""
    far, near = both(client, loss, fit_intercept=fit_intercept, weighted=weighted)
    compare(far, near, step_size)


@pytest.mark.parametrize("loss", ["modified_huber", "squared_error", "gamma"])
def test_other_losses(client, loss):
    compare(*both(client, loss, fit_intercept=True, weighted=True), 0.1)


def test_sparse_rows(client):
    def thinned(X):
        return sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))

    compare(*both(client, "log_loss", fit_intercept=True, weighted=True, form=thinned), 0.1)


def test_a_step_that_is_far_too_long_takes_one_round_more(client):
    """If none of the lengths leads downwards, much shorter ones are tried, and one of them does."""
    far, _ = both(client, "poisson", fit_intercept=True, weighted=False)
    start = far.at(np.zeros(D + 1))
    fair = -start.gradient / np.linalg.norm(start.gradient)
    for factor, rounds in ((0.1, 1), (2e3, 2)):
        step, asked = factor * fair, far.rounds
        proposal = Proposal(step, float(start.gradient @ step), 1.0)
        moved = move(far, start, proposal)
        assert far.rounds == asked + rounds
        assert 0.0 < moved.length <= 1.0
        assert value(far, moved.point) < value(far, start)
        np.testing.assert_array_equal(moved.point.theta, start.theta + moved.length * step)


@pytest.mark.parametrize("lengths", [[N], [1] * 30 + [N - 30], [450, 450]])
def test_the_sample_is_the_same_for_any_blocks(client, lengths):
    """Rows are drawn by their numbers and moments of all rows, wherever they are."""
    far, near = both(client, "log_loss", fit_intercept=True, weighted=True, lengths=lengths)
    (drawn,), (own,) = (sums.samples([150.0], 9) for sums in (far, near))
    np.testing.assert_array_equal(drawn.sums.problem.X, own.sums.problem.X)
    same(drawn.sums.problem.weight, own.sums.problem.weight)
