// The minimum of a table's objective.
#include "table_minimum.hpp"

#include "duals.hpp"

namespace antithetic {
namespace {

constexpr double enough = 1e-4;  // share of the expected fall that a step must keep
// Where rounding hides a fall: Hager and Zhang's approximate conditions on the slope that is left,
// relative to the first.
constexpr double steepest = 0.9, steepest_uphill = 0.8;
constexpr double shortest = 0.05, longest = 0.8;  // of the step before, where a trial was too long
constexpr int most_trials = 25;
// What a pass over the rows costs for each row, in products of a Hessian.
constexpr double work_of_an_entry = 6.0, work_of_a_loss = 30.0;
constexpr double beside_the_triangle =
    16.0;                            // entries of each line, in lanes that hold its diagonal
constexpr double first_ratio = 0.1;  // of bounds before and after a step, before one is known

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return sum_of(length(std::span(a)), [&](Index j) {
    return a[static_cast<std::size_t>(j)] * b[static_cast<std::size_t>(j)];
  });
}

// L-BFGS: what the steps since the last Hessian have shown of the one at hand.
class Pairs {
 public:
  void clear() { pairs_.clear(); }

  // Keep a step and the change of the gradient along it.
  void learn(std::vector<double> moved, std::vector<double> change) {
    const double along = dot(moved, change);
    if (along > least_curvature * std::sqrt(dot(moved, moved) * dot(change, change))) {
      pairs_.push_back({std::move(moved), std::move(change), 1.0 / along});
    }
  }

  // The inverse of the corrected Hessian, times a gradient.
  std::vector<double> solve(std::vector<double> rest, const ScaledFactor& factor) const {
    std::vector<double> shares(pairs_.size());
    for (std::size_t p = pairs_.size(); p-- > 0;) {
      shares[p] = pairs_[p].inverse * dot(pairs_[p].moved, rest);
      add_multiple(-shares[p], pairs_[p].change, rest);
    }
    factor.solve(rest);
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const double share = shares[p] - pairs_[p].inverse * dot(pairs_[p].change, rest);
      add_multiple(share, pairs_[p].moved, rest);
    }
    return rest;
  }

 private:
  static constexpr double least_curvature = 1e-10;  // relative to the lengths of both vectors

  struct Pair {
    std::vector<double> moved, change;
    double inverse;
  };

  static void add_multiple(double factor, const std::vector<double>& from,
                           std::vector<double>& to) {
    for (std::size_t j = 0; j < to.size(); ++j) to[j] += factor * from[j];
  }

  std::vector<Pair> pairs_;
};

class Run {
 public:
  Run(const LogisticTable& problem, const MinimumGoal& goal, std::span<double> point, Pulse& pulse)
      : problem_(problem),
        goal_(goal),
        pulse_(pulse),
        n_(problem.rows.n),
        k_(problem.rows.d),
        factor_(k_),
        at_(point.begin(), point.end()),
        next_(at_.size()),
        gradient_(at_.size()),
        slopes_(static_cast<std::size_t>(n_)),
        curvatures_(slopes_.size()) {}

  Minimum minimise() {
    visit(at_);
    find_bound();
    Index steps = 0;
    for (; !is_near() && steps < goal_.most_steps; ++steps) {
      if (is_stale() && !renew()) break;
      if (!step() && (is_fresh_ || !renew() || !step())) break;
      find_bound();
    }
    // one pass more for the weights' sake, whose error is the root of the objective's
    if (is_near() && 0 < steps && steps < goal_.most_steps && step()) {
      ++steps;
      find_bound();
    }
    return {objective_, distance_, steps, is_near()};
  }

  const std::vector<double>& point() const { return at_; }

 private:
  void visit(const std::vector<double>& weights) {
    const Visit kept{slopes_, curvatures_, {}};
    const double loss = evaluate(problem_.rows, problem_.targets, Loss{log_loss, 0.0}, weights, 0.0,
                                 kept, gradient_, 1, pulse_)
                            .loss;
    objective_ = loss / static_cast<double>(n_) + problem_.l2 * half_square(weights);
    add_penalty(weights, gradient_);
  }

  // Of penalised weights.
  double half_square(const std::vector<double>& vector) const {
    return 0.5 * sum_of_squares(vector.data(), penalised());
  }

  Index penalised() const { return problem_.has_intercept ? k_ - 1 : k_; }

  // Sums over the rows become means, to which the slopes of the penalty are added.
  void add_penalty(const std::vector<double>& weights, std::vector<double>& sums) const {
    for (double& sum : sums) sum /= static_cast<double>(n_);
    for (std::size_t j = 0; j < static_cast<std::size_t>(penalised()); ++j) {
      sums[j] += problem_.l2 * weights[j];
    }
  }

  double allowed() const {
    const double unit = std::max(goal_.zero_objective - objective_, goal_.least_unit);
    return std::max(goal_.gap * unit, goal_.rounding);
  }

  // Whether the bound shows that the minimum is near enough.
  bool is_near() const { return distance_ <= allowed(); }

  // Bound the distance from the minimum, and see what the last step left of it.
  void find_bound() {
    const double before = bound_;
    bound_ = half_square(gradient_) / problem_.l2;
    if (before < infinity) ratio_ = bound_ / before;
    distance_ = bound_;
    if (problem_.has_intercept && bound_ <= allowed()) distance_ = bound_with_intercept();
  }

  // The dual of an intercept asks for slopes that sum to zero: see exact/certificate.py.
  double bound_with_intercept() {
    double up = 0.0, down = 0.0;
    for (const double slope : slopes_) (slope > 0.0 ? up : down) += std::abs(slope);
    const double smaller = std::min(up, down);
    std::vector<double> scaled(slopes_.size()), apart(at_.size());
    const double cost =
        scale_slopes(problem_.targets, Loss{log_loss, 0.0}, {slopes_, curvatures_, {}},
                     up > 0.0 ? smaller / up : 1.0, down > 0.0 ? smaller / down : 1.0, scaled);
    combine(problem_.rows, scaled, apart, 1, pulse_);
    add_penalty(at_, apart);
    return cost / static_cast<double>(n_) + half_square(apart) / problem_.l2;
  }

  // Whether a new Hessian costs less than the steps that it saves.
  bool is_stale() const {
    if (!has_factor_ || !(ratio_ < 1.0)) return !is_fresh_;
    const auto k = static_cast<double>(k_);
    const double work =
        0.5 * k * (k + beside_the_triangle) + k * k * k / (3.0 * static_cast<double>(n_));
    const double passes = work / (work_of_an_entry * k + work_of_a_loss);
    return std::log(bound_ / allowed()) > (passes + 2.0) * -std::log(ratio_);
  }

  bool renew() {
    std::vector<double> shares(curvatures_);
    for (double& share : shares) share /= static_cast<double>(n_);
    Upper& hessian = factor_.matrix();
    gram_of_table(problem_.rows, shares.data(), hessian);
    for (Index j = 0; j < penalised(); ++j) hessian.row(j)[j] += problem_.l2;
    ratio_ = first_ratio;
    pairs_.clear();
    has_factor_ = is_fresh_ = factor_.take(0.0);
    return has_factor_;
  }

  // Go along Newton's step as far as the objective falls, or where rounding hides that, as far as
  // the slope becomes small; false where it does neither.
  bool step() {
    const auto along = pairs_.solve(gradient_, factor_), gradient = gradient_;
    const double before = objective_, slope = -dot(gradient_, along);
    const double rounding = 4.0 * std::numeric_limits<double>::epsilon() * std::abs(before);
    double share = 1.0;
    for (int trial = 0; slope < 0.0 && trial < most_trials; ++trial) {
      for (std::size_t j = 0; j < at_.size(); ++j) next_[j] = at_[j] - share * along[j];
      visit(next_);
      const double left = -dot(gradient_, along);
      const bool is_flat = left <= -steepest_uphill * slope && left >= steepest * slope;
      if (objective_ <= before + enough * share * slope ||
          (objective_ <= before + rounding && is_flat)) {
        learn(gradient);
        at_.swap(next_);
        is_fresh_ = false;
        return true;
      }
      // where the slope would be zero, if it changed evenly
      const double best = left > slope ? slope / (slope - left) : longest;
      share *= std::isfinite(objective_) ? std::clamp(best, shortest, longest) : shortest;
    }
    visit(at_);  // back to where it was
    return false;
  }

  // From a step to `next_`, and the gradient before it.
  void learn(const std::vector<double>& before) {
    std::vector<double> moved(next_), change(gradient_);
    for (std::size_t j = 0; j < moved.size(); ++j) {
      moved[j] -= at_[j];
      change[j] -= before[j];
    }
    pairs_.learn(std::move(moved), std::move(change));
  }

  const LogisticTable& problem_;
  const MinimumGoal& goal_;
  Pulse& pulse_;
  Index n_, k_;
  ScaledFactor factor_;
  Pairs pairs_;
  std::vector<double> at_, next_, gradient_, slopes_, curvatures_;
  double objective_ = infinity, distance_ = infinity, bound_ = infinity, ratio_ = first_ratio;
  bool has_factor_ = false, is_fresh_ = false;
};

}  // namespace

Minimum minimise_table(const LogisticTable& problem, const MinimumGoal& goal,
                       std::span<double> point, Pulse& pulse) {
  Run run(problem, goal, point, pulse);
  const auto found = run.minimise();
  std::copy(run.point().begin(), run.point().end(), point.begin());
  return found;
}

}  // namespace antithetic
