"""When a new Hessian pays."""

from __future__ import annotations

import math

_MARGIN = 5.0  # passes by which a new Hessian must be the cheaper way
_TRUSTED_MARGIN, _FRESH_RATIO = 2.0, 0.1


def is_worth_renewing(
    decrement: float, target: float, ratio: float, passes: float, *, trusted: bool = False
) -> bool:
    """Whether a new Hessian, which costs so many passes, is cheaper than to continue with this one.

    ``ratio`` is what the last step left of the decrement. With a new Hessian that can be trusted,
    near the optimum, each step leaves a tenth; further away it may be of no use soon.
    """
    if not decrement > target > 0.0:
        return False
    if ratio >= 1.0:
        return True
    distance = math.log(decrement / target)
    after = _TRUSTED_MARGIN + distance / -math.log(_FRESH_RATIO) if trusted else _MARGIN
    return distance / -math.log(max(ratio, 1e-30)) > passes + after
