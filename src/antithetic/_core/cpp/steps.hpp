// What all solvers with steps take: batches, targets, and the rule of a step.
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

  Index longest() const {
    Index most = size;
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
      : rule_(rule), targets_(targets), batches_(batches), met_(rule.loss) {}

  // Slope of the row at a place before weights and factors; the loss met is counted with them.
  double at(Index place, double prediction) {
    const Index i = batches_.row(place);
    const double y = targets_.label(i);
    double slope;
    if (rule_.loss.code == log_loss) {
      const double margin = y * prediction, tail = std::exp(-std::abs(margin));
      slope = -y * (margin >= 0.0 ? tail : 1.0) / (1.0 + tail);
      if (rule_.watch && is_plain()) {
        met_.add_tail(margin, tail);
        return cut(slope);
      }
    } else {
      slope = rule_.loss.slope(y, prediction);
    }
    if (rule_.watch) watch(place, i, y, prediction);
    return cut(slope);
  }

  double met() { return met_.total(); }

 private:
  bool is_plain() const { return !targets_.has_weights() && batches_.factors.empty(); }

  void watch(Index place, Index i, double y, double prediction) {
    if (is_plain()) {
      met_.add(y, prediction);
      return;
    }
    const double weight = targets_.weight_of(i);  // weight 0 beats an infinite loss
    if (weight > 0.0) met_.add(y, prediction, weight * batches_.factor(place));
  }

  double cut(double slope) const {
    if (std::abs(slope) > rule_.steepest) return slope > 0.0 ? rule_.steepest : -rule_.steepest;
    return slope;
  }

  const StepRule& rule_;
  const Targets& targets_;
  const Batches& batches_;
  LossSum met_;
};

constexpr double smallest_scale = 1e-6;  // below it the scale is multiplied into the weights

// The cumulative L1 step on one weight (Tsuruoka et al. 2009): every step charges each weight, and
// what a weight at zero has not paid is carried forward. `received` is negative while the weight
// was positive.
inline double cumulative_threshold(double weight, double received, double charged) {
  if (weight > 0.0) return std::max(0.0, weight - std::max(0.0, charged + received));
  if (weight < 0.0) return std::min(0.0, weight + std::max(0.0, charged - received));
  return weight;  // zero, or NaN, which is left for the divergence check
}

}  // namespace antithetic
