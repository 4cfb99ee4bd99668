// Sums, squares and extremes of all columns in one visit to the rows.
#pragma once

#include "rows.hpp"

namespace antithetic {

// Of each column, over the rows of positive weight: the weighted sum of x - shift and of its
// square, and the smallest and the largest entry. With a shift near the middle no digits cancel.
struct ColumnSums {
  std::span<const double> shift;
  std::span<double> sum, square, least, greatest;
};

namespace detail {

constexpr Index columns_at_once = 64;

// Add rows to the sums of some columns. All variables that are written are local, so the compiler
// knows that no row changes.
template <class Real>
void add_columns(Index first, Index many, std::span<const Real* const> x, const double* weight,
                 const ColumnSums& sums) {
  double shift[columns_at_once], total[columns_at_once], squares[columns_at_once];
  double low[columns_at_once], high[columns_at_once];
  std::copy_n(sums.shift.data() + first, many, shift);
  std::copy_n(sums.sum.data() + first, many, total);
  std::copy_n(sums.square.data() + first, many, squares);
  std::copy_n(sums.least.data() + first, many, low);
  std::copy_n(sums.greatest.data() + first, many, high);
  const auto add = [&](const Real* row, double share, Index c) {
    const double entry = static_cast<double>(row[c]), apart = entry - shift[c];
    total[c] += share * apart;
    squares[c] += share * apart * apart;
    low[c] = entry < low[c] ? entry : low[c];
    high[c] = entry > high[c] ? entry : high[c];
  };
  std::size_t k = 0;
  for (; k + 2 <= x.size(); k += 2) {
    const Real *row = x[k] + first, *next = x[k + 1] + first;
    const double share = weight[k], next_share = weight[k + 1];
    for (Index c = 0; c < many; ++c) {
      add(row, share, c);
      add(next, next_share, c);
    }
  }
  if (k < x.size()) {
    const Real* row = x[k] + first;
    for (Index c = 0; c < many; ++c) add(row, weight[k], c);
  }
  std::copy_n(total, many, sums.sum.data() + first);
  std::copy_n(squares, many, sums.square.data() + first);
  std::copy_n(low, many, sums.least.data() + first);
  std::copy_n(high, many, sums.greatest.data() + first);
}

template <class Real>
void add_rows(std::span<const Real* const> x, const double* weight, Index d,
              const ColumnSums& sums) {
  for (Index first = 0; first < d; first += columns_at_once) {
    add_columns(first, std::min(columns_at_once, d - first), x, weight, sums);
  }
}

}  // namespace detail

template <class Real>
void column_sums(const DenseRows<Real>& rows, std::span<const double> weight,
                 const ColumnSums& sums, Pulse& pulse) {
  constexpr std::size_t at_once = 32;
  const Real* x[at_once];
  double weights[at_once];
  std::size_t held = 0;
  for (Index i = 0; i < rows.n; ++i) {
    const double own = weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
    if (!(own > 0.0)) continue;
    x[held] = rows.row(i);
    weights[held] = own;
    if (++held < at_once) continue;
    detail::add_rows<Real>({x, held}, weights, rows.d, sums);
    held = 0;
    pulse.beat(static_cast<Index>(at_once) * rows.d);
  }
  detail::add_rows<Real>({x, held}, weights, rows.d, sums);
}

// Entries that are not stored are zeros. What is known of a column is side by side: its entries
// come in no order, and each would ask for as many cache lines as there are sums.
template <class Real>
void column_sums(const CsrRows<Real>& rows, std::span<const double> weight, const ColumnSums& sums,
                 Pulse& pulse) {
  struct Column {
    double sum = 0.0, square = 0.0, least = infinity, greatest = -infinity;
    Index stored = 0;
  };
  std::vector<Column> columns(static_cast<std::size_t>(rows.d));
  Index counted = 0;
  double total = 0.0;
  for (Index i = 0; i < rows.n; ++i) {
    const double own = weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
    if (!(own > 0.0)) continue;
    counted += 1;
    total += own;
    rows.for_each(i, [&](Index j, Real value) {
      Column& column = columns[static_cast<std::size_t>(j)];
      const double entry = static_cast<double>(value);
      const double shift = sums.shift[static_cast<std::size_t>(j)];
      column.stored += 1;
      column.sum += own * entry;  // the shift of all rows is subtracted below
      column.square += own * ((entry - shift) * (entry - shift) - shift * shift);
      column.least = entry < column.least ? entry : column.least;
      column.greatest = entry > column.greatest ? entry : column.greatest;
    });
    pulse.beat(rows.length(i));
  }
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const Column& column = columns[j];
    const double shift = sums.shift[j], unless_full = column.stored == counted ? infinity : 0.0;
    sums.sum[j] += column.sum - total * shift;
    sums.square[j] += column.square + total * shift * shift;
    sums.least[j] = std::min({sums.least[j], column.least, unless_full});
    sums.greatest[j] = std::max({sums.greatest[j], column.greatest, -unless_full});
  }
}

}  // namespace antithetic
