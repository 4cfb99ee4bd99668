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

template <class Int>
void require_places(std::span<const Int> indptr, Index entries) {
  require(!indptr.empty() && indptr.front() == 0 && static_cast<Index>(indptr.back()) == entries &&
              std::is_sorted(indptr.begin(), indptr.end()),
          "indptr must rise from 0 to the number of entries");
}

template <class Int>
void require_columns(std::span<const Int> indices, Index d) {
  using Unsigned = std::make_unsigned_t<Int>;
  Unsigned largest = 0;  // negative numbers are the largest of all; without a branch it vectorises
  for (const Int index : indices) largest = std::max(largest, static_cast<Unsigned>(index));
  require(indices.empty() || largest < static_cast<std::make_unsigned_t<Index>>(d),
          "a column index is outside of the matrix");
}

// Whether columns rise from one entry of a row to the next, so that none is repeated.
bool have_rising_columns(std::span<const std::int32_t> indices,
                         std::span<const std::int32_t> indptr);
bool have_rising_columns(std::span<const std::int64_t> indices,
                         std::span<const std::int64_t> indptr);

// Whether no number is NaN or infinite.
bool are_finite(std::span<const float> numbers);
bool are_finite(std::span<const double> numbers);

}  // namespace antithetic
