// Several epochs of SGD in one call.
#include "several.hpp"

#include <chrono>

#include "checks.hpp"

namespace antithetic {
namespace {

using Clock = std::chrono::steady_clock;

template <class Visitor>
auto with_weights(const Reals& given, const Visitor& visitor) {
  const auto size = static_cast<std::size_t>(given.size);
  if (given.is_double) return visitor(std::span<double>(static_cast<double*>(given.data), size));
  return visitor(std::span<float>(static_cast<float*>(given.data), size));
}

double square_of(const Reals& weights) {
  return with_weights(weights, [](auto numbers) {
    double sum = 0.0;
    for (const auto w : numbers) sum += static_cast<double>(w) * static_cast<double>(w);
    return sum;
  });
}

double penalty_of(const Reals& weights, const StepRule& rule) {
  const double quadratic = 0.5 * rule.l2 * square_of(weights);
  if (rule.l1 == 0.0) return quadratic;
  const double sum = with_weights(weights, [](auto numbers) {
    double total = 0.0;
    for (const auto w : numbers) total += std::abs(static_cast<double>(w));
    return total;
  });
  return quadratic + rule.l1 * sum;
}

// Everything that an epoch changes, kept until it is known to be good.
class Backup {
 public:
  void keep(const SgdArguments& from) {
    const auto* bytes = static_cast<const char*>(from.coef.data);
    coef_.assign(bytes, bytes + from.coef.size * (from.coef.is_double ? 8 : 4));
    average_.assign(from.average.begin(), from.average.end());
    received_.assign(from.received.begin(), from.received.end());
    intercept_ = from.intercept;
    average_intercept_ = from.average_intercept;
    average_weight_ = from.average_weight;
    charged_ = from.charged;
  }

  void restore(SgdArguments& to) const {
    std::copy(coef_.begin(), coef_.end(), static_cast<char*>(to.coef.data));
    std::copy(average_.begin(), average_.end(), to.average.begin());
    std::copy(received_.begin(), received_.end(), to.received.begin());
    to.intercept = intercept_;
    to.average_intercept = average_intercept_;
    to.average_weight = average_weight_;
    to.charged = charged_;
  }

  double intercept() const { return intercept_; }
  const char* coef() const { return coef_.data(); }

 private:
  std::vector<char> coef_;
  std::vector<double> average_, received_;
  double intercept_ = 0.0, average_intercept_ = 0.0, average_weight_ = 0.0, charged_ = 0.0;
};

class SeveralEpochs {
 public:
  SeveralEpochs(const RowSet& rows, const SgdArguments& given, const Course& course,
                const CourseColumns& columns)
      : rows_(rows),
        now_(given),
        course_(course),
        columns_(columns),
        order_(given.batches.rows.begin(), given.batches.rows.end()) {
    if (course.by_epoch) mean_.resize(static_cast<std::size_t>(rows.d()) * (is_double() ? 8 : 4));
  }

  CourseOutcome run(Pulse& pulse) {
    const auto began = Clock::now();
    Index count = 0;
    bool is_wrong = false, goes_on = true;
    for (; count < course_.epochs && goes_on; ++count) {
      backup_.keep(now_);
      const double met = take(count, pulse);
      if (!judge(pulse)) {
        backup_.restore(now_);
        is_wrong = true;
        break;
      }
      const auto at = static_cast<std::size_t>(count);
      const double counted = static_cast<double>(now_.batches.rows.size());
      columns_.running[at] = met / counted + penalty_of(now_.coef, now_.rule);
      columns_.seconds[at] = std::chrono::duration<double>(Clock::now() - began).count();
      order_.swap(next_);
      now_.batches.steps += now_.batches.count();
      now_.batches.samples += length(now_.batches.rows);
      const bool eased = went_the_same_way(), stalled = has_stalled(columns_.running[at]);
      goes_on = !eased && !stalled;
    }
    std::copy(order_.begin(), order_.end(), following_.begin());
    const SgdOutcome last{now_.intercept, now_.average_intercept, now_.average_weight, now_.charged,
                          0.0};
    return {last, count, course_.aligned, objective_, is_wrong};
  }

 private:
  bool is_double() const { return now_.coef.is_double; }

  // One epoch; the sum of the losses met on the way.
  double take(Index count, Pulse& pulse) {
    if (course_.by_epoch) {
      std::fill(now_.average.begin(), now_.average.end(), 0.0);
      now_.average_intercept = now_.average_weight = 0.0;
      const Index skipped = course_.done + count == 0 ? course_.skipped : 0;
      now_.averaging.from = 1 + now_.batches.samples + skipped;
    }
    now_.batches.rows = order_;
    now_.following = next_;
    const SgdOutcome found = rows_.sgd_epoch(now_, pulse);
    now_.intercept = found.intercept;
    now_.average_intercept = found.average_intercept;
    now_.average_weight = found.average_weight;
    now_.charged = found.charged;
    return found.met;
  }

  // Whether an epoch may stay, as far as can be said here: weights and objective are finite, and
  // the objective is not above that of zero weights.
  bool judge(Pulse& pulse) {
    objective_ = std::numeric_limits<double>::quiet_NaN();
    // beyond this, the caller's own sum of squares would overflow, and it shortens the steps
    const double most = is_double() ? std::numeric_limits<double>::max()
                                    : double{std::numeric_limits<float>::max()};
    if (!(square_of(now_.coef) <= most) || !std::isfinite(now_.intercept)) return false;
    if (!course_.checks) return true;
    const bool is_mean = course_.by_epoch && now_.average_weight != 0.0;
    objective_ = is_mean ? objective(mean(), now_.average_intercept, pulse)
                         : objective(now_.coef, now_.intercept, pulse);
    const bool above = objective_ > course_.at_zero && course_.at_zero > 0.0;
    return std::isfinite(objective_) && !above;
  }

  // The mean of the epoch's weights, in the rows' type.
  Reals mean() {
    const Reals out{mean_.data(), rows_.d(), is_double()};
    with_weights(out, [&](auto numbers) {
      using Real = typename decltype(numbers)::value_type;
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        numbers[j] = static_cast<Real>(now_.average[j]);
      }
    });
    return out;
  }

  double objective(const Reals& coef, double intercept, Pulse& pulse) const {
    const Reals none{nullptr, 0, is_double()};
    const auto [total, other] =
        rows_.losses_at({now_.targets, now_.rule.loss, coef, intercept, none, 0.0}, pulse);
    return total / static_cast<double>(rows_.n()) + penalty_of(coef, now_.rule);
  }

  // Count epochs that went the same way; whether the decay is to be eased.
  bool went_the_same_way() {
    if (!course_.eases) return false;
    double together = 0.0, before = 0.0, after = 0.0;
    const auto count = [&](double move, double& last) {
      together += move * last;
      before += last * last;
      after += move * move;
      last = move;
    };
    with_weights(now_.coef, [&](auto numbers) {
      using Real = typename decltype(numbers)::value_type;
      const auto* from = reinterpret_cast<const Real*>(backup_.coef());
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        count(static_cast<double>(numbers[j] - from[j]), columns_.moved[j]);
      }
    });
    count(now_.intercept - backup_.intercept(), columns_.moved.back());
    const bool aligned = columns_.has_moved && together > same_way * std::sqrt(before * after);
    course_.aligned = aligned ? course_.aligned + 1 : 0;
    columns_.has_moved = true;
    return course_.aligned == epochs_the_same_way;
  }

  bool has_stalled(double running) {
    if (course_.patience == 0) return false;
    course_.waited = running <= course_.best - course_.least_fall ? 0 : course_.waited + 1;
    course_.best = std::min(course_.best, running);
    return course_.waited >= course_.patience;
  }

  const RowSet& rows_;
  SgdArguments now_;
  Course course_;
  CourseColumns columns_;
  std::vector<Index> order_, next_ = std::vector<Index>(order_.size());
  std::span<Index> following_ = now_.following;
  std::vector<char> mean_;
  Backup backup_;
  double objective_ = 0.0;
};

}  // namespace

CourseOutcome run_several(const RowSet& rows, const SgdArguments& given, const Course& course,
                          const CourseColumns& columns, Pulse& pulse) {
  constexpr Index most = Index{1} << 62;  // counts that can still grow
  require_batches(given.batches, rows.n());
  require(course.epochs >= 1 && 0 <= course.done && course.done < most,
          "a call takes at least one epoch");
  require(0 <= course.aligned && course.aligned < epochs_the_same_way, "aligned: 0, 1 or 2");
  require(-most < course.waited && course.waited < most && course.patience >= 0,
          "patience must not be negative, and waited can still grow");
  require(0 <= course.skipped && course.skipped <= length(given.batches.rows),
          "skipped: at most all rows");
  const auto epochs = course.epochs;
  require(length(columns.running) >= epochs && length(columns.seconds) >= epochs,
          "running and seconds: one entry per epoch");
  require(!course.eases || length(columns.moved) == rows.d() + 1, "moved: shape (d + 1,)");
  require(given.coef.size == rows.d() && given.coef.is_double == rows.is_double(),
          "coef: shape (d,), of the rows' type");
  require(!course.by_epoch || length(given.average) == rows.d(), "average: shape (d,)");
  require_units(given.unit, given.batches.rows, given.following);
  require(given.unit > 0 && given.batches.factors.empty(), "orders are balanced, without factors");
  return SeveralEpochs(rows, given, course, columns).run(pulse);
}

}  // namespace antithetic
