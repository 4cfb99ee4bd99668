// What slopes cost as dual variables.
#include "duals.hpp"

#include "second_order.hpp"

namespace antithetic {
namespace {

// log(1 + x) for x in [0, 1/64], from above, to 8 digits.
inline double log1p_of_little(double x) {
  return x * (1.0 + x * (-1.0 / 2.0 + x * (1.0 / 3.0 + x * (-1.0 / 4.0 + x * (1.0 / 5.0)))));
}

// What a dual variable u' of a row costs: s (phi(p) + phi*(u'/s) - p u'/s), zero for u' = s
// phi'(p). Of the logistic loss it is the divergence of two chances, `kept` times c from c, or k c
// log k + (1 - k c) log(1 + (1 - k) c / (1 - c)). With the weighted slope u and curvature h of a
// row, c is |u| / s, and c / (1 - c) is u^2 / (s h).
class LogisticCosts {
 public:
  LogisticCosts(double up, double down)
      : up_(up), down_(down), log_up_(log_of(up)), log_down_(log_of(down)) {}

  // Of up to most_rows_at_once rows; slopes are scaled on the way.
  double scale(const double* weight, const double* slopes, const double* curvatures, Index many,
               double* scaled) {
    for (Index k = 0; k < many; ++k) weights_[k] = weight == nullptr ? 1.0 : weight[k];
    const double largest = prepare(slopes, curvatures, many, scaled);
    if (largest <= 1.0 / 64.0) {
      for (Index k = 0; k < many; ++k) logarithms_[k] = log1p_of_little(logarithms_[k]);
    } else if (largest <= 1.0) {
      take_logarithms(many);
    } else {
      for (Index k = 0; k < many; ++k) logarithms_[k] = std::log1p(logarithms_[k]);
    }
    return add_up(slopes, many);
  }

 private:
  static double log_of(double kept) { return kept > 0.0 ? std::log(kept) : 0.0; }

  // What logarithms are taken of, and the largest of these.
  ANTITHETIC_OUTLINE double prepare(const double* ANTITHETIC_RESTRICT slopes,
                                    const double* ANTITHETIC_RESTRICT curvatures, Index many,
                                    double* ANTITHETIC_RESTRICT scaled) {
    for (Index k = 0; k < many; ++k) {
      const double kept = slopes[k] > 0.0 ? up_ : down_;
      const double moved = (1.0 - kept) * slopes[k] * slopes[k];
      scaled[k] = kept * slopes[k];
      logarithms_[k] = moved > 0.0 ? moved / (weights_[k] * curvatures[k]) : 0.0;
    }
    double largest = 0.0;
    for (Index k = 0; k < many; ++k) {
      largest = largest > logarithms_[k] ? largest : logarithms_[k];
    }
    return largest;
  }

  ANTITHETIC_OUTLINE void take_logarithms(Index many) {
    for (Index k = 0; k < many; ++k) logarithms_[k] = log1p_of_unit(logarithms_[k]);
  }

  ANTITHETIC_OUTLINE double add_up(const double* ANTITHETIC_RESTRICT slopes, Index many) {
    const double up = up_ * log_up_, down = down_ * log_down_;
    for (Index k = 0; k < many; ++k) {
      const double size = std::abs(slopes[k]);
      const double left = weights_[k] - size * (slopes[k] > 0.0 ? up_ : down_);
      const double cost = size * (slopes[k] > 0.0 ? up : down) + left * logarithms_[k];
      logarithms_[k] = cost > 0.0 ? cost : 0.0;
    }
    return sum_in_lanes(logarithms_, many);
  }

  double up_, down_, log_up_, log_down_;
  double weights_[most_rows_at_once], logarithms_[most_rows_at_once];
};

double scale_logistic(const Targets& targets, const SlopeColumns& given, double up, double down,
                      std::span<double> scaled) {
  LogisticCosts costs(up, down);
  const double* weight = targets.has_weights() ? targets.weight.data() : nullptr;
  double total = 0.0;
  for (Index start = 0; start < length(scaled); start += most_rows_at_once) {
    total +=
        costs.scale(weight == nullptr ? nullptr : weight + start, given.slopes.data() + start,
                    given.curvatures.data() + start,
                    std::min(most_rows_at_once, length(scaled) - start), scaled.data() + start);
  }
  return total;
}

}  // namespace

double scale_slopes(const Targets& targets, const Loss& loss, const SlopeColumns& given, double up,
                    double down, std::span<double> scaled) {
  if (loss.code == log_loss) return scale_logistic(targets, given, up, down, scaled);
  double total = 0.0;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double slope = given.slopes[i], kept = slope > 0.0 ? up : down;
    const double weight = targets.weight_of(static_cast<Index>(i));
    scaled[i] = kept * slope;
    if (kept == 1.0 || !(weight > 0.0)) continue;
    // a quotient of weighted slopes might be beyond the steepest slope, where the cost is infinite
    const double y = targets.y[i], p = given.predictions[i], u = kept * loss.slope(y, p);
    total += weight * std::max(0.0, loss.value(y, p) + loss.conjugate(y, u) - u * p);
  }
  return total;
}

}  // namespace antithetic
