// Kernels of the pairings: smallest products, choices in turn, cycles, trees, assignments.
#pragma once

#include <bit>

#include "rows.hpp"

namespace antithetic {

// A matrix with rows one after the other.
template <class T>
struct Matrix {
  T* at;
  Index rows, columns;

  T* row(Index i) const { return at + i * columns; }
  T& operator()(Index i, Index j) const { return at[i * columns + j]; }
};

// ---- greedy

template <class Real>
void insert_sorted(Real* values, Index* positions, Index length, Real product, Index position) {
  Index k = length - 1;
  while (k > 0 && values[k - 1] > product) {
    values[k] = values[k - 1];
    positions[k] = positions[k - 1];
    --k;
  }
  values[k] = product;
  positions[k] = position;
}

// Whether any of so many numbers is below a bound. NaN is not.
template <std::size_t many, class Real>
ANTITHETIC_INLINE bool any_below(const Real* numbers, Real bound) {
#if defined(__GNUC__) || defined(__clang__)
  constexpr Index width = register_lanes<Real>;
  using Below = decltype(Block<Real, width>{} < bound);
  Below below = {};
  detail::unrolled<many / static_cast<std::size_t>(width)>(
      [&](auto k) { below |= block_at<width>(numbers + static_cast<Index>(k()) * width) < bound; });
  const auto words = std::bit_cast<std::array<std::uint64_t, sizeof below / 8>>(below);
  std::uint64_t found = 0;
  for (const std::uint64_t word : words) found |= word;
  return found != 0;
#else
  return std::any_of(numbers, numbers + many, [&](Real x) { return x < bound; });
#endif
}

// Insert what is smaller than the last of a sorted list; `first` is the number of the first
// product.
template <class Real>
ANTITHETIC_INLINE void offer_all(const Real* products, Index many, Index first, Real* values,
                                 Index* positions, Index length) {
  for (Index c = 0; c < many; ++c) {
    if (products[c] < values[length - 1]) {
      insert_sorted(values, positions, length, products[c], first + c);
    }
  }
}

// Merge a tile of products into each row's sorted list of smallest ones; equal products keep the
// order of their columns, of which the first has the number `first`.
template <class Real>
void offer(Matrix<const Real> products, Index first, Matrix<Real> values, Matrix<Index> positions) {
  constexpr Index chunk = 64, part = register_lanes<Real>;  // most of either hold nothing new
  const Index length = values.columns, chunks = products.columns / chunk * chunk;
  for (Index r = 0; r < products.rows; ++r) {
    const Real* row = products.row(r);
    Real* smallest = values.row(r);
    Index* places = positions.row(r);
    for (Index start = 0; start < chunks; start += chunk) {
      if (!any_below<chunk>(row + start, smallest[length - 1])) continue;
      for (Index c = start; c < start + chunk; c += part) {
        if (!any_below<part>(row + c, smallest[length - 1])) continue;
        offer_all(row + c, part, first + c, smallest, places, length);
      }
    }
    const Index left = products.columns - chunks;
    offer_all(row + chunks, left, first + chunks, smallest, places, length);
  }
}

// First candidate of a row that is still free; -1 where the list is used up.
inline Index first_free(const Index* candidates, Index many, const std::vector<char>& taken) {
  for (Index k = 0; k < many && candidates[k] >= 0; ++k) {
    if (!taken[static_cast<std::size_t>(candidates[k])]) return candidates[k];
  }
  return -1;
}

// Let each row in turn take its first free candidate; stop at the first whose list is used up.
inline std::vector<Index> choose(Matrix<const Index> positions, Index n_free) {
  std::vector<char> taken(static_cast<std::size_t>(n_free), 0);
  std::vector<Index> chosen;
  for (Index r = 0; r < positions.rows; ++r) {
    const Index found = first_free(positions.row(r), positions.columns, taken);
    if (found < 0) break;
    taken[static_cast<std::size_t>(found)] = 1;
    chosen.push_back(found);
  }
  return chosen;
}

// Pair the row at each position, if it is still free, with its first free candidate, never itself;
// pairs one after the other.
inline std::vector<Index> choose_pairs(Matrix<const Index> positions, Index n_free) {
  std::vector<char> taken(static_cast<std::size_t>(n_free), 0);
  std::vector<Index> chosen;
  for (Index r = 0; r < positions.rows; ++r) {
    if (taken[static_cast<std::size_t>(r)]) continue;
    taken[static_cast<std::size_t>(r)] = 1;
    const Index found = first_free(positions.row(r), positions.columns, taken);
    if (found < 0) break;
    taken[static_cast<std::size_t>(found)] = 1;
    chosen.push_back(r);
    chosen.push_back(found);
  }
  return chosen;
}

// ---- cycles of a permutation

// Place in a cycle of the first link to keep, so that the kept ones, every other one, have the
// smallest sum; link k leads from cycle[k] to the next row.
inline std::size_t best_first_link(const std::vector<Index>& cycle,
                                   std::span<const double> products) {
  const std::size_t length = cycle.size();
  const auto link = [&](std::size_t k) { return products[static_cast<std::size_t>(cycle[k])]; };
  if (length < 3) return 0;
  if (length % 2 == 0) {
    double difference = 0.0;
    for (std::size_t k = 0; k < length; k += 2) difference += link(k) - link(k + 1);
    return difference <= 0.0 ? 0 : 1;
  }
  // Leaving out cycle[k] keeps the links k + 1, k + 3, ...; going from k to k + 2 swaps link k + 1
  // for link k.
  double total = 0.0;
  for (std::size_t k = 1; k < length; k += 2) total += link(k);
  double best = total;
  std::size_t best_left_out = 0, left_out = 0;
  for (std::size_t turn = 1; turn < length; ++turn) {
    total += link(left_out) - link((left_out + 1) % length);
    left_out = (left_out + 2) % length;
    if (total < best) {
      best = total;
      best_left_out = left_out;
    }
  }
  return (best_left_out + 1) % length;
}

// Keep every other link of each cycle; -1 marks the row that an odd cycle leaves out.
inline void alternate_links(Rows partner, std::span<const double> products,
                            std::span<Index> mates) {
  std::fill(mates.begin(), mates.end(), Index{-1});
  std::vector<char> seen(partner.size(), 0);
  std::vector<Index> cycle;
  for (std::size_t start = 0; start < partner.size(); ++start) {
    cycle.clear();
    for (auto row = start; !seen[row]; row = static_cast<std::size_t>(partner[row])) {
      seen[row] = 1;
      cycle.push_back(static_cast<Index>(row));
    }
    if (cycle.empty()) continue;
    const std::size_t first = best_first_link(cycle, products), length = cycle.size();
    for (std::size_t k = 0; k < length / 2; ++k) {
      const Index a = cycle[(first + 2 * k) % length], b = cycle[(first + 2 * k + 1) % length];
      mates[static_cast<std::size_t>(a)] = b;
      mates[static_cast<std::size_t>(b)] = a;
    }
  }
}

// Follow each kept row's cycle to the next kept row; rows are numbered by their place, -1 for those
// that are not kept.
inline void skip_missing(Rows partner, Rows kept, Rows place, std::span<Index> out) {
  for (std::size_t k = 0; k < kept.size(); ++k) {
    Index row = partner[static_cast<std::size_t>(kept[k])];
    while (place[static_cast<std::size_t>(row)] < 0) row = partner[static_cast<std::size_t>(row)];
    out[k] = place[static_cast<std::size_t>(row)];
  }
}

// ---- trees

class Buckets {
 public:
  // `others`, where it is not empty, holds the points' reflections: each node sends as many of them
  // to the lower side as rows, those with the smallest reflected values.
  Buckets(Matrix<const float> points, std::span<Index> rows, std::span<Index> others)
      : points_(points), rows_(rows), others_(others) {}

  // Cut rows[low:high] at medians along the widest axis into buckets of at most `leaf` rows; both
  // lists are reordered. Return the ends of the buckets.
  std::vector<Index> cut(Index low, Index high, Index leaf) {
    std::vector<Index> ends;
    std::vector<std::pair<Index, Index>> nodes{{low, high}};
    while (!nodes.empty()) {
      const auto [first, last] = nodes.back();
      nodes.pop_back();
      if (last - first <= leaf) {
        ends.push_back(last);
        continue;
      }
      const Index middle = (first + last) / 2, axis = widest_axis(first, last);
      select(rows_, axis, 1.0f, first, last, middle);
      if (!others_.empty()) select(others_, axis, -1.0f, first, last, middle);
      nodes.emplace_back(middle, last);
      nodes.emplace_back(first, middle);
    }
    return ends;
  }

 private:
  static constexpr Index sample = 128;  // points looked at to find the widest axis

  float coordinate(Index row, Index axis) const { return points_(row, axis); }

  Index widest_axis(Index first, Index last) const {
    const Index step = std::max(Index{1}, (last - first) / sample);
    double widest = -1.0;
    Index axis = 0;
    for (Index c = 0; c < points_.columns; ++c) {
      double total = 0.0, squares = 0.0, count = 0.0;
      for (Index k = first; k < last; k += step) {
        const double value = static_cast<double>(coordinate(rows_[static_cast<std::size_t>(k)], c));
        total += value;
        squares += value * value;
        count += 1.0;
      }
      const double spread = squares / count - (total / count) * (total / count);
      if (spread > widest) {
        widest = spread;
        axis = c;
      }
    }
    return axis;
  }

  // Reorder so that the smallest values of sign * coordinate come before `middle` (Hoare).
  void select(std::span<Index> rows, Index axis, float sign, Index first, Index last,
              Index middle) {
    const auto value = [&](Index k) {
      return sign * coordinate(rows[static_cast<std::size_t>(k)], axis);
    };
    Index low = first, high = last - 1;
    while (low < high) {
      const float a = value(low), b = value((low + high) / 2), c = value(high);
      const float pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
      Index i = low, j = high;
      while (i <= j) {
        while (value(i) < pivot) ++i;
        while (value(j) > pivot) --j;
        if (i <= j) {
          std::swap(rows[static_cast<std::size_t>(i)], rows[static_cast<std::size_t>(j)]);
          ++i;
          --j;
        }
      }
      if (middle <= j) {
        high = j;
      } else if (middle >= i) {
        low = i;
      } else {
        return;
      }
    }
  }

  Matrix<const float> points_;
  std::span<Index> rows_, others_;
};

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
        open_(size(largest)),
        came_from_(size(largest)),
        row_seen_(size(largest)) {}

  // Solve for the first n rows and columns; the result is in column_of.
  void solve(Matrix<const Real> cost, Index n) {
    std::fill_n(row_dual.begin(), n, 0.0);
    std::fill_n(column_of.begin(), n, Index{-1});
    std::fill_n(row_of.begin(), n, Index{-1});
    find_cheapest_rows(cost, n);
    // The cheapest row of each column takes it, if it is free: this gives feasible duals, and often
    // half the assignment.
    for (Index j = 0; j < n; ++j) {
      const Index cheapest = came_from_[size(j)];
      if (column_of[size(cheapest)] < 0) {
        column_of[size(cheapest)] = j;
        row_of[size(j)] = cheapest;
      }
    }
    for (Index row = 0; row < n; ++row) {
      if (column_of[size(row)] < 0) augment(cost, n, row);
    }
  }

  std::vector<double> row_dual, column_dual;
  std::vector<Index> column_of, row_of;

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  // The cheapest row of each column, the first of equals, and its cost as the column's dual; row by
  // row, as costs lie in memory.
  void find_cheapest_rows(Matrix<const Real> cost, Index n) {
    double* ANTITHETIC_RESTRICT lowest = column_dual.data();
    Index* ANTITHETIC_RESTRICT rows = came_from_.data();
    std::fill_n(lowest, n, infinity);
    std::fill_n(rows, n, Index{0});
    for (Index i = 0; i < n; ++i) {
      const Real* ANTITHETIC_RESTRICT costs = cost.row(i);
      for (Index j = 0; j < n; ++j) {
        const double here = static_cast<double>(costs[j]);
        const bool is_lower = here < lowest[j];
        lowest[j] = is_lower ? here : lowest[j];
        rows[j] = is_lower ? i : rows[j];
      }
    }
  }

  // Change the assignment along the shortest path of reduced costs from a free row to a free column
  // (Dijkstra).
  void augment(Matrix<const Real> cost, Index n, Index start) {
    std::fill_n(row_seen_.begin(), n, char{0});
    std::fill_n(open_.begin(), n, infinity);
    double reached = 0.0;
    Index i = start, sink = -1;
    while (sink < 0) {
      row_seen_[size(i)] = 1;
      reach_from(cost.row(i), n, i, reached - row_dual[size(i)]);
      const Index j = nearest_open(n);
      reached = distance_[size(j)] = open_[size(j)];
      open_[size(j)] = closed;
      if (row_of[size(j)] < 0) {
        sink = j;
      } else {
        i = row_of[size(j)];
      }
    }
    lower_duals(n, start, reached);
    for (Index j = sink;;) {
      const Index row = came_from_[size(j)];
      row_of[size(j)] = row;
      std::swap(column_of[size(row)], j);
      if (row == start) return;
    }
  }

  // Open columns that are nearer by way of a row.
  void reach_from(const Real* ANTITHETIC_RESTRICT costs, Index n, Index row, double base) {
    double* ANTITHETIC_RESTRICT open = open_.data();
    Index* ANTITHETIC_RESTRICT came_from = came_from_.data();
    const double* ANTITHETIC_RESTRICT dual = column_dual.data();
    for (Index j = 0; j < n; ++j) {
      const double through = base + static_cast<double>(costs[j]) - dual[j];
      const bool is_nearer = through < open[j];
      open[j] = is_nearer ? through : open[j];
      came_from[j] = is_nearer ? row : came_from[j];
    }
  }

  // The nearest open column, one that is free before others.
  Index nearest_open(Index n) const {
    const double* open = open_.data();
    double lowest = infinity;
    for (Index j = 0; j < n; ++j) {
      const double distance = open[j] == closed ? infinity : open[j];
      lowest = distance < lowest ? distance : lowest;
    }
    Index nearest = -1;
    for (Index j = 0; j < n; ++j) {
      if (open[j] != lowest) continue;
      if (row_of[size(j)] < 0) return j;
      if (nearest < 0) nearest = j;
    }
    return nearest;
  }

  void lower_duals(Index n, Index start, double reached) {
    row_dual[size(start)] += reached;
    for (Index k = 0; k < n; ++k) {
      if (row_seen_[size(k)] && k != start) {
        row_dual[size(k)] += reached - distance_[size(column_of[size(k)])];
      }
      if (open_[size(k)] == closed) column_dual[size(k)] -= reached - distance_[size(k)];
    }
  }

  static constexpr double closed = -infinity;
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

// Products of some rows of the left matrix with `columns` columns of the right one from j on.
template <Index rows, Index columns, class Real>
ANTITHETIC_INLINE void multiply_tile(const Real* left, const Real* right, Index d, Index width,
                                     Real* products) {
  detail::Lanes<Real, columns> sums[static_cast<std::size_t>(rows)];
  for (Index c = 0; c < d; ++c) {
    detail::unrolled<static_cast<std::size_t>(rows)>([&](auto r) {
      sums[r].add_multiple(left[static_cast<Index>(r()) * d + c], right + c * width);
    });
  }
  detail::unrolled<static_cast<std::size_t>(rows)>(
      [&](auto r) { sums[r].store(products + static_cast<Index>(r()) * width); });
}

// Products of the m rows of two matrices, each row of the second stored as a column of `right`.
template <class Real>
void multiply(const Real* left, const Real* right, Index m, Index d, Matrix<Real> products) {
  constexpr Index rows = 4, columns = 2 * register_lanes<Real>;  // sums that stay in registers
  for (Index i = 0; i < m; i += rows) {
    const bool has_all_rows = i + rows <= m;
    Index j = 0;
    for (; has_all_rows && j + columns <= m; j += columns) {
      multiply_tile<rows, columns>(left + i * d, right + j, d, m, products.row(i) + j);
    }
    for (Index r = i; r < std::min(i + rows, m); ++r) {
      for (Index k = j; k < m; ++k) {
        Real sum = 0;
        for (Index c = 0; c < d; ++c) sum += left[r * d + c] * right[c * m + k];
        products(r, k) = sum;
      }
    }
  }
}

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
        largest_(largest),
        assignment_(largest),
        products_(static_cast<std::size_t>(largest * largest)) {
    if constexpr (RowAccess::is_sparse) {
      scattered_.resize(static_cast<std::size_t>(rows.d));
    } else {
      left_.resize(static_cast<std::size_t>(largest * rows.d));
      right_.resize(static_cast<std::size_t>(largest * rows.d));
    }
  }

  // The bucket of rows from a place on; return the entries of work.
  Index solve(Index low, Index m) {
    const Matrix<Product> products{products_.data(), m, m};
    multiply_rows(low, m, products);
    weigh(low, m, products);
    assignment_.solve(Matrix<const Product>{products.at, m, m}, m);
    for (Index i = 0; i < m; ++i) {
      const Index mate = partner_at(low + assignment_.column_of[static_cast<std::size_t>(i)]);
      partner_[static_cast<std::size_t>(row_at(low + i))] = mate;
    }
    return m * m * std::max(rows_.d, m);
  }

 private:
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
      multiply(left_.data(), right_.data(), m, rows_.d, products);
    }
  }

  // Rows of a bucket, scaled, and their possible partners as columns. The mean of the rows is taken
  // from both: no choice depends on it, and rows that share a large offset keep their digits.
  void gather(Index low, Index m)
    requires(!RowAccess::is_sparse)
  {
    const Index d = rows_.d;
    for (Index i = 0; i < m; ++i) {
      const Real* x = rows_.row(row_at(low + i));
      const Real* z = rows_.row(partner_at(low + i));
      const Real a = static_cast<Real>(weighing_.scale_of(row_at(low + i)));
      const Real b = static_cast<Real>(weighing_.scale_of(partner_at(low + i)));
      for (Index c = 0; c < d; ++c) {
        left_[static_cast<std::size_t>(i * d + c)] = a * x[c];
        right_[static_cast<std::size_t>(c * m + i)] = b * z[c];
      }
    }
    if (!weighing_.codes.empty()) return;
    for (Index c = 0; c < d; ++c) {
      double mean = 0.0;
      for (Index i = 0; i < m; ++i) {
        mean += static_cast<double>(left_[static_cast<std::size_t>(i * d + c)]);
      }
      const Real shift = static_cast<Real>(mean / static_cast<double>(m));
      for (Index i = 0; i < m; ++i) {
        left_[static_cast<std::size_t>(i * d + c)] -= shift;
        right_[static_cast<std::size_t>(c * m + i)] -= shift;
      }
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
  Index largest_;
  Assignment<Product> assignment_;
  std::vector<Product> products_;
  std::vector<Real> left_, right_;
  std::vector<double> scattered_;
};

}  // namespace antithetic
