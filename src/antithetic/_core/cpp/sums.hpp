// Numbers side by side: blocks that stay in registers, and sums of products in a fixed number of
// lanes. They vectorise without leave to reorder sums, so that other formulas keep the order they
// are written in, and all instruction sets add up alike.
#pragma once

#include <array>
#include <cstring>

#include "common.hpp"

namespace antithetic {

template <class Real>
constexpr Index lanes = 64 / static_cast<Index>(sizeof(Real));

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

// Visit 0..d in blocks of lanes, then in ever smaller ones: step(first, many) with many a constant.
template <class Real, class Step>
ANTITHETIC_INLINE void in_blocks(Index d, Step step) {
  constexpr Index whole = lanes<Real>;
  Index c = 0;
  for (; c + whole <= d; c += whole) step(c, std::integral_constant<Index, whole>{});
  if (c + whole / 2 <= d) {
    step(c, std::integral_constant<Index, whole / 2>{});
    c += whole / 2;
  }
  if (c + whole / 4 <= d) {
    step(c, std::integral_constant<Index, whole / 4>{});
    c += whole / 4;
  }
  for (; c < d; ++c) step(c, std::integral_constant<Index, 1>{});
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

// What is left of the products from c on, whose sums so far have `many` lanes: these are folded to
// half as many, until one is left.
template <Index many, class Real, std::size_t count>
ANTITHETIC_INLINE std::array<Real, count> folded(Index c, Index d,
                                                 const Block<Real, many> (&sums)[count],
                                                 const Real* const (&x)[count],
                                                 const Real* const (&w)[count]) {
  if constexpr (many == 1) {
    std::array<Real, count> totals;
    for (std::size_t k = 0; k < count; ++k) totals[k] = sums[k];
    return totals;
  } else {
    constexpr Index half = many / 2;
    Block<Real, half> halves[count];
    for (std::size_t k = 0; k < count; ++k) halves[k] = sum_of_halves<many, Real>(sums[k]);
    if (c + half <= d) {
      for (std::size_t k = 0; k < count; ++k) {
        halves[k] += block_at<half>(x[k] + c) * block_at<half>(w[k] + c);
      }
      c += half;
    }
    return folded<half, Real, count>(c, d, halves, x, w);
  }
}

}  // namespace detail

// Products of several pairs of vectors in one visit; each has the bits that it has alone.
template <class Real, std::size_t count>
ANTITHETIC_INLINE std::array<Real, count> products(Index d, const Real* const (&x)[count],
                                                   const Real* const (&w)[count]) {
  constexpr Index whole = lanes<Real>;
  Block<Real, whole> sums[count] = {};
  Index c = 0;
  for (; c + whole <= d; c += whole) {
    for (std::size_t k = 0; k < count; ++k) {
      sums[k] += block_at<whole>(x[k] + c) * block_at<whole>(w[k] + c);
    }
  }
  return detail::folded<whole, Real, count>(c, d, sums, x, w);
}

}  // namespace antithetic
