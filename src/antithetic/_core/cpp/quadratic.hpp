// Coordinate descent on a quadratic model with an L1 penalty.
#pragma once

#include "common.hpp"

namespace antithetic {

// Minimise  <gradient, s> + s' H s / 2 + sum_j l1_j |start_j + s_j|  over s, from s = 0.
//
// `slopes` holds gradient + H s on the way, and `step` is s. Sweeps over the coordinates that moved
// in the last one alternate with sweeps over all, which end the descent once they gain less than
// `enough` times what the first one gained.
struct QuadraticModel {
  Index d;
  const double* hessian;  // (d, d), symmetric
  std::span<const double> l1, start;
};

void descend(const QuadraticModel& model, std::span<double> slopes, std::span<double> step,
             double enough, Index most_sweeps, Pulse& pulse);

}  // namespace antithetic
