// One visit to the rows after a step of Newton's method: the objective and its gradient where the
// step leads, and the sum of the rows with the slopes that the quadratic model at the start of the
// step expects there. Those slopes, cut to what the loss allows, are a point of the dual problem;
// exact/certificate.py makes a bound of it.
#pragma once

#include "dual_point.hpp"
#include "second_order.hpp"

namespace antithetic {

// Sums over the rows of the slopes that the model expects, and of the products of curvatures with
// squared changes of the predictions.
struct Expected {
  double slope = 0.0, square = 0.0;
};

// Add each row to two sums, the second `apart` entries after the first.
template <class Real>
void add_rows_twice(const DenseRows<Real>& rows, Index start, Index many, const double* factors,
                    const double* others, Index apart, Padded& sum) {
  constexpr Index width = lanes<double>;
  const Index d = rows.d, roomy = std::min(many, rows.roomy(apart) - start);
  double* ANTITHETIC_RESTRICT g = sum.data();
  double* ANTITHETIC_RESTRICT u = sum.data() + apart;
  Index k = 0;
  for (; k + at_a_time <= roomy; k += at_a_time) {
    const Real *x = rows.row(start + k), *y = x + d, *z = y + d, *t = z + d;
    const double a = factors[k], b = factors[k + 1], e = factors[k + 2], f = factors[k + 3];
    const double p = others[k], q = others[k + 1], r = others[k + 2], s = others[k + 3];
    for (Index c = 0; c < apart; c += width) {
      for (Index j = c; j < c + width; ++j) {
        const double first = static_cast<double>(x[j]), second = static_cast<double>(y[j]);
        const double third = static_cast<double>(z[j]), fourth = static_cast<double>(t[j]);
        g[j] += (a * first + b * second) + (e * third + f * fourth);
        u[j] += (p * first + q * second) + (r * third + s * fourth);
      }
    }
  }
  for (; k < many; ++k) {
    const Real* x = rows.row(start + k);
    for (Index c = 0; c < d; ++c) {
      const double entry = static_cast<double>(x[c]);
      g[c] += factors[k] * entry;
      u[c] += others[k] * entry;
    }
  }
}

// Of sparse rows the two sums of a column are side by side: an entry changes one place in memory.
template <class Real>
void add_rows_twice(const CsrRows<Real>& rows, Index start, Index many, const double* factors,
                    const double* others, Index, Padded& sum) {
  double* both = sum.data();
  for (Index k = 0; k < many; ++k) {
    const auto multiples = two_of(factors[k], others[k]);
    rows.for_each(start + k, [&](Index j, Real value) {
      put(both + 2 * j, block_at<2>(both + 2 * j) + static_cast<double>(value) * multiples);
    });
  }
}

template <class RowAccess>
std::pair<Totals, Expected> visit_after_step(const RowAccess& rows, const Targets& targets,
                                             const Loss& loss, std::span<const double> coef,
                                             double intercept, std::span<const double> before,
                                             std::span<double> after, std::span<double> gradient,
                                             std::span<double> dual, Index threads, Pulse& pulse) {
  const Padded w(coef.data(), rows.d);
  const Index apart = w.size();
  std::vector<double> both(static_cast<std::size_t>(2 * apart));
  threads = std::clamp<Index>(threads, 1, std::max<Index>(1, rows.n));
  std::vector<std::pair<Totals, Expected>> parts(static_cast<std::size_t>(threads));
  over_blocks(rows, threads, both, pulse, [&](Index start, Index many, Index t, Padded& sum) {
    PredictionBlock block, origin;
    double expected[most_rows_at_once], squares[most_rows_at_once];
    products(rows, start, many, w, block.predictions);
    for (Index k = 0; k < many; ++k) block.predictions[k] += intercept;
    auto& [totals, found] = parts[static_cast<std::size_t>(t)];
    totals.add(block.judge(targets, loss, start, many));
    std::copy_n(before.data() + start, many, origin.predictions);
    origin.bend(targets, loss, start, many);
    expect_slopes(targets, loss, start, many, origin, block.predictions, expected, squares);
    found.slope += sum_in_lanes(expected, many);
    found.square += sum_in_lanes(squares, many);
    std::copy_n(block.predictions, many, after.data() + start);
    add_rows_twice(rows, start, many, block.slopes, expected, apart, sum);
  });
  for (Index j = 0; j < rows.d; ++j) {
    const Index first = RowAccess::is_sparse ? 2 * j : j;
    const Index second = RowAccess::is_sparse ? 2 * j + 1 : apart + j;
    gradient[static_cast<std::size_t>(j)] = both[static_cast<std::size_t>(first)];
    dual[static_cast<std::size_t>(j)] = both[static_cast<std::size_t>(second)];
  }
  std::pair<Totals, Expected> all;
  for (const auto& [totals, found] : parts) {
    all.first.add(totals);
    all.second.slope += found.slope;
    all.second.square += found.square;
  }
  return all;
}

}  // namespace antithetic
