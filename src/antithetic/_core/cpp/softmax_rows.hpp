// Scores of many classes become losses and slopes, row by row and in place. Sums and exponentials
// are float64 whatever the scores are.
#pragma once

#include "common.hpp"

namespace antithetic {

// Scores of some rows, one row after the other, and what belongs to each row.
template <class Real>
struct ScoreTable {
  Real* scores;
  Index rows, classes;
  std::span<const Index> labels;   // from 0 to classes - 1
  std::span<const double> weight;  // empty where all are 1

  double weight_of(Index i) const {
    return weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
  }
};

struct SoftmaxTotals {
  double loss = 0.0, slope_square = 0.0, curvature = 0.0;
};

// Replace scores by weighted slopes, s (p - y), and add these to one sum per class.
template <class Real>
SoftmaxTotals softmax_slopes(const ScoreTable<Real>& table, std::span<double> sums, Pulse& pulse);

// Replace scores by the chances p of the classes, and write p (1 - p), which loses no digits where
// p is nearly 1.
template <class Real>
void softmax_chances(const ScoreTable<Real>& table, Real* curvatures, Pulse& pulse);

// Other chances of the same rows: those of class k times kept[k], and what was taken from a row
// shared out by `given`; then moved towards the label, of which `share` is left.
struct OtherChances {
  std::span<const double> kept, given;
  double share = 1.0;
};

// Scores of the same rows before and after a step.
template <class Real>
struct ScoreChange {
  ScoreTable<const Real> before;
  const Real* after;
};

struct SoftmaxStep {
  SoftmaxTotals totals;
  double square = 0.0;  // of curvatures with squared changes of the scores
};

// A visit after a step. Each row of `both` gets its weighted slopes after the step, s (p - y), and
// those that the quadratic model before the step expects there, s (a - y), with the chances
// a_k = p_k (1 + D_k - sum p D) of the scores before, cut at zero and made to sum to one. They are
// added to `sums`: one per class, first of the slopes.
template <class Real>
SoftmaxStep softmax_step(const ScoreChange<Real>& change, Real* both, std::span<double> sums,
                         Pulse& pulse);

// Weighted loss some way along a step, and its slope there.
template <class Real>
std::pair<double, double> softmax_along(const ScoreChange<Real>& change, double length,
                                        Pulse& pulse);

// Weighted divergence, summed over rows, of the chances that a step's model expects from those
// before the step; first they become others. It is never below zero.
template <class Real>
double softmax_step_cost(const ScoreChange<Real>& change, const OtherChances& others, Pulse& pulse);

}  // namespace antithetic
