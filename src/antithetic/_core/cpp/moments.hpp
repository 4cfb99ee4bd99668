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

constexpr Index rows_of_a_visit = 32;  // added to some columns before the next columns

// The sums of a few columns, in registers.
template <Index many>
struct SumsOfSome {
  using Numbers = Block<double, many>;
  Numbers shift, total, squares, low, high;

  ANTITHETIC_INLINE SumsOfSome(const ColumnSums& from, Index first)
      : shift(block_at<many>(from.shift.data() + first)),
        total(block_at<many>(from.sum.data() + first)),
        squares(block_at<many>(from.square.data() + first)),
        low(block_at<many>(from.least.data() + first)),
        high(block_at<many>(from.greatest.data() + first)) {}

  template <class Real>
  ANTITHETIC_INLINE void add(const Real* x, double share) {
    const Numbers entries = doubles_at<many>(x), apart = entries - shift, part = share * apart;
    total += part;
    squares += part * apart;
    low = lesser(entries, low);  // NaN changes neither
    high = greater(entries, high);
  }

  ANTITHETIC_INLINE void store(const ColumnSums& to, Index first) const {
    put(to.sum.data() + first, total);
    put(to.square.data() + first, squares);
    put(to.least.data() + first, low);
    put(to.greatest.data() + first, high);
  }
};

template <class Real>
void add_rows(std::span<const Real* const> x, const double* weight, Index d,
              const ColumnSums& sums) {
  constexpr Index whole = register_lanes<double>;
  Index c = 0;
  for (; c + 2 * whole <= d; c += 2 * whole) {  // sums of one register would wait for themselves
    SumsOfSome<whole> some(sums, c), others(sums, c + whole);
    for (std::size_t k = 0; k < x.size(); ++k) {
      some.add(x[k] + c, weight[k]);
      others.add(x[k] + c + whole, weight[k]);
    }
    some.store(sums, c);
    others.store(sums, c + whole);
  }
  in_smaller_blocks<whole>(c, d, [&](Index first, auto many) {
    SumsOfSome<many> some(sums, first);
    for (std::size_t k = 0; k < x.size(); ++k) some.add(x[k] + first, weight[k]);
    some.store(sums, first);
  });
}

}  // namespace detail

template <class Real>
void column_sums(const DenseRows<Real>& rows, std::span<const double> weight,
                 const ColumnSums& sums, Pulse& pulse) {
  const Real* x[detail::rows_of_a_visit];
  double weights[detail::rows_of_a_visit];
  std::size_t held = 0;
  for (Index i = 0; i < rows.n; ++i) {
    rows.prefetch_later(i, 1);
    const double own = weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
    if (!(own > 0.0)) continue;
    x[held] = rows.row(i);
    weights[held] = own;
    if (++held < std::size(x)) continue;
    detail::add_rows<Real>({x, held}, weights, rows.d, sums);
    held = 0;
    pulse.beat(detail::rows_of_a_visit * rows.d);
  }
  detail::add_rows<Real>({x, held}, weights, rows.d, sums);
}

namespace detail {

// What is known of a column of sparse rows, in one cache line: its entries come in no order, and
// each would ask for as many lines as there are sums.
struct alignas(cache_line) SparseColumn {
  double sums[4] = {};                    // of the entries, of their squares, and their number
  double ends[2] = {infinity, infinity};  // the least, and the greatest with its sign changed
};

// Add the entries from one place to another, of rows of one weight.
template <class Real>
void add_entries(const CsrRows<Real>& rows, Index first, Index last, double weight,
                 SparseColumn* columns) {
  const double of_entry[4] = {weight}, of_square[4] = {0.0, weight}, of_one[4] = {0.0, 0.0, 1.0};
  const auto linear = block_at<4>(of_entry), quadratic = block_at<4>(of_square);
  const auto constant = block_at<4>(of_one);
  for (Index place = first; place < last; ++place) {
    SparseColumn& column = columns[rows.indices[place]];
    const auto entry = static_cast<double>(rows.data[place]);
    put(column.sums, block_at<4>(column.sums) + (constant + entry * (linear + entry * quadratic)));
    put(column.ends, lesser(two_of(entry, -entry), block_at<2>(column.ends)));
  }
}

}  // namespace detail

// Entries that are not stored are zeros. Sums are those of the entries as they are, and the shift
// is subtracted afterwards.
template <class Real>
void column_sums(const CsrRows<Real>& rows, std::span<const double> weight, const ColumnSums& sums,
                 Pulse& pulse) {
  constexpr Index entries_at_once = Index{1} << 20;
  std::vector<detail::SparseColumn> columns(static_cast<std::size_t>(rows.d));
  double counted = 0.0, total = 0.0;
  if (weight.empty()) {  // rows need not be told apart
    counted = total = static_cast<double>(rows.n);
    for (Index first = rows.begin(0); first < rows.end(rows.n - 1); first += entries_at_once) {
      const Index last = std::min(first + entries_at_once, rows.end(rows.n - 1));
      detail::add_entries(rows, first, last, 1.0, columns.data());
      pulse.beat(last - first);
    }
  }
  for (Index i = 0; i < length(weight); ++i) {
    const double own = weight[static_cast<std::size_t>(i)];
    if (!(own > 0.0)) continue;
    counted += 1.0;
    total += own;
    detail::add_entries(rows, rows.begin(i), rows.end(i), own, columns.data());
    pulse.beat(rows.length(i));
  }
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const auto& [sum, ends] = columns[j];
    const double shift = sums.shift[j], unless_full = sum[2] == counted ? infinity : 0.0;
    sums.sum[j] += sum[0] - total * shift;
    sums.square[j] += sum[1];
    if (shift != 0.0) {  // times a sum that overflows, zero would be NaN
      sums.square[j] += shift * (total * shift - 2.0 * sum[0]);
    }
    sums.least[j] = std::min({sums.least[j], ends[0], unless_full});
    sums.greatest[j] = std::max({sums.greatest[j], -ends[1], -unless_full});
  }
}

// Squares of entries, less the centres of their columns, times the scales of these.
struct Reach {
  std::span<const double> centre, scale;
};

// The largest of them in each row.
template <class Real>
void reach_of_rows(const DenseRows<Real>& rows, const Reach& given, std::span<double> out,
                   Pulse& pulse) {
  for (Index i = 0; i < rows.n; ++i) {
    rows.prefetch_later(i, 1);
    const Real* x = rows.row(i);
    double most[lanes<double>] = {};
    in_blocks<double>(rows.d, [&](Index c, auto width) {
      const auto apart = doubles_at<width>(x + c) - block_at<width>(given.centre.data() + c);
      const auto square = apart * apart * block_at<width>(given.scale.data() + c);
      put(most, greater(square, block_at<width>(most)));
    });
    out[static_cast<std::size_t>(i)] = *std::max_element(most, most + lanes<double>);
    pulse.beat(rows.d);
  }
}

// Entries that are not stored are zeros. Where most rows have a column, zeros may be what is far
// from its centre: those columns are looked for in each row, the furthest first.
template <class Real>
void reach_of_rows(const CsrRows<Real>& rows, const Reach& given, std::span<double> out,
                   Pulse& pulse) {
  const auto square_of = [&](Index j, double x) {
    const double apart = x - given.centre[static_cast<std::size_t>(j)];
    return apart * apart * given.scale[static_cast<std::size_t>(j)];
  };
  std::vector<Index> full;
  for (Index j = 0; j < rows.d; ++j) {
    if (square_of(j, 0.0) > 1.0) full.push_back(j);
  }
  std::sort(full.begin(), full.end(),
            [&](Index a, Index b) { return square_of(a, 0.0) > square_of(b, 0.0); });
  std::vector<Index> last_row(static_cast<std::size_t>(full.empty() ? 0 : rows.d), -1);
  for (Index i = 0; i < rows.n; ++i) {
    double most = 0.0;
    rows.for_each(i, [&](Index j, Real x) {
      most = std::max(most, square_of(j, static_cast<double>(x)));
      if (!full.empty()) last_row[static_cast<std::size_t>(j)] = i;
    });
    const auto missed = std::find_if(full.begin(), full.end(), [&](Index j) {
      return last_row[static_cast<std::size_t>(j)] != i;
    });
    if (missed != full.end()) most = std::max(most, square_of(*missed, 0.0));
    out[static_cast<std::size_t>(i)] = most;
    pulse.beat(rows.length(i));
  }
}

}  // namespace antithetic
