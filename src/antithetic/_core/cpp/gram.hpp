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
  in_threads(threads, [&](Index t) {
    const Index last = out.many * (t + 1) / threads;
    for (Index k = out.many * t / threads; k < last; ++k) {
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

// sum_i weight_i x_i x_i', each product of two entries added to one side of the diagonal. Rows
// whose weight is zero are not visited.
template <class Real>
void gram_of_pairs(const CsrRows<Real>& rows, std::span<const double> weight, double* gram,
                   Pulse& pulse) {
  for (Index i = 0; i < rows.n; ++i) {
    const double w = weight[static_cast<std::size_t>(i)];
    if (w == 0.0) continue;
    const Index first = rows.begin(i), last = rows.end(i);
    for (Index a = first; a < last; ++a) {
      const double x = w * static_cast<double>(rows.data[a]);
      double* line = gram + static_cast<Index>(rows.indices[a]) * rows.d;
      for (Index b = first; b <= a; ++b) {
        line[rows.indices[b]] += x * static_cast<double>(rows.data[b]);
      }
    }
    pulse.beat((last - first) * (last - first));
  }
}

}  // namespace antithetic
