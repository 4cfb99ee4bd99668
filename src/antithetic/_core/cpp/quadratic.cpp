// Coordinate descent on a quadratic model with an L1 penalty.
#include "quadratic.hpp"

namespace antithetic {
namespace {

double soft_threshold(double x, double by) {
  if (x > by) return x - by;
  return x < -by ? x + by : 0.0;
}

// Move one coordinate to its minimum; return what that gained.
double descend_along(const QuadraticModel& model, Index j, std::span<double> slopes,
                     std::span<double> step) {
  const auto at = static_cast<std::size_t>(j);
  const double* line = model.hessian + j * model.d;
  const double curvature = line[j];
  if (!(curvature > 0.0)) return 0.0;
  const double before = model.start[at] + step[at];
  const double after = soft_threshold(before - slopes[at] / curvature, model.l1[at] / curvature);
  const double change = after - before;
  if (change == 0.0) return 0.0;
  step[at] = after - model.start[at];
  for (Index k = 0; k < model.d; ++k) slopes[static_cast<std::size_t>(k)] += change * line[k];
  return 0.5 * curvature * change * change;
}

}  // namespace

void descend(const QuadraticModel& model, std::span<double> slopes, std::span<double> step,
             double enough, Index most_sweeps, Pulse& pulse) {
  std::vector<Index> active;
  active.reserve(static_cast<std::size_t>(model.d));
  double first = -1.0;
  for (Index sweep = 0; sweep < most_sweeps; ++sweep) {
    double gained = 0.0;
    active.clear();
    for (Index j = 0; j < model.d; ++j) {
      const double gain = descend_along(model, j, slopes, step);
      if (gain > 0.0) active.push_back(j);
      gained += gain;
      pulse.beat(model.d);
    }
    if (first < 0.0) first = gained;
    if (gained <= enough * first) return;
    for (double last = gained; last > enough * first && sweep < most_sweeps; ++sweep) {
      last = 0.0;
      for (const Index j : active) {
        last += descend_along(model, j, slopes, step);
        pulse.beat(model.d);
      }
    }
  }
}

}  // namespace antithetic
