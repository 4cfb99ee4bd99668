// The losses: value, slope and curvature of one prediction, conjugate and dual step.
//
// A loss is phi(y, p) with the prediction p first multiplied by the sign y of a binary label
// (margin losses) or compared with a number y (regression). Its slope is the derivative in p; at a
// kink, the one that scikit-learn takes. The kind of loss is tested once per row: that costs about
// a nanosecond, and saves a copy of every kernel per loss.
#pragma once

#include "logistic.hpp"

namespace antithetic {

enum LossCode : int {
  log_loss,
  hinge,
  squared_hinge,
  modified_huber,
  perceptron,
  squared_error,
  huber,
  epsilon_insensitive,
  squared_epsilon_insensitive,
  quantile,  // its parameter is the quantile
  tweedie,   // its parameter is the power, from 1 (Poisson) to 2 (gamma); p is the logarithm of the
             // mean
  loss_count
};

struct Interval {
  double low, high;
};

struct Loss {
  int code;
  double epsilon;  // or the quantile, or the power

  bool is_margin() const { return code < squared_error; }

  // Loss of a prediction: infinite only where the true value exceeds the type, never NaN.
  double value(double y, double p) const;

  // Derivative in the prediction.
  double slope(double y, double p) const;

  // Second derivative in the prediction; 0 for the straight parts of losses with a kink.
  double curvature(double y, double p) const;

  // sup_p p u - phi(y, p): infinite where the loss never has the slope u, never NaN.
  double conjugate(double y, double u) const;

  // Slopes at which the conjugate of a loss without a kink is finite.
  Interval allowed_slopes(double y) const;

  bool has_dual_step() const {
    return code == log_loss || code == hinge || code == squared_hinge || code == squared_error;
  }

  // Best dual variable b of one row, all others kept: b = -s phi'(y, p + q (b - a)).
  double dual_step(double y, double weight, double a, double p, double q) const;
};

namespace detail {

// Half the Tweedie deviance of power 1 + b, with a = 1 - b, of the mean exp(p):
// y^a ((exp(a t) - 1) / a + (exp(-b t) - 1) / b) with t = p - log y, and its limits for a or b of
// 0.
inline double tweedie_value(double power, double y, double p) {
  const double b = power - 1.0, a = 1.0 - b;
  if (y <= 0.0) return std::exp(a * p) / a;
  const double t = p - std::log(y);
  if (b == 0.0) return y * std::max(0.0, std::expm1(t) - t);  // Poisson's, without a power
  const double up = a > 0.0 ? std::expm1(a * t) / a : t;
  const double down = b > 0.0 ? std::expm1(-b * t) / b : -t;
  return std::pow(y, a) * std::max(0.0, up + down);
}

inline double tweedie_slope(double power, double y, double p) {
  const double b = power - 1.0;
  if (b == 0.0) return std::exp(p) - std::max(0.0, y);
  return std::exp((1.0 - b) * p) - (y > 0.0 ? y * std::exp(-b * p) : 0.0);
}

inline double tweedie_curvature(double power, double y, double p) {
  const double b = power - 1.0, a = 1.0 - b;
  const double up = a > 0.0 ? a * std::exp(a * p) : 0.0;
  return up + (b > 0.0 && y > 0.0 ? b * y * std::exp(-b * p) : 0.0);
}

// Prediction at which the slope is u: bisection between bounds, by Newton's steps where they stay
// within.
inline double tweedie_prediction(double power, double y, double u) {
  const double b = power - 1.0, a = 1.0 - b;
  if (y <= 0.0 || b == 0.0) return std::log(u + y) / a;
  if (a == 0.0) return std::log(y) - std::log1p(-u);
  const double centre = std::log(y), level = std::pow(y, a);
  double low = centre, high = std::max(centre, std::log(std::max(u, 0.0) + level) / a);
  if (u < 0.0) {
    high = centre;
    low = -std::log((level - u) / y) / b;
  }
  double p = centre;
  for (int step = 0; step < 200 && high - low > 1e-15 * std::max(1.0, std::abs(p)); ++step) {
    const double excess = tweedie_slope(power, y, p) - u;
    (excess > 0.0 ? high : low) = p;
    const double newton = p - excess / tweedie_curvature(power, y, p);
    p = newton > low && newton < high ? newton : 0.5 * (low + high);
  }
  return p;
}

inline double tweedie_conjugate(double power, double y, double u) {
  const double b = power - 1.0;
  if ((y <= 0.0 && u < 0.0) || (b == 0.0 && u < -y) || (b == 1.0 && u > 1.0)) return infinity;
  if (b == 0.0 && u == -y) return y > 0.0 ? y - y * std::log(y) : 0.0;
  if (b == 1.0 && u == 1.0) return std::log(y) + 1.0;
  const double p = tweedie_prediction(power, y, u);
  return p * u - tweedie_value(power, y, p);
}

}  // namespace detail

inline double Loss::value(double y, double p) const {
  if (is_margin()) {
    const double margin = y * p;
    const double short_of_one = std::max(0.0, 1.0 - margin);
    switch (code) {
      case log_loss:
        return std::log1p(std::exp(-std::abs(margin))) + std::max(0.0, -margin);
      case hinge:
        return short_of_one;
      case squared_hinge:
        return short_of_one * short_of_one;
      case modified_huber:
        return margin >= -1.0 ? short_of_one * short_of_one : -4.0 * margin;
      default:
        return std::max(0.0, -margin);  // perceptron
    }
  }
  if (code == tweedie) return detail::tweedie_value(epsilon, y, p);
  // Half of |y - p| cannot overflow as the whole can; it is doubled last.
  const double half = std::abs(0.5 * y - 0.5 * p);
  if (code == squared_error || (code == huber && half <= 0.5 * epsilon)) return 2.0 * half * half;
  if (code == huber) return 2.0 * (epsilon * (half - 0.25 * epsilon));
  if (code == quantile) return 2.0 * (half * (p < y ? epsilon : 1.0 - epsilon));
  const double excess = std::max(0.0, half - 0.5 * epsilon);
  return code == epsilon_insensitive ? 2.0 * excess : 4.0 * excess * excess;
}

inline double Loss::slope(double y, double p) const {
  if (is_margin()) {
    const double margin = y * p;
    switch (code) {
      case log_loss: {
        const double tail = std::exp(-std::abs(margin));  // to the last digit before it is zero
        return -y * (margin >= 0.0 ? tail : 1.0) / (1.0 + tail);
      }
      case hinge:
        return margin <= 1.0 ? -y : 0.0;
      case perceptron:
        return margin <= 0.0 ? -y : 0.0;
      case modified_huber:
        if (margin < -1.0) return -4.0 * y;
        [[fallthrough]];
      default:
        return -2.0 * y * std::max(0.0, 1.0 - margin);
    }
  }
  if (code == tweedie) return detail::tweedie_slope(epsilon, y, p);
  if (code == quantile) return p < y ? -epsilon : (p > y ? 1.0 - epsilon : 0.0);
  const double half = 0.5 * p - 0.5 * y;
  if (code == squared_error || (code == huber && std::abs(half) <= 0.5 * epsilon)) {
    return 2.0 * half;
  }
  const double sign = half > 0.0 ? 1.0 : -1.0;
  if (code == huber) return sign * epsilon;
  const double excess = std::max(0.0, std::abs(half) - 0.5 * epsilon);
  if (code == epsilon_insensitive) return excess > 0.0 ? sign : 0.0;
  return sign * 4.0 * excess;
}

inline double Loss::curvature(double y, double p) const {
  const double margin = y * p;
  const double distance = std::abs(0.5 * y - 0.5 * p);
  switch (code) {
    case log_loss: {
      const double tail = std::exp(-std::abs(margin));
      return tail / ((1.0 + tail) * (1.0 + tail));
    }
    case squared_hinge:
      return margin < 1.0 ? 2.0 : 0.0;
    case modified_huber:
      return margin < 1.0 && margin >= -1.0 ? 2.0 : 0.0;
    case squared_error:
      return 1.0;
    case huber:
      return distance <= 0.5 * epsilon ? 1.0 : 0.0;
    case squared_epsilon_insensitive:
      return distance > 0.5 * epsilon ? 2.0 : 0.0;
    case tweedie:
      return detail::tweedie_curvature(epsilon, y, p);
    default:
      return 0.0;
  }
}

inline double Loss::conjugate(double y, double u) const {
  if (u == 0.0) return 0.0;  // no loss is negative, and each is zero somewhere or tends to it
  if (code == tweedie) return detail::tweedie_conjugate(epsilon, y, u);
  if (code == quantile) return u < -epsilon || u > 1.0 - epsilon ? infinity : u * y;
  if (is_margin()) {
    const double against = -y * u;
    double most = 1.0;
    if (code == squared_hinge) most = infinity;
    if (code == modified_huber) most = 4.0;
    if (against < 0.0 || against > most) return infinity;
    if (code == log_loss) {
      if (against >= 1.0) return 0.0;
      return against * std::log(against) + (1.0 - against) * std::log1p(-against);
    }
    if (code == perceptron) return 0.0;
    return code == hinge ? -against : against * (0.25 * against - 1.0);
  }
  const double size = std::abs(u);
  if ((code == huber && size > epsilon) || (code == epsilon_insensitive && size > 1.0)) {
    return infinity;
  }
  // Quarters cannot overflow as the sum of the wholes can.
  double centre = u > 0.0 ? 0.25 * y : -0.25 * y;
  if (code <= huber) return 4.0 * (size * (centre + 0.125 * size));
  centre += 0.25 * epsilon;
  return 4.0 * (size * (code == epsilon_insensitive ? centre : centre + 0.0625 * size));
}

inline Interval Loss::allowed_slopes(double y) const {
  switch (code) {
    case log_loss:
      return y > 0.0 ? Interval{-1.0, 0.0} : Interval{0.0, 1.0};
    case squared_hinge:
      return y > 0.0 ? Interval{-infinity, 0.0} : Interval{0.0, infinity};
    case modified_huber:
      return y > 0.0 ? Interval{-4.0, 0.0} : Interval{0.0, 4.0};
    case huber:
      return {-epsilon, epsilon};
    case tweedie:
      if (epsilon == 1.0) return {-y, infinity};
      if (epsilon == 2.0) return {-infinity, 1.0};
      return {y > 0.0 ? -infinity : 0.0, infinity};
    default:
      return {-infinity, infinity};
  }
}

namespace detail {

// New margin z of the logistic loss: z - low = reach / (1 + exp(z)), by Newton's method from below.
inline double logistic_dual(double y, double weight, double against, double margin, double q) {
  constexpr int most_steps = 50;      // never reached: it takes fewer than ten
  constexpr double last_step = 1e-8;  // convergence is quadratic: the error is then below rounding
  const double reach = weight * q;
  double low = margin - against * q;
  const double high = margin + (weight - against) * q;
  // Mirrored where it is negative, so that z >= 0: the right side minus the left is convex there,
  // and steps that come from below never pass the root.
  const bool mirrored = low + high <= 0.0;
  if (mirrored) {
    low = -high;
    margin = -margin;
  }
  double least = std::max(0.0, low);
  if (reach > 4.0) {  // a bound near the root, which may be log(reach) away from 0
    const double far = 1.0 + std::log(reach) + std::max(0.0, -low);
    if (reach > 2.0 * far) least = std::max(least, std::log(0.5 * reach / far));
  }
  double z = std::max(least, margin);
  for (int step = 0; step < most_steps; ++step) {
    const double tail = std::exp(-z);
    const double share = tail / (1.0 + tail);
    const double before = z;
    z = std::max(least, z - (z - low - reach * share) / (1.0 + reach * share / (1.0 + tail)));
    if (std::abs(z - before) <= last_step) break;
  }
  const double tail = std::exp(-z);
  return y * weight * ((mirrored ? 1.0 : tail) / (1.0 + tail));
}

}  // namespace detail

inline double Loss::dual_step(double y, double weight, double a, double p, double q) const {
  if (code == squared_error) return a + (weight * (y - p) - a) / (1.0 + weight * q);
  const double against = y * a;
  const double margin = y * p;
  const double short_of_one = 1.0 - margin;
  if (code == hinge) {
    // Compared before it is divided by: q may be 0.
    if (short_of_one >= (weight - against) * q) {
      return short_of_one > 0.0 || q > 0.0 ? y * weight : a;
    }
    if (-short_of_one >= against * q) return 0.0;
    return y * std::min(std::max(against + short_of_one / q, 0.0), weight);
  }
  if (code == squared_hinge) {
    const double step = (2.0 * weight * short_of_one - against) / (1.0 + 2.0 * weight * q);
    return y * std::max(0.0, against + step);
  }
  return detail::logistic_dual(y, weight, against, margin, q);
}

// Adds up losses. Logistic ones take one logarithm of a product for many rows.
class LossSum {
 public:
  explicit LossSum(const Loss& loss) : loss_(loss) {}

  void add(double y, double p) {
    if (loss_.code != log_loss) {
      total_ += loss_.value(y, p);
      return;
    }
    add_logistic(logistic<1>(y * p));
  }

  ANTITHETIC_INLINE void add_logistic(const Logistic<1>& found) {
    total_ += found.linear;
    product_ *= found.factor;
    if ((factors_ += 1) >= at_once) flush();
  }

  void add(double y, double p, double weight) { total_ += weight * loss_.value(y, p); }

  double total() {
    flush();
    return total_;
  }

 private:
  static constexpr int at_once = 512;  // factors of at most 2: their product is far from overflow

  ANTITHETIC_OUTLINE void flush() {
    total_ += std::log(product_);
    product_ = 1.0;
    factors_ = 0;
  }

  Loss loss_;
  double total_ = 0.0;
  double product_ = 1.0;
  int factors_ = 0;
};

}  // namespace antithetic
