// Products of all columns with each other, summed over dense rows: what the minimum of a sum of
// squares is found from, in one visit to the rows.
#pragma once

#include "rows.hpp"
#include "threads.hpp"

namespace antithetic {

// Sums over rows of the products of their columns. Some rows at a time are packed into panels of as
// many columns as two registers hold; tiles of the products stay in registers while these rows are
// added, and sums of such blocks are added in float64.
template <class Real>
class ColumnProducts {
 public:
  static constexpr Index rows_at_once = 128;

  explicit ColumnProducts(Index columns);

  // Where the numbers of a packed row are: panel p from `line(row) + p * panel_size` on.
  Real* line(Index row) { return packed_.data() + row * wide; }

  // Where one number of a packed row is.
  Real& at(Index row, Index column) {
    return line(row)[column / wide * panel_size + column % wide];
  }

  // Add the products of the first so many packed rows. Memory would be idle meanwhile, so what
  // comes next is asked for.
  void add(Index rows, std::span<const std::byte> next);

  // Add these sums to a symmetric matrix.
  void add_to(std::span<double> matrix) const;

  static constexpr Index narrow = register_lanes<Real>, wide = 2 * narrow;
  static constexpr Index panel_size = rows_at_once * wide;

 private:
  // Columns of a tile, each of which is multiplied with one or two registers of others.
  static constexpr Index few = register_lanes<double> == lanes<double> ? 8 : 4;

  template <std::size_t first, std::size_t parts>
  void add_tile(Index rows, Index j, Index panel);

  Index columns_, panels_, stride_;
  AlignedVector<Real> packed_;
  AlignedVector<double> sums_;  // on and above the diagonal
};

extern template class ColumnProducts<float>;
extern template class ColumnProducts<double>;

// Columns x_j - centre_j, or as they are if there is no centre, a column of ones if there is an
// intercept, and y - target_centre if there are targets; each row counts as often as its weight
// says, if there are weights.
struct SquaresArguments {
  std::span<const double> y, weight, centre;
  double target_centre;
  bool has_intercept, is_single;  // products in float32
  std::span<double> products;     // (columns, columns)
  Index threads;
};

// root (x - centre), in panels.
template <class Real, class Out>
void pack(const Real* ANTITHETIC_RESTRICT x, Index d, double root,
          const double* ANTITHETIC_RESTRICT centre, Out* ANTITHETIC_RESTRICT line) {
  constexpr Index wide = ColumnProducts<Out>::wide, panel_size = ColumnProducts<Out>::panel_size;
  Index c = 0;
  for (; c + wide <= d; c += wide, line += panel_size) {
    for (Index k = 0; k < wide; ++k) {
      line[k] = static_cast<Out>(root * (static_cast<double>(x[c + k]) - centre[c + k]));
    }
  }
  for (Index k = 0; c + k < d; ++k) {
    line[k] = static_cast<Out>(root * (static_cast<double>(x[c + k]) - centre[c + k]));
  }
}

// Add the products of rows from `first` to `last`, until the flag is set; a pulse is for one thread
// only.
template <class Out, class Real>
void add_products(const DenseRows<Real>& rows, const SquaresArguments& given, Index first,
                  Index last, ColumnProducts<Out>& sums, const StopFlag& stop, Pulse* pulse) {
  constexpr Index at_once = ColumnProducts<Out>::rows_at_once;
  for (; first < last && !stop; first += at_once) {
    const Index many = std::min(at_once, last - first);
    for (Index k = 0; k < many; ++k) {
      const auto i = static_cast<std::size_t>(first + k);
      const double root = given.weight.empty() ? 1.0 : std::sqrt(given.weight[i]);
      pack(rows.row(first + k), rows.d, root, given.centre.data(), sums.line(k));
      if (given.has_intercept) sums.at(k, rows.d) = static_cast<Out>(root);
      if (given.y.empty()) continue;
      sums.at(k, rows.d + given.has_intercept) =
          static_cast<Out>(root * (given.y[i] - given.target_centre));
    }
    const Index later = std::min(at_once, last - first - many);
    sums.add(many, std::as_bytes(std::span(rows.row(first + many), rows.d * later)));
    if (pulse != nullptr) pulse->beat(many * rows.d * (1 + rows.d / 16));
  }
}

// Means over all rows. Each thread sums some of them; sums are added in the order of the rows.
template <class Out, class Real>
void sum_products(const DenseRows<Real>& rows, const SquaresArguments& given, Pulse& pulse) {
  const Index columns = rows.d + given.has_intercept + !given.y.empty();
  std::vector<ColumnProducts<Out>> sums;
  sums.reserve(static_cast<std::size_t>(given.threads));  // a copy would be aligned otherwise
  for (Index t = 0; t < given.threads; ++t) sums.emplace_back(columns);
  in_threads(given.threads, [&](Index t, const StopFlag& stop) {
    const Index first = rows.n * t / given.threads, last = rows.n * (t + 1) / given.threads;
    auto& own = sums[static_cast<std::size_t>(t)];
    add_products(rows, given, first, last, own, stop, t == 0 ? &pulse : nullptr);
  });
  for (const auto& own : sums) own.add_to(given.products);
  for (double& product : given.products) product /= static_cast<double>(rows.n);
}

}  // namespace antithetic
