// The minimum of squared errors from the products of columns.
#include "squares_minimum.hpp"

namespace antithetic {
namespace {

class ProductsSolver {
 public:
  ProductsSolver(const MeanProducts& given, double l2)
      : given_(given), l2_(l2), penalised_(given.k - given.has_intercept) {}

  // H theta - b.
  std::vector<double> gradient(std::span<const double> theta) const {
    std::vector<double> found(theta.size());
    for (Index j = 0; j < given_.k; ++j) {
      const double* line = row(j);
      const double product = sum_of(given_.k, [&](Index c) { return line[c] * theta.data()[c]; });
      const double penalty = j < penalised_ ? l2_ * theta.data()[j] : 0.0;
      found.data()[j] = product + penalty - line[given_.k];
    }
    return found;
  }

  // Solve with Cholesky's factor, and correct the solution once.
  bool solve(std::span<double> theta) const {
    ScaledFactor factor(given_.k);
    for (Index j = 0; j < given_.k; ++j) {
      double* line = factor.matrix().row(j);
      std::copy_n(row(j), given_.k, line);
      if (j < penalised_) line[j] += l2_;
    }
    if (!factor.take(0.0)) return false;
    std::fill(theta.begin(), theta.end(), 0.0);
    for (int pass = 0; pass < 2; ++pass) {
      auto step = gradient(theta);
      factor.solve(step);
      for (std::size_t j = 0; j < theta.size(); ++j) theta[j] -= step[j];
    }
    return true;
  }

  SquaresMinimum at(std::span<const double> theta) const {
    const double* targets = row(given_.k);
    const double square = targets[given_.k];
    const auto slopes = gradient(theta);
    double along = 0.0, size = std::sqrt(std::max(0.0, square));
    for (Index j = 0; j < given_.k; ++j) {
      along += (slopes.data()[j] - targets[j]) * theta.data()[j];
      size += length_of(j) * std::abs(theta.data()[j]);
    }
    double explained = 0.0;
    if (given_.has_intercept) {
      const double own = row(penalised_)[penalised_], shared = targets[penalised_];
      explained = own > 0.0 ? shared * shared / own : square;
    }
    // s / 2 - b'theta + theta'H theta / 2, with H theta = b + gradient
    return {0.5 * (square + along), 0.5 * (square - explained), distance(slopes, size)};
  }

 private:
  const double* row(Index j) const { return given_.products + j * (given_.k + 1); }
  double length_of(Index j) const { return std::sqrt(row(j)[j]); }

  // The duality gap, with the gradient that rounding may hide; with an intercept, of residuals less
  // their mean.
  double distance(const std::vector<double>& slopes, double size) const {
    const auto off = [&](Index j) {
      return std::abs(slopes.data()[j]) + given_.rounding * size * length_of(j);
    };
    double mean = 0.0, cost = 0.0;
    const double* last = row(penalised_);
    if (given_.has_intercept) {
      mean = off(penalised_) / last[penalised_];
      cost = 0.5 * mean * off(penalised_);
    }
    double squares = 0.0;
    for (Index j = 0; j < penalised_; ++j) {
      const double own = off(j) + mean * (given_.has_intercept ? std::abs(last[j]) : 0.0);
      squares += own * own;
    }
    return squares / (2.0 * l2_) + cost;
  }

  MeanProducts given_;
  double l2_;
  Index penalised_;
};

}  // namespace

bool minimise_products(const MeanProducts& given, double l2, std::span<double> theta,
                       SquaresMinimum& found) {
  const ProductsSolver solver(given, l2);
  if (!solver.solve(theta)) return false;
  found = solver.at(theta);
  return true;
}

}  // namespace antithetic
