"""Slow NumPy twins of what is summed over rows of many classes."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def chances_of(X, coef, intercepts):
    return np.exp(log_softmax(X @ coef.T + intercepts, axis=1))


def one_hot(labels, classes):
    return np.eye(classes)[labels]


def objective(X, labels, coef, intercepts, *, l2=0.0, l1=0.0, weight=None):
    """Mean cross-entropy and penalty."""
    weight = np.ones(len(labels)) if weight is None else weight
    logs = log_softmax(X @ coef.T + intercepts, axis=1)[np.arange(len(labels)), labels]
    penalty = 0.5 * l2 * (coef**2).sum() + l1 * np.abs(coef).sum()
    return -(weight @ logs) / len(labels) + penalty


def gradient(X, labels, coef, intercepts, *, l2=0.0, weight=None):
    """Gradient in weights and intercepts."""
    weight = np.ones(len(labels)) if weight is None else weight
    slopes = weight[:, None] * (chances_of(X, coef, intercepts) - one_hot(labels, len(coef)))
    return slopes.T @ X / len(labels) + l2 * coef, slopes.mean(axis=0)


def hessian(X, coef, intercepts, *, l2=0.0, weight=None, has_intercepts=True):
    """Second derivatives, in the weights of each class and then the intercepts."""
    n, d = X.shape
    classes = len(coef)
    weight = np.ones(n) if weight is None else weight
    rows = np.column_stack([X, np.ones(n)])
    found = np.zeros((classes * (d + 1), classes * (d + 1)))
    for row, chances, w in zip(rows, chances_of(X, coef, intercepts), weight, strict=True):
        found += w * np.kron(np.diag(chances) - np.outer(chances, chances), np.outer(row, row))
    found /= n
    places = np.arange(classes * (d + 1)).reshape(classes, d + 1)
    order = np.concatenate([places[:, :d].ravel(), places[:, d]])
    found = found[np.ix_(order, order)]
    spots = np.arange(classes * d)
    found[spots, spots] += l2
    return found if has_intercepts else found[: classes * d, : classes * d]


def expected_chances(before, after):
    """Chances that the quadratic model at some scores expects at others, cut at zero."""
    chances, change = np.exp(log_softmax(before, axis=1)), after - before
    change -= (chances * change).sum(axis=1, keepdims=True)
    expected = np.maximum(0.0, chances * (1.0 + change))
    return expected / expected.sum(axis=1, keepdims=True)


def divergence(chances, others, weight=None):
    """Weighted sum over rows of sum_k p'_k log(p'_k / p_k)."""
    weight = np.ones(len(chances)) if weight is None else weight
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(others > 0.0, others * np.log(others / chances), 0.0)
    return weight @ terms.sum(axis=1)
