// Python's bindings: arrays in, arrays out. Types, shapes and contiguity are checked by nanobind
// and in row_set_of.hpp, before a loop begins; then the interpreter's lock is released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "checks.hpp"
#include "draws.hpp"
#include "quadratic.hpp"
#include "row_set.hpp"
#include "softmax_rows.hpp"
#include "squares_minimum.hpp"
#include "table_newton.hpp"

namespace nb = nanobind;

namespace antithetic {
namespace {

template <class T>
using Column = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Table = nb::ndarray<T, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using ReadColumn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using ReadTable = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyColumn = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> read(const ReadColumn<T>& array) {
  return {array.data(), array.shape(0)};
}

template <class T>
std::span<T> write(const Column<T>& array) {
  return {array.data(), array.shape(0)};
}

Reals reals(const AnyColumn& array) {
  const bool is_double = array.dtype() == nb::dtype<double>();
  if (!is_double && array.dtype() != nb::dtype<float>()) {
    throw std::invalid_argument("weights must be float32 or float64");
  }
  return {array.data(), static_cast<Index>(array.shape(0)), is_double};
}

// An array that owns what a kernel has found.
template <class T>
Column<T> owned(std::vector<T>&& found) {
  auto* held = new std::vector<T>(std::move(found));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Column<T>(held->data(), {held->size()}, owner);
}

// Ctrl-C is looked for with the lock held.
void check_signals() {
  nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

nb::handle find_main_thread;  // threading.main_thread

// Only the main thread is told of Ctrl-C: others never take the lock, which is still held here.
Pulse pulse_of_this_thread() {
  const nb::object main_thread = find_main_thread();  // a fork may make another thread the main one
  const bool is_told =
      nb::cast<unsigned long>(main_thread.attr("ident")) == PyThread_get_thread_ident();
  return Pulse(is_told ? check_signals : nullptr);
}

// Rows, and the arrays that keep them alive.
class BoundRows {
 public:
  template <class Real>
  static std::unique_ptr<BoundRows> dense(const ReadTable<Real>& X) {
    auto made = std::make_unique<BoundRows>();
    made->rows =
        dense_rows(X.data(), static_cast<Index>(X.shape(0)), static_cast<Index>(X.shape(1)));
    made->kept_ = nb::make_tuple(nb::cast(X));
    return made;
  }

  template <class Real, class Int>
  static std::unique_ptr<BoundRows> csr(const ReadColumn<Real>& data,
                                        const ReadColumn<Int>& indices,
                                        const ReadColumn<Int>& indptr, Index d) {
    auto made = std::make_unique<BoundRows>();
    if (indptr.shape(0) == 0 || d < 0)
      throw std::invalid_argument("indptr is empty, or d negative");
    const Index n = static_cast<Index>(indptr.shape(0)) - 1;
    made->rows = csr_rows(CsrArrays<Real, Int>{read(data), read(indices), read(indptr), n, d});
    made->kept_ = nb::make_tuple(nb::cast(data), nb::cast(indices), nb::cast(indptr));
    return made;
  }

  std::unique_ptr<RowSet> rows;

 private:
  nb::tuple kept_;
};

template <class Int>
bool columns_rise(const ReadColumn<Int>& indices, const ReadColumn<Int>& indptr) {
  return have_rising_columns(read(indices), read(indptr));
}

// ---- plain structs that Python fills

struct BoundTargets {
  ReadColumn<double> y, weight;
  Targets get() const { return {read(y), read(weight)}; }
};

struct BoundClassTargets {
  ReadColumn<Index> codes;
  ReadColumn<double> weight;
  Index n_classes;
  ClassTargets get() const { return {read(codes), read(weight), n_classes}; }
};

struct BoundBatches {
  ReadColumn<Index> rows, starts;
  Index size;
  ReadColumn<double> factors;
  std::int64_t steps, samples;
  Batches get() const { return {read(rows), read(starts), size, read(factors), steps, samples}; }
};

// Centre and metric of the columns, and of sparse rows a product each.
struct BoundPreconditioner {
  AnyColumn centre, metric;
  ReadColumn<double> products;
};

auto sgd_epoch(const BoundRows& rows, const BoundTargets& targets, const BoundBatches& batches,
               const StepRule& rule, const Averaging& averaging, const AnyColumn& coef,
               double intercept, const Column<double>& average, double average_intercept,
               double average_weight, const Column<double>& received, double charged, Index unit,
               const Column<Index>& following, const BoundPreconditioner* metric) {
  const Reals none{nullptr, 0, false};
  const SgdArguments given{targets.get(),
                           batches.get(),
                           rule,
                           averaging,
                           reals(coef),
                           intercept,
                           write(average),
                           average_intercept,
                           average_weight,
                           write(received),
                           charged,
                           unit,
                           write(following),
                           metric == nullptr ? none : reals(metric->centre),
                           metric == nullptr ? none : reals(metric->metric),
                           metric == nullptr ? std::span<const double>() : read(metric->products)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = rows.rows->sgd_epoch(given, pulse);
  return std::make_tuple(found.intercept, found.average_intercept, found.average_weight,
                         found.charged, found.met);
}

auto softmax_epoch(const BoundRows& rows, const BoundClassTargets& targets,
                   const BoundBatches& batches, const StepRule& rule, const Averaging& averaging,
                   const AnyColumn& coef, const Column<double>& intercept,
                   const Column<double>& average, const Column<double>& average_intercept,
                   double average_weight, Index unit, Index sketch_bytes,
                   const Column<Index>& following, Index threads,
                   const BoundPreconditioner* metric) {
  const Reals none{nullptr, 0, false};
  const SoftmaxArguments given{targets.get(),
                               batches.get(),
                               rule,
                               averaging,
                               reals(coef),
                               write(intercept),
                               write(average),
                               write(average_intercept),
                               average_weight,
                               Balancing{unit, sketch_bytes, write(following)},
                               threads,
                               metric == nullptr ? none : reals(metric->centre),
                               metric == nullptr ? none : reals(metric->metric)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = rows.rows->softmax_epoch(given, pulse);
  return std::make_tuple(found.average_weight, found.met);
}

auto corrected_epoch(const BoundRows& rows, const BoundTargets& targets,
                     const BoundBatches& batches, const StepRule& rule, const AnyColumn& coef,
                     double intercept, const Column<double>& slopes, const AnyColumn& mean,
                     bool keeps, const ReadColumn<Index>& members, const ReadColumn<Index>& starts,
                     const ReadColumn<Index>& owner, const Column<double>& multiples) {
  const CorrectedArguments given{
      targets.get(),   batches.get(), rule,
      reals(coef),     intercept,     write(slopes),
      reals(mean),     keeps,         Groups{read(members), read(starts), read(owner)},
      write(multiples)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = rows.rows->corrected_epoch(given, pulse);
  return std::make_tuple(found.intercept, found.met);
}

auto dual_epoch(const BoundRows& rows, const BoundTargets& targets, const ReadColumn<Index>& order,
                const ReadColumn<double>& squares, int loss, double share, bool watch, double gone,
                double gone_at_least, const AnyColumn& coef, const Column<double>& duals,
                const ReadColumn<double>& signed_margins, const Column<double>& limits) {
  const DualArguments given{
      targets.get(),        read(order),
      read(squares),        DualRule{Loss{loss, 0.0}, share, watch, gone, gone_at_least},
      reals(coef),          write(duals),
      read(signed_margins), write(limits)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = rows.rows->dual_epoch(given, pulse);
  return std::make_tuple(found.met, found.seen, found.moved);
}

void balance(const BoundRows& rows, const ReadColumn<Index>& order,
             const ReadColumn<double>& multiples, bool fit_intercept, Index unit,
             const Column<Index>& following) {
  const BalanceArguments given{read(order), read(multiples), fit_intercept, unit, write(following)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->balance(given, pulse);
}

std::tuple<double, double> losses_at_weights(const BoundRows& rows, const BoundTargets& targets,
                                             int loss, double epsilon, const AnyColumn& coef,
                                             double intercept, const AnyColumn& other,
                                             double other_intercept) {
  const LossesArguments given{targets.get(), Loss{loss, epsilon}, reals(coef),
                              intercept,     reals(other),        other_intercept};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto [first, second] = rows.rows->losses_at(given, pulse);
  return {first, second};
}

void solve_buckets(const BoundRows& rows, const AnyColumn& scale, const ReadColumn<Index>& codes,
                   double share, double constant, const ReadColumn<Index>& order,
                   const ReadColumn<Index>& partners, const ReadColumn<Index>& starts,
                   const Column<Index>& partner) {
  const BucketArguments given{reals(scale), read(codes),    share,        constant,
                              read(order),  read(partners), read(starts), write(partner)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->solve_buckets(given, pulse);
}

// ---- second order

auto evaluate_rows(const BoundRows& rows, const BoundTargets& targets, int loss, double epsilon,
                   const ReadColumn<double>& coef, double intercept, const Column<double>& slopes,
                   const Column<double>& curvatures, const Column<double>& predictions,
                   const Column<double>& gradient, Index threads) {
  const Visit visit{write(slopes), write(curvatures), write(predictions)};
  const EvaluateArguments given{targets.get(), Loss{loss, epsilon}, read(coef), intercept,
                                visit,         write(gradient),     threads};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = rows.rows->evaluate(given, pulse);
  return std::make_tuple(found.loss, found.slope, found.slope_square, found.curvature);
}

auto visit_rows_after_step(const BoundRows& rows, const BoundTargets& targets, int loss,
                           double epsilon, const ReadColumn<double>& coef, double intercept,
                           const ReadColumn<double>& before, const Column<double>& after,
                           const Table<double>& sums, Index threads) {
  if (sums.shape(0) != 2) throw std::invalid_argument("sums: shape (2, d)");
  const auto d = sums.shape(1);
  const StepVisitArguments arguments{targets.get(),
                                     Loss{loss, epsilon},
                                     read(coef),
                                     intercept,
                                     read(before),
                                     write(after),
                                     std::span(sums.data(), d),
                                     std::span(sums.data() + d, d),
                                     threads};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto [totals, expected] = rows.rows->visit_after_step(arguments, pulse);
  return std::make_tuple(totals.loss, totals.slope, totals.slope_square, totals.curvature,
                         expected.slope, expected.square);
}

void reach_of_rows(const BoundRows& rows, const ReadColumn<double>& centre,
                   const ReadColumn<double>& scale, const Column<double>& out) {
  const Reach given{read(centre), read(scale)};
  const auto reached = write(out);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->reach(given, reached, pulse);
}

void require_predictions(const Targets& targets, int loss, std::size_t many, std::size_t other) {
  if (targets.y.size() != many || other != many ||
      (targets.has_weights() && targets.weight.size() != many)) {
    throw std::invalid_argument("predictions: one per row");
  }
  if (loss < 0 || loss >= loss_count) throw std::invalid_argument("the loss is not known");
}

void bend_given_predictions(const BoundTargets& targets, int loss, double epsilon,
                            const ReadColumn<double>& predictions, const Column<double>& slopes,
                            const Column<double>& curvatures) {
  const auto labels = targets.get();
  require_predictions(labels, loss, predictions.shape(0), slopes.shape(0));
  require_predictions(labels, loss, predictions.shape(0), curvatures.shape(0));
  bend_predictions(labels, Loss{loss, epsilon}, read(predictions), write(slopes),
                   write(curvatures));
}

auto loss_along_step(const BoundTargets& targets, int loss, double epsilon,
                     const ReadColumn<double>& predictions, const ReadColumn<double>& after,
                     double step) {
  const auto labels = targets.get();
  require_predictions(labels, loss, predictions.shape(0), after.shape(0));
  const auto [value, slope] =
      loss_along(labels, Loss{loss, epsilon}, read(predictions), read(after), step);
  return std::make_tuple(value, slope);
}

double cost_of_dual_point(const BoundTargets& targets, int loss, double epsilon,
                          const ReadColumn<double>& predictions, const ReadColumn<double>& after,
                          const Restoration& restoration, const Column<double>& slopes) {
  const auto labels = targets.get();
  require_predictions(labels, loss, predictions.shape(0), after.shape(0));
  if (slopes.shape(0) != 0) require_predictions(labels, loss, slopes.shape(0), after.shape(0));
  return dual_cost(labels, Loss{loss, epsilon}, read(predictions), read(after), restoration,
                   write(slopes));
}

void combine_rows(const BoundRows& rows, const ReadColumn<double>& factors,
                  const Column<double>& sum, Index threads) {
  const auto given = read(factors);
  const auto out = write(sum);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->combine(given, out, threads, pulse);
}

double gram_product_of_rows(const BoundRows& rows, const ReadColumn<double>& weight,
                            const ReadColumn<double>& vector, double constant,
                            const Column<double>& sum, Index threads) {
  const GramProductArguments given{read(weight), read(vector), constant, write(sum), threads};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  return rows.rows->gram_product(given, pulse);
}

void column_sums_of_rows(const BoundRows& rows, const ReadColumn<double>& weight,
                         const ReadColumn<double>& shift, const Column<double>& sum,
                         const Column<double>& square, const Column<double>& least,
                         const Column<double>& greatest) {
  const auto weights = read(weight);
  const ColumnSums sums{read(shift), write(sum), write(square), write(least), write(greatest)};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->column_sums(weights, sums, pulse);
}

void weighted_squares_of_rows(const BoundRows& rows, const ReadColumn<double>& weight,
                              const Column<double>& sum) {
  const auto given = read(weight);
  const auto out = write(sum);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->weighted_squares(given, out, pulse);
}

template <class Out>
void weigh_rows_into(const BoundRows& rows, const ReadColumn<double>& roots,
                     const ReadColumn<double>& centre, Index start, const Table<Out>& table,
                     Index threads) {
  const auto many = static_cast<Index>(table.shape(0)),
             columns = static_cast<Index>(table.shape(1));
  const Reals out{table.data(), many * columns, sizeof(Out) == sizeof(double)};
  const WeighArguments given{read(roots), read(centre), start, many, columns, out, threads};
  nb::gil_scoped_release unlocked;
  rows.rows->weigh_rows(given);
}

void gram_of_rows(const BoundRows& rows, const ReadColumn<double>& weight,
                  const Table<double>& gram) {
  const auto given = read(weight);
  const std::span<double> out(gram.data(), gram.size());
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->gram(given, out, pulse);
}

bool squares_of_rows(const BoundRows& rows, const ReadColumn<double>& y,
                     const ReadColumn<double>& weight, const ReadColumn<double>& centre,
                     double target_centre, bool has_intercept, bool is_single,
                     const Table<double>& products, Index threads) {
  const std::span<double> out(products.data(), products.size());
  const SquaresArguments given{read(y),       read(weight), read(centre), target_centre,
                               has_intercept, is_single,    out,          threads};
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  rows.rows->squares(given, pulse);
  return are_finite(std::span<const double>(out));
}

void descend_quadratic(const ReadTable<double>& hessian, const ReadColumn<double>& l1,
                       const ReadColumn<double>& start, const Column<double>& slopes,
                       const Column<double>& step, double enough, Index most_sweeps) {
  const auto d = hessian.shape(0);
  const bool fits = hessian.shape(1) == d && l1.shape(0) == d && start.shape(0) == d &&
                    slopes.shape(0) == d && step.shape(0) == d;
  if (!fits) throw std::invalid_argument("a quadratic model needs vectors of one length");
  const QuadraticModel model{static_cast<Index>(d), hessian.data(), read(l1), read(start)};
  const auto along = write(slopes), moved = write(step);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  descend(model, along, moved, enough, most_sweeps, pulse);
}

// ---- tables of few rows

TableProblem table_problem(const ReadTable<double>& table, const BoundTargets& targets, int loss,
                           double epsilon, const ReadColumn<double>& offset,
                           const ReadColumn<double>& ridge) {
  const auto n = static_cast<Index>(table.shape(0)), k = static_cast<Index>(table.shape(1));
  require_targets(targets.get(), n);
  require(n > 0 && k > 0, "a table needs rows and columns");
  require(0 <= loss && loss < loss_count, "the loss is not known");
  require(length(read(offset)) == n, "offset: one per row");
  require(length(read(ridge)) == k, "ridge: one per column");
  return {table.data(), n, k, targets.get(), Loss{loss, epsilon}, read(offset), read(ridge)};
}

void newton_on_few_rows(const ReadTable<double>& table, const BoundTargets& targets, int loss,
                        double epsilon, const ReadColumn<double>& offset,
                        const ReadColumn<double>& ridge, Index steps, double enough,
                        double least_ridge, const Column<double>& point,
                        const Table<double>& hessian) {
  const auto problem = table_problem(table, targets, loss, epsilon, offset, ridge);
  require(length(write(point)) == problem.k, "point: one per column");
  require(0 <= steps && steps <= 1000, "steps: at most 1000");
  require(hessian.shape(0) == table.shape(1) && hessian.shape(1) == table.shape(1),
          "hessian: a row and a column for each column");
  const std::span<double> out(hessian.data(), hessian.size()), at = write(point);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  newton_on_table(problem, NewtonRule{steps, enough, least_ridge}, at, out, pulse);
}

std::optional<std::tuple<double, double, double>> minimum_of_products(
    const ReadTable<double>& products, double l2, bool has_intercept, double rounding,
    const Column<double>& point) {
  const auto k = static_cast<Index>(products.shape(0)) - 1;
  require(k > (has_intercept ? 1 : 0) && static_cast<Index>(products.shape(1)) == k + 1,
          "products: a row and a column for each column and the targets");
  require(length(write(point)) == k, "point: one per column");
  require(l2 > 0.0, "l2: above zero");
  const MeanProducts given{products.data(), k, has_intercept, rounding};
  const auto at = write(point);
  nb::gil_scoped_release unlocked;
  SquaresMinimum found;
  if (!minimise_products(given, l2, at, found)) return std::nullopt;
  return std::make_tuple(found.objective, found.zero_objective, found.distance);
}

bool components_along_axes(const ReadTable<double>& matrix, const Column<double>& values,
                           const Column<double>& components) {
  const auto k = matrix.shape(0);
  require(k > 0 && matrix.shape(1) == k, "a square matrix is needed");
  require(values.shape(0) == k && components.shape(0) == k, "vectors: one entry per column");
  const std::span<const double> given(matrix.data(), matrix.size());
  const auto found = write(values), along = write(components);
  nb::gil_scoped_release unlocked;
  return along_axes(given, found, along);
}

// ---- many classes

template <class Real>
ScoreTable<Real> score_table(const Table<Real>& scores, const ReadColumn<Index>& labels,
                             const ReadColumn<double>& weight) {
  const ScoreTable<Real> table{scores.data(), static_cast<Index>(scores.shape(0)),
                               static_cast<Index>(scores.shape(1)), read(labels), read(weight)};
  const bool fits = table.classes > 0 && length(table.labels) == table.rows &&
                    (table.weight.empty() || length(table.weight) == table.rows);
  if (!fits) throw std::invalid_argument("labels and weights: one per row of scores");
  for (const Index label : table.labels) {
    if (label < 0 || label >= table.classes) throw std::invalid_argument("a label has no column");
  }
  return table;
}

template <class Real>
auto softmax_slopes_of(const Table<Real>& scores, const ReadColumn<Index>& labels,
                       const ReadColumn<double>& weight, const Column<double>& sums) {
  const auto table = score_table(scores, labels, weight);
  const auto out = write(sums);
  if (length(out) != table.classes) throw std::invalid_argument("sums: one per class");
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto found = softmax_slopes(table, out, pulse);
  return std::make_tuple(found.loss, found.slope_square, found.curvature);
}

template <class Real>
void softmax_chances_of(const Table<Real>& scores, const Table<Real>& curvatures) {
  const ScoreTable<Real> table{scores.data(),
                               static_cast<Index>(scores.shape(0)),
                               static_cast<Index>(scores.shape(1)),
                               {},
                               {}};
  const bool fits = table.classes > 0 && curvatures.shape(0) == scores.shape(0) &&
                    curvatures.shape(1) == scores.shape(1);
  if (!fits) throw std::invalid_argument("curvatures: one per score");
  Real* out = curvatures.data();
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  softmax_chances(table, out, pulse);
}

template <class Real>
ScoreChange<Real> score_change(const Table<const Real>& before, const Table<const Real>& after,
                               const ReadColumn<Index>& labels, const ReadColumn<double>& weight) {
  const bool fits = after.shape(0) == before.shape(0) && after.shape(1) == before.shape(1);
  if (!fits) throw std::invalid_argument("scores before and after: of one shape");
  return {score_table(before, labels, weight), after.data()};
}

template <class Real>
auto softmax_step_of(const Table<const Real>& before, const Table<const Real>& after,
                     const ReadColumn<Index>& labels, const ReadColumn<double>& weight,
                     const Table<Real>& both, const Column<double>& sums) {
  const auto change = score_change<Real>(before, after, labels, weight);
  const auto out = write(sums);
  const bool fits = both.shape(0) == before.shape(0) && both.shape(1) == 2 * before.shape(1) &&
                    length(out) == 2 * change.before.classes;
  if (!fits) throw std::invalid_argument("both and sums: two numbers per class");
  Pulse pulse = pulse_of_this_thread();
  Real* slopes = both.data();
  nb::gil_scoped_release unlocked;
  const auto [found, square] = softmax_step(change, slopes, out, pulse);
  return std::make_tuple(found.loss, found.slope_square, found.curvature, square);
}

template <class Real>
auto softmax_along_step(const Table<const Real>& before, const Table<const Real>& after,
                        const ReadColumn<Index>& labels, const ReadColumn<double>& weight,
                        double step) {
  const auto change = score_change<Real>(before, after, labels, weight);
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  const auto [loss, slope] = softmax_along(change, step, pulse);
  return std::make_tuple(loss, slope);
}

template <class Real>
double softmax_cost_of_step(const Table<const Real>& before, const Table<const Real>& after,
                            const ReadColumn<Index>& labels, const ReadColumn<double>& weight,
                            const ReadColumn<double>& kept, const ReadColumn<double>& given,
                            double share) {
  const auto change = score_change<Real>(before, after, labels, weight);
  const OtherChances others{read(kept), read(given), share};
  const Index classes = change.before.classes;
  const bool fits = length(others.kept) == classes && length(others.given) == classes;
  if (!fits) throw std::invalid_argument("kept and given: one per class");
  Pulse pulse = pulse_of_this_thread();
  nb::gil_scoped_release unlocked;
  return softmax_step_cost(change, others, pulse);
}

template <class Real>
void bind_softmax(nb::module_& m) {
  m.def("softmax_step", &softmax_step_of<Real>, nb::arg("before").noconvert(),
        nb::arg("after").noconvert(), nb::arg("labels").noconvert(), nb::arg("weight").noconvert(),
        nb::arg("both").noconvert(), nb::arg("sums").noconvert());
  m.def("softmax_along", &softmax_along_step<Real>, nb::arg("before").noconvert(),
        nb::arg("after").noconvert(), nb::arg("labels").noconvert(), nb::arg("weight").noconvert(),
        nb::arg("step"));
  m.def("softmax_step_cost", &softmax_cost_of_step<Real>, nb::arg("before").noconvert(),
        nb::arg("after").noconvert(), nb::arg("labels").noconvert(), nb::arg("weight").noconvert(),
        nb::arg("kept").noconvert(), nb::arg("given").noconvert(), nb::arg("share"));
  m.def("softmax_slopes", &softmax_slopes_of<Real>, nb::arg("scores").noconvert(),
        nb::arg("labels").noconvert(), nb::arg("weight").noconvert(), nb::arg("sums").noconvert());
  m.def("softmax_chances", &softmax_chances_of<Real>, nb::arg("scores").noconvert(),
        nb::arg("curvatures").noconvert());
}

// ---- losses of columns

Loss known_loss(int code, double epsilon) {
  require(0 <= code && code < loss_count, "the loss is not known");
  return {code, epsilon};
}

template <LossFunction function>
void each(int code, double epsilon, const ReadColumn<double>& y, const ReadColumn<double>& p,
          const Column<double>& out) {
  const Loss loss = known_loss(code, epsilon);
  require(y.shape(0) == p.shape(0) && y.shape(0) == out.shape(0), "columns differ in length");
  const auto labels = read(y), numbers = read(p);
  const auto found = write(out);
  nb::gil_scoped_release unlocked;
  each_loss(loss, function, labels, numbers, found);
}

double sum_of_column(int code, double epsilon, const ReadColumn<double>& y,
                     const ReadColumn<double>& p, const ReadColumn<double>& weight) {
  const Loss loss = known_loss(code, epsilon);
  require(y.shape(0) == p.shape(0), "columns differ in length");
  require(weight.shape(0) == 0 || weight.shape(0) == y.shape(0), "columns differ in length");
  const auto labels = read(y), numbers = read(p), weights = read(weight);
  nb::gil_scoped_release unlocked;
  return sum_of_losses(loss, labels, numbers, weights);
}

template <class T>
std::tuple<T, T> two_values_of_column(const ReadColumn<T>& column) {
  const auto y = read(column);
  nb::gil_scoped_release unlocked;
  const auto found = two_values(y);
  return {found[0], found[1]};
}

template <class Real>
bool is_finite_column(const ReadColumn<Real>& column) {
  const auto numbers = read(column);
  nb::gil_scoped_release unlocked;
  return are_finite(numbers);
}

double dual_step(int code, double y, double weight, double a, double p, double q) {
  const Loss loss = known_loss(code, 0.0);
  require(loss.has_dual_step(), "the loss has no dual step");
  return loss.dual_step(y, weight, a, p, q);
}

void rest_limits(int code, const BoundTargets& targets, const ReadColumn<double>& squares,
                 const ReadColumn<double>& duals, const ReadColumn<double>& predictions,
                 const Column<double>& margins, const Column<double>& limits) {
  const Loss loss = known_loss(code, 0.0);
  const Targets given = targets.get();
  const std::size_t n = given.y.size();
  require(squares.shape(0) == n && duals.shape(0) == n && predictions.shape(0) == n &&
              margins.shape(0) == n && limits.shape(0) == n &&
              (given.weight.empty() || given.weight.size() == n),
          "columns differ in length");
  const auto square = read(squares), dual = read(duals), prediction = read(predictions);
  const auto margin = write(margins), limit = write(limits);
  for (std::size_t i = 0; i < n; ++i) {
    const Index row = static_cast<Index>(i);
    const double beyond = given.y[i] * prediction[i] - 1.0;
    margin[i] = square[i] > 0.0 ? beyond / std::sqrt(square[i]) : std::copysign(infinity, beyond);
    limit[i] = rest_limit(loss, given.y[i], given.weight_of(row), dual[i], margin[i]);
  }
}

// ---- draws and pairings

void draw_random_order(const Column<Index>& order, const ReadColumn<std::uint64_t>& seed) {
  const auto given = write(order);
  require(given.size() < (std::size_t{1} << 32), "fewer than 2^32 rows");
  const auto words = read(seed);
  require(words.size() == 4, "seed: four words");
  require(std::any_of(words.begin(), words.end(), [](std::uint64_t word) { return word != 0; }),
          "seed: not only zeros, which the generator would never leave");
  nb::gil_scoped_release unlocked;
  draw_order(given, words.first<4>());
}

Column<Index> drawn_by_hash(const ReadColumn<double>& share, double size, std::uint64_t seed,
                            std::uint64_t first) {
  const auto shares = read(share);
  std::vector<Index> drawn;
  {
    nb::gil_scoped_release unlocked;
    drawn = draw_by_hash(shares, size, seed, first);
  }
  return owned(std::move(drawn));
}

void invert_sums(const ReadColumn<double>& sums, const ReadColumn<double>& numbers,
                 const Column<Index>& drawn) {
  require(sums.shape(0) > 0 && numbers.shape(0) == drawn.shape(0), "arrays differ in length");
  const auto given = read(sums), random = read(numbers);
  const auto out = write(drawn);
  nb::gil_scoped_release unlocked;
  for (const double number : random) require(number >= 0.0 && number < 1.0, "numbers in [0, 1)");
  invert(given, random, out);
}

void balance_seen(const ReadColumn<Index>& rows, const ReadTable<float>& vectors,
                  const ReadTable<float>& slopes, const Column<bool>& placed,
                  const Column<Index>& following, const Column<std::int64_t>& marks,
                  const Column<double>& signed_sum, const Column<double>& held) {
  const Index n = static_cast<Index>(placed.shape(0));
  const auto given = read(rows);
  const std::size_t entries = vectors.shape(1) * slopes.shape(1);
  require(vectors.shape(0) == given.size() && slopes.shape(0) == given.size(), "one per row");
  require(signed_sum.shape(0) == entries && held.shape(0) == entries, "sums of the wrong length");
  const Index room = static_cast<Index>(following.shape(0));
  require(marks.shape(0) == 3, "marks: three numbers");
  const auto ends = write(marks);
  require(ends[2] < n && ends[0] >= 0 && ends[1] <= room && ends[0] <= ends[1], "marks");
  std::vector<Index> unplaced;
  for (const Index row : given) {
    require(0 <= row && row < n, "a row number is out of range");
    if (!placed.data()[row]) unplaced.push_back(row);
  }
  std::sort(unplaced.begin(), unplaced.end());  // a row that comes several times is placed once
  const auto distinct = std::unique(unplaced.begin(), unplaced.end()) - unplaced.begin();
  const Index waiting = ends[2] >= 0 ? 1 : 0;
  require(distinct + waiting <= ends[1] - ends[0] + 1, "more rows than there is room for");
  const Observed seen{given, vectors.data(), slopes.data(), static_cast<Index>(vectors.shape(1)),
                      static_cast<Index>(slopes.shape(1))};
  const auto done = write(placed);
  const auto out = write(following);
  const auto sum = write(signed_sum), first = write(held);
  nb::gil_scoped_release unlocked;
  balance_observed(seen, done, out, ends, sum, first);
}

template <class Real>
void offer_products(const ReadTable<Real>& products, Index first, const Table<Real>& values,
                    const Table<Index>& positions) {
  require(0 <= first && first <= std::numeric_limits<Index>::max() / 2, "first: 0 or more");
  require(values.shape(0) == products.shape(0) && positions.shape(0) == products.shape(0) &&
              values.shape(1) == positions.shape(1) && values.shape(1) > 0,
          "lists must have a row per row of products");
  const Index rows = static_cast<Index>(products.shape(0));
  const Index length = static_cast<Index>(values.shape(1));
  const Matrix<const Real> tile{products.data(), rows, static_cast<Index>(products.shape(1))};
  const Matrix<Real> smallest{values.data(), rows, length};
  const Matrix<Index> places{positions.data(), rows, length};
  nb::gil_scoped_release unlocked;
  offer(tile, first, smallest, places);
}

void offer_rows(const ReadTable<float>& rows, const ReadTable<float>& panels,
                const Table<float>& values, const Table<Index>& positions) {
  require(values.shape(0) == rows.shape(0) && positions.shape(0) == rows.shape(0) &&
              values.shape(1) == positions.shape(1) && values.shape(1) > 0,
          "lists must have a row per row");
  const Index d = static_cast<Index>(rows.shape(1)), lines = static_cast<Index>(panels.shape(0));
  require(d > 0 && lines % d == 0 && panels.shape(1) == panel_width,
          "panels must have a line of 32 numbers for each coordinate");
  const Index many = static_cast<Index>(rows.shape(0)),
              length = static_cast<Index>(values.shape(1));
  const Matrix<const float> given{rows.data(), many, d};
  const Matrix<float> smallest{values.data(), many, length};
  const Matrix<Index> places{positions.data(), many, length};
  nb::gil_scoped_release unlocked;
  offer_panels(given, panels.data(), lines / d, smallest, places);
}

void sharpen_lists(const ReadTable<double>& rows, const ReadTable<double>& vectors,
                   const ReadTable<float>& rounded, const ReadColumn<double>& slack, double scale,
                   const Table<Index>& positions) {
  const Index many = static_cast<Index>(rows.shape(0)), d = static_cast<Index>(rows.shape(1));
  const Index length = static_cast<Index>(positions.shape(1));
  require(static_cast<Index>(vectors.shape(1)) == d, "vectors must be as long as rows");
  require(positions.shape(0) == rows.shape(0) && rounded.shape(0) == rows.shape(0) &&
              rounded.shape(1) == positions.shape(1) && slack.shape(0) == rows.shape(0) &&
              length > 0,
          "lists must have a row per row");
  const Matrix<const double> given{rows.data(), many, d};
  const Matrix<const double> others{vectors.data(), static_cast<Index>(vectors.shape(0)), d};
  const Matrix<const float> values{rounded.data(), many, length};
  const Matrix<Index> places{positions.data(), many, length};
  for (Index k = 0; k < many * length; ++k) {
    require(places.at[k] < others.rows, "a candidate is out of range");
  }
  nb::gil_scoped_release unlocked;
  sharpen(given, others, values, read(slack), scale, places);
}

Matrix<const Index> candidates(const ReadTable<Index>& positions, Index n_free) {
  const Matrix<const Index> given{positions.data(), static_cast<Index>(positions.shape(0)),
                                  static_cast<Index>(positions.shape(1))};
  require(n_free >= 0, "n_free must not be negative");
  for (Index k = 0; k < given.rows * given.columns; ++k) {
    require(given.at[k] < n_free, "a candidate is out of range");
  }
  return given;
}

Column<Index> choose_free(const ReadTable<Index>& positions, Index n_free) {
  return owned(choose(candidates(positions, n_free)));
}

Column<Index> choose_free_pairs(const ReadTable<Index>& positions, Index n_free) {
  const auto given = candidates(positions, n_free);
  require(given.rows <= n_free, "more rows than free ones");
  return owned(choose_pairs(given));
}

void require_permutation(Rows partner) {
  std::vector<char> seen(partner.size(), 0);
  for (const Index row : partner) {
    require(0 <= row && row < static_cast<Index>(partner.size()), "partner must be a permutation");
    require(!seen[static_cast<std::size_t>(row)], "partner must be a permutation");
    seen[static_cast<std::size_t>(row)] = 1;
  }
}

Column<Index> cut_cycles(const ReadColumn<Index>& partner, const ReadColumn<double>& products) {
  require(partner.shape(0) == products.shape(0), "one product per row");
  const auto given = read(partner);
  require_permutation(given);
  std::vector<Index> mates(given.size());
  alternate_links(given, read(products), mates);
  return owned(std::move(mates));
}

Column<Index> skip_missing_rows(const ReadColumn<Index>& partner, const ReadColumn<Index>& kept,
                                const ReadColumn<Index>& place) {
  const auto given = read(partner), rows = read(kept), places = read(place);
  require_permutation(given);
  require(places.size() == given.size(), "one place per row");
  for (const Index row : rows) {
    require(0 <= row && row < static_cast<Index>(given.size()), "a row number is out of range");
    require(places[static_cast<std::size_t>(row)] >= 0, "a kept row must have a place");
  }
  std::vector<Index> out(rows.size());
  skip_missing(given, rows, places, out);
  return owned(std::move(out));
}

Column<Index> cut_buckets(const ReadTable<float>& points, Index low, Index high, Index leaf,
                          const Column<Index>& rows, const Column<Index>& others) {
  const Index n = static_cast<Index>(points.shape(0));
  const auto given = write(rows), reflected = write(others);
  require(leaf >= 1 && 0 <= low && low <= high && high <= static_cast<Index>(given.size()),
          "low, high or leaf is out of range");
  require(reflected.empty() || reflected.size() == given.size(), "others: as many as rows");
  require(points.shape(1) >= 1, "points must have an axis");
  const Matrix<const float> cloud{points.data(), n, static_cast<Index>(points.shape(1))};
  for (const auto list : {given, reflected}) {  // other threads may have the rest
    if (list.empty()) continue;
    for (Index k = low; k < high; ++k) {
      const Index row = list[static_cast<std::size_t>(k)];
      require(0 <= row && row < n, "a row number is out of range");
      const float* point = cloud.row(row);
      const bool is_nan = std::any_of(point, point + cloud.columns, [](float x) { return x != x; });
      require(!is_nan, "points must not be NaN");
    }
  }
  std::vector<Index> ends;
  {
    nb::gil_scoped_release unlocked;
    ends = cut_into_buckets(cloud, given, reflected, low, high, leaf);
  }
  return owned(std::move(ends));
}

// Column of each row, and the dual values of the rows.
auto assign(const ReadTable<double>& cost) {
  require(cost.shape(0) == cost.shape(1), "the cost must be a square matrix");
  const Index n = static_cast<Index>(cost.shape(0));
  for (std::size_t k = 0; k < cost.size(); ++k) {
    require(std::isfinite(cost.data()[k]), "the cost must be finite");
  }
  Assignment<double> assignment(n);
  {
    nb::gil_scoped_release unlocked;
    assignment.solve({cost.data(), n, n}, n);
  }
  return std::make_tuple(owned(std::move(assignment.column_of)),
                         owned(std::move(assignment.row_dual)));
}

// ---- the module

void bind(nb::module_& m, const char* isa) {
  m.doc() = "Kernels of antithetic for one instruction set.";
  m.attr("isa") = isa;
  find_main_thread = nb::object(nb::module_::import_("threading").attr("main_thread")).release();

  nb::class_<BoundRows>(m, "Rows")
      .def_static("dense", &BoundRows::dense<float>, nb::arg("X").noconvert())
      .def_static("dense", &BoundRows::dense<double>, nb::arg("X").noconvert())
      .def_static("csr", &BoundRows::csr<float, std::int32_t>, nb::arg("data").noconvert(),
                  nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("d"))
      .def_static("csr", &BoundRows::csr<float, std::int64_t>, nb::arg("data").noconvert(),
                  nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("d"))
      .def_static("csr", &BoundRows::csr<double, std::int32_t>, nb::arg("data").noconvert(),
                  nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("d"))
      .def_static("csr", &BoundRows::csr<double, std::int64_t>, nb::arg("data").noconvert(),
                  nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("d"))
      .def_prop_ro(
          "shape",
          [](const BoundRows& rows) { return std::make_tuple(rows.rows->n(), rows.rows->d()); })
      .def("sgd_epoch", &sgd_epoch, nb::arg("targets"), nb::arg("batches"), nb::arg("rule"),
           nb::arg("averaging"), nb::arg("coef").noconvert(), nb::arg("intercept"),
           nb::arg("average").noconvert(), nb::arg("average_intercept"), nb::arg("average_weight"),
           nb::arg("received").noconvert(), nb::arg("charged"), nb::arg("unit"),
           nb::arg("following").noconvert(), nb::arg("preconditioner").none() = nb::none())
      .def("column_sums", &column_sums_of_rows, nb::arg("weight").noconvert(),
           nb::arg("shift").noconvert(), nb::arg("total").noconvert(),
           nb::arg("square").noconvert(), nb::arg("least").noconvert(),
           nb::arg("greatest").noconvert())
      .def("softmax_epoch", &softmax_epoch, nb::arg("targets"), nb::arg("batches"), nb::arg("rule"),
           nb::arg("averaging"), nb::arg("coef").noconvert(), nb::arg("intercept").noconvert(),
           nb::arg("average").noconvert(), nb::arg("average_intercept").noconvert(),
           nb::arg("average_weight"), nb::arg("unit"), nb::arg("sketch_bytes"),
           nb::arg("following").noconvert(), nb::arg("threads"),
           nb::arg("preconditioner").none() = nb::none())
      .def("corrected_epoch", &corrected_epoch, nb::arg("targets"), nb::arg("batches"),
           nb::arg("rule"), nb::arg("coef").noconvert(), nb::arg("intercept"),
           nb::arg("slopes").noconvert(), nb::arg("mean").noconvert(), nb::arg("keeps"),
           nb::arg("members").noconvert(), nb::arg("starts").noconvert(),
           nb::arg("owner").noconvert(), nb::arg("multiples").noconvert())
      .def("dual_epoch", &dual_epoch, nb::arg("targets"), nb::arg("order").noconvert(),
           nb::arg("squares").noconvert(), nb::arg("loss"), nb::arg("share"), nb::arg("watch"),
           nb::arg("gone"), nb::arg("gone_at_least"), nb::arg("coef").noconvert(),
           nb::arg("duals").noconvert(), nb::arg("signed_margins").noconvert(),
           nb::arg("limits").noconvert())
      .def("balance", &balance, nb::arg("order").noconvert(), nb::arg("multiples").noconvert(),
           nb::arg("fit_intercept"), nb::arg("unit"), nb::arg("following").noconvert())
      .def("losses_at", &losses_at_weights, nb::arg("targets"), nb::arg("loss"), nb::arg("epsilon"),
           nb::arg("coef").noconvert(), nb::arg("intercept"), nb::arg("other").noconvert(),
           nb::arg("other_intercept"))
      .def("evaluate", &evaluate_rows, nb::arg("targets"), nb::arg("loss"), nb::arg("epsilon"),
           nb::arg("coef").noconvert(), nb::arg("intercept"), nb::arg("slopes").noconvert(),
           nb::arg("curvatures").noconvert(), nb::arg("predictions").noconvert(),
           nb::arg("gradient").noconvert(), nb::arg("threads"))
      .def("visit_after_step", &visit_rows_after_step, nb::arg("targets"), nb::arg("loss"),
           nb::arg("epsilon"), nb::arg("coef").noconvert(), nb::arg("intercept"),
           nb::arg("before").noconvert(), nb::arg("after").noconvert(), nb::arg("sums").noconvert(),
           nb::arg("threads"))
      .def("reach", &reach_of_rows, nb::arg("centre").noconvert(), nb::arg("scale").noconvert(),
           nb::arg("out").noconvert())
      .def("combine", &combine_rows, nb::arg("factors").noconvert(), nb::arg("total").noconvert(),
           nb::arg("threads"))
      .def("gram_product", &gram_product_of_rows, nb::arg("weight").noconvert(),
           nb::arg("vector").noconvert(), nb::arg("constant"), nb::arg("total").noconvert(),
           nb::arg("threads"))
      .def("weighted_squares", &weighted_squares_of_rows, nb::arg("weight").noconvert(),
           nb::arg("total").noconvert())
      .def("weigh_rows", &weigh_rows_into<double>, nb::arg("roots").noconvert(),
           nb::arg("centre").noconvert(), nb::arg("start"), nb::arg("table").noconvert(),
           nb::arg("threads"))
      .def("weigh_rows", &weigh_rows_into<float>, nb::arg("roots").noconvert(),
           nb::arg("centre").noconvert(), nb::arg("start"), nb::arg("table").noconvert(),
           nb::arg("threads"))
      .def("gram", &gram_of_rows, nb::arg("weight").noconvert(), nb::arg("gram").noconvert())
      .def("squares", &squares_of_rows, nb::arg("y").noconvert(), nb::arg("weight").noconvert(),
           nb::arg("centre").noconvert(), nb::arg("target_centre"), nb::arg("has_intercept"),
           nb::arg("is_single"), nb::arg("products").noconvert(), nb::arg("threads"))
      .def("solve_buckets", &solve_buckets, nb::arg("scale").noconvert(),
           nb::arg("codes").noconvert(), nb::arg("share"), nb::arg("constant"),
           nb::arg("order").noconvert(), nb::arg("partners").noconvert(),
           nb::arg("starts").noconvert(), nb::arg("partner").noconvert());

  m.def("columns_rise", &columns_rise<std::int32_t>, nb::arg("indices").noconvert(),
        nb::arg("indptr").noconvert());
  m.def("columns_rise", &columns_rise<std::int64_t>, nb::arg("indices").noconvert(),
        nb::arg("indptr").noconvert());

  nb::class_<BoundTargets>(m, "Targets")
      .def(
          "__init__",
          [](BoundTargets* self, const ReadColumn<double>& y, const ReadColumn<double>& weight) {
            new (self) BoundTargets{y, weight};
          },
          nb::arg("y").noconvert(), nb::arg("weight").noconvert());

  nb::class_<BoundClassTargets>(m, "ClassTargets")
      .def(
          "__init__",
          [](BoundClassTargets* self, const ReadColumn<Index>& codes,
             const ReadColumn<double>& weight,
             Index n_classes) { new (self) BoundClassTargets{codes, weight, n_classes}; },
          nb::arg("codes").noconvert(), nb::arg("weight").noconvert(), nb::arg("n_classes"));

  nb::class_<BoundPreconditioner>(m, "Preconditioner")
      .def(
          "__init__",
          [](BoundPreconditioner* self, const AnyColumn& centre, const AnyColumn& metric,
             const ReadColumn<double>& products) {
            new (self) BoundPreconditioner{centre, metric, products};
          },
          nb::arg("centre").noconvert(), nb::arg("metric").noconvert(),
          nb::arg("products").noconvert());

  nb::class_<BoundBatches>(m, "Batches")
      .def(
          "__init__",
          [](BoundBatches* self, const ReadColumn<Index>& rows, const ReadColumn<Index>& starts,
             Index size, const ReadColumn<double>& factors, std::int64_t steps,
             std::int64_t samples) {
            new (self) BoundBatches{rows, starts, size, factors, steps, samples};
          },
          nb::arg("rows").noconvert(), nb::arg("starts").noconvert(), nb::arg("size"),
          nb::arg("factors").noconvert(), nb::arg("steps"), nb::arg("samples"))
      .def_prop_ro("counted", [](const BoundBatches& self) { return self.get().counted(); });

  nb::class_<StepRule>(m, "StepRule")
      .def(
          "__init__",
          [](StepRule* self, int loss, double epsilon, double l2, double l1,
             std::tuple<int, double, double, double> schedule, bool fit_intercept, double steepest,
             bool watch) {
            const auto [code, eta0, rate, start] = schedule;
            new (self)
                StepRule{Loss{loss, epsilon}, l2,       l1,   Schedule{code, eta0, rate, start},
                         fit_intercept,       steepest, watch};
          },
          nb::arg("loss"), nb::arg("epsilon"), nb::arg("l2"), nb::arg("l1"), nb::arg("schedule"),
          nb::arg("fit_intercept"), nb::arg("steepest"), nb::arg("watch"));

  nb::class_<Averaging>(m, "Averaging")
      .def(
          "__init__",
          [](Averaging* self, std::int64_t from, bool linear, std::int64_t every) {
            new (self) Averaging{from, linear, every};
          },
          nb::arg("start"), nb::arg("linear"), nb::arg("every"));

  m.def("values", &each<&Loss::value>, nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("y").noconvert(), nb::arg("p").noconvert(), nb::arg("out").noconvert());
  m.def("slopes", &each<&Loss::slope>, nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("y").noconvert(), nb::arg("p").noconvert(), nb::arg("out").noconvert());
  m.def("curvatures", &each<&Loss::curvature>, nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("y").noconvert(), nb::arg("p").noconvert(), nb::arg("out").noconvert());
  nb::class_<Restoration>(m, "Restoration")
      .def(
          "__init__",
          [](Restoration* self, double factor, double shift, double up, double down, double kept,
             int side) { new (self) Restoration{factor, shift, up, down, kept, side}; },
          nb::arg("factor") = 1.0, nb::arg("shift") = 0.0, nb::arg("up") = 1.0,
          nb::arg("down") = 1.0, nb::arg("kept") = 1.0, nb::arg("side") = 0);
  m.def("bend_predictions", &bend_given_predictions, nb::arg("targets"), nb::arg("loss"),
        nb::arg("epsilon"), nb::arg("predictions").noconvert(), nb::arg("slopes").noconvert(),
        nb::arg("curvatures").noconvert());
  m.def("loss_along", &loss_along_step, nb::arg("targets"), nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("predictions").noconvert(), nb::arg("after").noconvert(), nb::arg("step"));
  m.def("dual_cost", &cost_of_dual_point, nb::arg("targets"), nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("predictions").noconvert(), nb::arg("after").noconvert(), nb::arg("restoration"),
        nb::arg("slopes").noconvert());
  m.def("descend", &descend_quadratic, nb::arg("hessian").noconvert(), nb::arg("l1").noconvert(),
        nb::arg("start").noconvert(), nb::arg("slopes").noconvert(), nb::arg("step").noconvert(),
        nb::arg("enough"), nb::arg("most_sweeps"));
  m.def("newton_on_table", &newton_on_few_rows, nb::arg("table").noconvert(), nb::arg("targets"),
        nb::arg("loss"), nb::arg("epsilon"), nb::arg("offset").noconvert(),
        nb::arg("ridge").noconvert(), nb::arg("steps"), nb::arg("enough"), nb::arg("least_ridge"),
        nb::arg("point").noconvert(), nb::arg("hessian").noconvert());
  m.def("minimise_products", &minimum_of_products, nb::arg("products").noconvert(), nb::arg("l2"),
        nb::arg("has_intercept"), nb::arg("rounding"), nb::arg("point").noconvert());
  m.def("along_axes", &components_along_axes, nb::arg("matrix").noconvert(),
        nb::arg("values").noconvert(), nb::arg("components").noconvert());
  bind_softmax<float>(m);
  bind_softmax<double>(m);
  m.def("conjugates", &each<&Loss::conjugate>, nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("y").noconvert(), nb::arg("p").noconvert(), nb::arg("out").noconvert());
  m.def("are_finite", &is_finite_column<double>, nb::arg("numbers").noconvert());
  m.def("are_finite", &is_finite_column<float>, nb::arg("numbers").noconvert());
  m.def("two_values", &two_values_of_column<double>, nb::arg("y").noconvert());
  m.def("two_values", &two_values_of_column<std::int64_t>, nb::arg("y").noconvert());
  m.def("sum_of_losses", &sum_of_column, nb::arg("loss"), nb::arg("epsilon"),
        nb::arg("y").noconvert(), nb::arg("p").noconvert(), nb::arg("weight").noconvert());
  m.def("dual_step", &dual_step, nb::arg("loss"), nb::arg("y"), nb::arg("weight"), nb::arg("a"),
        nb::arg("p"), nb::arg("q"));
  m.def("rest_limits", &rest_limits, nb::arg("loss"), nb::arg("targets"),
        nb::arg("squares").noconvert(), nb::arg("duals").noconvert(),
        nb::arg("predictions").noconvert(), nb::arg("margins").noconvert(),
        nb::arg("limits").noconvert());
  m.def("draw_order", &draw_random_order, nb::arg("order").noconvert(),
        nb::arg("seed").noconvert());
  m.def("draw_by_hash", &drawn_by_hash, nb::arg("share").noconvert(), nb::arg("size"),
        nb::arg("seed"), nb::arg("first"));
  m.def("invert", &invert_sums, nb::arg("sums").noconvert(), nb::arg("numbers").noconvert(),
        nb::arg("drawn").noconvert());
  m.def("balance_observed", &balance_seen, nb::arg("rows").noconvert(),
        nb::arg("vectors").noconvert(), nb::arg("slopes").noconvert(),
        nb::arg("placed").noconvert(), nb::arg("following").noconvert(),
        nb::arg("marks").noconvert(), nb::arg("signed_sum").noconvert(),
        nb::arg("held").noconvert());
  m.def("offer", &offer_products<float>, nb::arg("products").noconvert(), nb::arg("first"),
        nb::arg("values").noconvert(), nb::arg("positions").noconvert());
  m.def("offer", &offer_products<double>, nb::arg("products").noconvert(), nb::arg("first"),
        nb::arg("values").noconvert(), nb::arg("positions").noconvert());
  m.def("offer_panels", &offer_rows, nb::arg("rows").noconvert(), nb::arg("panels").noconvert(),
        nb::arg("values").noconvert(), nb::arg("positions").noconvert());
  m.def("sharpen", &sharpen_lists, nb::arg("rows").noconvert(), nb::arg("vectors").noconvert(),
        nb::arg("rounded").noconvert(), nb::arg("slack").noconvert(), nb::arg("scale"),
        nb::arg("positions").noconvert());
  m.def("choose", &choose_free, nb::arg("positions").noconvert(), nb::arg("n_free"));
  m.def("choose_pairs", &choose_free_pairs, nb::arg("positions").noconvert(), nb::arg("n_free"));
  m.def("alternate_links", &cut_cycles, nb::arg("partner").noconvert(),
        nb::arg("products").noconvert());
  m.def("skip_missing", &skip_missing_rows, nb::arg("partner").noconvert(),
        nb::arg("kept").noconvert(), nb::arg("place").noconvert());
  m.def("buckets", &cut_buckets, nb::arg("points").noconvert(), nb::arg("low"), nb::arg("high"),
        nb::arg("leaf"), nb::arg("rows").noconvert(), nb::arg("others").noconvert());
  m.def("assign", &assign, nb::arg("cost").noconvert());
}

}  // namespace
}  // namespace antithetic

// Compiled once and linked into each module, which Python enters by its own name.
#define ANTITHETIC_MODULE(name) \
  NB_MODULE(name, m) { antithetic::bind(m, #name); }
ANTITHETIC_MODULE(_v2)
ANTITHETIC_MODULE(_v3)
ANTITHETIC_MODULE(_v4)
ANTITHETIC_MODULE(_plain)
