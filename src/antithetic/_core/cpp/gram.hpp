// The matrix of second derivatives: its diagonal, the matrix itself of sparse rows, and dense rows
// in the form in which BLAS multiplies them.
#pragma once

#include "second_order.hpp"

namespace antithetic {

// root_i (x_i - centre), in float32 or float64; `centre` may be empty.
template <class Real, class Out>
void weigh_row(const DenseRows<Real>& rows, Index i, double root, std::span<const double> centre,
               Out* ANTITHETIC_RESTRICT out) {
  const Real* ANTITHETIC_RESTRICT x = rows.row(i);
  const double* ANTITHETIC_RESTRICT mean = centre.data();
  if (centre.empty()) {
    for (Index j = 0; j < rows.d; ++j) {
      out[j] = static_cast<Out>(root * static_cast<double>(x[j]));
    }
  } else {
    for (Index j = 0; j < rows.d; ++j) {
      out[j] = static_cast<Out>(root * (static_cast<double>(x[j]) - mean[j]));
    }
  }
}

template <class Real, class Out>
void weigh_row(const CsrRows<Real>& rows, Index i, double root, std::span<const double> centre,
               Out* out) {
  for (Index j = 0; j < rows.d; ++j) {
    out[j] =
        centre.empty() ? Out{0} : static_cast<Out>(-root * centre[static_cast<std::size_t>(j)]);
  }
  rows.for_each(i, [&](Index j, Real entry) {
    const double mean = centre.empty() ? 0.0 : centre[static_cast<std::size_t>(j)];
    out[j] = static_cast<Out>(root * (static_cast<double>(entry) - mean));
  });
}

// Rows from `start` on as lines of a table; a column beyond those of the rows is that of the roots.
template <class Out>
struct WeighedRows {
  Out* table;
  Index start, many, columns;
};

template <class RowAccess, class Out>
void weigh_rows(const RowAccess& rows, std::span<const double> roots,
                std::span<const double> centre, const WeighedRows<Out>& out, Index threads) {
  in_threads(threads, [&](Index t, const StopFlag& stop) {
    const Index last = out.many * (t + 1) / threads;
    for (Index k = out.many * t / threads; k < last && !stop; ++k) {
      const double root = roots[static_cast<std::size_t>(out.start + k)];
      Out* line = out.table + k * out.columns;
      weigh_row(rows, out.start + k, root, centre, line);
      if (out.columns > rows.d) line[rows.d] = static_cast<Out>(root);
    }
  });
}

// sum_i weight_i x_ij^2 for each column j
template <class Real>
void add_squares(const DenseRows<Real>& rows, Index i, double weight,
                 double* ANTITHETIC_RESTRICT sum) {
  const Real* ANTITHETIC_RESTRICT x = rows.row(i);
  for (Index j = 0; j < rows.d; ++j) {
    const double entry = static_cast<double>(x[j]);
    sum[j] += weight * entry * entry;
  }
}

template <class Real>
void add_squares(const CsrRows<Real>& rows, Index i, double weight, double* sum) {
  rows.for_each(i, [&](Index j, Real entry) {
    const double x = static_cast<double>(entry);
    sum[j] += weight * x * x;
  });
}

template <class RowAccess>
void weighted_squares(const RowAccess& rows, std::span<const double> weight, std::span<double> sum,
                      Pulse& pulse) {
  for (Index i = 0; i < rows.n; ++i) {
    add_squares(rows, i, weight[static_cast<std::size_t>(i)], sum.data());
    pulse.beat(rows.length(i));
  }
}

// Products of some entries of a row, from place a on, with those from `first` on up to themselves:
// each has a line of the matrix. Several lines at once read an entry once, and their ends, which
// are mispredicted, are fewer.
template <std::size_t lines_at_once, class Real>
ANTITHETIC_INLINE void add_lines(const CsrRows<Real>& rows, Index first, Index a, double weight,
                                 double* gram) {
  double x[lines_at_once];
  double* lines[lines_at_once];
  detail::unrolled<lines_at_once>([&](auto k) {
    const Index place = a + static_cast<Index>(k());
    x[k] = weight * static_cast<double>(rows.data[place]);
    lines[k] = gram + static_cast<Index>(rows.indices[place]) * rows.d;
  });
  const auto add = [&](std::size_t k, Index b) ANTITHETIC_INLINE_LAMBDA {
    lines[k][rows.indices[b]] += x[k] * static_cast<double>(rows.data[b]);
  };
  for (Index b = first; b <= a; ++b) {
    detail::unrolled<lines_at_once>([&](auto k) { add(k, b); });
  }
  detail::unrolled<lines_at_once>([&](auto k) {  // the triangle on the diagonal
    for (std::size_t later = 1; later <= k(); ++later) add(k, a + static_cast<Index>(later));
  });
}

// sum_i weight_i x_i x_i', each product of two entries added to one side of the diagonal. Rows
// whose weight is zero are not visited.
template <class Real>
void gram_of_pairs(const CsrRows<Real>& rows, std::span<const double> weight, double* gram,
                   Pulse& pulse) {
  constexpr Index at_once = 4;
  for (Index i = 0; i < rows.n; ++i) {
    const double w = weight[static_cast<std::size_t>(i)];
    if (w == 0.0) continue;
    const Index first = rows.begin(i), last = rows.end(i);
    Index a = first;
    for (; a + at_once <= last; a += at_once) add_lines<at_once>(rows, first, a, w, gram);
    for (; a < last; ++a) add_lines<1>(rows, first, a, w, gram);
    pulse.beat((last - first) * (last - first));
  }
}

}  // namespace antithetic
