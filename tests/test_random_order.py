"""Random orders: complete, reproducible, and all equally likely."""

from __future__ import annotations

from itertools import islice, permutations, product

import numpy as np
import pytest

from antithetic._core import kernels
from antithetic.orders.order import random_order

pytestmark = pytest.mark.kernel


def words_of(seed):
    """Words of 32 bits by xoshiro256++, the lower half of each number first."""

    def rotated(number, by):
        return (number << by | number >> (64 - by)) % 2**64

    a, b, c, d = map(int, seed)
    while True:
        number = (rotated((a + d) % 2**64, 23) + a) % 2**64
        yield from (number % 2**32, number >> 32)
        shifted, c, d = b << 17, c ^ a, d ^ b
        a, b, c, d = a ^ d, b ^ c, (c ^ shifted) % 2**64, rotated(d, 45)


def below(bound, words):
    """A number below a bound, from the first word that does not favour small numbers."""
    word = next(word for word in words if word * bound % 2**32 >= 2**32 % bound)
    return word * bound >> 32


def order_of(n, words):
    """The twin of the kernel: each number takes a random place, whose number moves to the end."""
    order = []
    for number in range(n):
        place = below(number + 1, words) if number else 0
        order.append(number)
        order[place], order[-1] = number, order[place]
    return order


@pytest.mark.parametrize("n", [0, 1, 2, 1999, 2000, 2001, 5000])
def test_every_number_comes_once(n):
    """Short and long orders are permutations of intp, and the same seed gives the same one."""
    order = random_order(np.random.default_rng(3), n)
    assert order.dtype == np.intp
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(order, random_order(np.random.default_rng(3), n))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 300])
def test_the_kernel_equals_its_twin(n):
    """The same words are drawn, and lead to the same order."""
    seed = np.random.default_rng(n).integers(2**64, size=4, dtype=np.uint64)
    order = np.empty(n, np.intp)
    kernels.draw_order(order, seed)
    assert order.tolist() == order_of(n, words_of(seed))


def test_the_kernel_rejects_words_as_its_twin_does():
    """From this seed the words are 5 and 0, which is no place among three, and then others."""
    seed = np.array([0, 256, 0, 5 << 41], dtype=np.uint64)
    words = list(islice(words_of(seed), 4))
    assert words[:2] == [5, 0]
    order = np.empty(3, np.intp)
    kernels.draw_order(order, seed)
    assert order.tolist() == order_of(3, iter(words)) == order_of(3, iter([5, *words[2:]]))
    assert order.tolist() != [2, 0, 1]  # what the place 0 would lead to


def test_the_generator_is_xoshiro():
    """Its first numbers from the seed 1, 2, 3, 4 are those of the authors' C code."""
    words = words_of([1, 2, 3, 4])
    found = [next(words) + (next(words) << 32) for _ in range(4)]
    assert found == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_all_orders_are_equally_likely():
    """By enumeration, each of the 24 orders of four is equally likely.

    The words divide the range evenly: 12 of them for each number.
    """
    words = [(2 * k + 1) * 2**32 // 24 for k in range(12)]
    counts = dict.fromkeys(permutations(range(4)), 0)
    for drawn in product(words, repeat=3):
        counts[tuple(order_of(4, iter(drawn)))] += 1
    assert set(counts.values()) == {12**3 // 24}


def test_words_that_would_bias_are_rejected():
    """For three numbers the word 0 is rejected, since 2^32 leaves it over, and the next is used."""
    assert below(3, iter([0, 2**31])) == 1
    counts = np.bincount([below(3, iter([word, 2**31])) for word in range(1, 2**32, 2**20 + 1)])
    assert np.ptp(counts) <= 1


@pytest.mark.parametrize("n", [2000, 3000])
def test_places_are_uniform(n):
    """Over 2000 seeds, the first number and the place of number 0 have uniform quarters.

    Each of the eight counts deviates by more than 5 standard deviations with probability 6e-7.
    """
    orders = [random_order(np.random.default_rng(seed), n) for seed in range(2000)]
    for drawn in ([order[0] for order in orders], [int(np.argmin(order)) for order in orders]):
        counts = np.bincount(np.array(drawn) * 4 // n, minlength=4)
        assert np.abs(counts - 500).max() < 5.0 * np.sqrt(2000 * 0.25 * 0.75)
