"""Newton's method in float64, to tell how far the weights of a fit are from their optimum."""

import numpy as np
from scipy.special import softmax


def one_less(model):
    """Weights and intercept of each class, without those of the first of many classes."""
    theta = np.column_stack([model.coef_, model.intercept_]).astype(np.float64)
    return theta if len(theta) == 1 else theta[1:] - theta[0]


def derivatives(theta, X, y, weight, l2):
    """Gradient and Hessian of the summed loss, in float64; the first of many classes has zeros.

    Of many classes the penalty is that of weights which sum to zero.
    """
    A = np.column_stack([X, np.ones(len(X))])
    k, p = theta.shape
    chances = softmax(np.column_stack([np.zeros(len(X)), A @ theta.T]), axis=1)[:, 1:]
    slopes = (chances - (y[:, None] == np.arange(1, k + 1))) * weight[:, None]
    penalised = l2 * np.diag(np.append(np.ones(p - 1), 0.0))
    shared = np.eye(k) - (0.0 if k == 1 else 1.0 / (k + 1))
    hessian = np.kron(shared, penalised)
    for a in range(k):
        for b in range(k):
            of_rows = weight * chances[:, a] * (float(a == b) - chances[:, b])
            hessian[a * p : (a + 1) * p, b * p : (b + 1) * p] += (A * of_rows[:, None]).T @ A
    return (slopes.T @ A).ravel() + np.kron(shared, penalised) @ theta.ravel(), hessian


def errors(model, X, y, weight=None, C=np.inf):
    """Distance of each weight from the optimum, in standard errors.

    The optimum is that of Newton's method in float64, to 1e-9 standard errors.
    """
    X, weight = np.asarray(X, dtype=np.float64), np.ones(len(y)) if weight is None else weight
    found, l2 = one_less(model), 1.0 / C
    best = found.copy()
    for _ in range(20):
        gradient, hessian = derivatives(best, X, y, weight, l2)
        step = np.linalg.solve(hessian, gradient)
        best -= step.reshape(best.shape)
        if gradient @ step <= 1e-18:
            break
    else:
        raise AssertionError(f"the oracle did not converge: {gradient @ step:.1e}")
    standard_errors = np.sqrt(np.diagonal(np.linalg.inv(hessian)))
    return np.abs(found - best).ravel() / standard_errors
