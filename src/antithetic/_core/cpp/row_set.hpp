// The kernels of one kind of rows behind one interface, so that Python's bindings are compiled once
// and not for each kind. Every argument is checked here, before a loop begins.
#pragma once

#include <memory>

#include "column_products.hpp"
#include "corrected.hpp"
#include "gram.hpp"
#include "moments.hpp"
#include "pairing.hpp"
#include "passes.hpp"
#include "sdca.hpp"
#include "second_order.hpp"
#include "sgd.hpp"
#include "softmax.hpp"
#include "step_visit.hpp"

namespace antithetic {

// An array of float32 or float64, which must be of the rows' type.
struct Reals {
  void* data;
  Index size;
  bool is_double;
};

struct SgdArguments {
  Targets targets;
  Batches batches;
  StepRule rule;
  Averaging averaging;
  Reals coef;
  double intercept;
  std::span<double> average;
  double average_intercept, average_weight;
  std::span<double> received;
  double charged;
  Index unit;  // rows that stay together where the next order is balanced; 0 where it is not
  std::span<Index> following;
  Reals centre, metric;  // of centred rows, see centred.hpp; empty for rows as they are
  std::span<const double> products;
};

struct SgdOutcome {
  double intercept, average_intercept, average_weight, charged, met;
};

struct SoftmaxArguments {
  ClassTargets targets;
  Batches batches;
  StepRule rule;
  Averaging averaging;
  Reals coef;  // of all classes, one after the other
  std::span<double> intercept, average, average_intercept;
  double average_weight;
  Balancing balancing;
  Index threads;
  Reals centre, metric;  // as for SGD; sparse rows are not centred
};

struct SoftmaxOutcome {
  double average_weight, met;
};

struct CorrectedArguments {
  Targets targets;
  Batches batches;
  StepRule rule;
  Reals coef;
  double intercept;
  std::span<double> slopes;
  Reals mean;
  bool keeps;
  Groups groups;
  std::span<double> multiples;
};

struct CorrectedOutcome {
  double intercept, met;
};

struct DualArguments {
  Targets targets;
  Rows order;
  std::span<const double> squares;
  DualRule rule;
  Reals coef;
  std::span<double> duals;
  std::span<const double> signed_margins;
  std::span<double> limits;
};

struct BalanceArguments {
  Rows order;
  std::span<const double> multiples;
  bool fit_intercept;
  Index unit;
  std::span<Index> following;
};

// `other` are weights as well, or none.
struct LossesArguments {
  Targets targets;
  Loss loss;
  Reals coef;
  double intercept;
  Reals other;
  double other_intercept;
};

struct EvaluateArguments {
  Targets targets;
  Loss loss;
  std::span<const double> coef;
  double intercept;
  Visit visit;
  std::span<double> gradient;
  Index threads;
};

struct StepVisitArguments {
  Targets targets;
  Loss loss;
  std::span<const double> coef;
  double intercept;
  std::span<const double> before;  // predictions at the start of the step
  std::span<double> after, gradient, dual;
  Index threads;
};

struct GramProductArguments {
  std::span<const double> weight, vector;
  double constant;
  std::span<double> sum;
  Index threads;
};

struct WeighArguments {
  std::span<const double> roots, centre;
  Index start, many, columns;
  Reals table;
  Index threads;
};

struct BucketArguments {
  Reals scale;
  Rows codes;
  double share, constant;
  Rows rows, partners, starts;
  std::span<Index> partner;
};

class RowSet {
 public:
  virtual ~RowSet() = default;
  virtual Index n() const = 0;
  virtual Index d() const = 0;
  virtual bool is_double() const = 0;
  virtual SgdOutcome sgd_epoch(const SgdArguments&, Pulse&) const = 0;
  virtual SoftmaxOutcome softmax_epoch(const SoftmaxArguments&, Pulse&) const = 0;
  virtual CorrectedOutcome corrected_epoch(const CorrectedArguments&, Pulse&) const = 0;
  virtual DualOutcome dual_epoch(const DualArguments&, Pulse&) const = 0;
  virtual void balance(const BalanceArguments&, Pulse&) const = 0;
  virtual void column_sums(std::span<const double> weight, const ColumnSums&, Pulse&) const = 0;
  virtual std::array<double, 2> losses_at(const LossesArguments&, Pulse&) const = 0;
  virtual void solve_buckets(const BucketArguments&, Pulse&) const = 0;
  virtual Totals evaluate(const EvaluateArguments&, Pulse&) const = 0;
  virtual std::pair<Totals, Expected> visit_after_step(const StepVisitArguments&, Pulse&) const = 0;
  virtual void reach(const Reach&, std::span<double> out, Pulse&) const = 0;
  virtual void combine(std::span<const double> factors, std::span<double> sum, Index threads,
                       Pulse&) const = 0;
  virtual double gram_product(const GramProductArguments&, Pulse&) const = 0;
  virtual void weighted_squares(std::span<const double> weight, std::span<double> sum,
                                Pulse&) const = 0;
  virtual void weigh_rows(const WeighArguments&) const = 0;
  // Of sparse rows only: dense ones have BLAS.
  virtual void gram(std::span<const double> weight, std::span<double> gram, Pulse&) const = 0;
  // Of dense rows only.
  virtual void squares(const SquaresArguments&, Pulse&) const = 0;
};

// Rows that live as long as the arrays do; indices of sparse rows are checked.
std::unique_ptr<RowSet> dense_rows(const float* X, Index n, Index d);
std::unique_ptr<RowSet> dense_rows(const double* X, Index n, Index d);
template <class Real, class Int>
struct CsrArrays {
  std::span<const Real> data;
  std::span<const Int> indices, indptr;
  Index n, d;
};
std::unique_ptr<RowSet> csr_rows(const CsrArrays<float, std::int32_t>&);
std::unique_ptr<RowSet> csr_rows(const CsrArrays<float, std::int64_t>&);
std::unique_ptr<RowSet> csr_rows(const CsrArrays<double, std::int32_t>&);
std::unique_ptr<RowSet> csr_rows(const CsrArrays<double, std::int64_t>&);

}  // namespace antithetic
