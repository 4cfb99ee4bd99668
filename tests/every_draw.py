"""All draws a sampler can make, with their probabilities: enumeration instead of sampling."""

from __future__ import annotations

from itertools import permutations, product
from math import factorial

import numpy as np

from antithetic.orders import shuffle, stratified, units
from antithetic.orders.units import draw


class _ScriptedGenerator:
    """Stands in for a NumPy generator and returns the outcome that the script says.

    Choices beyond the end of the script take the first outcome.
    """

    def __init__(self, script):
        self.script, self.sizes, self.at, self.probability = script, [], 0, 1.0

    def _choose(self, size, probabilities=None):
        choice = self.script[self.at] if self.at < len(self.script) else 0
        self.sizes.append(size)
        self.at += 1
        self.probability *= 1.0 / size if probabilities is None else probabilities[choice]
        return choice

    def integers(self, n, size=()):
        digits = [self._choose(n) for _ in range(int(np.prod(size)))]
        return np.array(digits, dtype=np.intp).reshape(size) if size != () else digits[0]

    def permutation(self, given):
        items = np.arange(given) if np.ndim(given) == 0 else np.asarray(given)
        order = list(permutations(range(len(items))))[self._choose(factorial(len(items)))]
        return items[list(order)]

    def random(self, size):
        return np.array([(0.25, 0.75)[self._choose(2)] for _ in range(size)])

    def numbers_of_cells(self, sums, size):
        """Numbers in the middle of cells with these ends, each as probable as its cell is long.

        Empty ones are left out.
        """
        ends = np.unique(np.concatenate([[0.0], sums]))
        middles, lengths = (ends[1:] + ends[:-1]) / 2.0, np.diff(ends)
        return middles[
            [self._choose(len(lengths), lengths) for _ in range(int(np.prod(size)))]
        ].reshape(size)


class _OneCell:
    """Stands in for the generator of one draw by cumulative probabilities."""

    def __init__(self, generator, sums):
        self.generator, self.sums = generator, sums

    def random(self, size):
        return self.generator.numbers_of_cells(self.sums, size)


def _scripted_draw(generator, sums, size):
    return draw(_OneCell(generator, sums), sums, size)


def every_draw(sampler, monkeypatch):
    """Yield ``(probability, batches)`` of each outcome of an epoch.

    The number of choices may not depend on earlier ones.
    """
    generator = _ScriptedGenerator([])
    monkeypatch.setattr(np.random, "default_rng", lambda _seed: generator)
    for module in (units, stratified):
        monkeypatch.setattr(module, "draw", _scripted_draw)
    for module in (shuffle,):
        monkeypatch.setattr(module, "random_order", lambda rng, n: rng.permutation(n))
    sampler.batches(0)
    sizes = list(generator.sizes)
    for script in product(*(range(size) for size in sizes)):
        generator = _ScriptedGenerator(script)
        batches = sampler.batches(0)
        yield generator.probability, batches
    monkeypatch.undo()


def step_gradients(batches, gradients):
    """Gradient of each batch, shape (batches, d), given those of the rows.

    ``(1 / size) sum factors[k] gradients[rows[k]]``
    """
    factors = batches.factors if len(batches.factors) else np.ones(len(batches.rows))
    return (
        np.add.reduceat(factors[:, None] * gradients[batches.rows], batches.starts[:-1], axis=0)
        / batches.size
    )


def moments_of_steps(sampler, gradients, monkeypatch):
    """Expected gradient of each step, shape (batches, d), and its variance, shape (batches,)."""
    found = [
        (probability, step_gradients(batches, gradients))
        for probability, batches in every_draw(sampler, monkeypatch)
    ]
    weights, steps = (
        np.array([probability for probability, _ in found]),
        np.stack([step for _, step in found]),
    )
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    expected = np.tensordot(weights, steps, axes=1)
    return expected, weights @ ((steps - expected) ** 2).sum(axis=2)
