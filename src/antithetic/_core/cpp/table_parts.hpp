// Parts of Newton's method on a table of few rows and columns: products of its columns, and
// Cholesky's factor of them. Calls of LAPACK from Python would take longer than the work.
#pragma once

#include "second_order.hpp"

namespace antithetic {

// Upper triangles are stored row by row, in rows of whole lanes; what is left of the diagonal in
// the lanes that hold it means nothing.
class Upper {
 public:
  explicit Upper(Index k) : k_(k), stride_(in_whole_lanes<double>(k)), numbers_(k * stride_) {}

  Index size() const { return k_; }
  Index stride() const { return stride_; }
  double* row(Index j) { return numbers_.data() + j * stride_; }
  const double* row(Index j) const { return numbers_.data() + j * stride_; }
  void clear() { std::fill_n(numbers_.data(), k_ * stride_, 0.0); }

  // The first column whose lanes hold the diagonal of row j.
  static Index first_lane(Index j) { return j / lanes<double> * lanes<double>; }

 private:
  Index k_, stride_;
  AlignedVector<double> numbers_;
};

namespace detail {

// Add the weighted products of a few columns, from j on, with the lanes of others, from c on. Sums
// stay in registers.
ANTITHETIC_OUTLINE inline void add_tile(const double* rows, Index stride, const double* weight,
                                        Index many, Index j, Index c, Upper& out) {
  using Sums = Lanes<double, lanes<double>>;
  constexpr Index few = register_lanes<double>;  // whose tile fits into the registers
  Sums sums[few];
  for (Index i = 0; i < many; ++i) {
    Sums weighted;
    weighted.add_multiple(weight[i], rows + i * stride + c);
    const double* columns = rows + i * stride + j;  // beyond the last, zeros up to whole lanes
    unrolled<static_cast<std::size_t>(few)>([&](auto r) {
      unrolled<Sums::parts>([&](auto p) { sums[r].part[p] += columns[r] * weighted.part[p]; });
    });
  }
  for (Index r = 0; r < std::min(few, out.size() - j); ++r) {
    sums[r].add_multiple(1.0, out.row(j + r) + c);
    sums[r].store(out.row(j + r) + c);
  }
}

}  // namespace detail

// Weighted products of the columns of a table. Some rows at a time are copied to where they stay in
// the first level of the cache, in whole lanes.
inline void gram_of_table(const DenseRows<double>& table, const double* weight, Upper& out) {
  constexpr Index entries_at_once = 2048;
  const Index stride = out.stride(), at_once = std::max<Index>(8, entries_at_once / stride);
  AlignedVector<double> rows(std::min(at_once, table.n) * stride);
  out.clear();
  for (Index first = 0; first < table.n; first += at_once) {
    const Index many = std::min(at_once, table.n - first);
    for (Index i = 0; i < many; ++i) {
      std::copy_n(table.row(first + i), table.d, rows.data() + i * stride);
    }
    for (Index j = 0; j < table.d; j += register_lanes<double>) {
      for (Index c = Upper::first_lane(j); c < stride; c += lanes<double>) {
        detail::add_tile(rows.data(), stride, weight + first, many, j, c, out);
      }
    }
  }
}

inline void write_symmetric(const Upper& from, std::span<double> out) {
  const Index k = from.size();
  for (Index j = 0; j < k; ++j) {
    for (Index c = j; c < k; ++c) {
      out[static_cast<std::size_t>(j * k + c)] = out[static_cast<std::size_t>(c * k + j)] =
          from.row(j)[c];
    }
  }
}

namespace detail {

// Subtract from a row of H what the rows of U from `first` to `last` have in it.
inline void subtract_rows(Upper& h, Index row, Index first, Index last) {
  double* ANTITHETIC_RESTRICT line = h.row(row);
  // whole lanes: for single numbers, loops take longer to begin than to run
  for (Index c = Upper::first_lane(row); c < h.stride(); c += lanes<double>) {
    Lanes<double, lanes<double>> left;
    left.add_multiple(1.0, line + c);
    for (Index j = first; j < last; ++j) left.add_multiple(-h.row(j)[row], h.row(j) + c);
    left.store(line + c);
  }
}

}  // namespace detail

// Cholesky's factor U of H = U'U in place; false if H is not positive definite.
inline bool factorise(Upper& h) {
  constexpr Index at_once = 8;  // rows of U that are subtracted from others in one visit
  for (Index first = 0; first < h.size(); first += at_once) {
    const Index last = std::min(h.size(), first + at_once);
    for (Index j = first; j < last; ++j) {
      detail::subtract_rows(h, j, first, j);
      double* line = h.row(j);
      if (!(line[j] > 0.0) || !std::isfinite(line[j])) return false;
      const double share = 1.0 / std::sqrt(line[j]);
      for (Index c = Upper::first_lane(j); c < h.stride(); ++c) line[c] *= share;
    }
    for (Index i = last; i < h.size(); ++i) detail::subtract_rows(h, i, first, last);
  }
  return true;
}

// Solve U'U x = x.
inline void solve(const Upper& u, std::vector<double>& x) {
  const Index k = u.size();
  for (Index j = 0; j < k; ++j) {
    const double* line = u.row(j);
    const double found = x[static_cast<std::size_t>(j)] /= line[j];
    for (Index c = j + 1; c < k; ++c) x[static_cast<std::size_t>(c)] -= found * line[c];
  }
  for (Index j = k - 1; j >= 0; --j) {
    const double *line = u.row(j) + j, *found = x.data() + j;
    const double sum = sum_of(k - j - 1, [&](Index c) { return line[c + 1] * found[c + 1]; });
    x[static_cast<std::size_t>(j)] = (x[static_cast<std::size_t>(j)] - sum) / line[0];
  }
}

// Cholesky's factor of a Hessian whose columns may be of any scale.
class ScaledFactor {
 public:
  explicit ScaledFactor(Index k) : upper_(k), scale_(static_cast<std::size_t>(k)) {}

  // Where the Hessian is written before it is factorised.
  Upper& matrix() { return upper_; }

  // Divide by the roots of the diagonal, to which a ridge is then added; false if the result is not
  // positive definite.
  bool take(double ridge) {
    const Index k = upper_.size();
    for (Index j = 0; j < k; ++j) {
      scale_[static_cast<std::size_t>(j)] =
          1.0 / std::sqrt(std::max(upper_.row(j)[j], std::numeric_limits<double>::min()));
    }
    for (Index j = 0; j < k; ++j) {
      const double own = scale_[static_cast<std::size_t>(j)];
      double* line = upper_.row(j);
      for (Index c = j; c < k; ++c) line[c] *= own * scale_[static_cast<std::size_t>(c)];
      line[j] += ridge;
    }
    return factorise(upper_);
  }

  void solve(std::vector<double>& x) const {
    for (std::size_t j = 0; j < x.size(); ++j) x[j] *= scale_[j];
    antithetic::solve(upper_, x);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] *= scale_[j];
  }

 private:
  Upper upper_;
  std::vector<double> scale_;
};

}  // namespace antithetic
