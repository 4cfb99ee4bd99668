"""All the draws a sampler can make, with their probabilities: statistics by enumeration instead of sampling."""

from __future__ import annotations

from itertools import permutations, product
from math import factorial

import numpy as np


class _ScriptedGenerator:
    """Stands in for a NumPy generator and takes the outcome that the script says; unknown choices become the first outcome."""

    def __init__(self, script):
        self.script, self.sizes, self.at = script, [], 0

    def _choose(self, size):
        choice = self.script[self.at] if self.at < len(self.script) else 0
        self.sizes.append(size)
        self.at += 1
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


def every_draw(sampler, monkeypatch):
    """Yield ``(probability, batches)`` of each outcome of an epoch; the number of choices may not depend on earlier ones."""
    generator = _ScriptedGenerator([])
    monkeypatch.setattr(np.random, "default_rng", lambda _seed: generator)
    sampler.batches(0)
    sizes = list(generator.sizes)
    for script in product(*(range(size) for size in sizes)):
        generator = _ScriptedGenerator(script)
        yield 1.0 / float(np.prod(sizes, dtype=float)), sampler.batches(0)
    monkeypatch.undo()
