// The balancing rule, written once: where two units go in the next epoch.
//
// While it walks through an epoch, a solver keeps a signed sum s of gradients, zero at first. Of
// every two units with gradients a and b it adds a - b to s if <s, a - b> <= 0 and sends a to the
// front of the next epoch and b to its back, otherwise b - a and the other way round; the back
// fills from the end. A unit without another comes between front and back, and rows that are not a
// whole unit stay last.
#pragma once

#include <bit>
#include <memory>

#include "common.hpp"

namespace antithetic {

// Sign with which the difference of two units is added, from its product with the signed sum.
// It cannot be predicted, so it is made of bits: compilers turn a choice of numbers into a branch.
template <class Real>
Real balancing_sign(Real lean) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  const Bits is_negative = lean <= Real{0} ? 0 : 1;
  return std::bit_cast<Real>(std::bit_cast<Bits>(Real{1}) | is_negative << (8 * sizeof(Bits) - 1));
}

// The order of the next epoch. Which of two units goes to the front is only noted while an epoch
// runs, and units are moved when it is over: an address that depends on a sign, which is known last
// of all, would keep the next step waiting.
class NextOrder {
 public:
  NextOrder(Rows order, Index unit, std::span<Index> following)
      : order_(order), unit_(unit), following_(following) {
    if (following.empty()) return;  // nothing is balanced
    in_order_ = std::make_unique<bool[]>(order.size() / static_cast<std::size_t>(2 * unit));
  }

  // The next two units are over: the first goes to the front and the second to the back, or the
  // other way round.
  void place(bool in_order) { in_order_[placed_++] = in_order; }

  void finish() {
    const Index n = length(order_), whole = n - n % unit_;
    Index front = 0, back = whole, from = 0;
    for (std::size_t k = 0; k < placed_; ++k) {
      back -= unit_;
      copy(from, in_order_[k] ? front : back);
      copy(from + unit_, in_order_[k] ? back : front);
      front += unit_;
      from += 2 * unit_;
    }
    const auto left = order_.begin() + from;  // a unit without another, then rows that are no unit
    std::copy(left, left + (back - front), following_.begin() + front);
    std::copy(order_.begin() + whole, order_.end(), following_.begin() + whole);
  }

 private:
  void copy(Index from, Index to) {
    for (Index k = 0; k < unit_; ++k) {
      following_[static_cast<std::size_t>(to + k)] = order_[static_cast<std::size_t>(from + k)];
    }
  }

  Rows order_;
  Index unit_;
  std::span<Index> following_;
  std::unique_ptr<bool[]> in_order_;
  std::size_t placed_ = 0;
};

}  // namespace antithetic
