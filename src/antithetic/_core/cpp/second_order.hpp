// What a second-order solver asks of all rows: losses, slopes, curvatures and the gradient in one
// visit, and products with a weighted Gram matrix. The matrix itself: gram.hpp. Bounds:
// dual_point.hpp.
//
// Weights and sums are float64 whatever the rows are.
#pragma once

#include "passes.hpp"
#include "sums.hpp"
#include "threads.hpp"

namespace antithetic {

// Columns of one visit, each left out where it is empty.
struct Visit {
  std::span<double> slopes, curvatures, predictions;
};

struct Totals {
  double loss = 0.0, slope = 0.0, slope_square = 0.0, curvature = 0.0;

  void add(const Totals& other) {
    loss += other.loss;
    slope += other.slope;
    slope_square += other.slope_square;
    curvature += other.curvature;
  }
};

// log(1 + e) for e in [0, 1], of operations that vectorise: twice the series of the inverse
// hyperbolic tangent of e / (2 + e), which is at most 1/3.
inline double log1p_of_unit(double e) {
  const double z = e / (2.0 + e), square = z * z;
  double sum = 1.0 / 35.0;  // written out: loops inside of loops do not vectorise
  sum = sum * square + 1.0 / 33.0;
  sum = sum * square + 1.0 / 31.0;
  sum = sum * square + 1.0 / 29.0;
  sum = sum * square + 1.0 / 27.0;
  sum = sum * square + 1.0 / 25.0;
  sum = sum * square + 1.0 / 23.0;
  sum = sum * square + 1.0 / 21.0;
  sum = sum * square + 1.0 / 19.0;
  sum = sum * square + 1.0 / 17.0;
  sum = sum * square + 1.0 / 15.0;
  sum = sum * square + 1.0 / 13.0;
  sum = sum * square + 1.0 / 11.0;
  sum = sum * square + 1.0 / 9.0;
  sum = sum * square + 1.0 / 7.0;
  sum = sum * square + 1.0 / 5.0;
  sum = sum * square + 1.0 / 3.0;
  sum = sum * square + 1.0;
  return 2.0 * z * sum;
}

// Sum of term(k) for k = 0 .. many - 1, in lanes.
template <class Term>
inline double sum_of(Index many, Term term) {
  double sums[lanes<double>] = {};
  in_blocks<double>(many, [&](Index c, auto width) {
    for (Index lane = 0; lane < width; ++lane) sums[lane] += term(c + lane);
  });
  for (Index half = lanes<double> / 2; half > 0; half /= 2) {
    for (Index lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

inline double sum_in_lanes(const double* numbers, Index many) {
  return sum_of(many, [&](Index k) { return numbers[k]; });
}

inline double sum_of_squares(const double* numbers, Index many) {
  return sum_of(many, [&](Index k) { return numbers[k] * numbers[k]; });
}

// Rows that are visited twice while they are in the cache.
constexpr Index most_rows_at_once = 256;

// Weighted losses, slopes and curvatures of a few predictions.
class PredictionBlock {
 public:
  double predictions[most_rows_at_once], losses[most_rows_at_once], slopes[most_rows_at_once],
      curvatures[most_rows_at_once];

  Totals judge(const Targets& targets, const Loss& loss, Index start, Index many);

  // Slopes and curvatures alone.
  void bend(const Targets& targets, const Loss& loss, Index start, Index many);

 private:
  void weigh(const double* weight, Index many);
};

// Weighted slopes and curvatures at given predictions.
void bend_predictions(const Targets& targets, const Loss& loss, std::span<const double> predictions,
                      std::span<double> slopes, std::span<double> curvatures);

// Sum of the losses some way along a step from one prediction to another of each row, and its
// derivative in that way.
std::pair<double, double> loss_along(const Targets& targets, const Loss& loss,
                                     std::span<const double> predictions,
                                     std::span<const double> after, double step);

// ---- products of a few rows with a vector, and sums of a few rows into one

constexpr Index at_a_time = 4;  // rows whose products share one visit of the vector

// A vector in float64, followed by zeros up to a whole number of lanes: a dense row may then be
// read beyond its end, into the next, since what is read there is multiplied by zero or added to
// sums that are not used.
class Padded {
 public:
  explicit Padded(Index d) : numbers_(static_cast<std::size_t>(in_whole_lanes<double>(d)), 0.0) {}
  Padded(const double* given, Index d) : Padded(d) { std::copy(given, given + d, data()); }

  double* data() { return numbers_.data(); }
  const double* data() const { return numbers_.data(); }
  Index size() const { return static_cast<Index>(numbers_.size()); }

 private:
  std::vector<double> numbers_;
};

template <class Real>
void few_products(const Real* x, Index d, const Padded& vector, double* out) {
  constexpr Index many = lanes<double>;
  const double* w = vector.data();
  double sums[at_a_time][many] = {};
  for (Index c = 0; c < vector.size(); c += many) {
    for (Index r = 0; r < at_a_time; ++r) {
      for (Index lane = 0; lane < many; ++lane) {
        sums[r][lane] += static_cast<double>(x[r * d + c + lane]) * w[c + lane];
      }
    }
  }
  for (Index r = 0; r < at_a_time; ++r) {
    for (Index half = many / 2; half > 0; half /= 2) {
      for (Index lane = 0; lane < half; ++lane) sums[r][lane] += sums[r][lane + half];
    }
    out[r] = sums[r][0];
  }
}

template <class Real>
void products(const DenseRows<Real>& rows, Index start, Index many, const Padded& vector,
              double* out) {
  const Index roomy = std::min(many, rows.roomy(vector.size()) - start);
  Index k = 0;
  for (; k + at_a_time <= roomy; k += at_a_time) {
    rows.prefetch_later(start + k, at_a_time);
    few_products(rows.row(start + k), rows.d, vector, out + k);
  }
  for (; k < many; ++k) {
    const Real* x = rows.row(start + k);
    out[k] = sum_of(rows.d, [&](Index c) { return static_cast<double>(x[c]) * vector.data()[c]; });
  }
}

template <class Real>
void products(const CsrRows<Real>& rows, Index start, Index many, const Padded& vector,
              double* out) {
  const double* w = vector.data();
  for (Index k = 0; k < many; ++k) {
    double a = 0.0, b = 0.0;  // two sums, since one would wait for itself
    Index place = rows.begin(start + k);
    const Index last = rows.end(start + k);
    for (; place + 2 <= last; place += 2) {
      a += static_cast<double>(rows.data[place]) * w[rows.indices[place]];
      b += static_cast<double>(rows.data[place + 1]) * w[rows.indices[place + 1]];
    }
    if (place < last) a += static_cast<double>(rows.data[place]) * w[rows.indices[place]];
    out[k] = a + b;
  }
}

template <class Real>
void add_rows(const DenseRows<Real>& rows, Index start, Index many, const double* factors,
              Padded& sum) {
  constexpr Index width = lanes<double>;
  const Index d = rows.d, roomy = std::min(many, rows.roomy(sum.size()) - start);
  double* ANTITHETIC_RESTRICT g = sum.data();
  Index k = 0;
  for (; k + at_a_time <= roomy; k += at_a_time) {
    const Real *x = rows.row(start + k), *y = x + d, *z = y + d, *t = z + d;
    const double a = factors[k], b = factors[k + 1], e = factors[k + 2], f = factors[k + 3];
    for (Index c = 0; c < sum.size(); c += width) {
      for (Index j = c; j < c + width; ++j) {
        g[j] += (a * static_cast<double>(x[j]) + b * static_cast<double>(y[j])) +
                (e * static_cast<double>(z[j]) + f * static_cast<double>(t[j]));
      }
    }
  }
  for (; k < many; ++k) {
    const Real* x = rows.row(start + k);
    for (Index c = 0; c < d; ++c) g[c] += factors[k] * static_cast<double>(x[c]);
  }
}

template <class Real>
void add_rows(const CsrRows<Real>& rows, Index start, Index many, const double* factors,
              Padded& sum) {
  double* g = sum.data();
  for (Index k = 0; k < many; ++k) {
    for (Index place = rows.begin(start + k); place < rows.end(start + k); ++place) {
      g[rows.indices[place]] += factors[k] * static_cast<double>(rows.data[place]);
    }
  }
}

// ---- blocks of rows

// A block of rows from `start` on, and the sum that its thread adds to.
using BlockWork = FunctionRef<void(Index start, Index many, Index thread, Padded& sum)>;

// Visit n rows so many at a time, in threads; each adds to a sum of its own, and the sums are added
// in the order of the threads.
void in_blocks_of_rows(Index n, Index at_once, Index threads, std::span<double> total,
                       BlockWork work);

// The same in blocks that stay in the cache.
template <class RowAccess, class Work>
void over_blocks(const RowAccess& rows, Index threads, std::span<double> total, Pulse& pulse,
                 const Work& work) {
  constexpr Index entries_at_once = Index{1} << 13;
  const Index entries = std::max<Index>(1, rows.n == 0 ? 1 : rows.length(0));
  const Index longest = RowAccess::is_sparse ? most_rows_at_once : entries_at_once / entries;
  const Index at_once = std::clamp<Index>(longest / at_a_time * at_a_time, 16, most_rows_at_once);
  in_blocks_of_rows(rows.n, at_once, threads, total,
                    [&](Index start, Index many, Index thread, Padded& sum) {
                      work(start, many, thread, sum);
                      // the pulse is this thread's; the others see the stop flag
                      if (thread == 0) pulse.beat(many * rows.length(start));
                    });
}

// ---- what is asked

// Sums over all rows of the weighted losses, slopes, squared slopes and curvatures at some weights,
// and of the gradients.
template <class RowAccess>
Totals evaluate(const RowAccess& rows, const Targets& targets, const Loss& loss,
                std::span<const double> coef, double intercept, const Visit& visit,
                std::span<double> gradient, Index threads, Pulse& pulse) {
  const Padded w(coef.data(), rows.d);
  threads = std::clamp<Index>(threads, 1, std::max<Index>(1, rows.n));
  std::vector<Totals> totals(static_cast<std::size_t>(threads));
  over_blocks(rows, threads, gradient, pulse, [&](Index start, Index many, Index t, Padded& sum) {
    PredictionBlock block;
    products(rows, start, many, w, block.predictions);
    for (Index k = 0; k < many; ++k) block.predictions[k] += intercept;
    totals[static_cast<std::size_t>(t)].add(block.judge(targets, loss, start, many));
    const auto keep = [&](const double* found, std::span<double> column) {
      if (!column.empty()) std::copy_n(found, many, column.data() + start);
    };
    keep(block.slopes, visit.slopes);
    keep(block.curvatures, visit.curvatures);
    keep(block.predictions, visit.predictions);
    add_rows(rows, start, many, block.slopes, sum);
  });
  Totals all;
  for (const auto& part : totals) all.add(part);
  return all;
}

// sum_i factors_i x_i
template <class RowAccess>
void combine(const RowAccess& rows, std::span<const double> factors, std::span<double> sum,
             Index threads, Pulse& pulse) {
  over_blocks(rows, threads, sum, pulse, [&](Index start, Index many, Index, Padded& part) {
    add_rows(rows, start, many, factors.data() + start, part);
  });
}

// sum_i weight_i (<x_i, vector> + constant) x_i, and the last entry sum_i weight_i (...).
template <class RowAccess>
double gram_product(const RowAccess& rows, std::span<const double> weight,
                    std::span<const double> vector, double constant, std::span<double> sum,
                    Index threads, Pulse& pulse) {
  const Padded v(vector.data(), rows.d);
  threads = std::clamp<Index>(threads, 1, std::max<Index>(1, rows.n));
  std::vector<double> constants(static_cast<std::size_t>(threads), 0.0);
  over_blocks(rows, threads, sum, pulse, [&](Index start, Index many, Index t, Padded& part) {
    double scores[most_rows_at_once];
    products(rows, start, many, v, scores);
    for (Index k = 0; k < many; ++k) {
      scores[k] = weight[static_cast<std::size_t>(start + k)] * (scores[k] + constant);
    }
    constants[static_cast<std::size_t>(t)] += sum_in_lanes(scores, many);
    add_rows(rows, start, many, scores, part);
  });
  double total = 0.0;
  for (const double part : constants) total += part;
  return total;
}

}  // namespace antithetic
