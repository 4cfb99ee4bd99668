// The balancing rule, written once: where two units go in the next epoch.
//
// While it walks through an epoch, a solver keeps a signed sum s of gradients, zero at first. Of
// every two units with gradients a and b it adds a - b to s if <s, a - b> <= 0 and sends a to the
// front of the next epoch and b to its back, else b - a and the other way round; the back fills
// from the end. A unit without another comes between front and back, and rows that are not a whole
// unit stay last.
#pragma once

#include <bit>

#include "common.hpp"

namespace antithetic {

// Sign with which the difference of two units is added, from its product with the signed sum.
// Nobody could predict it, so it is made of bits: compilers turn a choice of numbers into a branch.
template <class Real>
Real balancing_sign(Real lean) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  const Bits is_negative = lean <= Real{0} ? 0 : 1;
  return std::bit_cast<Real>(std::bit_cast<Bits>(Real{1}) | is_negative << (8 * sizeof(Bits) - 1));
}

class NextOrder {
 public:
  NextOrder(Rows order, Index unit, std::span<Index> following)
      : order_(order), unit_(unit), following_(following) {
    if (following.empty()) return;  // nothing is balanced
    const Index n = static_cast<Index>(order.size());
    whole_ = back_ = n - n % unit;
    std::copy(order.begin() + whole_, order.end(), following.begin() + whole_);
  }

  // Send the unit that begins at a place of the order to the front, and the next to the back, or
  // the other way round.
  void place(Index start, bool in_order) {
    back_ -= unit_;
    const Index between = (back_ - front_) & -static_cast<Index>(!in_order);
    const Index first = front_ + between, second = back_ - between;
    for (Index k = 0; k < unit_; ++k) {
      following_[at(first + k)] = order_[at(start + k)];
      following_[at(second + k)] = order_[at(start + unit_ + k)];
    }
    front_ += unit_;
  }

  void finish() {
    const Index left = whole_ - back_;
    for (Index k = front_; k < back_; ++k) following_[at(k)] = order_[at(left + k)];
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  Rows order_;
  Index unit_;
  std::span<Index> following_;
  Index whole_ = 0, front_ = 0, back_ = 0;
};

}  // namespace antithetic
