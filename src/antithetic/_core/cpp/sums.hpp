// Sums of products in a fixed number of lanes: they vectorise without leave to reorder sums, so
// that other formulas keep the order they are written in, and all instruction sets add up alike.
#pragma once

#include "common.hpp"

namespace antithetic {

template <class Real>
constexpr Index lanes = 64 / static_cast<Index>(sizeof(Real));

// Visit 0..d in blocks of lanes, then in ever smaller ones: step(first, many) with many a constant.
template <class Real, class Step>
inline void in_blocks(Index d, Step step) {
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

// One running sum per lane.
template <class Real>
struct Lanes {
  Real sums[lanes<Real>] = {};

  template <Index many>
  void add(const Real* x, const Real* w) {
    for (Index lane = 0; lane < many; ++lane) sums[lane] += x[lane] * w[lane];
  }

  Real total() const {
    Real folded[lanes<Real>];
    std::copy(sums, sums + lanes<Real>, folded);
    for (Index half = lanes<Real> / 2; half > 0; half /= 2) {
      for (Index lane = 0; lane < half; ++lane) folded[lane] += folded[lane + half];
    }
    return folded[0];
  }
};

}  // namespace antithetic
