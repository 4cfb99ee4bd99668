// Arguments of all solvers with steps: batches, targets, and the rule of a step.
#pragma once

#include "losses.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace antithetic {

// Rows of an epoch, batch after batch, and what went before it. A batch of m rows takes m / size of
// a step, unless it has factors, one per row, which make up for the difference.
struct Batches {
  Rows rows;
  Rows starts;
  Index size;
  std::span<const double> factors;
  std::int64_t steps, samples;

  Index count() const { return static_cast<Index>(starts.size()) - 1; }
  Index first(Index batch) const { return starts[static_cast<std::size_t>(batch)]; }
  Index last(Index batch) const { return starts[static_cast<std::size_t>(batch) + 1]; }
  Index row(Index place) const { return rows[static_cast<std::size_t>(place)]; }

  double factor(Index place) const {
    return factors.empty() ? 1.0 : factors[static_cast<std::size_t>(place)];
  }

  double part(Index batch) const {
    if (!factors.empty()) return 1.0;
    return static_cast<double>(last(batch) - first(batch)) / static_cast<double>(size);
  }

  // Rows that the epoch counts as: with factors, every batch counts as full.
  Index counted() const {
    return factors.empty() ? static_cast<Index>(rows.size()) : count() * size;
  }

  Index longest() const {
    Index most = 1;
    for (Index batch = 0; batch < count(); ++batch)
      most = std::max(most, last(batch) - first(batch));
    return most;
  }
};

// Labels, and weights of the rows where these are not all 1.
struct Targets {
  std::span<const double> y;
  std::span<const double> weight;

  double label(Index i) const { return y[static_cast<std::size_t>(i)]; }
  bool has_weights() const { return !weight.empty(); }
  double weight_of(Index i) const {
    return weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
  }
};

struct StepRule {
  Loss loss;
  double l2, l1;
  Schedule schedule;
  bool fit_intercept;
  double steepest;  // slopes beyond it are cut off
  bool watch;       // whether to add up the losses met on the way
};

// Slopes of single rows, and the losses met if these are watched.
class Slopes {
 public:
  Slopes(const StepRule& rule, const Targets& targets, const Batches& batches)
      : rule_(rule),
        targets_(targets),
        batches_(batches),
        is_plain_(!targets.has_weights() && batches.factors.empty()),
        is_logistic_(rule.loss.code == log_loss),
        met_(rule.loss) {}

  // Slope of the row at a place before weights and factors; the loss met is counted with them.
  ANTITHETIC_INLINE double at(Index place, double prediction) {
    if (!is_logistic_) return cut(slope_of_any(place, prediction));
    const double y = targets_.label(batches_.row(place));
    const auto found = logistic<1>(y * prediction);
    if (rule_.watch) add_logistic(place, prediction, found);
    return cut(-y * found.share);
  }

  // Slopes of the rows at a place and the next.
  ANTITHETIC_INLINE std::array<double, 2> at_two(Index place, double first, double second) {
#if defined(__GNUC__) || defined(__clang__)
    if (is_logistic_) {
      // Labels are 1 or -1: a product with one changes a sign at most, which is quicker by its bit.
      using Bits = Block<std::int64_t, 2>;
      using Numbers = Block<double, 2>;
      constexpr auto sign = std::numeric_limits<std::int64_t>::min();
      const auto flipped = [](const Numbers& numbers, const Bits& signs) {
        return std::bit_cast<Numbers>(std::bit_cast<Bits>(numbers) ^ signs);
      };
      const Numbers labels{targets_.label(batches_.row(place)),
                           targets_.label(batches_.row(place + 1))};
      const Bits signs = std::bit_cast<Bits>(labels) & sign;
      const auto found = logistic<2>(flipped(Numbers{first, second}, signs));
      if (rule_.watch) {
        add_logistic(place, first, {found.share[0], found.linear[0], found.factor[0]});
        add_logistic(place + 1, second, {found.share[1], found.linear[1], found.factor[1]});
      }
      const Numbers slopes = flipped(found.share, signs ^ sign);
      return {cut(slopes[0]), cut(slopes[1])};
    }
#endif
    const double slope = at(place, first);
    return {slope, at(place + 1, second)};
  }

  double met() { return met_.total(); }

  // Whether rows have neither weights nor factors.
  bool is_plain() const { return is_plain_; }

 private:
  ANTITHETIC_INLINE void add_logistic(Index place, double prediction, const Logistic<1>& found) {
    if (is_plain_) {
      met_.add_logistic(found);
    } else {
      add_weighted(place, prediction);
    }
  }

  ANTITHETIC_OUTLINE void add_weighted(Index place, double prediction) {
    const Index i = batches_.row(place);
    const double weight = targets_.weight_of(i);
    if (weight > 0.0) {  // an infinite loss of weight 0 counts as 0
      met_.add(targets_.label(i), prediction, weight * batches_.factor(place));
    }
  }

  ANTITHETIC_OUTLINE double slope_of_any(Index place, double prediction) {
    const double y = targets_.label(batches_.row(place));
    if (rule_.watch && is_plain_) {
      met_.add(y, prediction);
    } else if (rule_.watch) {
      add_weighted(place, prediction);
    }
    return rule_.loss.slope(y, prediction);
  }

  double cut(double slope) const {
    if (std::abs(slope) > rule_.steepest) return slope > 0.0 ? rule_.steepest : -rule_.steepest;
    return slope;
  }

  const StepRule& rule_;
  const Targets& targets_;
  const Batches& batches_;
  const bool is_plain_, is_logistic_;  // whether the quick way will do
  LossSum met_;
};

constexpr double smallest_scale = 1e-6;  // below it the scale is multiplied into the weights

// The cumulative L1 step on one weight (Tsuruoka et al. 2009): every step adds penalty to each
// weight, and what is not yet applied to a zero weight is carried forward. `received` is negative
// while the weight was positive.
inline double cumulative_threshold(double weight, double received, double charged) {
  if (weight > 0.0) return std::max(0.0, weight - std::max(0.0, charged + received));
  if (weight < 0.0) return std::min(0.0, weight + std::max(0.0, charged - received));
  return weight;  // zero, or NaN, which is left for the divergence check
}

}  // namespace antithetic
