// The logistic loss of one margin or of two side by side, without a branch: the sign of a margin
// cannot be predicted, and compilers turn a choice of numbers into a branch.
#pragma once

#include <bit>

#include "sums.hpp"

namespace antithetic {

// Exponential of numbers that are not positive, to a relative error of 1e-15; NaN stays NaN.
template <Index many>
ANTITHETIC_INLINE Block<double, many> exp_of_negative(Block<double, many> x) {
  using Numbers = Block<double, many>;
  using Bits = Block<std::int64_t, many>;
  constexpr double log2_e = 1.4426950408889634;
  constexpr double log_2 = 0.693145751953125, log_2_rest = 1.4286068203094172e-6;
  constexpr double least = -708.0;            // where exp is about to leave the normal numbers
  constexpr double shift = 6755399441055744;  // 1.5 * 2^52: a sum with it is rounded to a whole
  x = x < least ? Numbers{} + least : x;
  const Numbers shifted = x * log2_e + shift, k = shifted - shift;
  // At most log(2) / 2: twelve terms of the series are enough, in pairs, which do not wait for each
  // other.
  const Numbers r = (x - k * log_2) - k * log_2_rest, r2 = r * r, r4 = r2 * r2;
  const Numbers low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0));
  const Numbers middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
  const Numbers high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) +
                       r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) + r4 * (1.0 / 479001600.0);
  // 2^k, from the bits of its exponent
  const Bits bits = (std::bit_cast<Bits>(shifted) << 52) + std::bit_cast<std::int64_t>(1.0);
  return ((low + r4 * middle) + (r4 * r4) * high) * std::bit_cast<Numbers>(bits);
}

// What a margin leads to: its loss is linear + log(factor) with a factor of at most 2, and the
// derivative of its loss is -share.
template <Index many>
struct Logistic {
  Block<double, many> share, linear, factor;
};

template <Index many>
ANTITHETIC_INLINE Logistic<many> logistic(Block<double, many> margin) {
  using Numbers = Block<double, many>;
  using Bits = Block<std::int64_t, many>;
  constexpr std::int64_t but_the_sign = std::numeric_limits<std::int64_t>::max();
  const Bits bits = std::bit_cast<Bits>(margin), is_negative = bits >> 63;  // all bits or none
  const Bits size = bits & but_the_sign;
  const Numbers one = std::bit_cast<Numbers>(is_negative & std::bit_cast<std::int64_t>(1.0));
  const Numbers tail = exp_of_negative<many>(-std::bit_cast<Numbers>(size)), factor = 1.0 + tail;
  return {(one + (1.0 - one) * tail) / factor, std::bit_cast<Numbers>(size & is_negative), factor};
}

}  // namespace antithetic
