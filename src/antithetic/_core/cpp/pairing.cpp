// Kernels of the pairings that do not depend on the kind of rows.
#include "pairing.hpp"

#include <bit>

namespace antithetic {
namespace {

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

// Whether any of some numbers is below a bound. NaN is not.
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

// One more than the largest candidate.
std::size_t one_beyond(Matrix<const Index> positions) {
  Index most = -1;
  for (Index k = 0; k < positions.rows * positions.columns; ++k) {
    most = std::max(most, positions.at[k]);
  }
  return static_cast<std::size_t>(most + 1);
}

// First candidate of a row that is still free; -1 where the list is used up.
Index first_free(const Index* candidates, Index many, const std::vector<char>& taken) {
  for (Index k = 0; k < many && candidates[k] >= 0; ++k) {
    if (!taken[static_cast<std::size_t>(candidates[k])]) return candidates[k];
  }
  return -1;
}

// Place in a cycle of the first link to keep, so that the kept ones, every other one, have the
// smallest sum; link k leads from cycle[k] to the next row.
std::size_t best_first_link(const std::vector<Index>& cycle, std::span<const double> products) {
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

class Buckets {
 public:
  Buckets(Matrix<const float> points, std::span<Index> rows, std::span<Index> others)
      : points_(points), rows_(rows), others_(others) {}

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
      reorder(rows_, axis, 1.0f, first, last, middle);
      if (!others_.empty()) reorder(others_, axis, -1.0f, first, last, middle);
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

  // Reorder so that the smallest values of sign * coordinate come before `middle`. They are
  // anywhere in memory: each is fetched once, while others are on their way.
  void reorder(std::span<Index> rows, Index axis, float sign, Index first, Index last,
               Index middle) {
    constexpr Index ahead = 32;
    keyed_.resize(static_cast<std::size_t>(last - first));
    for (Index k = first; k < last; ++k) {
      if (k + ahead < last) {
        prefetch(points_.row(rows[static_cast<std::size_t>(k + ahead)]) + axis);
      }
      const Index row = rows[static_cast<std::size_t>(k)];
      keyed_[static_cast<std::size_t>(k - first)] = {sign * coordinate(row, axis), row};
    }
    select(middle - first);
    for (Index k = first; k < last; ++k) {
      rows[static_cast<std::size_t>(k)] = keyed_[static_cast<std::size_t>(k - first)].second;
    }
  }

  // Bring the smallest values before `middle` (Hoare).
  void select(Index middle) {
    const auto value = [this](Index k) { return keyed_[static_cast<std::size_t>(k)].first; };
    Index low = 0, high = static_cast<Index>(keyed_.size()) - 1;
    while (low < high) {
      const float a = value(low), b = value((low + high) / 2), c = value(high);
      const float pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
      Index i = low, j = high;
      while (i <= j) {
        while (value(i) < pivot) ++i;
        while (value(j) > pivot) --j;
        if (i <= j) {
          std::swap(keyed_[static_cast<std::size_t>(i)], keyed_[static_cast<std::size_t>(j)]);
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
  std::vector<std::pair<float, Index>> keyed_;  // rows of a node, with what they are ordered by
};

// Products of some rows of the left matrix with `columns` columns of the right one from j on.
template <Index rows, Index columns, class Real>
ANTITHETIC_INLINE void multiply_tile(const Real* left, const Real* right, Index d, Index width,
                                     Real* products) {
  constexpr Index most_terms =
      512;  // of one sum: many short sums lose fewer digits than a long one
  Index first = 0;
  do {
    detail::Lanes<Real, columns> sums[static_cast<std::size_t>(rows)];
    const Index last = std::min(d, first + most_terms);
    for (Index c = first; c < last; ++c) {
      detail::unrolled<static_cast<std::size_t>(rows)>([&](auto r) {
        sums[r].add_multiple(left[static_cast<Index>(r()) * d + c], right + c * width);
      });
    }
    detail::unrolled<static_cast<std::size_t>(rows)>([&](auto r) {
      Real* of_row = products + static_cast<Index>(r()) * width;
      if (first > 0) sums[r].add_multiple(Real{1}, of_row);
      sums[r].store(of_row);
    });
    first = last;
  } while (first < d);
}

// Rows whose products with a panel are computed together: two sums of each stay in registers.
constexpr Index tile_rows = register_lanes<float> >= 16 ? 8 : 4;

// Products of up to `tile_rows` rows with a panel.
ANTITHETIC_INLINE void multiply_panel(const float* rows, Index count, const float* panel, Index d,
                                      float* products) {
  constexpr Index columns = std::min(panel_width, 2 * register_lanes<float>);
  for (Index j = 0; j < panel_width; j += columns) {
    if (count == tile_rows) {
      multiply_tile<tile_rows, columns>(rows, panel + j, d, panel_width, products + j);
      continue;
    }
    for (Index r = 0; r < count; ++r) {
      float* of_row = products + r * panel_width + j;
      multiply_tile<1, columns>(rows + r * d, panel + j, d, panel_width, of_row);
    }
  }
}

}  // namespace

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

void offer_panels(Matrix<const float> rows, const float* panels, Index many, Matrix<float> values,
                  Matrix<Index> positions) {
  const Index d = rows.columns, length = values.columns;
  float products[tile_rows * panel_width];
  for (Index p = 0; p < many; ++p) {
    const float* panel = panels + p * d * panel_width;
    for (Index first = 0; first < rows.rows; first += tile_rows) {
      const Index count = std::min(tile_rows, rows.rows - first);
      multiply_panel(rows.row(first), count, panel, d, products);
      for (Index r = 0; r < count; ++r) {
        const float* of_row = products + r * panel_width;
        float* smallest = values.row(first + r);
        if (!any_below<panel_width>(of_row, smallest[length - 1])) continue;
        offer_all(of_row, panel_width, p * panel_width, smallest, positions.row(first + r), length);
      }
    }
  }
}

void sharpen(Matrix<const double> rows, Matrix<const double> vectors, Matrix<const float> rounded,
             std::span<const double> slack, double scale, Matrix<Index> positions) {
  const Index length = positions.columns;
  const DenseRows<double> others{vectors.at, vectors.rows, vectors.columns};
  std::vector<std::pair<double, Index>> kept;
  for (Index r = 0; r < rows.rows; ++r) {
    Index* listed = positions.row(r);
    const double last = static_cast<double>(rounded(r, length - 1));
    const double most = last - slack[static_cast<std::size_t>(r)];
    kept.clear();
    for (Index k = 0; k < length && listed[k] >= 0; ++k) {
      const double product = others.dot(listed[k], rows.row(r));
      if (scale * product <= most) kept.emplace_back(product, listed[k]);
    }
    std::sort(kept.begin(), kept.end());
    std::fill_n(listed, length, Index{-1});
    for (std::size_t k = 0; k < kept.size(); ++k) listed[k] = kept[k].second;
  }
}

std::vector<Index> choose(Matrix<const Index> positions) {
  std::vector<char> taken(one_beyond(positions), 0);
  std::vector<Index> chosen;
  for (Index r = 0; r < positions.rows; ++r) {
    const Index found = first_free(positions.row(r), positions.columns, taken);
    if (found < 0) break;
    taken[static_cast<std::size_t>(found)] = 1;
    chosen.push_back(found);
  }
  return chosen;
}

std::vector<Index> choose_pairs(Matrix<const Index> positions) {
  const auto rows = static_cast<std::size_t>(positions.rows);
  std::vector<char> taken(std::max(rows, one_beyond(positions)), 0);
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

void alternate_links(Rows partner, std::span<const double> products, std::span<Index> mates) {
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

void skip_missing(Rows partner, Rows kept, Rows place, std::span<Index> out) {
  for (std::size_t k = 0; k < kept.size(); ++k) {
    Index row = partner[static_cast<std::size_t>(kept[k])];
    while (place[static_cast<std::size_t>(row)] < 0) row = partner[static_cast<std::size_t>(row)];
    out[k] = place[static_cast<std::size_t>(row)];
  }
}

std::vector<Index> cut_into_buckets(Matrix<const float> points, std::span<Index> rows,
                                    std::span<Index> others, Index low, Index high, Index leaf) {
  return Buckets(points, rows, others).cut(low, high, leaf);
}

template <class Real>
void Assignment<Real>::solve(Matrix<const Real> cost, Index n) {
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

template <class Real>
void Assignment<Real>::find_cheapest_rows(Matrix<const Real> cost, Index n) {
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

template <class Real>
void Assignment<Real>::augment(Matrix<const Real> cost, Index n, Index start) {
  std::fill_n(row_seen_.begin(), n, char{0});
  std::fill(std::fill_n(open_.begin(), n, infinity), open_.end(), closed);
  double reached = 0.0;
  Index i = start, sink = -1;
  while (sink < 0) {
    row_seen_[size(i)] = 1;
    reach_from(cost.row(i), n, i, reached - row_dual[size(i)]);
    const Index j = nearest_open(n);
    if (j < 0 || !(open_[size(j)] < infinity)) {
      throw std::domain_error("products of rows that are paired must be finite");
    }
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

template <class Real>
void Assignment<Real>::reach_from(const Real* ANTITHETIC_RESTRICT costs, Index n, Index row,
                                  double base) {
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

template <class Real>
Index Assignment<Real>::nearest_open(Index n) const {
  const double* open = open_.data();
  double of_lanes[lanes_at_once], lowest = infinity;
  std::fill_n(of_lanes, lanes_at_once, infinity);
  auto least = block_at<lanes_at_once>(of_lanes);
  for (Index j = 0; j < n; j += lanes_at_once) {
    least = lesser(block_at<lanes_at_once>(open + j), least);
  }
  put(of_lanes, least);
  for (const double distance : of_lanes) lowest = distance < lowest ? distance : lowest;
  Index nearest = -1;
  for (Index j = 0; j < n; ++j) {
    if (open[j] != lowest) continue;
    if (row_of[size(j)] < 0) return j;
    if (nearest < 0) nearest = j;
  }
  return nearest;
}

template <class Real>
void Assignment<Real>::lower_duals(Index n, Index start, double reached) {
  row_dual[size(start)] += reached;
  for (Index k = 0; k < n; ++k) {
    if (row_seen_[size(k)] && k != start) {
      row_dual[size(k)] += reached - distance_[size(column_of[size(k)])];
    }
    if (std::isnan(open_[size(k)])) column_dual[size(k)] -= reached - distance_[size(k)];
  }
}

template <class Real>
void multiply(const Real* left, const Real* right, Index d, Matrix<Real> products) {
  constexpr Index rows = product_rows, columns = product_columns<Real>;
  const Index width = products.columns;
  for (Index i = 0; i < products.rows; i += rows) {
    for (Index j = 0; j < width; j += columns) {
      multiply_tile<rows, columns>(left + i * d, right + j, d, width, products.row(i) + j);
    }
  }
}

template void offer(Matrix<const float>, Index, Matrix<float>, Matrix<Index>);
template void offer(Matrix<const double>, Index, Matrix<double>, Matrix<Index>);
template class Assignment<float>;
template class Assignment<double>;
template void multiply(const float*, const float*, Index, Matrix<float>);
template void multiply(const double*, const double*, Index, Matrix<double>);

}  // namespace antithetic
