// Checks of arguments, before a loop begins: each throws std::invalid_argument.
#pragma once

#include "corrected.hpp"

namespace antithetic {

void require(bool holds, const char* what);
void require_rows(Rows rows, Index n, const char* what);
void require_targets(const Targets& targets, Index n);
void require_batches(const Batches& batches, Index n);
void require_schedule(const StepRule& rule);
void require_rule(const StepRule& rule);
void require_units(Index unit, Rows order, std::span<Index> following);
void require_groups(const Groups& groups, Index d);

}  // namespace antithetic
