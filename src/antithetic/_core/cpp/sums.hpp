// Numbers side by side: blocks that stay in registers, and sums of products in a fixed number of
// lanes. They vectorise although compilers may not reorder sums, so that other formulas keep the
// order they are written in, and all instruction sets add up alike.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "common.hpp"

namespace antithetic {

template <class Real>
constexpr Index lanes = 64 / static_cast<Index>(sizeof(Real));

// d rounded up to whole lanes.
template <class Real>
constexpr Index in_whole_lanes(Index d) {
  return (d + lanes<Real> - 1) / lanes<Real> * lanes<Real>;
}

// Numbers that one register holds. Compilers pass wider blocks through memory in pieces, and a load
// of what was just stored in smaller pieces has to wait for them.
#if defined(__AVX512F__)
template <class Real>
constexpr Index register_lanes = lanes<Real>;
#elif defined(__AVX__)
template <class Real>
constexpr Index register_lanes = lanes<Real> / 2;
#else
template <class Real>
constexpr Index register_lanes = lanes<Real> / 4;
#endif

#if defined(__GNUC__) || defined(__clang__)
template <class Real, Index many>
struct Vectors {
  typedef Real Type __attribute__((vector_size(static_cast<std::size_t>(many) * sizeof(Real))));
};
#else
template <class Real, Index many>
struct Vectors {
  struct Type {
    Real of[many] = {};

    Type& operator+=(const Type& other) {
      for (Index lane = 0; lane < many; ++lane) of[lane] += other.of[lane];
      return *this;
    }
    friend Type operator+(Type one, const Type& other) { return one += other; }
    friend Type operator-(Type one, const Type& other) {
      for (Index lane = 0; lane < many; ++lane) one.of[lane] -= other.of[lane];
      return one;
    }
    friend Type operator*(Type one, const Type& other) {
      for (Index lane = 0; lane < many; ++lane) one.of[lane] *= other.of[lane];
      return one;
    }
    friend Type operator*(Real factor, Type one) {
      for (Index lane = 0; lane < many; ++lane) one.of[lane] *= factor;
      return one;
    }
  };
};
#endif

template <class Real>
struct Vectors<Real, 1> {
  using Type = Real;
};

template <class Real, Index many>
using Block = typename Vectors<Real, many>::Type;

template <Index many, class Real>
ANTITHETIC_INLINE Block<Real, many> block_at(const Real* x) {
  Block<Real, many> block;
  std::memcpy(&block, x, sizeof block);
  return block;
}

template <class Real, class Values>
ANTITHETIC_INLINE void put(Real* x, const Values& block) {
  std::memcpy(x, &block, sizeof block);
}

#if defined(__GNUC__) || defined(__clang__)
template <class Numbers>
ANTITHETIC_INLINE Numbers lesser(const Numbers& one, const Numbers& other) {
  return one < other ? one : other;
}

template <class Numbers>
ANTITHETIC_INLINE Numbers greater(const Numbers& one, const Numbers& other) {
  return one > other ? one : other;
}

// Numbers from an address on, as doubles.
template <Index many, class Real>
ANTITHETIC_INLINE Block<double, many> doubles_at(const Real* x) {
  if constexpr (many == 1 || std::is_same_v<Real, double>) {
    return block_at<many>(x);
  } else {
    return __builtin_convertvector(block_at<many>(x), Block<double, many>);
  }
}
#else
template <class Numbers>
Numbers lesser(Numbers one, const Numbers& other) {
  if constexpr (std::is_arithmetic_v<Numbers>) {
    return one < other ? one : other;
  } else {
    for (auto k = std::size(one.of); k-- > 0;) one.of[k] = lesser(one.of[k], other.of[k]);
    return one;
  }
}

template <class Numbers>
Numbers greater(Numbers one, const Numbers& other) {
  if constexpr (std::is_arithmetic_v<Numbers>) {
    return one > other ? one : other;
  } else {
    for (auto k = std::size(one.of); k-- > 0;) one.of[k] = greater(one.of[k], other.of[k]);
    return one;
  }
}

template <Index many, class Real>
Block<double, many> doubles_at(const Real* x) {
  double numbers[many];
  std::copy_n(x, many, numbers);
  return block_at<many>(numbers);
}
#endif

template <class Real>
ANTITHETIC_INLINE Block<Real, 2> two_of(Real first, Real second) {
  const Real both[2] = {first, second};
  return block_at<2>(both);
}

namespace detail {

// The last numbers, in ever smaller blocks: no loop, which a compiler would take for a long one.
template <Index many, class Step>
ANTITHETIC_INLINE void in_smaller_blocks(Index c, Index d, Step step) {
  if constexpr (many > 0) {
    if (c + many <= d) {
      step(c, std::integral_constant<Index, many>{});
      c += many;
    }
    in_smaller_blocks<many / 2>(c, d, step);
  }
}

}  // namespace detail

// Visit 0..d in blocks of a register, then in smaller ones: step(first, many) with many a constant.
template <class Real, class Step>
ANTITHETIC_INLINE void in_blocks(Index d, Step step) {
  constexpr Index whole = register_lanes<Real>;
  Index c = 0;
  for (; c + whole <= d; c += whole) step(c, std::integral_constant<Index, whole>{});
  detail::in_smaller_blocks<whole / 2>(c, d, step);
}

// Zeros that begin with a cache line, so that no block is spread over two.
template <class Real>
class AlignedVector {
 public:
  explicit AlignedVector(Index size = 0) : storage_(static_cast<std::size_t>(size + lanes<Real>)) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    const auto over = address % static_cast<std::uintptr_t>(cache_line);
    if (over > 0) skipped_ = (cache_line - static_cast<Index>(over)) / Index{sizeof(Real)};
  }

  Real* data() { return storage_.data() + skipped_; }
  const Real* data() const { return storage_.data() + skipped_; }

 private:
  std::vector<Real> storage_;
  Index skipped_ = 0;
};

namespace detail {

template <Index many, class Real>
ANTITHETIC_INLINE Block<Real, many / 2> sum_of_halves(const Block<Real, many>& block) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
  // Halves that are copied would pass through memory.
  if constexpr (many == 16) {
    return __builtin_shufflevector(block, block, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(block, block, 8, 9, 10, 11, 12, 13, 14, 15);
  } else if constexpr (many == 8) {
    return __builtin_shufflevector(block, block, 0, 1, 2, 3) +
           __builtin_shufflevector(block, block, 4, 5, 6, 7);
  } else if constexpr (many == 4) {
    return __builtin_shufflevector(block, block, 0, 1) +
           __builtin_shufflevector(block, block, 2, 3);
  } else if constexpr (many == 2) {
    return block[0] + block[1];
  }
#endif
#endif
  Block<Real, many / 2> parts[2];
  std::memcpy(parts, &block, sizeof parts);
  return parts[0] + parts[1];
}

// Call step(k) for k = 0..count - 1, each a constant: arrays that are indexed by them stay in
// registers, whereas a loop is unrolled too late for that.
template <std::size_t count, class Step>
ANTITHETIC_INLINE void unrolled(Step step) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    (step(std::integral_constant<std::size_t, k>{}), ...);
  }(std::make_index_sequence<count>{});
}

// Sums in many lanes, in as many registers as that takes.
template <class Real, Index many>
struct Lanes {
  static constexpr Index width = std::min(many, register_lanes<Real>);
  static constexpr std::size_t parts = static_cast<std::size_t>(many / width);
  Block<Real, width> part[parts] = {};

  ANTITHETIC_INLINE void add_product(const Real* x, const Real* w) {
    unrolled<parts>([&](auto p) {
      constexpr Index first = static_cast<Index>(p()) * width;
      part[p] += block_at<width>(x + first) * block_at<width>(w + first);
    });
  }

  ANTITHETIC_INLINE void add_multiple(Real a, const Real* x) {
    unrolled<parts>(
        [&](auto p) { part[p] += a * block_at<width>(x + static_cast<Index>(p()) * width); });
  }

  ANTITHETIC_INLINE void store(Real* x) const {
    unrolled<parts>([&](auto p) { put(x + static_cast<Index>(p()) * width, part[p]); });
  }

  ANTITHETIC_INLINE Lanes<Real, many / 2> sum_of_halves() const {
    Lanes<Real, many / 2> halves;
    if constexpr (parts == 1) {
      halves.part[0] = detail::sum_of_halves<many, Real>(part[0]);
    } else {
      unrolled<parts / 2>([&](auto p) { halves.part[p] = part[p] + part[p + parts / 2]; });
    }
    return halves;
  }

  ANTITHETIC_INLINE Real total() const {
    if constexpr (many == 1) {
      return part[0];
    } else {
      return sum_of_halves().total();
    }
  }
};

// What is left of a product from c on, whose sums so far have `many` lanes: these are folded to
// half as many, until one is left.
template <Index many, class Real>
ANTITHETIC_INLINE Real folded(Index c, Index d, const Lanes<Real, many>& sums, const Real* x,
                              const Real* w) {
  if constexpr (many == 1) {
    return sums.part[0];
  } else {
    constexpr Index half = many / 2;
    Lanes<Real, half> halves = sums.sum_of_halves();
    if (c + half <= d) {
      halves.add_product(x + c, w + c);
      c += half;
    }
    return folded<half, Real>(c, d, halves, x, w);
  }
}

}  // namespace detail

// Products of several pairs of vectors in one visit; each has the bits that it has alone.
template <class Real, std::size_t count>
ANTITHETIC_INLINE std::array<Real, count> products(Index d, const Real* const (&x)[count],
                                                   const Real* const (&w)[count]) {
  constexpr Index whole = lanes<Real>;
  detail::Lanes<Real, whole> sums[count];
  Index c = 0;
  for (; c + whole <= d; c += whole) {
    detail::unrolled<count>([&](auto k) { sums[k].add_product(x[k] + c, w[k] + c); });
  }
  std::array<Real, count> totals;
  detail::unrolled<count>(
      [&](auto k) { totals[k] = detail::folded<whole, Real>(c, d, sums[k], x[k], w[k]); });
  return totals;
}

// Sum of term(0) to term(d - 1), which need not wait for each other.
template <class Term>
ANTITHETIC_INLINE double sum_in_lanes(Index d, const Term& term) {
  constexpr Index whole = lanes<double>;
  double sums[whole] = {}, total = 0.0;
  Index c = 0;
  for (; c + whole <= d; c += whole) {
    for (Index lane = 0; lane < whole; ++lane) sums[lane] += term(c + lane);
  }
  for (; c < d; ++c) total += term(c);
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace antithetic
