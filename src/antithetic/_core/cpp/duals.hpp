// Slopes that are allowed as dual variables, and what they cost: see exact/certificate.py.
#pragma once

#include "steps.hpp"

namespace antithetic {

struct SlopeColumns {
  std::span<const double> slopes, curvatures, predictions;
};

// Multiply the slopes above zero by `up` and those below by `down`; return what that costs in all.
double scale_slopes(const Targets& targets, const Loss& loss, const SlopeColumns& given, double up,
                    double down, std::span<double> scaled);

}  // namespace antithetic
