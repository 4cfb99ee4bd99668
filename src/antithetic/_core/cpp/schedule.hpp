// Step sizes as functions of the steps and samples before them.
#pragma once

#include "common.hpp"

namespace antithetic {

enum ScheduleCode : int { constant_step, inverse_time, optimal_step, inv_scaling, pa1, pa2 };

// `rate` is the decay of inverse_time, the alpha of optimal, the power of inv_scaling; `start` is
// the t0 of optimal.
struct Schedule {
  int code;
  double eta0;
  double rate;
  double start;

  bool is_passive() const { return code >= pa1; }

  double step(std::int64_t steps, std::int64_t samples) const {
    switch (code) {
      case inverse_time:
        return eta0 / (1.0 + eta0 * rate * (static_cast<double>(steps) + 1.0));
      case optimal_step:
        return 1.0 / (rate * (start + static_cast<double>(samples)));
      case inv_scaling:
        return eta0 / std::pow(static_cast<double>(samples) + 1.0, rate);
      default:
        return eta0;
    }
  }

  // Length of a passive-aggressive step along one row, from its loss and its squared norm.
  double row_step(double loss, double square) const {
    if (code == pa2) return loss / (square + 0.5 / eta0);
    if (square == 0.0) return 0.0;  // nothing in the row can lower its loss
    const double length = loss / square;
    return length > eta0 ? eta0 : length;  // min() would hide a NaN from the divergence check
  }
};

}  // namespace antithetic
