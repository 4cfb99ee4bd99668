// Checks of arguments.
#include "checks.hpp"

#include <bit>
#include <string>

namespace antithetic {
namespace {

// All places where columns do not rise are counted, which vectorises, and compared with those that
// are between two rows.
template <class Int>
bool rise_within_rows(std::span<const Int> indices, std::span<const Int> indptr) {
  require_places(indptr, length(indices));
  Int falls = 0, between = 0;
  for (std::size_t k = 1; k < indices.size(); ++k) falls += indices[k] <= indices[k - 1];
  for (std::size_t i = 1; i < indptr.size(); ++i) {
    const auto at = static_cast<std::size_t>(indptr[i]);
    if (at == indices.size()) break;
    if (indptr[i] > indptr[i - 1]) between += indices[at] <= indices[at - 1];
  }
  return falls == between;
}

// NaN and infinity are the numbers whose exponent has no zero bit; integers without a branch
// vectorise.
template <class Bits, class Real>
bool have_zero_in_exponents(std::span<const Real> numbers) {
  constexpr auto exponent = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  Bits others = 0;
  for (const Real number : numbers) {
    others |= static_cast<Bits>((std::bit_cast<Bits>(number) & exponent) == exponent);
  }
  return others == 0;
}

}  // namespace

bool are_finite(std::span<const float> numbers) {
  return have_zero_in_exponents<std::uint32_t>(numbers);
}

bool are_finite(std::span<const double> numbers) {
  return have_zero_in_exponents<std::uint64_t>(numbers);
}

bool have_rising_columns(std::span<const std::int32_t> indices,
                         std::span<const std::int32_t> indptr) {
  return rise_within_rows(indices, indptr);
}

bool have_rising_columns(std::span<const std::int64_t> indices,
                         std::span<const std::int64_t> indptr) {
  return rise_within_rows(indices, indptr);
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void require_rows(Rows rows, Index n, const char* what) {
  const bool inside =
      std::all_of(rows.begin(), rows.end(), [n](Index i) { return 0 <= i && i < n; });
  require(inside, what);
}

void require_targets(const Targets& targets, Index n) {
  require(length(targets.y) == n, "y must have one entry per row");
  require(targets.weight.empty() || length(targets.weight) == n, "weights: one entry per row");
}

void require_batches(const Batches& batches, Index n) {
  const Index many = length(batches.rows);
  require_rows(batches.rows, n, "a batch has a row number out of range");
  require(!batches.starts.empty() && batches.starts.front() == 0 && batches.starts.back() == many,
          "batches must begin at 0 and end with the last row");
  require(std::is_sorted(batches.starts.begin(), batches.starts.end()),
          "batches must follow each other");
  require(batches.size >= 1, "the size of a batch must be at least 1");
  require(batches.factors.empty() || length(batches.factors) == many, "factors: one per row");
  require(!batches.factors.empty() || batches.longest() <= batches.size,
          "only batches with factors may have more rows than their size");
  constexpr auto most = std::numeric_limits<std::int64_t>::max() / 2;
  require(0 <= batches.steps && batches.steps <= most && 0 <= batches.samples &&
              batches.samples <= most,
          "steps and samples must lie between 0 and 2^62");
}

void require_schedule(const StepRule& rule) {
  require(constant_step <= rule.schedule.code && rule.schedule.code <= pa2,
          "the schedule is not known");
}

void require_rule(const StepRule& rule) {
  require(0 <= rule.loss.code && rule.loss.code < loss_count, "the loss is not known");
  require_schedule(rule);
}

void require_units(Index unit, Rows order, std::span<Index> following) {
  require(length(following) == length(order), "following: one entry per row");
  constexpr Index most = Index{1} << 20;  // few rows may be less than a unit
  require(1 <= unit && unit <= std::max(most, length(order)), "a unit has at least one row");
}

void require_groups(const Groups& groups, Index d) {
  if (!groups.exist()) return;
  require(length(groups.members) == d && length(groups.owner) == d,
          "groups: one entry per feature");
  require_rows(groups.members, d, "a group has a feature number out of range");
  require_rows(groups.owner, length(groups.starts), "an owner is not a group");
  require(groups.starts.front() == 0 && groups.starts.back() <= d &&
              std::is_sorted(groups.starts.begin(), groups.starts.end()),
          "groups must follow each other");
}

}  // namespace antithetic
