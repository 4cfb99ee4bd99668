// Several epochs of SGD in one call. With few rows an epoch takes less time than Python needs
// between two of them.
//
// A call ends before its last epoch where Python has to decide something: an epoch that went wrong
// is taken back, so that Python takes it again and looks at it; epochs that all went the same way,
// and an objective that no longer falls, end the call after their epoch.
#pragma once

#include "row_set.hpp"

namespace antithetic {

// as in training/care.py
constexpr Index epochs_the_same_way = 3;  // after which the decay is eased
constexpr double same_way = 0.7;          // cosine between the ways of two epochs

// What a call is asked for, and what it continues from.
struct Course {
  Index epochs;             // at most
  Index done;               // before this call
  bool by_epoch;            // the mean of each epoch's weights is taken
  Index skipped;            // rows of the very first epoch that such a mean leaves out
  bool checks;              // objectives are computed, and must not exceed that of zero weights
  double at_zero;           // which is this
  bool eases;               // epochs that go the same way are counted
  Index aligned;            // how many did so far
  double best, least_fall;  // lowest running objective, and by how much the next must fall below
  // epochs without such a fall, below 0 where more are granted, and how many end the call (0: none)
  Index waited, patience;
};

struct CourseOutcome {
  SgdOutcome last;
  Index epochs, aligned;
  double objective;  // of the mean, if any, after the last epoch; NaN if it was not computed
  bool is_wrong;     // whether one more epoch was taken back
};

// Columns that are written. `moved` holds weights and intercept: where the last epoch went, empty
// before the first; `running` and `seconds` have one entry per epoch.
struct CourseColumns {
  std::span<double> moved;
  bool has_moved;
  std::span<double> running, seconds;
};

// `given` is the first epoch; the order of each later one is balanced.
CourseOutcome run_several(const RowSet& rows, const SgdArguments& given, const Course& course,
                          const CourseColumns& columns, Pulse& pulse);

}  // namespace antithetic
