// Passes over the data: losses of all rows.
#pragma once

#include "steps.hpp"

namespace antithetic {

// Weighted sum of the losses; an infinite loss of weight 0 counts as 0.
double sum_of_losses(const Loss& loss, std::span<const double> y, std::span<const double> p,
                     std::span<const double> weight);

// Apply a loss to each prediction: its value, slope, curvature or conjugate.
using LossFunction = double (Loss::*)(double, double) const;
void each_loss(const Loss& loss, LossFunction function, std::span<const double> y,
               std::span<const double> p, std::span<double> out);

// The lesser and the larger value of a column that has two; twice the first, or twice zero, where
// it has fewer, more, or one that is not a number.
std::array<double, 2> two_values(std::span<const double> y);
std::array<std::int64_t, 2> two_values(std::span<const std::int64_t> y);

// Sums of the weighted losses of all rows at some weights and, in the same visit to each row, at
// others; 0 where there are none.
template <class RowAccess>
std::array<double, 2> losses_at(const RowAccess& rows, const Targets& targets, const Loss& loss,
                                const typename RowAccess::Real* coef, double intercept,
                                const typename RowAccess::Real* other, double other_intercept,
                                Pulse& pulse) {
  constexpr Index block = 256;
  double scores[block], other_scores[block];
  std::array<double, 2> totals{};
  const auto both = rows.side_by_side(coef, other);
  for (Index start = 0; start < rows.n; start += block) {
    const Index many = std::min(block, rows.n - start);
    Index met = 0;
    for (Index k = 0; k < many; ++k) {
      const Index i = start + k;
      met += rows.length(i);
      if (other == nullptr) {
        scores[k] = static_cast<double>(rows.dot(i, coef)) + intercept;
        continue;
      }
      const auto [score, other_score] = rows.dots_with(i, both);
      scores[k] = static_cast<double>(score) + intercept;
      other_scores[k] = static_cast<double>(other_score) + other_intercept;
    }
    pulse.beat(met);
    const auto first = static_cast<std::size_t>(start), length = static_cast<std::size_t>(many);
    const auto y = targets.y.subspan(first, length);
    const auto weight =
        targets.has_weights() ? targets.weight.subspan(first, length) : targets.weight;
    totals[0] += sum_of_losses(loss, y, {scores, length}, weight);
    if (other != nullptr) totals[1] += sum_of_losses(loss, y, {other_scores, length}, weight);
  }
  return totals;
}

}  // namespace antithetic
