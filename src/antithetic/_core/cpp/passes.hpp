// Passes over the data: losses, slopes and gradients of all rows.
#pragma once

#include "steps.hpp"

namespace antithetic {

// Weighted sum of the losses; weight 0 beats an infinite loss.
double sum_of_losses(const Loss& loss, std::span<const double> y, std::span<const double> p,
                     std::span<const double> weight);

// What a loss says of each prediction: its value, slope, curvature or conjugate.
using LossFunction = double (Loss::*)(double, double) const;
void each_loss(const Loss& loss, LossFunction function, std::span<const double> y,
               std::span<const double> p, std::span<double> out);

// Losses, slopes and the gradient of all rows, in one visit to each: sums of the weighted losses
// and of the gradients. `slopes` and `gradient` are left out where they are empty.
template <class RowAccess>
double pass_over(const RowAccess& rows, const Targets& targets, const Loss& loss,
                 const typename RowAccess::Real* coef, double intercept, std::span<double> slopes,
                 std::span<double> gradient, Pulse& pulse) {
  constexpr Index block = 256;  // rows that stay in the cache between their two visits
  double scores[block], block_slopes[block], total = 0.0;
  for (Index start = 0; start < rows.n; start += block) {
    const Index many = std::min(block, rows.n - start);
    for (Index k = 0; k < many; ++k) {
      scores[k] = static_cast<double>(rows.dot(start + k, coef)) + intercept;
      pulse.beat(rows.length(start + k));
    }
    const auto first = static_cast<std::size_t>(start), length = static_cast<std::size_t>(many);
    const auto y = targets.y.subspan(first, length);
    const auto weight =
        targets.has_weights() ? targets.weight.subspan(first, length) : targets.weight;
    total += sum_of_losses(loss, y, {scores, length}, weight);
    if (slopes.empty() && gradient.empty()) continue;
    for (std::size_t k = 0; k < length; ++k) {
      const double w = weight.empty() ? 1.0 : weight[k];
      block_slopes[k] = w > 0.0 ? w * loss.slope(y[k], scores[k]) : 0.0;
    }
    if (!slopes.empty()) std::copy(block_slopes, block_slopes + many, slopes.begin() + start);
    if (gradient.empty()) continue;
    for (Index k = 0; k < many; ++k) {
      const double slope = block_slopes[k];
      rows.for_each(start + k, [&](Index j, typename RowAccess::Real entry) {
        gradient[static_cast<std::size_t>(j)] += slope * static_cast<double>(entry);
      });
    }
  }
  return total;
}

}  // namespace antithetic
