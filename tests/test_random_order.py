"""Random orders: complete, reproducible, and all equally likely."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from antithetic._core.kernels import shuffle
from antithetic.orders.random_order import random_order

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("n", [0, 1, 2, 1999, 2000, 2001, 5000])
def test_every_number_comes_once(n):
    """Short and long orders are permutations of intp, and the same seed gives the same one."""
    order = random_order(np.random.default_rng(3), n)
    assert order.dtype == np.intp
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(order, random_order(np.random.default_rng(3), n))


def test_all_orders_are_equally_likely():
    """By enumeration, each of the 24 orders of four is equally likely.

    The words divide the range evenly: 12 of them for each number.
    """
    words = [(np.uint32((2 * k + 1) * 2**32 // 24)) for k in range(12)]
    counts = dict.fromkeys(permutations(range(4)), 0)
    for drawn in product(words, repeat=3):
        order = np.arange(4)
        assert shuffle(order, np.array(drawn, np.uint32))
        counts[tuple(order.tolist())] += 1
    assert set(counts.values()) == {12**3 // 24}


def test_words_that_would_bias_are_rejected():
    """For three numbers the word 0 is rejected, since 2^32 leaves it over, and the next is used."""
    first, second = np.arange(3), np.arange(3)
    assert shuffle(first, np.array([0, 2**31, 2**31, 7], np.uint32))
    assert shuffle(second, np.array([2**31, 2**31], np.uint32))
    np.testing.assert_array_equal(first, second)


def test_too_few_words_are_reported_and_all_is_drawn_again(monkeypatch):
    """Rejections beyond the spare words are next to impossible, and harmless."""
    assert not shuffle(np.arange(3), np.array([0, 0], np.uint32))
    monkeypatch.setattr("antithetic._core.kernels.shuffle", lambda *_: False)
    np.testing.assert_array_equal(
        np.sort(random_order(np.random.default_rng(0), 3000)), np.arange(3000)
    )
