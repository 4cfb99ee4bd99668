// One epoch of mini-batch SGD, on dense or sparse rows, with or without a balanced order.
//
// The weights are kept as w = s v: shrinking by the L2 penalty changes the scale s alone, and in
// float32 a factor near 1 would be lost. A step on sparse rows costs only their entries. In terms
// of v the charges of the L1 penalty just add up, U = sum tau_t / s_t, and those that a feature has
// missed are applied when it is next met. Its share of an average is a sum of q_t s_t v_t, with
// v_t falling linearly in U_t until it is zero: it comes from running sums of q s and q s U, with
// the step where zero is reached found by bisection.
#pragma once

#include "balance.hpp"
#include "centred.hpp"
#include "steps.hpp"

namespace antithetic {

// Which weights are averaged: those after every `every`-th step, from so many samples on (0: none);
// with `linear`, step t has weight t.
struct Averaging {
  std::int64_t from;
  bool linear;
  std::int64_t every;
};

// What an epoch changes. The average is empty where nothing is averaged, `received` without an L1
// penalty: what each weight has received of it; `charged` is what all were charged with.
template <class Real>
struct SgdModel {
  std::span<Real> coef;
  double intercept;
  std::span<double> average;
  double average_intercept, average_weight;
  std::span<double> received;
  double charged;
  double met;
};

// What features of sparse rows have missed while no row of a batch had them.
class Missed {
 public:
  Missed(Index d, Index n_batches, bool charges, bool averages)
      : averages_(averages), charges_(charges) {
    if (!averages) return;
    const auto steps = static_cast<std::size_t>(n_batches) + 1;
    seen_.resize(static_cast<std::size_t>(d));
    sums_.resize(static_cast<std::size_t>(d));
    scales_.resize(steps);
    if (charges) {
      charged_.resize(steps);
      products_.resize(steps);
    }
  }

  // After a step: its share of the average times the scale, and the charges so far.
  void record(Index step, double scale, double charged) {
    const auto now = static_cast<std::size_t>(step);
    scales_[now + 1] = scales_[now] + scale;
    if (charges_) {
      charged_[now + 1] = charged;
      products_[now + 1] = products_[now] + scale * charged;
    }
  }

  // Bring one feature up to date before a step.
  template <class Real>
  void catch_up(Index feature, Real& weight, SgdModel<Real>& model, Index step) {
    const auto j = static_cast<std::size_t>(feature), now = static_cast<std::size_t>(step);
    if (!charges_) {
      sums_[j] += static_cast<double>(weight) * (scales_[now] - scales_[seen_[j]]);
      seen_[j] = now;
      return;
    }
    if (averages_) add_share(j, static_cast<double>(weight), model.received[j], model.charged, now);
    collect(weight, model.received[j], model.charged);
  }

  // Apply the charges that one weight has missed, and record what was really applied: float32 may
  // be too coarse for a small charge.
  template <class Real>
  static void collect(Real& weight, double& received, double charged) {
    const double before = static_cast<double>(weight);
    weight = static_cast<Real>(cumulative_threshold(before, received, charged));
    received += static_cast<double>(weight) - before;
  }

  const std::vector<double>& sums() const { return sums_; }

 private:
  void add_share(std::size_t j, double weight, double received, double charged, std::size_t now) {
    const double sign = weight > 0.0 ? 1.0 : -1.0;
    const double zero = sign * (weight - received);  // the charge at which the weight is zero
    const std::size_t since = seen_[j];
    const std::size_t until = zero > charged ? now : last_before(zero, since, now);
    const double weights = scales_[until] - scales_[since];
    sums_[j] += sign * (zero * weights - (products_[until] - products_[since]));
    seen_[j] = now;
  }

  // Last step after which the charges have added up to less than `zero`.
  std::size_t last_before(double zero, std::size_t low, std::size_t high) const {
    while (low < high) {
      const std::size_t middle = (low + high + 1) / 2;
      if (charged_[middle] < zero) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  bool averages_, charges_;
  std::vector<std::size_t> seen_;
  std::vector<double> sums_, scales_, charged_, products_;
};

template <class RowAccess, bool is_balanced>
class SgdEpoch {
  using Real = typename RowAccess::Real;
  static constexpr bool is_sparse = RowAccess::is_sparse;
  static constexpr bool is_centred = RowAccess::is_centred;
  static constexpr int stride = is_sparse && is_balanced ? 2 : 1;  // weights beside the signed sum

 public:
  ANTITHETIC_RARE SgdEpoch(const RowAccess& rows, const Targets& targets, const Batches& batches,
                           const StepRule& rule, const Averaging& averaging, SgdModel<Real>& model,
                           Index unit, std::span<Index> following)
      : rows_(rows),
        targets_(targets),
        batches_(batches),
        rule_(rule),
        averaging_(averaging),
        model_(model),
        unit_(unit),
        next_(batches.rows, unit, following),
        slopes_(rule, targets, batches),
        always_averaged_(averaging.from > 0 && averaging.every == 1 && !(is_sparse && is_centred)),
        falls_behind_(is_sparse && (always_averaged_ || rule.l1 > 0.0)),
        missed_(rows.d, batches.count(), rule.l1 > 0.0, is_sparse && always_averaged_),
        vectors_(stride * in_whole_lanes<Real>(rows.d)),
        signed_(is_balanced && stride == 1 ? in_whole_lanes<Real>(rows.d) : 0) {
    const auto longest = static_cast<std::size_t>(batches.longest());
    scores_.resize(longest);
    shares_.resize(longest);
    if constexpr (is_balanced) {
      row_slopes_.resize(longest);
      signed_slopes_.resize(static_cast<std::size_t>(2 * unit));
    }
    weights_ = vectors_.data();
    signed_sum_ = stride == 2 ? weights_ + 1 : signed_.data();
    for (Index j = 0; j < rows.d; ++j) weight(j) = model.coef[at(j)];
    if constexpr (is_centred) move_intercepts(1.0);
  }

  void run(Pulse& pulse) {
    for (Index batch = 0; batch < batches_.count(); ++batch) {
      pulse.beat(step(batch));
    }
    if constexpr (is_balanced) next_.finish();
    finish();
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }
  Real& weight(Index j) { return weights_[j * stride]; }

  // Take the step of a batch; return how many entries it met.
  Index step(Index batch) {
    const Index first = batches_.first(batch), last = batches_.last(batch);
    for (Index k = first; k < last; ++k) {
      rows_.look_ahead(batches_.rows, k);
      prefetch_target(k);
    }
    const double eta = rule_.schedule.step(batches_.steps + batch, samples_);
    const double part = batches_.part(batch);
    // The gradients of one step are the two to be balanced: they are met once.
    const bool is_twosome = last - first == 2 && (!is_balanced || (unit_ == 1 && first % 2 == 0));
    const Index met = is_twosome ? step_of_two(first, batch, eta, part)
                                 : step_of_many(first, last, batch, eta, part);
    if constexpr (is_sparse && is_centred) merge_now_and_then(met);
    if (rule_.l1 > 0.0) charge(eta * part);
    samples_ += last - first;
    average(batch);
    return met;
  }

  void prefetch_target(Index k) const {
    constexpr Index ahead = 16;
    if (k + ahead < static_cast<Index>(batches_.rows.size())) {
      prefetch(targets_.y.data() + batches_.row(k + ahead));
    }
  }

  // A batch of two rows, which is what most are: nothing but the vectors passes through memory.
  ANTITHETIC_INLINE Index step_of_two(Index first, Index batch, double eta, double part) {
    const Index i = batches_.row(first), j = batches_.row(first + 1);
    if (falls_behind_) {
      catch_up(i, batch);
      catch_up(j, batch);
    }
    const auto [score_i, score_j, lean_i, lean_j] = products_of_two(i, j);
    const double p = prediction(score_i), q = prediction(score_j);
    const auto [bare_i, bare_j] = slopes_.at_two(first, p, q);
    const double slope_i = weighed(first, bare_i, p), slope_j = weighed(first + 1, bare_j, q);
    shrink(eta * part, batch);
    // the same operations as in a batch of many, so that the bits are the same
    const double rate = rate_of(eta);
    const Real a = unscaled(-rate * slope_i), b = unscaled(-rate * slope_j);
    double total = rate * slope_i;
    total += rate * slope_j;
    if (rule_.fit_intercept) model_.intercept -= total;
    if constexpr (is_balanced) {
      Real e = static_cast<Real>(slope_i), f = -static_cast<Real>(slope_j);
      const Real constant = rule_.fit_intercept ? e + f : Real{0};
      const Real sign = balancing_sign(e * lean_i + f * lean_j + signed_constant_ * constant);
      e *= sign;
      f *= sign;
      if constexpr (is_sparse) {
        rows_.add_interleaved(i, a, e, weights_);
        rows_.add_interleaved(j, b, f, weights_);
        moved(i, a, e);
        moved(j, b, f);
      } else if constexpr (is_centred) {
        rows_.add(i, a, e, j, b, f, weights_, signed_sum_, shrinkage_);
      } else {
        rows_.add(i, a, e, j, b, f, weights_, signed_sum_);
      }
      signed_constant_ += sign * constant;
      next_.place(sign > 0);
    } else if constexpr (is_sparse) {
      rows_.add(i, a, weights_);
      rows_.add(j, b, weights_);
      moved(i, a);
      moved(j, b);
    } else if constexpr (is_centred) {
      rows_.add(i, a, j, b, weights_, shrinkage_);
    } else {
      rows_.add(i, a, j, b, weights_);
    }
    return rows_.length(i) + rows_.length(j);
  }

  // Scores of two rows, and how far their gradients lean along the signed sum.
  ANTITHETIC_INLINE FourProducts<Real> products_of_two(Index i, Index j) const {
    if constexpr (is_sparse && is_balanced) {
      const auto [score_i, lean_i] = rows_.dot_interleaved(i, weights_);
      const auto [score_j, lean_j] = rows_.dot_interleaved(j, weights_);
      return {corrected(score_i, weights_offset_, i), corrected(score_j, weights_offset_, j),
              corrected(lean_i, signed_offset_, i), corrected(lean_j, signed_offset_, j)};
    } else if constexpr (is_sparse) {
      return {score_of(i), score_of(j), 0, 0};
    } else if constexpr (is_balanced) {
      return rows_.dots(i, j, weights_, signed_sum_);
    } else {
      const auto [score_i, score_j] = rows_.dots(i, j, weights_);
      return {score_i, score_j, 0, 0};
    }
  }

  ANTITHETIC_OUTLINE Index step_of_many(Index first, Index last, Index batch, double eta,
                                        double part) {
    const Index met = predict(first, last, batch);
    const double total = find_shares(first, last, eta);
    shrink(eta * part, batch);
    move(first, last);
    if constexpr (is_balanced) balance_batch(first, last);
    if (rule_.fit_intercept) model_.intercept -= total;
    return met;
  }

  Index predict(Index first, Index last, Index batch) {
    Index met = 0;
    if constexpr (is_sparse) {
      for (Index k = first; k < last; ++k) {
        const Index i = batches_.row(k);
        met += rows_.length(i);
        if (falls_behind_) catch_up(i, batch);
        scores_[at(k - first)] = score_of(i);
      }
    } else {
      met = (last - first) * rows_.d;
      for (Index k = first; k < last; k += 2) {
        const Index next = std::min(k + 1, last - 1);  // the last of an odd number with itself
        const auto [p, q] = rows_.dots(batches_.row(k), batches_.row(next), weights_);
        scores_[at(next - first)] = q;
        scores_[at(k - first)] = p;
      }
    }
    return met;
  }

  // What multiplies the slopes: passive steps are in them already.
  double rate_of(double eta) const {
    return (rule_.schedule.is_passive() ? 1.0 : eta) / static_cast<double>(batches_.size);
  }

  double prediction(Real score) const {
    const double product = static_cast<double>(score);
    return (is_centred ? product : scale_ * product) + model_.intercept;
  }

  // What the row at a place is multiplied by to make its gradient: the slope of its prediction,
  // with its weight and factor.
  ANTITHETIC_INLINE double weighed(Index place, double slope, double predicted) const {
    const Index i = batches_.row(place);
    if (rule_.schedule.is_passive()) {
      const double loss = rule_.loss.value(targets_.label(i), predicted);
      slope *= rule_.schedule.row_step(loss, rows_.square(i));
    }
    if (slopes_.is_plain()) return slope;
    return slope * (targets_.weight_of(i) * batches_.factor(place));
  }

  // What each row's gradient is multiplied by; return the intercept's step.
  double find_shares(Index first, Index last, double eta) {
    const double rate = rate_of(eta);
    double total = 0.0;
    for (Index k = first; k < last; ++k) {
      const double predicted = prediction(scores_[at(k - first)]);
      const double found = weighed(k, slopes_.at(k, predicted), predicted);
      total += rate * found;
      shares_[at(k - first)] = -rate * found;
      if constexpr (is_balanced) row_slopes_[at(k - first)] = static_cast<Real>(found);
    }
    return total;
  }

  // Of centred rows, the step that follows shrinks dense weights, and `merge` sparse ones.
  void shrink(double step, Index batch) {
    if constexpr (is_centred) {
      shrinkage_ = static_cast<Real>(step * rule_.l2);
      owed_ += step * rule_.l2;
      return;
    }
    scale_ *= std::max(0.0, 1.0 - step * rule_.l2);
    if (scale_ < smallest_scale) {
      if (falls_behind_) catch_all_up(batch);
      rescale();
    }
    per_scale_ = 1.0 / scale_;
  }

  Real share(Index place) const { return unscaled(shares_[at(place)]); }

  // A multiple of a row, for weights that are kept divided by the scale; that of centred rows is 1.
  Real unscaled(double number) const {
    return static_cast<Real>(is_centred ? number : number * per_scale_);
  }

  void move(Index first, Index last) {
    if constexpr (is_sparse) {
      for (Index k = first; k < last; ++k) {
        rows_.template add<stride>(batches_.row(k), share(k - first), weights_);
        moved(batches_.row(k), share(k - first));
      }
    } else {
      if constexpr (is_centred) rows_.shrink(weights_, shrinkage_);
      Index k = first;
      for (; k + 1 < last; k += 2) {
        const Index i = batches_.row(k), j = batches_.row(k + 1);
        rows_.add(i, share(k - first), j, share(k + 1 - first), weights_);
      }
      if (k < last) rows_.add(batches_.row(k), share(k - first), weights_);
    }
  }

  // Units and batches of any sizes: rows are met again where their signs are known.
  void balance_batch(Index first, Index last) {
    for (Index k = first; k < last; ++k) {
      const Index i = batches_.row(k), position = k % (2 * unit_);
      const Real slope =
          position < unit_ ? row_slopes_[at(k - first)] : -row_slopes_[at(k - first)];
      const Real constant = rule_.fit_intercept ? signed_constant_ : Real{0};
      lean_ += static_cast<double>(slope * (product_with_signed_sum(i) + constant));
      signed_slopes_[at(position)] = slope;
      if (position + 1 == 2 * unit_) balance(k - position);
    }
  }

  Real product_with_signed_sum(Index i) const {
    if constexpr (is_sparse) {
      return corrected(rows_.template dot<stride>(i, signed_sum_), signed_offset_, i);
    } else {
      return rows_.dot(i, signed_sum_);
    }
  }

  // Two units are over: add their difference to the signed sum, and place them.
  void balance(Index start) {
    const Real sign = balancing_sign(static_cast<Real>(lean_));
    lean_ = 0.0;
    for (Index k = 0; k < 2 * unit_; ++k) {
      const Real slope = sign * signed_slopes_[at(k)];
      const Index i = batches_.row(start + k);
      if constexpr (is_sparse) {
        rows_.template add<stride>(i, slope, signed_sum_);
        moved(i, Real{0}, slope);
      } else {
        rows_.add(i, slope, signed_sum_);
      }
      if (rule_.fit_intercept) signed_constant_ += slope;
    }
    next_.place(sign > 0);
  }

  void charge(double step) {
    model_.charged += step * rule_.l1 / scale_;
    if constexpr (!is_sparse) {
      for (Index c = 0; c < rows_.d; ++c) {
        double charged = model_.charged;
        if constexpr (is_centred) charged *= static_cast<double>(rows_.metric[c]);
        Missed::collect(weights_[c], model_.received[at(c)], charged);
      }
    }
  }

  // ---- centred rows

  ANTITHETIC_INLINE Real corrected(Real product, const Offset& offset, Index i) const {
    if constexpr (is_sparse && is_centred) {
      return offset.corrected(product, rows_, i);
    } else {
      return product;
    }
  }

  // Product of a sparse row with the weights.
  Real score_of(Index i) const {
    return corrected(rows_.template dot<stride>(i, weights_), weights_offset_, i);
  }

  // A sparse row was added to the weights and to the signed sum so many times.
  ANTITHETIC_INLINE void moved(Index i, Real a, Real e = 0) {
    if constexpr (is_sparse && is_centred) {
      weights_offset_.add(static_cast<double>(a), rows_, i);
      signed_offset_.add(static_cast<double>(e), rows_, i);
    }
  }

  // Weights of sparse rows as they are, shrunk by all that has been put off: times exp(-P owed).
  // Its series is used where no weight shrinks by more than a tenth, and otherwise a quotient that
  // is off by a term of third order. The series takes half the time, but only the quotient is
  // between 0 and 1 for any argument.
  ANTITHETIC_OUTLINE void merge() {
    if (owed_ <= 10.0 * little()) {
      merge_by([](double due) {
        return 1.0 - due * (1.0 - due * (0.5 - due * (1.0 / 6.0 - due * (1.0 / 24.0))));
      });
    } else {
      merge_by([](double due) { return 1.0 / (1.0 + due * (1.0 + 0.5 * due)); });
    }
  }

  // `kept` is the part of a weight that is left.
  template <class Kept>
  void merge_by(Kept kept) {
    // copies, so that the compiler knows that no weight is one of them
    const double along = weights_offset_.along, owed = owed_;
    const Real *ANTITHETIC_RESTRICT metric = rows_.metric,
                                    *ANTITHETIC_RESTRICT centre = rows_.centre;
    Real* ANTITHETIC_RESTRICT weights = weights_;
    const double product = sum_in_lanes(rows_.d, [=](Index j) {
      const double scale = static_cast<double>(metric[j]);
      const double middle = static_cast<double>(centre[j]);
      const double full = static_cast<double>(weights[j * stride]) - along * scale * middle;
      const double left = full * kept(owed * scale);
      weights[j * stride] = static_cast<Real>(left);
      return left * middle;
    });
    weights_offset_ = {0.0, product};
    owed_ = 0.0;
  }

  // A merge visits all columns: it waits until as many entries have been met, and four times as
  // many while it would shrink no weight by more than a hundredth.
  void merge_now_and_then(Index met) {
    entries_ += met;
    if (entries_ < rows_.d || (entries_ < 4 * rows_.d && owed_ < little())) return;
    entries_ = 0;
    merge();
  }

  // The shrinkage that takes a hundredth from the weight with the greatest metric, which is found
  // when it is first asked for.
  double little() {
    if (little_ == 0.0) {
      const auto greatest = *std::max_element(rows_.metric, rows_.metric + rows_.d);
      little_ = 0.01 / static_cast<double>(greatest);
    }
    return little_;
  }

  // Between the intercepts of rows as they are and those of centred ones (sign 1), and back (-1).
  void move_intercepts(double sign) {
    const auto product_with_centre = [this](const auto& number) {
      return sum_in_lanes(rows_.d, [&](Index j) {
        return static_cast<double>(rows_.centre[j]) * static_cast<double>(number(j));
      });
    };
    const double product = product_with_centre([this](Index j) { return weight(j); });
    model_.intercept += sign * product;
    if (averaging_.from > 0 && model_.average_weight > 0.0) {
      model_.average_intercept +=
          sign * product_with_centre([this](Index j) { return model_.average[at(j)]; });
    }
    weights_offset_.product = product;
  }

  void average(Index batch) {
    if (averaging_.from <= 0) return;
    const std::int64_t steps = batches_.steps + batch + 1;
    const bool counts = samples_ >= averaging_.from && steps % averaging_.every == 0;
    const double gain = !counts ? 0.0 : averaging_.linear ? static_cast<double>(steps) : 1.0;
    if (is_sparse && always_averaged_) missed_.record(batch, gain * scale_, model_.charged);
    if (!counts) return;
    const double total = model_.average_weight + gained_ + gain;
    const double share = gain / total;
    model_.average_intercept += share * (model_.intercept - model_.average_intercept);
    if (is_sparse && always_averaged_) {
      gained_ += gain;
      return;
    }
    if (falls_behind_) catch_all_up(batch + 1);
    if constexpr (is_sparse && is_centred) merge();
    model_.average_weight = total;
    for (Index j = 0; j < rows_.d; ++j) {
      double& mean = model_.average[at(j)];
      mean += share * (scale_ * static_cast<double>(weight(j)) - mean);
    }
  }

  void catch_up(Index i, Index step) {
    rows_.for_each(i, [&](Index j, Real) { missed_.catch_up(j, weight(j), model_, step); });
  }

  ANTITHETIC_RARE void catch_all_up(Index step) {
    for (Index j = 0; j < rows_.d; ++j) missed_.catch_up(j, weight(j), model_, step);
  }

  // Multiply the scale into all that is kept in its units.
  ANTITHETIC_RARE void rescale() {
    const Real factor = static_cast<Real>(scale_);
    for (Index j = 0; j < rows_.d; ++j) weight(j) *= factor;
    for (double& received : model_.received) received *= scale_;
    model_.charged *= scale_;
    scale_ = 1.0;
  }

  ANTITHETIC_RARE void finish() {
    if (falls_behind_) catch_all_up(batches_.count());
    if constexpr (is_sparse && is_centred) merge();
    rescale();
    for (Index j = 0; j < rows_.d; ++j) model_.coef[at(j)] = weight(j);
    if (gained_ > 0.0) {
      model_.average_weight += gained_;
      const double kept = 1.0 - gained_ / model_.average_weight;
      for (Index j = 0; j < rows_.d; ++j) {
        double& mean = model_.average[at(j)];
        mean = kept * mean + missed_.sums()[at(j)] / model_.average_weight;
      }
    }
    if constexpr (is_centred) move_intercepts(-1.0);
    model_.met = slopes_.met();
  }

  const RowAccess& rows_;
  const Targets& targets_;
  const Batches& batches_;
  const StepRule& rule_;
  const Averaging& averaging_;
  SgdModel<Real>& model_;
  const Index unit_;
  NextOrder next_;
  Slopes slopes_;
  const bool always_averaged_, falls_behind_;
  Missed missed_;
  AlignedVector<Real> vectors_, signed_;
  std::vector<Real> scores_, row_slopes_, signed_slopes_;
  std::vector<double> shares_;
  Real* weights_ = nullptr;
  Real* signed_sum_ = nullptr;
  Real signed_constant_ = 0;
  double lean_ = 0.0, scale_ = 1.0, per_scale_ = 1.0, gained_ = 0.0;
  // of centred rows: what a step shrinks by, what sparse weights have not been shrunk by yet, the
  // entries met since they were, and what is subtracted from their vectors
  Real shrinkage_ = 0;
  double owed_ = 0.0, little_ = 0.0;
  Index entries_ = 0;
  Offset weights_offset_, signed_offset_;
  std::int64_t samples_ = batches_.samples;
};

}  // namespace antithetic
