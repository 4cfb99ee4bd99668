// Random orders, draws, and balancing of what is observed.
#include "draws.hpp"

#include "balance.hpp"
#include "sums.hpp"

namespace antithetic {

bool shuffle(std::span<Index> order, std::span<const std::uint32_t> words) {
  std::size_t used = 0;
  for (std::size_t i = order.size(); i-- > 1;) {
    const std::uint64_t bound = i + 1;
    if (used >= words.size()) return false;
    std::uint64_t product = std::uint64_t{words[used++]} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      // Perhaps one of the few words that would make small numbers more likely.
      const std::uint64_t least = ((std::uint64_t{1} << 32) - bound) % bound;
      while (static_cast<std::uint32_t>(product) < least) {
        if (used + i > words.size()) return false;
        product = std::uint64_t{words[used++]} * bound;
      }
    }
    std::swap(order[i], order[product >> 32]);
  }
  return true;
}

void invert(std::span<const double> sums, std::span<const double> numbers, std::span<Index> drawn) {
  const std::size_t cells = sums.size();
  const double scale = static_cast<double>(cells);
  std::vector<std::size_t> guide(cells);
  std::size_t unit = 0;
  for (std::size_t k = 0; k < cells; ++k) {
    while (unit + 1 < cells && sums[unit] <= static_cast<double>(k) / scale) ++unit;
    guide[k] = unit;
  }
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const double number = numbers[k];
    unit = guide[std::min(cells - 1, static_cast<std::size_t>(number * scale))];
    while (unit + 1 < cells && sums[unit] <= number) ++unit;
    while (unit > 0 && sums[unit - 1] > number) --unit;  // the product was rounded up
    drawn[k] = static_cast<Index>(unit);
  }
}

void balance_observed(const Observed& seen, std::span<bool> placed, std::span<Index> following,
                      std::span<std::int64_t> marks, std::span<double> signed_sum,
                      std::span<double> held) {
  for (std::size_t k = 0; k < seen.rows.size(); ++k) {
    const auto row = static_cast<std::size_t>(seen.rows[k]);
    if (placed[row]) continue;
    placed[row] = true;
    const float* vector = seen.vectors + static_cast<Index>(k) * seen.width;
    const float* slopes = seen.slopes + static_cast<Index>(k) * seen.n_slopes;
    double* entry = held.data();
    if (marks[2] < 0) {
      marks[2] = seen.rows[k];
      for (Index j = 0; j < seen.n_slopes; ++j) {
        for (Index c = 0; c < seen.width; ++c) {
          *entry++ = static_cast<double>(slopes[j]) * static_cast<double>(vector[c]);
        }
      }
      continue;
    }
    double lean = 0.0;
    for (Index j = 0; j < seen.n_slopes; ++j, entry += seen.width) {
      for (Index c = 0; c < seen.width; ++c) {
        entry[c] -= static_cast<double>(slopes[j]) * static_cast<double>(vector[c]);
      }
      lean += products<double, 1>(seen.width, {signed_sum.data() + j * seen.width}, {entry})[0];
    }
    const double sign = balancing_sign(lean);
    for (std::size_t c = 0; c < held.size(); ++c) signed_sum[c] += sign * held[c];
    --marks[1];
    following[static_cast<std::size_t>(sign > 0.0 ? marks[0] : marks[1])] = marks[2];
    following[static_cast<std::size_t>(sign > 0.0 ? marks[1] : marks[0])] = seen.rows[k];
    ++marks[0];
    marks[2] = -1;
  }
}

}  // namespace antithetic
