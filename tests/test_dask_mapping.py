"""Tasks of a round on Dask: every block is asked once, and what they return is added up."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
from dask_cases import cluster

from antithetic.dask import mapping
from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import gather
from antithetic.dask.mapping import add_up, map_blocks, sum_over_blocks
from antithetic.dask.recipes import divide


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def describe(number, parts, *others):
    """What a task was given."""
    rows, labels, weight, expected = parts
    return (number, float(rows.read().sum()), labels, weight, expected.has_labels, *others)


def rows_times(number, parts, factors):  # noqa: ARG001
    return (factors * float(parts[0].read().sum()),)


def blocks_of(parts):
    """Blocks that consist of rows only."""
    (X,), graph = divide([parts])
    return Blocks(X, graph=graph)


def three_blocks(kind, client):
    """Three blocks of rows that a cluster holds, that it makes, or both."""
    made = [dask.delayed(np.full)((2, 2), float(k)) for k in range(3)]
    if kind == "lazy":
        return blocks_of(made)
    held = client.persist(made)
    if kind == "held":
        return blocks_of(held)
    return blocks_of([dask.delayed(np.add)(part, 0.0) for part in held])


@pytest.mark.parametrize("kind", ["held", "lazy", "lazy from held"])
def test_a_task_gets_its_block_and_what_all_share(client, kind):
    """Delayed values arrive as arrays, whoever holds them; missing labels arrive as None."""
    blocks = three_blocks(kind, client)
    found = gather(
        client, map_blocks(client, describe, "test", blocks, "all", own=[["a", "b", "c"]])
    )
    assert found == [(k, 4.0 * k, None, None, False, "abc"[k], "all") for k in range(3)]
    some = map_blocks(client, describe, "test", blocks, numbers=[2])
    assert gather(client, some) == [(2, 8.0, None, None, False)]


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_large_arguments_are_sent_once(client, monkeypatch, most):
    """Large arguments are sent as one task, with the same result."""
    monkeypatch.setattr(mapping, "_BYTES_IN_TASKS", most)
    blocks = three_blocks("held", client)
    sent, get = [], client.get
    monkeypatch.setattr(
        client, "get", lambda graph, *a, **k: sent.extend(graph) or get(graph, *a, **k)
    )
    (found,) = sum_over_blocks(client, rows_times, "test", blocks, np.arange(3.0))
    np.testing.assert_array_equal(found, 12.0 * np.arange(3.0))
    assert len([key for key in sent if "-start-" in str(key)]) == (1 if most == 0 else 0)


@pytest.mark.parametrize("size", [0, 1 << 25])
@pytest.mark.parametrize("many", [1, 2, 16, 17, 33])
def test_sums_do_not_depend_on_where_they_are_added(client, monkeypatch, many, size):
    """The client adds small sums, and tasks add large ones; every block counts once."""
    numbers = np.random.default_rng(0).random(many)
    parts = client.persist([dask.delayed(np.full)((1, 1), number) for number in numbers])
    gathered = []
    real = mapping.gather
    monkeypatch.setattr(
        mapping, "gather", lambda *a, **k: gathered.append(len(a[1])) or real(*a, **k)
    )
    (found,) = sum_over_blocks(
        client, rows_times, "test", blocks_of(parts), np.ones(1), sum_bytes=size
    )
    at_once = 16 if size == 0 else (1 << 27) // size
    expected = list(numbers)
    while len(expected) > 1:  # in order, so many at a time
        groups = (expected[k : k + at_once] for k in range(0, len(expected), at_once))
        expected = [functools.reduce(operator.add, group) for group in groups]
    assert found.tolist() == expected
    assert gathered[-1] <= (16 if size == 0 else 1)


def test_answers_as_large_as_the_weights_are_added_by_tasks(client, monkeypatch):
    """The client receives one sum, however many blocks there are."""
    parts = client.persist([dask.delayed(np.full)((1, 1), 1.0) for _ in range(4)])
    gathered = []
    real = mapping.gather
    monkeypatch.setattr(
        mapping, "gather", lambda *a, **k: gathered.append(len(a[1])) or real(*a, **k)
    )
    factors = np.ones(100_000)
    sum_over_blocks(client, rows_times, "test", blocks_of(parts), factors)
    assert gathered == [1]


def test_adding_up_leaves_the_parts_as_they_are():
    """A worker may still hold the parts, so adding up must not change them."""
    parts = [(np.ones(2), np.full(1, float(k))) for k in range(3)]
    total = add_up(*parts)
    assert [part.tolist() for part in total] == [[3.0, 3.0], [3.0]]
    assert parts[0][0].tolist() == [1.0, 1.0]
