// The kernels of one kind of rows: checks, then the templates.
#pragma once

#include <string>

#include "checks.hpp"
#include "row_set.hpp"

namespace antithetic {

template <class RowAccess>
class RowSetOf : public RowSet {
  using Real = typename RowAccess::Real;

 public:
  explicit RowSetOf(const RowAccess& rows) : rows_(rows) {}

  Index n() const override { return rows_.n; }
  Index d() const override { return rows_.d; }
  bool is_double() const override { return sizeof(Real) == sizeof(double); }

  SgdOutcome sgd_epoch(const SgdArguments& given, Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require_batches(given.batches, rows_.n);
    require_rule(given.rule);
    require(given.averaging.every >= 1, "averaging: every must be at least 1");
    require(given.averaging.from <= 0 || length(given.average) == rows_.d, "average: shape (d,)");
    require(given.rule.l1 <= 0.0 || length(given.received) == rows_.d, "received: shape (d,)");
    SgdModel<Real> model{reals(given.coef, rows_.d, "coef"),
                         given.intercept,
                         given.average,
                         given.average_intercept,
                         given.average_weight,
                         given.received,
                         given.charged,
                         0.0};
    if (given.unit > 0) require_units(given.unit, given.batches.rows, given.following);
    if (given.metric.size > 0) {
      const Preconditioner<Real> found = preconditioner_of(given);
      run_epoch(CentredRows<RowAccess>(rows_, found), given, model, pulse);
    } else {
      run_epoch(rows_, given, model, pulse);
    }
    return {model.intercept, model.average_intercept, model.average_weight, model.charged,
            model.met};
  }

  SoftmaxOutcome softmax_epoch(const SoftmaxArguments& given, Pulse& pulse) const override {
    const Index n_classes = given.targets.n_classes;
    require(n_classes >= 2, "softmax needs at least two classes");
    require(n_classes <= given.coef.size / std::max<Index>(1, rows_.d), "coef: d per class");
    const Index size = n_classes * rows_.d;
    require(length(given.targets.codes) == rows_.n, "codes: one entry per row");
    require_rows(given.targets.codes, n_classes, "a code is not that of a class");
    require(given.targets.weight.empty() || length(given.targets.weight) == rows_.n,
            "weights: one entry per row");
    require_batches(given.batches, rows_.n);
    require_schedule(given.rule);
    require(!given.rule.schedule.is_passive(), "passive-aggressive steps are not for softmax");
    require(given.rule.l1 == 0.0, "softmax has no L1 penalty");
    require(length(given.intercept) == n_classes, "intercept: one per class");
    require(given.averaging.every >= 1, "averaging: every must be at least 1");
    require((given.averaging.from <= 0 && given.average.empty()) ||
                (length(given.average) == size && length(given.average_intercept) == n_classes),
            "average: as many numbers as weights");
    require(given.balancing.unit >= 0 && given.balancing.sketch_bytes >= 0,
            "units and sketches must not be negative");
    if (given.balancing.unit > 0) {
      require_units(given.balancing.unit, given.batches.rows, given.balancing.following);
    }
    SoftmaxModel<Real> model{reals(given.coef, size, "coef"), given.intercept,      given.average,
                             given.average_intercept,         given.average_weight, 0.0};
    SoftmaxEpoch<RowAccess>(rows_, given.targets, given.batches, given.rule, given.averaging, model,
                            given.balancing, class_preconditioner_of(given), given.threads)
        .run(pulse);
    return {model.average_weight, model.met};
  }

  void column_sums(std::span<const double> weight, const ColumnSums& sums,
                   Pulse& pulse) const override {
    require(weight.empty() || length(weight) == rows_.n, "weights: one entry per row");
    for (const auto column : {sums.sum, sums.square, sums.least, sums.greatest}) {
      require(length(column) == rows_.d, "sums: shape (d,)");
    }
    require(length(sums.shift) == rows_.d, "shift: shape (d,)");
    antithetic::column_sums(rows_, weight, sums, pulse);
  }

  CorrectedOutcome corrected_epoch(const CorrectedArguments& given, Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require_batches(given.batches, rows_.n);
    require_rule(given.rule);
    require(!given.rule.schedule.is_passive(), "passive-aggressive steps are SGD's");
    require(given.slopes.empty() || length(given.slopes) == rows_.n, "slopes: one per row");
    require(given.multiples.empty() || length(given.multiples) == length(given.batches.rows),
            "multiples: one per row of the epoch");
    require_groups(given.groups, rows_.d);
    CorrectedModel<Real> model{reals(given.coef, rows_.d, "coef"), given.intercept, 0.0};
    Memory<Real> memory{given.slopes, reals(given.mean, rows_.d + 1, "mean"), given.keeps};
    require(!memory.keeps || memory.corrects(), "what is kept must be remembered");
    CorrectedEpoch<RowAccess>(rows_, given.targets, given.batches, given.rule, model, memory,
                              given.groups, given.multiples)
        .run(pulse);
    return {model.intercept, model.met};
  }

  DualOutcome dual_epoch(const DualArguments& given, Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require_rows(given.order, rows_.n, "the order has a row number out of range");
    require(given.rule.loss.has_dual_step(), "the loss has no dual step");
    require(length(given.squares) == rows_.n && length(given.duals) == rows_.n,
            "squares and duals: one entry per row");
    require(given.limits.empty() ||
                (length(given.limits) == rows_.n && length(given.signed_margins) == rows_.n),
            "limits and margins: one entry per row");
    DualModel<Real> model{reals(given.coef, rows_.d, "coef"), given.duals, given.signed_margins,
                          given.limits};
    return DualEpoch<RowAccess>(rows_, given.targets, given.squares, given.rule, model)
        .run(given.order, pulse);
  }

  void balance(const BalanceArguments& given, Pulse& pulse) const override {
    require_rows(given.order, rows_.n, "the order has a row number out of range");
    require_units(given.unit, given.order, given.following);
    require(length(given.multiples) == length(given.order), "multiples: one per row of the order");
    balance_order(rows_, given.order, given.multiples, given.fit_intercept, given.unit,
                  given.following, pulse);
  }

  std::array<double, 2> losses_at(const LossesArguments& given, Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require(0 <= given.loss.code && given.loss.code < loss_count, "the loss is not known");
    const auto coef = reals(given.coef, rows_.d, "coef");
    const Real* other = nullptr;
    if (given.other.size > 0) other = reals(given.other, rows_.d, "other").data();
    return antithetic::losses_at(rows_, given.targets, given.loss, coef.data(), given.intercept,
                                 other, given.other_intercept, pulse);
  }

  void solve_buckets(const BucketArguments& given, Pulse& pulse) const override {
    const Index many = length(given.rows);
    require(many == length(given.partners), "rows and partners must be as many");
    require_rows(given.rows, rows_.n, "a bucket has a row number out of range");
    require_rows(given.partners, rows_.n, "a bucket has a partner out of range");
    require(length(given.partner) == rows_.n, "partner: one entry per row");
    require(given.codes.empty() || length(given.codes) == rows_.n, "codes: one entry per row");
    require(!given.starts.empty() && given.starts.front() >= 0 && given.starts.back() <= many &&
                std::is_sorted(given.starts.begin(), given.starts.end()),
            "buckets must follow each other");
    const bool scaled = given.scale.size > 0;
    const auto scale = scaled ? reals(given.scale, rows_.n, "scale") : std::span<Real>{};
    const Weighing<Real> weighing{scale, given.codes, given.share, given.constant};
    Index largest = 0;
    for (std::size_t k = 1; k < given.starts.size(); ++k) {
      largest = std::max(largest, given.starts[k] - given.starts[k - 1]);
    }
    if (largest == 0) return;
    BucketSolver<RowAccess> solver(rows_, weighing, given.rows, given.partners, largest,
                                   given.partner);
    for (std::size_t k = 1; k < given.starts.size(); ++k) {
      const Index low = given.starts[k - 1], m = given.starts[k] - low;
      if (m > 0) pulse.beat(solver.solve(low, m));
    }
  }

  Totals evaluate(const EvaluateArguments& given, Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require(0 <= given.loss.code && given.loss.code < loss_count, "the loss is not known");
    require(length(given.coef) == rows_.d, "coef: shape (d,)");
    require(length(given.gradient) == rows_.d, "gradient: shape (d,)");
    for (const auto& column :
         {given.visit.slopes, given.visit.curvatures, given.visit.predictions}) {
      require(column.empty() || length(column) == rows_.n,
              "slopes, curvatures and predictions: one per row");
    }
    return antithetic::evaluate(rows_, given.targets, given.loss, given.coef, given.intercept,
                                given.visit, given.gradient, given.threads, pulse);
  }

  std::pair<Totals, Expected> visit_after_step(const StepVisitArguments& given,
                                               Pulse& pulse) const override {
    require_targets(given.targets, rows_.n);
    require(0 <= given.loss.code && given.loss.code < loss_count, "the loss is not known");
    for (const Index size : {length(given.coef), length(given.gradient), length(given.dual)}) {
      require(size == rows_.d, "coef and sums: shape (d,)");
    }
    require(length(given.before) == rows_.n && length(given.after) == rows_.n,
            "predictions: one per row");
    return antithetic::visit_after_step(rows_, given.targets, given.loss, given.coef,
                                        given.intercept, given.before, given.after, given.gradient,
                                        given.dual, given.threads, pulse);
  }

  void reach(const Reach& given, std::span<double> out, Pulse& pulse) const override {
    require(length(given.centre) == rows_.d && length(given.scale) == rows_.d,
            "centre and scale: shape (d,)");
    require(length(out) == rows_.n, "reach: one per row");
    antithetic::reach_of_rows(rows_, given, out, pulse);
  }

  void combine(std::span<const double> factors, std::span<double> sum, Index threads,
               Pulse& pulse) const override {
    require(length(factors) == rows_.n, "factors: one per row");
    require(length(sum) == rows_.d, "sum: shape (d,)");
    antithetic::combine(rows_, factors, sum, threads, pulse);
  }

  double gram_product(const GramProductArguments& given, Pulse& pulse) const override {
    require(length(given.weight) == rows_.n, "weights: one per row");
    require(length(given.vector) == rows_.d && length(given.sum) == rows_.d,
            "vector and sum: shape (d,)");
    return antithetic::gram_product(rows_, given.weight, given.vector, given.constant, given.sum,
                                    given.threads, pulse);
  }

  void weighted_squares(std::span<const double> weight, std::span<double> sum,
                        Pulse& pulse) const override {
    require(length(weight) == rows_.n, "weights: one per row");
    require(length(sum) == rows_.d, "sum: shape (d,)");
    antithetic::weighted_squares(rows_, weight, sum, pulse);
  }

  void weigh_rows(const WeighArguments& given) const override {
    require(length(given.roots) == rows_.n, "roots: one per row");
    require(given.centre.empty() || length(given.centre) == rows_.d, "centre: shape (d,)");
    require(0 <= given.start && given.start <= rows_.n - given.many, "the range exceeds the rows");
    require(given.columns == rows_.d || given.columns == rows_.d + 1, "columns: d or d + 1");
    require(given.table.size == given.many * given.columns, "the table has the wrong size");
    const auto weigh = [&]<class Out>(Out* table) {
      antithetic::weigh_rows(rows_, given.roots, given.centre,
                             WeighedRows<Out>{table, given.start, given.many, given.columns},
                             std::clamp<Index>(given.threads, 1, std::max<Index>(1, given.many)));
    };
    if (given.table.is_double) {
      weigh(static_cast<double*>(given.table.data));
    } else {
      weigh(static_cast<float*>(given.table.data));
    }
  }

  void gram(std::span<const double> weight, std::span<double> gram, Pulse& pulse) const override {
    require(length(weight) == rows_.n, "weights: one per row");
    require(length(gram) == rows_.d * rows_.d, "gram: shape (d, d)");
    if constexpr (RowAccess::is_sparse) {
      gram_of_pairs(rows_, weight, gram.data(), pulse);
    } else {
      throw std::invalid_argument("dense rows have no pairs of stored entries");
    }
  }

  void squares(const SquaresArguments& given, Pulse& pulse) const override {
    const Index columns = rows_.d + given.has_intercept + !given.y.empty();
    require(given.y.empty() || length(given.y) == rows_.n, "targets: one entry per row");
    require(given.weight.empty() || length(given.weight) == rows_.n, "weights: one per row");
    require(length(given.centre) == rows_.d, "centre: shape (d,)");
    require(length(given.products) == columns * columns, "products: shape (columns, columns)");
    if constexpr (RowAccess::is_sparse) {
      throw std::invalid_argument("sparse rows have a Hessian of their own");
    } else {
      SquaresArguments all = given;
      all.threads = std::clamp<Index>(given.threads, 1, std::max<Index>(1, rows_.n));
      given.is_single ? sum_products<float>(rows_, all, pulse)
                      : sum_products<double>(rows_, all, pulse);
    }
  }

 private:
  template <class Access>
  static void run_epoch(const Access& rows, const SgdArguments& given, SgdModel<Real>& model,
                        Pulse& pulse) {
    if (given.unit > 0) {
      SgdEpoch<Access, true>(rows, given.targets, given.batches, given.rule, given.averaging, model,
                             given.unit, given.following)
          .run(pulse);
    } else {
      SgdEpoch<Access, false>(rows, given.targets, given.batches, given.rule, given.averaging,
                              model, 1, {})
          .run(pulse);
    }
  }

  Preconditioner<Real> preconditioner_of(const SgdArguments& given) const {
    require(!given.rule.schedule.is_passive(), "passive-aggressive steps know no metric");
    if constexpr (RowAccess::is_sparse) {
      require(length(given.products) == rows_.n, "products: one per row");
      require(given.rule.l1 <= 0.0,
              "a preconditioner of sparse rows does not go with an L1 penalty");
    }
    const auto centre = reals(given.centre, rows_.d, "centre");
    return {centre, reals(given.metric, rows_.d, "metric"), given.products};
  }

  Preconditioner<Real> class_preconditioner_of(const SoftmaxArguments& given) const {
    if (given.metric.size == 0) return {};
    const auto centre = reals(given.centre, rows_.d, "centre");
    const auto is_zero = [](Real x) { return x == Real{0}; };
    require(!RowAccess::is_sparse || std::all_of(centre.begin(), centre.end(), is_zero),
            "sparse rows of many classes are not centred");
    return {centre, reals(given.metric, rows_.d, "metric"), {}};
  }

  std::span<Real> reals(const Reals& given, Index size, const char* name) const {
    if (given.is_double != is_double()) {
      throw std::invalid_argument(std::string(name) + " must have the float type of the rows");
    }
    if (given.size != size) {
      throw std::invalid_argument(std::string(name) + " has the wrong length");
    }
    return {static_cast<Real*>(given.data), static_cast<std::size_t>(size)};
  }

  RowAccess rows_;
};

// Sparse rows whose indices were given in another width than that in which the kernels read them:
// columns in 32 bits and places in 64. One width is compiled, and narrow columns are read faster.
template <class Real>
class CsrRowSet final : public RowSetOf<CsrRows<Real>> {
 public:
  CsrRowSet(const CsrRows<Real>& rows, std::vector<std::int32_t>&& columns,
            std::vector<Index>&& places)
      : RowSetOf<CsrRows<Real>>(rows), columns_(std::move(columns)), places_(std::move(places)) {}

 private:
  std::vector<std::int32_t> columns_;
  std::vector<Index> places_;
};

// The numbers themselves where they have the type, else a copy that `held` keeps.
template <class To, class From>
const To* as_type(std::span<const From> numbers, std::vector<To>& held) {
  if constexpr (std::is_same_v<To, From>) {
    return numbers.data();
  } else {
    held.resize(numbers.size());
    std::transform(numbers.begin(), numbers.end(), held.begin(),
                   [](From number) { return static_cast<To>(number); });
    return held.data();
  }
}

template <class Real, class Int>
std::unique_ptr<RowSet> checked_csr(const CsrArrays<Real, Int>& given) {
  const Index entries = length(given.data);
  require(length(given.indices) == entries, "indices and data must be as many");
  require(length(given.indptr) == given.n + 1, "indptr must have one entry more than rows");
  require_places(given.indptr, entries);
  require(given.d <= std::numeric_limits<std::int32_t>::max(),
          "sparse rows may have at most 2^31 - 1 columns");
  require_columns(given.indices, given.d);
  std::vector<std::int32_t> columns;
  std::vector<Index> places;
  const CsrRows<Real> rows{given.data.data(), as_type(given.indices, columns),
                           as_type(given.indptr, places), given.n, given.d};
  return std::make_unique<CsrRowSet<Real>>(rows, std::move(columns), std::move(places));
}

}  // namespace antithetic
