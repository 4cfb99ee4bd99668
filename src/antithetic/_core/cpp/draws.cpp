// Random orders, draws, and balancing of what is observed.
#include "draws.hpp"

#include <bit>

#include "balance.hpp"
#include "sums.hpp"

namespace antithetic {

namespace {

// xoshiro256++ (Blackman and Vigna 2021), two words of 32 bits at a time, the lower one first.
class RandomWords {
 public:
  explicit RandomWords(std::span<const std::uint64_t, 4> seed) {
    std::copy(seed.begin(), seed.end(), state_);
  }

  std::uint32_t next() {
    is_full_ = !is_full_;
    if (!is_full_) return static_cast<std::uint32_t>(kept_ >> 32);
    auto& [a, b, c, d] = state_;
    kept_ = std::rotl(a + d, 23) + a;
    const std::uint64_t shifted = b << 17;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = std::rotl(d, 45);
    return static_cast<std::uint32_t>(kept_);
  }

  // A number below the bound, without a bias (Lemire 2019).
  std::uint32_t below(std::uint64_t bound) {
    std::uint64_t product = next() * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      // Perhaps one of the few words that would make small numbers more likely.
      const std::uint64_t least = ((std::uint64_t{1} << 32) - bound) % bound;
      while (static_cast<std::uint32_t>(product) < least) product = next() * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t state_[4], kept_ = 0;
  bool is_full_ = false;
};

}  // namespace

std::vector<Index> draw_by_hash(std::span<const double> share, double size, std::uint64_t seed,
                                std::uint64_t first) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;  // splitmix64 (Steele, Lea, Flood 2014)
  std::vector<Index> drawn;
  for (std::size_t i = 0; i < share.size(); ++i) {
    std::uint64_t bits = (first + i + (seed + 1) * golden) * golden;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    bits ^= bits >> 31;
    if (static_cast<double>(bits >> 11) * 0x1p-53 < share[i] * size) {
      drawn.push_back(static_cast<Index>(i));
    }
  }
  return drawn;
}

void draw_order(std::span<Index> order, std::span<const std::uint64_t, 4> seed) {
  RandomWords words(seed);
  std::vector<std::uint32_t> numbers(order.size());  // of 32 bits, for the sake of the cache
  for (std::uint32_t i = 1; i < numbers.size(); ++i) {
    const std::uint32_t place = words.below(std::uint64_t{i} + 1);
    numbers[i] = numbers[place];
    numbers[place] = i;
  }
  std::copy(numbers.begin(), numbers.end(), order.begin());
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
