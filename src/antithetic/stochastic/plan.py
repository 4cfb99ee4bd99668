"""What "auto" means: which order, which average, and how much noise these leave."""

from __future__ import annotations

from dataclasses import dataclass, field

from antithetic.orders import Balanced, Order, Shuffle, Uniform
from antithetic.orders.order import name_order
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet, Penalty
from antithetic.stochastic.step_search import NOISE_OF_A_MEAN, noise_of_balanced

_NO_PENALTY = 1e-6  # of an L1 penalty, against L2
_ROWS_PER_FEATURE = 8  # from which on noise is what weights are off by


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fit chose where the user left it open, and why.

    Attributes
    ----------
    order : Order
        Which rows made the batches.
    batch_size : int
        Rows of a step.
    average : bool, int or str
        Which weights were averaged.
    why : str
        The reason for the order in a sentence.
    noise : float
        What the order and the average leave of the noise of a random order; automatic steps fall
        more slowly by it.
    """

    order: Order
    batch_size: int
    average: bool | int | str
    why: str
    noise: float = field(default=1.0, repr=False)


def order_of_the_paper(solver: str, loss: Loss | None = None) -> Order:
    """Return the order that `minimize` means by "auto": the paper's draws.

    SDCA and softmax, which the paper does not have, visit each row once.
    """
    once = solver == "sdca" or (loss is not None and loss.has_classes)
    return Shuffle() if once else Uniform()


def best_order(
    n: int, d: int, *, batch_size: int, epochs: int, solver: str = "sgd", classes: bool = False
) -> tuple[Order, str]:
    """Return the order for a number of rows, features and epochs, and a reason.

    A balanced order keeps partial sums of gradients near sqrt(d), a random one near sqrt(n): with
    as many features as rows there is nothing to gain, and each epoch costs up to a half more. Its
    first epoch is random.
    """
    if solver in ("saga", "sdca"):
        why = "reshuffled, since balanced orders are for solvers 'sgd' and 'svrg'"
        return Shuffle(), why
    if classes:
        why = "reshuffled, since gradients of all classes cost more to balance than an order gains"
        return Shuffle(), why
    if batch_size >= n:
        return Shuffle(), "a batch holds all rows, so their order does not matter"
    if epochs == 1:
        why = "reshuffled, since a single epoch has no earlier one to learn an order from"
        return Shuffle(), why
    if 2 * d > n:
        return Shuffle(), f"reshuffled, since {n} rows of {d} features are too few to balance"
    return Balanced(), (
        f"balanced, since {n} rows of {d} feature{'s' * (d > 1)} are enough for an order that keeps"
        " partial sums small"
    )


def plan_order(
    order: Order | None,
    n: int,
    d: int,
    *,
    batch_size: int,
    epochs: int,
    solver: str,
    classes: bool = False,
) -> tuple[Order, str]:
    """Return the order that was asked for, or the best one for None, and a reason.

    A single epoch has no order to follow, so a balanced one is drawn.
    """
    if order is None:
        return best_order(
            n, d, batch_size=batch_size, epochs=epochs, solver=solver, classes=classes
        )
    if epochs == 1 and isinstance(order, Balanced):
        found, why = best_order(n, d, batch_size=batch_size, epochs=epochs)
        return found.but(pairs=order.pairs), why
    return order, f"order={name_order(order)!r} was asked for"


def automatic_batch_size(loss: Loss, n_weights: int, itemsize: int) -> int:
    """Rows of a step where the user left it open."""
    if not loss.has_classes:
        return 2
    from antithetic.stochastic.softmax import softmax_batch_size

    return softmax_batch_size(n_weights, itemsize)


def is_worth_averaging(n: int, d: int, loss: Loss, penalty: Penalty) -> bool:
    """Whether the mean of an epoch's weights should be closer to the optimum than the last weights.

    The mean removes the noise of single steps, and there is little of that if each row has features
    of its own. With unbounded slopes, one large row may move the weights so far that the mean of an
    epoch is poor. With an L1 penalty, the mean of weights that are zero only some of the time is
    hardly ever zero; a penalty too weak to make zeros does not count.
    """
    if loss.has_classes:  # each row moves the weights of all classes
        return True
    smooth = isinstance(penalty, ElasticNet) and penalty.l1 <= _NO_PENALTY * penalty.l2
    # of a loss with a kink, each epoch compares its mean with its last weights
    many = _ROWS_PER_FEATURE * d <= n or not loss.is_smooth
    return smooth and loss.is_bounded and many


def noise_left(
    order: Order, average: bool | int | str, n: int, d: int, *, single_epoch: bool
) -> float:
    """What an order and an average leave of the noise of a random order."""
    if average == "epoch" and single_epoch:
        return NOISE_OF_A_MEAN
    return noise_of_balanced(n, d) if order.balances else 1.0
