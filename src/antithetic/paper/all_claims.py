"""All claims of the paper in its order of appearance, then the comparison that it lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from antithetic.paper import about_more, about_runs, about_variance
from antithetic.paper.claim import Claim
from antithetic.paper.parts import Part

_CLAIMS = (
    about_variance.unbiased,
    about_variance.smaller_variance,
    about_variance.most_at_the_beginning,
    about_runs.converges_faster,
    about_runs.more_stable,
    about_runs.level_variance_falling_jitter,
    about_variance.opposite_labels,
    about_variance.negative_stays_negative,
    about_runs.larger_step,
    about_runs.nearer,
    about_variance.bounds_and_products,
    about_variance.smaller_second_moment,
    about_variance.ideal_case,
    about_more.larger_batches,
    about_more.non_smooth_penalty,
    about_more.zero_one_labels,
    about_more.against_reshuffling,
    about_more.orders_against_reshuffling,
)


def claims(parts: Sequence[Part]) -> list[Claim]:
    """Judge every claim by finished parts; without any, none is measured."""
    # Runs that diverged are infinite, and count against their method.
    with np.errstate(all="ignore"):
        return [claim(parts) for claim in _CLAIMS]
