// One epoch of corrected proximal steps, on dense or sparse rows: plain ones, SVRG's and SAGA's.
//
// The weights are w = s v, as in SGD. A step also moves every weight against the mean stored
// gradient and thresholds it. On sparse rows that is put off: in terms of v it is a move of
// dU = eta / s times the mean gradient, and a threshold of dU l1, in which the mean gradient of a
// feature stays the same until a row with it comes by. So a feature that was not met for some steps
// moves along a straight line in U while it keeps its sign, stays at zero if the mean gradient is
// below l1 there, and otherwise leaves it along another straight line: it is brought up to date at
// once when it is next met, and the step in which it reached zero is found by bisection. With a
// group penalty, groups are brought up to date, step by step.
#pragma once

#include "balance.hpp"
#include "steps.hpp"

namespace antithetic {

// What corrects a step: stored slopes, none where nothing is corrected, and their mean
// gradient, the intercept's last. With `keeps`, a step renews what it has used (SAGA).
template <class Real>
struct Memory {
  std::span<double> slopes;
  std::span<Real> mean;
  bool keeps;

  bool corrects() const { return !slopes.empty(); }
};

// Features of a group penalty: those of group g are members[starts[g]] to members[starts[g + 1]],
// and feature j is in group owner[j]. Features of no group come last. All are empty without groups.
struct Groups {
  Rows members, starts, owner;

  bool exist() const { return !starts.empty(); }
  Index count() const { return static_cast<Index>(starts.size()) - 1; }
  Index begin(Index group) const { return starts[static_cast<std::size_t>(group)]; }
  Index end(Index group) const {
    return group < count() ? starts[static_cast<std::size_t>(group) + 1]
                           : static_cast<Index>(members.size());
  }
  Index member(Index place) const { return members[static_cast<std::size_t>(place)]; }

  // Bring the weights of a group nearer to zero together: their norm by `threshold` times the root
  // of their number.
  template <class Real>
  void shrink(Real* v, Index group, double threshold) const {
    double square = 0.0;
    for (Index place = begin(group); place < end(group); ++place) {
      const double weight = static_cast<double>(v[member(place)]);
      square += weight * weight;
    }
    const double owed = threshold * std::sqrt(static_cast<double>(end(group) - begin(group)));
    if (owed == 0.0) return;
    const double kept = square <= owed * owed ? 0.0 : 1.0 - owed / std::sqrt(square);
    for (Index place = begin(group); place < end(group); ++place) {
      v[member(place)] *= static_cast<Real>(kept);
    }
  }
};

template <class Real>
struct CorrectedModel {
  std::span<Real> coef;
  double intercept;
  double met;
};

// Subtract a threshold from the size of a number; NaN stays NaN for the divergence check.
template <class Real>
Real softened(Real weight, Real threshold) {
  return weight - std::min(std::max(weight, -threshold), threshold);
}

// Features of sparse rows that are not up to date, and up to where they are.
template <class Real>
class Behind {
 public:
  Behind(std::span<Real> v, Memory<Real>& memory, const Groups& groups, double l1, Index n_batches)
      : v_(v), memory_(memory), groups_(groups), l1_(l1) {
    if (!falls()) return;
    ends_.resize(static_cast<std::size_t>(n_batches) + 1);
    if (groups.exist()) {
      seen_step_.resize(groups.starts.size());  // and last, features without a group
    } else {
      seen_.resize(v.size());
    }
  }

  bool falls() const { return memory_.corrects() || l1_ > 0.0; }

  // Bring a feature up to date before a step.
  void settle(Index feature, Index step) {
    if (groups_.exist()) {
      settle_group(groups_.owner[at(feature)], step);
      return;
    }
    if (seen_[at(feature)] == here_) return;
    advance(feature, step);
  }

  void settle_all(Index step) {
    if (groups_.exist()) {
      for (Index group = 0; group <= groups_.count(); ++group) settle_group(group, step);
      return;
    }
    for (Index j = 0; j < static_cast<Index>(v_.size()); ++j) advance(j, step);
  }

  // The units of v have changed: begin again at U = 0.
  void reset(Index step) {
    reset_ = step;
    here_ = 0.0;
    ends_[at(step)] = 0.0;
    std::fill(seen_.begin(), seen_.end(), 0.0);
    std::fill(seen_step_.begin(), seen_step_.end(), step);
  }

  // A step of so much in U begins: features that are met take it with finish().
  void begin_step(Index step, double ahead) {
    ahead_ = ahead;
    there_ = here_ + ahead;
    ends_[at(step) + 1] = there_;
  }

  void finish(Index feature, Index step) {
    if (groups_.exist()) {
      settle_group(groups_.owner[at(feature)], step + 1);
      return;
    }
    const auto j = at(feature);
    if (seen_[j] == there_) return;
    const Real moved = v_[j] - static_cast<Real>(ahead_ * static_cast<double>(memory_.mean[j]));
    v_[j] = softened(moved, static_cast<Real>(ahead_ * l1_));
    seen_[j] = there_;
  }

  void end_step() { here_ = there_; }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  void advance(Index feature, Index step) {
    const auto j = at(feature);
    const double drift = static_cast<double>(memory_.mean[j]);
    const double weight = static_cast<double>(v_[j]);
    v_[j] = static_cast<Real>(on_the_line(weight, drift, seen_[j], step));
    seen_[j] = here_;
  }

  // Where a weight has come to when U went from `since` to here.
  double on_the_line(double weight, double drift, double since, Index step) const {
    if (l1_ == 0.0) return weight - drift * (here_ - since);
    if (weight != 0.0) {
      const double sign = weight > 0.0 ? 1.0 : -1.0, speed = drift + sign * l1_;
      const double arrived = weight - (here_ - since) * speed;
      if (arrived * sign > 0.0 || arrived != arrived) return arrived;  // NaN is for the check
      const Index last = last_before(since + weight / speed, step);
      const double began = ends_[at(last)], ended = ends_[at(last) + 1];
      const double moved = weight - (began - since) * speed - (ended - began) * drift;
      weight = softened(moved, (ended - began) * l1_);
      since = ended;
    }
    // At zero or beyond it: the drift that led there, if it is above the penalty, leads away.
    if (drift > l1_) return weight - (here_ - since) * (drift - l1_);
    if (drift < -l1_) return weight - (here_ - since) * (drift + l1_);
    return weight;
  }

  // The last step that began before U was `zero`.
  Index last_before(double zero, Index step) const {
    Index low = reset_, high = step - 1;
    while (low < high) {
      const Index middle = (low + high + 1) / 2;
      if (ends_[at(middle)] < zero) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  // Step by step; at once where nothing drifts, or zero stays zero.
  void settle_group(Index group, Index now) {
    const Index since = seen_step_[at(group)];
    if (since == now) return;
    seen_step_[at(group)] = now;
    const Index begin = groups_.begin(group), end = groups_.end(group);
    Real* v = v_.data();
    const double gone = ends_[at(now)] - ends_[at(since)];
    if (group == groups_.count()) {  // features without a group: nothing but the drift
      drift_along(begin, end, gone);
      return;
    }
    double square = 0.0, drift = 0.0;
    for (Index place = begin; place < end; ++place) {
      const auto j = at(groups_.member(place));
      square += static_cast<double>(v[j]) * static_cast<double>(v[j]);
      drift += static_cast<double>(memory_.mean[j]) * static_cast<double>(memory_.mean[j]);
    }
    if (drift == 0.0) {
      groups_.shrink(v, group, gone * l1_);
      return;
    }
    const double root = std::sqrt(static_cast<double>(end - begin));
    if (square == 0.0 && std::sqrt(drift) <= l1_ * root) return;
    for (Index step = since; step < now; ++step) {
      const double ahead = ends_[at(step) + 1] - ends_[at(step)];
      drift_along(begin, end, ahead);
      groups_.shrink(v, group, ahead * l1_);
    }
  }

  void drift_along(Index begin, Index end, double gone) {
    for (Index place = begin; place < end; ++place) {
      const auto j = at(groups_.member(place));
      v_[j] -= static_cast<Real>(gone * static_cast<double>(memory_.mean[j]));
    }
  }

  std::span<Real> v_;
  Memory<Real>& memory_;
  const Groups& groups_;
  const double l1_;
  std::vector<double> ends_;  // U before each step since the last reset, and now
  std::vector<double> seen_;  // U up to which a feature is up to date
  std::vector<Index> seen_step_;
  Index reset_ = 0;
  double here_ = 0.0, there_ = 0.0, ahead_ = 0.0;
};

template <class RowAccess>
class CorrectedEpoch {
  using Real = typename RowAccess::Real;
  static constexpr bool is_sparse = RowAccess::is_sparse;

 public:
  // `multiples`, of one entry per row of the epoch or none, receives what each gradient that was
  // stepped along is a multiple of.
  CorrectedEpoch(const RowAccess& rows, const Targets& targets, const Batches& batches,
                 const StepRule& rule, CorrectedModel<Real>& model, Memory<Real>& memory,
                 const Groups& groups, std::span<double> multiples)
      : rows_(rows),
        targets_(targets),
        batches_(batches),
        rule_(rule),
        model_(model),
        memory_(memory),
        groups_(groups),
        multiples_(multiples),
        slopes_(rule, targets, batches),
        behind_(model.coef, memory, groups, is_sparse ? rule.l1 : 0.0,
                is_sparse ? batches.count() : 0) {
    const auto longest = static_cast<std::size_t>(batches.longest());
    scores_.resize(longest);
    row_slopes_.resize(longest);
    shares_.resize(longest);
    renewals_.resize(longest);
  }

  void run(Pulse& pulse) {
    for (Index batch = 0; batch < batches_.count(); ++batch) pulse.beat(step(batch));
    if (is_sparse && behind_.falls()) behind_.settle_all(batches_.count());
    rescale();
    model_.met = slopes_.met();
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  Index step(Index batch) {
    const Index first = batches_.first(batch), last = batches_.last(batch);
    const double eta = rule_.schedule.step(batches_.steps + batch, samples_);
    const double part = batches_.part(batch);
    const Index met = predict(first, last, batch);
    const double total = find_shares(first, last, eta);
    scale_ *= std::max(0.0, 1.0 - eta * part * rule_.l2);
    if (scale_ < smallest_scale) {
      if (is_sparse && behind_.falls()) {
        behind_.settle_all(batch);
        behind_.reset(batch);
      }
      rescale();
    }
    const double renewed = memory_.keeps ? remember(first, last) : 0.0;
    if constexpr (is_sparse) {
      move_sparse(first, last, batch, eta * part);
    } else {
      move_dense(first, last, eta * part);
    }
    if (rule_.fit_intercept) {
      model_.intercept -= eta / static_cast<double>(batches_.size) * total;
      if (memory_.corrects()) {
        Real& constant = memory_.mean[at(rows_.d)];
        model_.intercept -= eta * part * static_cast<double>(constant);
        constant += static_cast<Real>(renewed);
      }
    }
    samples_ += last - first;
    return met;
  }

  Index predict(Index first, Index last, Index batch) {
    Index met = 0;
    for (Index k = first; k < last; ++k) rows_.look_ahead(batches_.rows, k);
    const Real* v = model_.coef.data();
    if constexpr (is_sparse) {
      for (Index k = first; k < last; ++k) {
        const Index i = batches_.row(k);
        met += rows_.length(i);
        if (behind_.falls()) {
          rows_.for_each(i, [&](Index j, Real) { behind_.settle(j, batch); });
        }
        scores_[at(k - first)] = rows_.dot(i, v);
      }
    } else {
      met = (last - first) * rows_.d;
      for (Index k = first; k < last; k += 2) {
        const Index next = std::min(k + 1, last - 1);  // the last of an odd number with itself
        const auto [p, q] = rows_.dots(batches_.row(k), batches_.row(next), v);
        scores_[at(next - first)] = q;
        scores_[at(k - first)] = p;
      }
    }
    return met;
  }

  // What each row's gradient is multiplied by; return the sum of the corrected slopes.
  double find_shares(Index first, Index last, double eta) {
    double total = 0.0;
    for (Index k = first; k < last; ++k) {
      const Index i = batches_.row(k);
      const double score = static_cast<double>(scores_[at(k - first)]);
      const double slope = slopes_.at(k, scale_ * score + model_.intercept) * targets_.weight_of(i);
      row_slopes_[at(k - first)] = slope;
      const double known = memory_.corrects() ? memory_.slopes[at(i)] : 0.0;
      const double multiple = batches_.factor(k) * (slope - known);
      total += multiple;
      if (!multiples_.empty()) multiples_[at(k)] = multiple;
      shares_[at(k - first)] = -eta / static_cast<double>(batches_.size) * multiple;
    }
    return total;
  }

  // Renew the stored slopes of the rows, after all moves: a row that comes twice changes once.
  double remember(Index first, Index last) {
    double renewed = 0.0;
    for (Index k = first; k < last; ++k) {
      double& known = memory_.slopes[at(batches_.row(k))];
      const double change =
          (row_slopes_[at(k - first)] - known) / static_cast<double>(targets_.y.size());
      known = row_slopes_[at(k - first)];
      renewals_[at(k - first)] = static_cast<Real>(change);
      renewed += change;
    }
    return renewed;
  }

  Real share(Index place) const { return static_cast<Real>(shares_[at(place)] / scale_); }

  void move_dense(Index first, Index last, double step)
    requires(!is_sparse)
  {
    Real* v = model_.coef.data();
    Real* mean = memory_.mean.data();
    Real drift = memory_.corrects() ? static_cast<Real>(step / scale_) : Real{0};
    for (Index k = first; k < last; k += 2) {
      const bool two = k + 1 < last;
      const Index i = batches_.row(k), j = batches_.row(two ? k + 1 : k), place = k - first;
      const Real a = share(place), b = two ? share(place + 1) : Real{0};
      if (memory_.keeps) {
        const Real e = renewals_[at(place)], f = two ? renewals_[at(place + 1)] : Real{0};
        rows_.add_and_renew(i, a, e, j, b, f, v, drift, mean);
      } else if (memory_.corrects()) {
        rows_.add(i, a, j, b, v, drift, mean);
      } else {
        rows_.add(i, a, j, b, v);
      }
      drift = 0;  // the first two rows have taken it along
    }
    threshold(step);
  }

  void threshold(double step) {
    Real* v = model_.coef.data();
    const double owed = step * rule_.l1 / scale_;
    if (groups_.exist()) {
      for (Index group = 0; group < groups_.count(); ++group) groups_.shrink(v, group, owed);
    } else if (rule_.l1 > 0.0) {
      for (Index c = 0; c < rows_.d; ++c) v[c] = softened(v[c], static_cast<Real>(owed));
    }
  }

  // The features that were met take the rest of their step before the stored slopes change.
  void move_sparse(Index first, Index last, Index batch, double step)
    requires is_sparse
  {
    Real* v = model_.coef.data();
    for (Index k = first; k < last; ++k) rows_.add(batches_.row(k), share(k - first), v);
    if (!behind_.falls()) return;
    behind_.begin_step(batch, step / scale_);
    for (Index k = first; k < last; ++k) {
      const Real renewal = memory_.keeps ? renewals_[at(k - first)] : Real{0};
      rows_.for_each(batches_.row(k), [&](Index j, Real entry) {
        behind_.finish(j, batch);
        if (memory_.keeps) memory_.mean[at(j)] += renewal * entry;
      });
    }
    behind_.end_step();
  }

  void rescale() {
    for (Real& weight : model_.coef) weight *= static_cast<Real>(scale_);
    scale_ = 1.0;
  }

  const RowAccess& rows_;
  const Targets& targets_;
  const Batches& batches_;
  const StepRule& rule_;
  CorrectedModel<Real>& model_;
  Memory<Real>& memory_;
  const Groups& groups_;
  std::span<double> multiples_;
  Slopes slopes_;
  Behind<Real> behind_;
  std::vector<Real> scores_, renewals_;
  std::vector<double> row_slopes_, shares_;
  double scale_ = 1.0;
  std::int64_t samples_ = batches_.samples;
};

// Order of the next epoch, from the gradients `multiples[k] * x` that the last one stepped along,
// for solvers that do not balance on the way.
template <class RowAccess>
void balance_order(const RowAccess& rows, Rows order, std::span<const double> multiples,
                   bool fit_intercept, Index unit, std::span<Index> following, Pulse& pulse) {
  using Real = typename RowAccess::Real;
  std::vector<Real> signed_sum(static_cast<std::size_t>(rows.d));
  double signed_constant = 0.0;
  NextOrder next(order, unit, following);
  const Index n = static_cast<Index>(order.size());
  for (Index start = 0; start + 2 * unit <= n; start += 2 * unit) {
    double lean = 0.0;
    for (Index k = 0; k < 2 * unit; ++k) {
      const auto place = static_cast<std::size_t>(start + k);
      const double multiple = k < unit ? multiples[place] : -multiples[place];
      const double along = static_cast<double>(rows.dot(order[place], signed_sum.data()));
      lean += multiple * (along + (fit_intercept ? signed_constant : 0.0));
      pulse.beat(rows.length(order[place]));
    }
    const double sign = balancing_sign(lean);
    for (Index k = 0; k < 2 * unit; ++k) {
      const auto place = static_cast<std::size_t>(start + k);
      const double multiple = sign * (k < unit ? multiples[place] : -multiples[place]);
      rows.add(order[place], static_cast<Real>(multiple), signed_sum.data());
      signed_constant += multiple;
    }
    next.place(sign > 0.0);
  }
  next.finish();
}

}  // namespace antithetic
