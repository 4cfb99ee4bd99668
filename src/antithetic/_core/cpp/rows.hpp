// Access to rows, dense or compressed: products with vectors, and sums into them.
//
// Kernels are templates over these two. Vectors of weights may be interleaved with another vector
// (stride 2), so that one cache line serves both where a sparse row touches single features.
#pragma once

#include "sums.hpp"

namespace antithetic {

// Every Stride-th number from an address on.
template <class Real, int Stride = 1>
struct Vector {
  Real* at;
  Real& operator[](Index j) const { return at[j * Stride]; }
};

template <class Real>
struct TwoProducts {
  Real first, second;
};

template <class Real>
struct FourProducts {
  Real first, second, first_signed, second_signed;
};

template <class Real_>
struct DenseRows {
  using Real = Real_;
  static constexpr bool is_sparse = false;
  static constexpr bool is_centred = false;
  static constexpr Index ahead = 16, far_ahead = 32;  // rows until a prefetched one is used
  static constexpr Index few = 256 / Index{sizeof(Real)}, start = few / 2;  // numbers of a row

  const Real* X;
  Index n, d;

  const Real* row(Index i) const { return X + i * d; }
  Index length(Index) const { return d; }

  // How many rows, from the first one on, have so many numbers from their start to the end of X.
  Index roomy(Index width) const { return d == 0 || n * d < width ? 0 : (n * d - width) / d + 1; }

  // The start of a row, of so many numbers: of a long one, hardware finds the rest by itself.
  template <Cache level>
  void prefetch_row(Index i, Index count) const {
    constexpr Index page = 4096 / Index{sizeof(Real)};
    prefetch_lines<level>(row(i), std::min(count, page));
  }

  // Entries 8 KB beyond the start of row i, as many as some rows have: what a pass in the order of
  // the rows meets soon. Hardware that looks ahead by itself stops at the end of a page; along rows
  // that are longer than this together, it starts again sooner than that matters.
  void prefetch_later(Index i, Index rows) const {
    constexpr Index ahead_by = 8192 / Index{sizeof(Real)};
    const Index first = i * d + ahead_by, count = std::min(rows * d, n * d - first);
    if (rows * d <= ahead_by && count > 0) prefetch_lines(X + first, count);
  }

  // Entries of rows that come some places after k; the last of an epoch have none.
  void look_ahead(Rows order, Index k) const { look_ahead(order, k, d); }

  // Of a long row in memory only the start is asked for, early: hardware then fetches the rest into
  // the second level by itself, for which it has more buffers than there are for what is asked for.
  void look_ahead(Rows order, Index k, Index count) const {
    if (!are_in_memory()) {
      prefetch_ahead<ahead, Cache::first>(order, k, count);
    } else if (count <= few) {
      prefetch_ahead<ahead, Cache::second>(order, k, count);
    } else {
      prefetch_ahead<far_ahead, Cache::second>(order, k, start);
      prefetch_ahead<ahead / 2, Cache::first>(order, k, count);
    }
  }

  template <Index distance, Cache level>
  void prefetch_ahead(Rows order, Index k, Index count) const {
    if (k + distance >= static_cast<Index>(order.size())) return;
    prefetch_row<level>(order[static_cast<std::size_t>(k + distance)], count);
  }

  // Whether the rows are too many for the last level of a cache, so that each takes long to come.
  bool are_in_memory() const {
    constexpr Index most = (Index{24} << 20) / Index{sizeof(Real)};
    return n * d > most;
  }

  template <class Function>
  void for_each(Index i, Function function) const {
    const Real* x = row(i);
    for (Index c = 0; c < d; ++c) function(c, x[c]);
  }

  Real dot(Index i, const Real* w) const { return products<Real, 1>(d, {row(i)}, {w})[0]; }

  // Both products in one visit; each has the bits that it has alone.
  ANTITHETIC_INLINE TwoProducts<Real> dots(Index i, Index j, const Real* w) const {
    const auto [p, q] = products<Real, 2>(d, {row(i), row(j)}, {w, w});
    return {p, q};
  }

  // Two vectors as `dots_with` reads them.
  struct TwoVectors {
    const Real *first, *second;
  };

  TwoVectors side_by_side(const Real* w, const Real* v) const { return {w, v}; }

  // Products of one row with two vectors, in a pass in the order of the rows.
  TwoProducts<Real> dots_with(Index i, const TwoVectors& both) const {
    prefetch_later(i, 1);
    const auto [p, q] = products<Real, 2>(d, {row(i), row(i)}, {both.first, both.second});
    return {p, q};
  }

  ANTITHETIC_INLINE FourProducts<Real> dots(Index i, Index j, const Real* w, const Real* s) const {
    const Real *x = row(i), *z = row(j);
    const auto [p, q, r, t] = products<Real, 4>(d, {x, z, x, z}, {w, w, s, s});
    return {p, q, r, t};
  }

  void add(Index i, Real a, Real* w) const {
    const Real* x = row(i);
    in_blocks<Real>(d, [&](Index c, auto many) {
      put(w + c, block_at<many>(w + c) + a * block_at<many>(x + c));
    });
  }

  ANTITHETIC_INLINE void add(Index i, Real a, Index j, Real b, Real* w) const {
    const Real *x = row(i), *z = row(j);
    in_blocks<Real>(d, [&](Index c, auto many) {
      const auto first = block_at<many>(x + c), second = block_at<many>(z + c);
      put(w + c, block_at<many>(w + c) + (a * first + b * second));
    });
  }

  // Weights and signed sum in one pass.
  ANTITHETIC_INLINE void add(Index i, Real a, Real e, Index j, Real b, Real f, Real* w,
                             Real* s) const {
    const Real *x = row(i), *z = row(j);
    in_blocks<Real>(d, [&](Index c, auto many) {
      const auto first = block_at<many>(x + c), second = block_at<many>(z + c);
      const auto moved = block_at<many>(w + c) + (a * first + b * second);
      const auto summed = block_at<many>(s + c) + (e * first + f * second);
      put(w + c, moved);
      put(s + c, summed);
    });
  }

  // Weights moved along two rows and against a mean gradient.
  void add(Index i, Real a, Index j, Real b, Real* ANTITHETIC_RESTRICT w, Real drift,
           const Real* ANTITHETIC_RESTRICT mean) const {
    const Real *x = row(i), *z = row(j);
    for (Index c = 0; c < d; ++c) w[c] += a * x[c] + b * z[c] - drift * mean[c];
  }

  // The same, and the mean gradient renewed by what changed of the two rows.
  void add_and_renew(Index i, Real a, Real e, Index j, Real b, Real f, Real* ANTITHETIC_RESTRICT w,
                     Real drift, Real* ANTITHETIC_RESTRICT mean) const {
    const Real *x = row(i), *z = row(j);
    for (Index c = 0; c < d; ++c) {
      const Real remembered = mean[c];
      w[c] += a * x[c] + b * z[c] - drift * remembered;
      mean[c] = remembered + e * x[c] + f * z[c];
    }
  }

  double square(Index i) const {
    const Real* x = row(i);
    double sum = 0.0;
    for (Index c = 0; c < d; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(x[c]);
    return sum;
  }
};

template <class Real_>
struct CsrRows {
  using Real = Real_;
  static constexpr bool is_sparse = true;
  static constexpr bool is_centred = false;
  // Rows ahead whose entries, and whose place, are prefetched.
  static constexpr Index entries_ahead = 4, starts_ahead = 16;

  const Real* data;
  const std::int32_t* indices;
  const Index* indptr;
  Index n, d;

  Index begin(Index i) const { return indptr[i]; }
  Index end(Index i) const { return indptr[i + 1]; }
  Index length(Index i) const { return end(i) - begin(i); }

  void look_ahead(Rows order, Index k) const {
    if (k + starts_ahead >= static_cast<Index>(order.size())) return;
    prefetch(indptr + order[static_cast<std::size_t>(k + starts_ahead)]);
    const Index row = order[static_cast<std::size_t>(k + entries_ahead)];
    prefetch_few(data + begin(row), length(row));
    prefetch_few(indices + begin(row), length(row));
  }

  template <class Function>
  void for_each(Index i, Function function) const {
    for (Index place = begin(i); place < end(i); ++place) {
      function(static_cast<Index>(indices[place]), data[place]);
    }
  }

  // The entries of a row. Loops that store bytes work on this copy: a compiler would read the
  // members again after each store, since bytes may be part of anything.
  struct Entries {
    const Real* values;
    const std::int32_t* columns;
    Index count;
  };

  Entries entries(Index i) const { return {data + begin(i), indices + begin(i), length(i)}; }

  // Four sums, since one would wait for itself, and a vectorised one would gather, which is slower.
  template <int Stride = 1>
  Real dot(Index i, const Real* w) const {
    const Index first = begin(i), last = end(i), fours = last - (last - first) % 4;
    Real a = 0, b = 0, c = 0, e = 0;
    for (Index place = first; place < fours; place += 4) {
      a += data[place] * w[Stride * static_cast<Index>(indices[place])];
      b += data[place + 1] * w[Stride * static_cast<Index>(indices[place + 1])];
      c += data[place + 2] * w[Stride * static_cast<Index>(indices[place + 2])];
      e += data[place + 3] * w[Stride * static_cast<Index>(indices[place + 3])];
    }
    for (Index place = fours; place < last; ++place) {
      a += data[place] * w[Stride * static_cast<Index>(indices[place])];
    }
    return (a + b) + (c + e);
  }

  // Products with two interleaved vectors, in the same order of sums as `dot`.
  ANTITHETIC_INLINE TwoProducts<Real> dot_interleaved(Index i, const Real* both) const {
    const Entries x = entries(i);
    const auto term = [&](Index k) ANTITHETIC_INLINE_LAMBDA {
      return x.values[k] * block_at<2>(both + 2 * static_cast<Index>(x.columns[k]));
    };
    // sums with names: GCC would keep an array of them in memory
    const Index fours = x.count - x.count % 4;
    Block<Real, 2> a{}, b{}, c{}, e{};
    for (Index k = 0; k < fours; k += 4) {
      a += term(k);
      b += term(k + 1);
      c += term(k + 2);
      e += term(k + 3);
    }
    for (Index k = fours; k < x.count; ++k) a += term(k);
    Real totals[2];
    put(totals, (a + b) + (c + e));
    return {totals[0], totals[1]};
  }

  // Two vectors, interleaved, as `dots_with` reads them; none if there is no second.
  using TwoVectors = std::vector<Real>;

  TwoVectors side_by_side(const Real* w, const Real* v) const {
    TwoVectors both;
    if (v == nullptr) return both;
    both.reserve(static_cast<std::size_t>(2 * d));
    for (Index j = 0; j < d; ++j) both.insert(both.end(), {w[j], v[j]});
    return both;
  }

  TwoProducts<Real> dots_with(Index i, const TwoVectors& both) const {
    return dot_interleaved(i, both.data());
  }

  template <int Stride = 1>
  void add(Index i, Real a, Real* w) const {
    for (Index place = begin(i); place < end(i); ++place) {
      w[Stride * static_cast<Index>(indices[place])] += a * data[place];
    }
  }

  ANTITHETIC_INLINE void add_interleaved(Index i, Real a, Real e, Real* both) const {
    add_interleaved(i, a, e, both, [](Index, Real value) { return value; });
  }

  // Entries are added as scaled(column, value).
  template <class Scaled>
  ANTITHETIC_INLINE void add_interleaved(Index i, Real a, Real e, Real* both, Scaled scaled) const {
    const Entries x = entries(i);
    const auto multiples = two_of(a, e);
    for (Index k = 0; k < x.count; ++k) {
      const auto column = static_cast<Index>(x.columns[k]);
      Real* feature = both + 2 * column;
      put(feature, block_at<2>(feature) + scaled(column, x.values[k]) * multiples);
    }
  }

  double square(Index i) const {
    double sum = 0.0;
    for (Index place = begin(i); place < end(i); ++place) {
      sum += static_cast<double>(data[place]) * static_cast<double>(data[place]);
    }
    return sum;
  }
};

}  // namespace antithetic
