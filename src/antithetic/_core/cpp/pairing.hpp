// Kernels of the pairings: smallest products, choices in turn, cycles, trees, assignments.
#pragma once

#include "rows.hpp"

namespace antithetic {

// The least multiple of a number that is not smaller than another.
constexpr Index padded(Index number, Index multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// A matrix with rows one after the other.
template <class T>
struct Matrix {
  T* at;
  Index rows, columns;

  T* row(Index i) const { return at + i * columns; }
  T& operator()(Index i, Index j) const { return at[i * columns + j]; }
};

// ---- greedy

// Merge a tile of products into each row's sorted list of smallest ones; equal products keep the
// order of their columns, of which the first has the number `first`.
template <class Real>
void offer(Matrix<const Real> products, Index first, Matrix<Real> values, Matrix<Index> positions);

// The same for products of some rows with panels: each holds one coordinate after the other of
// `panel_width` vectors.
constexpr Index panel_width = 32;
void offer_panels(Matrix<const float> rows, const float* panels, Index many, Matrix<float> values,
                  Matrix<Index> positions);

// Put the candidates of each row in the order of their exact products. Those are kept that no
// product outside the list can undercut, where `scale` times a product and the rounded one differ
// by at most `slack`.
void sharpen(Matrix<const double> rows, Matrix<const double> vectors, Matrix<const float> rounded,
             std::span<const double> slack, double scale, Matrix<Index> positions);

// Let each row in turn take its first free candidate; stop at the first whose list is used up.
std::vector<Index> choose(Matrix<const Index> positions);

// Pair the row at each position, if it is still free, with its first free candidate, never itself;
// pairs one after the other.
std::vector<Index> choose_pairs(Matrix<const Index> positions);

// ---- cycles of a permutation

// Keep every other link of each cycle; -1 marks the row that an odd cycle leaves out.
void alternate_links(Rows partner, std::span<const double> products, std::span<Index> mates);

// Follow each kept row's cycle to the next kept row; rows are numbered by their place, -1 for those
// that are not kept.
void skip_missing(Rows partner, Rows kept, Rows place, std::span<Index> out);

// ---- trees

// Cut rows[low:high] at medians along the widest axis into buckets of at most `leaf` rows; both
// lists are reordered. `others`, where it is not empty, holds the points' reflections: each node
// sends as many of them to the lower side as rows, those with the smallest reflected values. Return
// the ends of the buckets.
std::vector<Index> cut_into_buckets(Matrix<const float> points, std::span<Index> rows,
                                    std::span<Index> others, Index low, Index high, Index leaf);

// ---- assignments

// The assignment problem of a square matrix of costs, by shortest augmenting paths.
template <class Real>
class Assignment {
 public:
  explicit Assignment(Index largest)
      : row_dual(size(largest)),
        column_dual(size(largest)),
        column_of(size(largest)),
        row_of(size(largest)),
        distance_(size(largest)),
        open_(size(padded(largest, most_lanes))),
        came_from_(size(largest)),
        row_seen_(size(largest)) {}

  // Solve for the first n rows and columns; the result is in column_of.
  void solve(Matrix<const Real> cost, Index n);

  std::vector<double> row_dual, column_dual;
  std::vector<Index> column_of, row_of;

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  // The cheapest row of each column, the first of equals, and its cost as the column's dual; row by
  // row, as costs lie in memory.
  void find_cheapest_rows(Matrix<const Real> cost, Index n);

  // Change the assignment along the shortest path of reduced costs from a free row to a free column
  // (Dijkstra).
  void augment(Matrix<const Real> cost, Index n, Index start);

  // Open columns that are nearer by way of a row.
  void reach_from(const Real* ANTITHETIC_RESTRICT costs, Index n, Index row, double base);

  // The nearest open column, one that is free before others.
  Index nearest_open(Index n) const;

  void lower_duals(Index n, Index start, double reached);

  // NaN is neither nearer nor farther than any number.
  static constexpr double closed = std::numeric_limits<double>::quiet_NaN();
  // Open columns are looked at in whole registers. The bindings, which are compiled for any CPU,
  // make such an object too: its size must not depend on the instruction set.
  static constexpr Index most_lanes = 8, lanes_at_once = register_lanes<double>;
  static_assert(most_lanes % lanes_at_once == 0);
  std::vector<double> distance_, open_;  // of closed columns, and of all others
  std::vector<Index> came_from_;
  std::vector<char> row_seen_;
};

// What turns the product of two rows of X into that of the vectors that are paired:
// (classes agree - 1/K) scale_i scale_j (product + constant). Scales and codes may be empty.
template <class Real>
struct Weighing {
  std::span<const Real> scale;
  Rows codes;
  double share;  // 1/K
  double constant;

  double scale_of(Index row) const {
    return scale.empty() ? 1.0 : static_cast<double>(scale[static_cast<std::size_t>(row)]);
  }
};

// Rows and columns of the tiles that products are computed in.
constexpr Index product_rows = 4;
template <class Real>
constexpr Index product_columns = 2 * register_lanes<Real>;

// Products of the rows of two matrices of d columns, each row of the second stored as a column of
// `right`. They are computed in whole tiles: `products` is padded, and so are the matrices.
template <class Real>
void multiply(const Real* left, const Real* right, Index d, Matrix<Real> products);

// Gives the rows of each bucket the partners of the same bucket with the smallest sum of products.
template <class RowAccess>
class BucketSolver {
  using Real = typename RowAccess::Real;
  // Sums of sparse products are in float64, as their entries come in no order.
  using Product = std::conditional_t<RowAccess::is_sparse, double, Real>;

 public:
  BucketSolver(const RowAccess& rows, const Weighing<Real>& weighing, Rows order, Rows partners,
               Index largest, std::span<Index> partner)
      : rows_(rows),
        weighing_(weighing),
        order_(order),
        partners_(partners),
        partner_(partner),
        assignment_(largest),
        products_(static_cast<std::size_t>(height_of(largest) * width_of(largest))) {
    if constexpr (RowAccess::is_sparse) {
      scattered_.resize(static_cast<std::size_t>(rows.d));
    } else {
      left_.resize(static_cast<std::size_t>(height_of(largest) * rows.d));
      right_.resize(static_cast<std::size_t>(width_of(largest) * rows.d));
      means_.resize(static_cast<std::size_t>(rows.d));
    }
  }

  // The bucket of rows from a place on; return the entries of work.
  Index solve(Index low, Index m) {
    const Matrix<Product> products{products_.data(), height_of(m), width_of(m)};
    multiply_rows(low, m, products);
    weigh(low, m, products);
    assignment_.solve(Matrix<const Product>{products.at, products.rows, products.columns}, m);
    for (Index i = 0; i < m; ++i) {
      const Index mate = partner_at(low + assignment_.column_of[static_cast<std::size_t>(i)]);
      partner_[static_cast<std::size_t>(row_at(low + i))] = mate;
    }
    return m * m * std::max(rows_.d, m);
  }

 private:
  // Sizes of the matrix of products of m rows and m possible partners.
  static constexpr Index height_of(Index m) {
    return RowAccess::is_sparse ? m : padded(m, product_rows);
  }
  static constexpr Index width_of(Index m) {
    return RowAccess::is_sparse ? m : padded(m, product_columns<Real>);
  }

  Index row_at(Index place) const { return order_[static_cast<std::size_t>(place)]; }
  Index partner_at(Index place) const { return partners_[static_cast<std::size_t>(place)]; }

  void multiply_rows(Index low, Index m, Matrix<Product> products) {
    if constexpr (RowAccess::is_sparse) {
      // Each row is scattered once, and the entries of its possible partners are looked up in it.
      for (Index i = 0; i < m; ++i) {
        const double scale = weighing_.scale_of(row_at(low + i));
        rows_.for_each(row_at(low + i), [&](Index j, Real entry) {
          scattered_[static_cast<std::size_t>(j)] = static_cast<double>(entry) * scale;
        });
        for (Index k = 0; k < m; ++k) {
          double product = 0.0;
          rows_.for_each(partner_at(low + k), [&](Index j, Real entry) {
            product += scattered_[static_cast<std::size_t>(j)] * static_cast<double>(entry);
          });
          products(i, k) = product * weighing_.scale_of(partner_at(low + k));
        }
        rows_.for_each(row_at(low + i),
                       [&](Index j, Real) { scattered_[static_cast<std::size_t>(j)] = 0.0; });
      }
    } else {
      gather(low, m);
      multiply(left_.data(), right_.data(), rows_.d, products);
    }
  }

  // Rows of a bucket, scaled, and their possible partners as columns. The mean of the rows is taken
  // from both: no choice depends on it, and rows that share a large offset keep their digits. What
  // pads the matrices is not looked at.
  void gather(Index low, Index m)
    requires(!RowAccess::is_sparse)
  {
    const Index d = rows_.d, width = width_of(m);
    for (Index i = 0; i < m; ++i) {
      ask_for(low + m + i);  // rows of the next bucket, which are anywhere in memory
      const Real* x = rows_.row(row_at(low + i));
      const Real* z = rows_.row(partner_at(low + i));
      const Real a = static_cast<Real>(weighing_.scale_of(row_at(low + i)));
      const Real b = static_cast<Real>(weighing_.scale_of(partner_at(low + i)));
      for (Index c = 0; c < d; ++c) {
        left_[static_cast<std::size_t>(i * d + c)] = a * x[c];
        right_[static_cast<std::size_t>(c * width + i)] = b * z[c];
      }
    }
    if (weighing_.codes.empty()) subtract_mean(m);
  }

  void subtract_mean(Index m)
    requires(!RowAccess::is_sparse)
  {
    const Index d = rows_.d, width = width_of(m);
    std::fill(means_.begin(), means_.end(), 0.0);
    for (Index i = 0; i < m; ++i) {
      const Real* x = left_.data() + i * d;
      for (Index c = 0; c < d; ++c) {
        means_[static_cast<std::size_t>(c)] += static_cast<double>(x[c]);
      }
    }
    for (double& mean : means_) mean /= static_cast<double>(m);
    for (Index i = 0; i < m; ++i) {
      Real* x = left_.data() + i * d;
      for (Index c = 0; c < d; ++c) x[c] -= static_cast<Real>(means_[static_cast<std::size_t>(c)]);
    }
    for (Index c = 0; c < d; ++c) {
      const Real shift = static_cast<Real>(means_[static_cast<std::size_t>(c)]);
      Real* of_partners = right_.data() + c * width;
      for (Index i = 0; i < m; ++i) of_partners[i] -= shift;
    }
  }

  void ask_for(Index place) const
    requires(!RowAccess::is_sparse)
  {
    if (place >= static_cast<Index>(order_.size())) return;
    for (const Index row : {row_at(place), partner_at(place)}) {
      rows_.template prefetch_row<Cache::second>(row, rows_.d);
    }
  }

  // Add the product of the constant features, and multiply by the agreement of classes.
  void weigh(Index low, Index m, Matrix<Product> products) const {
    const auto& codes = weighing_.codes;
    if (weighing_.constant == 0.0 && codes.empty()) return;
    for (Index i = 0; i < m; ++i) {
      for (Index k = 0; k < m; ++k) {
        const Index row = row_at(low + i), other = partner_at(low + k);
        const double weight = weighing_.scale_of(row) * weighing_.scale_of(other);
        double product = static_cast<double>(products(i, k)) + weight * weighing_.constant;
        if (!codes.empty()) {
          const bool agree =
              codes[static_cast<std::size_t>(row)] == codes[static_cast<std::size_t>(other)];
          product *= (agree ? 1.0 : 0.0) - weighing_.share;
        }
        products(i, k) = static_cast<Product>(product);
      }
    }
  }

  const RowAccess& rows_;
  const Weighing<Real>& weighing_;
  Rows order_, partners_;
  std::span<Index> partner_;
  Assignment<Product> assignment_;
  std::vector<Product> products_;
  std::vector<Real> left_, right_;
  std::vector<double> scattered_, means_;
};

}  // namespace antithetic
