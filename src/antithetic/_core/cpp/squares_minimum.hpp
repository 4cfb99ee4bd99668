// The minimum of squared errors with an L2 penalty, from the mean products of few columns. Calls of
// NumPy and LAPACK would take longer than the work.
#pragma once

#include "table_parts.hpp"

namespace antithetic {

// Mean products of k columns and then the targets with each other; the last of the k is that of
// the intercept, if there is one, which is not penalised.
struct MeanProducts {
  const double* products;  // (k + 1, k + 1)
  Index k;
  bool has_intercept;
  double rounding;  // error of a product, relative to the root mean squares of both columns
};

struct SquaresMinimum {
  double objective, zero_objective;  // there, and of the best constant
  double distance;                   // bound on the distance from the minimum
};

// Write the minimum to `theta`; false if rounding made the Hessian indefinite.
bool minimise_products(const MeanProducts& given, double l2, std::span<double> theta,
                       SquaresMinimum& found);

}  // namespace antithetic
