// The minimum of a table's objective, with a proof of how near it is: a whole fit of few rows in
// one call.
#pragma once

#include "table_parts.hpp"

namespace antithetic {

// Mean logistic loss of predictions table w, plus l2 / 2 times the squares of all weights but, with
// an intercept, the last, whose column is one of ones.
struct LogisticTable {
  DenseRows<double> rows;
  Targets targets;
  double l2;
  bool has_intercept;
};

// Gaps are shares of the distance of the best constant from the minimum.
struct MinimumGoal {
  double zero_objective;  // of the best constant
  double gap;             // at which the run ends
  double least_unit;      // of gaps
  double rounding;        // a distance from the minimum that need not be shorter
  Index most_steps;
};

struct Minimum {
  double objective;
  double distance;  // from the minimum, at most; of no meaning where the goal is not reached
  Index steps;
  bool is_reached;  // whether the distance is short enough
};

// Newton's steps from `point`, which is replaced by where they end. Where the goal is not reached,
// a more careful method has to.
Minimum minimise_table(const LogisticTable& problem, const MinimumGoal& goal,
                       std::span<double> point, Pulse& pulse);

}  // namespace antithetic
