// One epoch of stochastic dual coordinate ascent, on dense or sparse rows.
//
// The weights are w = sum a_i x_i / (l2 n). A visit maximises the dual over one variable exactly.
// The hinges leave out rows whose variable is at a bound and would stay there: a margin differs
// from that at a reference v by at most |x_i| |w - v|, so while the distance of the weights from v
// is less than limits[i], a visit of row i would change nothing.
#pragma once

#include "steps.hpp"

namespace antithetic {

struct DualRule {
  Loss loss;
  double share;  // 1 / (l2 n)
  bool watch;
  double gone;           // squared distance of the weights from the reference
  double gone_at_least;  // what it is taken for at least
};

// `signed_margins` are margins at the reference minus 1, divided by |x_i|; limits are empty if no
// row rests.
template <class Real>
struct DualModel {
  std::span<Real> coef;
  std::span<double> duals;
  std::span<const double> signed_margins;
  std::span<double> limits;
};

struct DualOutcome {
  double met = 0.0;
  Index seen = 0, moved = 0;
};

// How far the weights must go before a row's variable can move: below 0 where it is free to.
inline double rest_limit(const Loss& loss, double y, double weight, double a, double margin) {
  if (a == 0.0) return margin;
  return loss.code == hinge && a == y * weight ? -margin : -1.0;
}

template <class RowAccess>
class DualEpoch {
  using Real = typename RowAccess::Real;
  static constexpr Index queue_length = 64;  // rows that are looked up at a time
  static constexpr double further = 1.2;     // how far the weights may go meanwhile, against now

 public:
  DualEpoch(const RowAccess& rows, const Targets& targets, std::span<const double> squares,
            const DualRule& rule, DualModel<Real>& model)
      : rows_(rows), targets_(targets), squares_(squares), rule_(rule), model_(model) {}

  DualOutcome run(Rows order, Pulse& pulse) {
    const Index n = static_cast<Index>(order.size());
    for (Index start = 0; start < n;) start = work_off(order, start, pulse);
    return outcome_;
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  // Visit the coming rows that may move, also when the weights have gone somewhat further: only
  // these are worth a prefetch. Return where to continue.
  Index work_off(Rows order, Index start, Pulse& pulse) {
    const Index n = static_cast<Index>(order.size());
    const double most = further * reach_;
    Index queued = 0;
    while (start < n && queued < queue_length) {
      queue_[queued] = order[at(start)];
      places_[queued] = start;
      const bool may_move = model_.limits.empty() || model_.limits[at(order[at(start)])] <= most;
      queued += may_move ? 1 : 0;
      ++start;
    }
    pulse.beat(queue_length);
    const Rows queue(queue_, at(queued));
    for (Index k = 0; k < queued; ++k) {
      rows_.look_ahead(queue, k);
      pulse.beat(rows_.length(queue_[k]));
      if (visit(queue_[k]) && reach_ > most) return places_[k] + 1;  // passed rows may move
    }
    return start;
  }

  // Maximise over one variable; whether that moved the weights.
  bool visit(Index i) {
    const double weight = targets_.weight_of(i), y = targets_.label(i);
    if (weight == 0.0) return false;
    const double prediction = static_cast<double>(rows_.dot(i, model_.coef.data()));
    const double before = model_.duals[at(i)], square = squares_[at(i)];
    if (rule_.watch) outcome_.met += weight * rule_.loss.value(y, prediction);
    const double after = rule_.loss.dual_step(y, weight, before, prediction, square * rule_.share);
    ++outcome_.seen;
    if (after == before) return false;
    model_.duals[at(i)] = after;
    ++outcome_.moved;
    const Real move = static_cast<Real>((after - before) * rule_.share);
    rows_.add(i, move, model_.coef.data());
    if (!model_.limits.empty()) go(i, y, weight, after, prediction, static_cast<double>(move));
    return true;
  }

  void go(Index i, double y, double weight, double after, double prediction, double move) {
    const double margin = model_.signed_margins[at(i)], square = squares_[at(i)];
    const double at_reference = y * (1.0 + margin * std::sqrt(square));
    gone_ += move * (2.0 * (prediction - at_reference) + move * square);
    reach_ = std::sqrt(std::max(gone_, rule_.gone_at_least));
    model_.limits[at(i)] = rest_limit(rule_.loss, y, weight, after, margin);
  }

  const RowAccess& rows_;
  const Targets& targets_;
  std::span<const double> squares_;
  const DualRule& rule_;
  DualModel<Real>& model_;
  DualOutcome outcome_;
  double gone_ = rule_.gone, reach_ = std::sqrt(rule_.gone);
  Index queue_[queue_length + 1] = {}, places_[queue_length + 1] = {};
};

}  // namespace antithetic
