// Points of the dual problem near a step of Newton's method, and what they cost.
#include "dual_point.hpp"

#include <tuple>

#include "logistic.hpp"
#include "second_order.hpp"

namespace antithetic {
namespace {

// Not inlined, or GCC no longer vectorises it.
ANTITHETIC_OUTLINE void expect_logistic(
    const double* ANTITHETIC_RESTRICT y, const double* ANTITHETIC_RESTRICT slopes,
    const double* ANTITHETIC_RESTRICT curvatures, const double* ANTITHETIC_RESTRICT predictions,
    const double* ANTITHETIC_RESTRICT after, const double* ANTITHETIC_RESTRICT weight, Index many,
    double* ANTITHETIC_RESTRICT expected, double* ANTITHETIC_RESTRICT squares) {
  for (Index k = 0; k < many; ++k) {
    const double change = after[k] - predictions[k], part = curvatures[k] * change;
    const double most = weight == nullptr ? 1.0 : weight[k];
    double against = -y[k] * (slopes[k] + part);  // from 0 to the weight
    against = against > 0.0 ? against : 0.0;
    against = against < most ? against : most;
    expected[k] = -y[k] * against;
    squares[k] = most > 0.0 ? part * change : 0.0;  // an infinite change has no weight either
  }
}

// Logarithm of a normal number, of operations that vectorise: the exponent, and the series of the
// inverse hyperbolic tangent for what is left, between the roots of 1/2 and 2.
inline double log_of(double x) {
  constexpr std::int64_t root_of_half = 0x3fe6a09e667f3bcd, shift_bits = 0x4338000000000000;
  constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52, whose bits these are
  constexpr double log_2 = 0.6931471805599453;
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t exponent = (bits - root_of_half) >> 52;
  const double rest = std::bit_cast<double>(bits - exponent * (std::int64_t{1} << 52));
  const double k = std::bit_cast<double>(exponent + shift_bits) - shift;
  const double z = (rest - 1.0) / (rest + 1.0), square = z * z;
  double sum = 1.0 / 21.0;  // written out: loops inside of loops do not vectorise
  sum = sum * square + 1.0 / 19.0;
  sum = sum * square + 1.0 / 17.0;
  sum = sum * square + 1.0 / 15.0;
  sum = sum * square + 1.0 / 13.0;
  sum = sum * square + 1.0 / 11.0;
  sum = sum * square + 1.0 / 9.0;
  sum = sum * square + 1.0 / 7.0;
  sum = sum * square + 1.0 / 5.0;
  sum = sum * square + 1.0 / 3.0;
  return k * log_2 + (2.0 * z + 2.0 * z * square * sum);
}

// (1 + t) log(1 + t) - t for t >= -1, to all digits: from its series where that is small.
inline double excess(double t) {
  double series = 1.0 / 132.0;  // 1 / (k (k - 1)), with alternating signs
  series = 1.0 / 110.0 - t * series;
  series = 1.0 / 90.0 - t * series;
  series = 1.0 / 72.0 - t * series;
  series = 1.0 / 56.0 - t * series;
  series = 1.0 / 42.0 - t * series;
  series = 1.0 / 30.0 - t * series;
  series = 1.0 / 20.0 - t * series;
  series = 1.0 / 12.0 - t * series;
  series = 1.0 / 6.0 - t * series;
  series = 1.0 / 2.0 - t * series;
  const double x = 1.0 + t;  // rounded, and so less 1 below
  const double other = x * log_of(std::max(x, std::numeric_limits<double>::min())) - (x - 1.0);
  return std::abs(t) < 0.03 ? t * t * series : other;
}

// A cost is not negative but for rounding, and a bound is infinite where a cost is not known.
inline double known(double cost) { return cost >= 0.0 ? cost : (cost < 0.0 ? 0.0 : infinity); }

// Predictions beyond which a probability or a mean would be about to leave the normal numbers.
constexpr double far = 700.0;

// Slopes of some rows, not weighted, and what they cost, with the logistic loss. A slope is the
// probability a of a class, less 1 in rows of that class, times its sign; a relative change t of a
// number costs excess(t) times the number. Not inlined, or GCC no longer vectorises it.
ANTITHETIC_OUTLINE void cost_logistic(const Restoration& given, const double* ANTITHETIC_RESTRICT y,
                                      const double* ANTITHETIC_RESTRICT predictions,
                                      const double* ANTITHETIC_RESTRICT after, Index many,
                                      double* ANTITHETIC_RESTRICT slopes,
                                      double* ANTITHETIC_RESTRICT costs) {
  const double side = given.side < 0 ? -1.0 : 1.0, factor = given.factor, kept = given.kept;
  const double shift = given.shift;
  for (Index k = 0; k < many; ++k) {
    const double p = predictions[k], size = std::abs(p), change = after[k] - p;
    const double counted = size < far ? size : far, tail = exp_of_negative<1>(-counted);
    const double less = tail / (1.0 + tail), more = 1.0 / (1.0 + tail);
    const bool is_likely = side * p >= 0.0, is_mine = side * y[k] > 0.0;
    const double c = is_likely ? more : less, rest = is_likely ? less : more, full = rest / c;
    double bent = rest * (side * change);  // up to where a is 1, or 0
    bent = bent < full ? bent : full;
    bent = bent > -1.0 ? bent : -1.0;
    bent += rest * (side * shift);
    const double scaled = factor * bent + (factor - 1.0);
    const double a = kept * scaled + (1.0 - kept) * (is_mine ? full : -1.0);
    double other = -(c / rest) * a;
    other = other > -1.0 ? other : -1.0;
    const double mine = c * (1.0 + a), others = rest * (1.0 + other);
    slopes[k] = side * (is_mine ? -others : mine);
    const double rare = is_likely ? others : mine;
    const double cost = c * excess(a) + rest * excess(other) + rare * (size - counted);
    // with the change alone, and with the shift: 1 + bent and 1 - bent / full must be positive
    const double first = side * change, second = first + side * shift;
    const bool is_cut = std::min(first, second) * rest < -1.0 || std::max(first, second) * c > 1.0;
    const bool is_unknown = (shift != 0.0 && is_cut) || change != change;
    costs[k] = is_unknown ? infinity : cost;
  }
}

// The same of other losses, row by row. Of Poisson's and gamma's loss, a slope is a - b or b - a
// with a positive number a: the mean, or the target in units of the mean.
class Costs {
 public:
  Costs(const Loss& loss, const Restoration& given) : loss_(loss), given_(given) {}

  // The slope of one row and what it costs.
  std::pair<double, double> of(double y, double p, double after) const {
    if (loss_.code == tweedie && loss_.epsilon == 1.0) {
      if (is_cut(after - p, -1.0)) return {0.0, infinity};
      const double mean = std::exp(p), a = scaled(after - p + given_.shift);
      const double slope = given_.kept * (mean * (1.0 + a) - y);
      return {slope, std::abs(p) <= far ? mean * excess(drawn(a, y / mean)) : apart(y, p, slope)};
    }
    if (loss_.code == tweedie && loss_.epsilon == 2.0) {
      if (is_cut(p - after, 1.0)) return {0.0, infinity};
      const double ratio = y * std::exp(-p), a = scaled(p - after - given_.shift);
      const double slope = given_.kept * (1.0 - ratio * (1.0 + a));
      return {slope,
              std::abs(p) <= far ? ratio * excess(drawn(a, 1.0 / ratio)) : apart(y, p, slope)};
    }
    const double slope = loss_.slope(y, p), curvature = loss_.curvature(y, p);
    const auto [low, high] = loss_.allowed_slopes(y);
    const double bent = curvature * (after - p), moved = bent + curvature * given_.shift;
    const double cut = std::clamp(moved, low - slope, high - slope);  // of slopes, only changes
    if (given_.shift != 0.0 && (cut != moved || bent < low - slope || bent > high - slope)) {
      return {0.0, infinity};
    }
    const double kept = given_.kept * (slope + cut > 0.0 ? given_.up : given_.down);
    const double change = kept * cut - (1.0 - kept) * slope;
    if (!has_one_square()) return {slope + change, apart(y, p, slope + change)};
    const double scale = loss_.is_margin() ? 2.0 : 1.0;
    const double beyond = curvature > 0.0 ? 0.0 : scale * (p - y) - slope;  // of the square
    return {slope + change, (0.5 * change * change - beyond * change) / scale};
  }

 private:
  // Whether a relative change would be below -1, with the shift or without.
  bool is_cut(double change, double sign) const {
    return given_.shift != 0.0 && std::min(change, change - sign * given_.shift) < -1.0;
  }

  // Whether the loss is one square, and straight beyond the slopes that it allows. A change of the
  // slope then costs two terms that are positive, since none is allowed that is further beyond.
  bool has_one_square() const {
    return loss_.code == squared_error || loss_.code == huber || loss_.code == squared_hinge ||
           loss_.code == modified_huber;
  }

  double apart(double y, double p, double u) const {
    return loss_.value(y, p) + loss_.conjugate(y, u) - u * p;
  }

  // Relative change of a, cut at -1 and scaled by the factor.
  double scaled(double change) const {
    return given_.factor * std::max(change, -1.0) + (given_.factor - 1.0);
  }

  // That change once all slopes are multiplied by `kept`, which draws a towards b = target * a.
  double drawn(double change, double target) const {
    if (given_.kept == 1.0) return change;
    return given_.kept * change + (1.0 - given_.kept) * (target - 1.0);
  }

  Loss loss_;
  Restoration given_;
};

}  // namespace

void expect_slopes(const Targets& targets, const Loss& loss, Index start, Index many,
                   const PredictionBlock& origin, const double* after, double* expected,
                   double* squares) {
  const double *predictions = origin.predictions, *slopes = origin.slopes,
               *curvatures = origin.curvatures;
  const double* y = targets.y.data() + start;
  const double* weight = targets.has_weights() ? targets.weight.data() + start : nullptr;
  if (loss.code == log_loss) {
    expect_logistic(y, slopes, curvatures, predictions, after, weight, many, expected, squares);
    return;
  }
  for (Index k = 0; k < many; ++k) {
    const double own = weight == nullptr ? 1.0 : weight[k], change = after[k] - predictions[k];
    const auto [low, high] = loss.allowed_slopes(y[k]);
    const double u = slopes[k] + curvatures[k] * change;
    expected[k] = own > 0.0 ? std::clamp(u, own * low, own * high) : 0.0;
    squares[k] = own > 0.0 ? curvatures[k] * change * change : 0.0;
  }
}

double dual_cost(const Targets& targets, const Loss& loss, std::span<const double> predictions,
                 std::span<const double> after, const Restoration& restoration,
                 std::span<double> slopes) {
  double total = 0.0;
  double found[most_rows_at_once], costs[most_rows_at_once];
  const Costs of_row(loss, restoration);
  for (Index start = 0; start < length(predictions); start += most_rows_at_once) {
    const Index many = std::min(most_rows_at_once, length(predictions) - start);
    const double *y = targets.y.data() + start, *p = predictions.data() + start;
    const double* to = after.data() + start;
    if (loss.code == log_loss) {
      cost_logistic(restoration, y, p, to, many, found, costs);
    } else {
      for (Index k = 0; k < many; ++k) {
        std::tie(found[k], costs[k]) = of_row.of(y[k], p[k], to[k]);
      }
    }
    for (Index k = 0; k < many; ++k) {
      const double weight = targets.weight_of(start + k);
      costs[k] = weight > 0.0 ? weight * known(costs[k]) : 0.0;
      found[k] = weight > 0.0 ? weight * found[k] : 0.0;
    }
    total += sum_in_lanes(costs, many);
    if (!slopes.empty()) std::copy_n(found, many, slopes.data() + start);
  }
  return total;
}

}  // namespace antithetic
