// Centred rows: SGD in units of the data's own, that is in centred columns and a metric.
//
// With a centre m and a metric P (a positive number per column), a row x is read as x - m, and
// adding it to weights or to a signed sum adds P (x - m). That is SGD on the columns sqrt(P) (x -
// m) in the weights of the columns as they are, so the optimum stays where it is; products with a
// signed sum are those of that metric. The intercept is that of the centred columns.
//
// Dense rows subtract the centre as they are read: nothing cancels, however far columns are from
// zero. Sparse rows are never filled: a vector v is kept as v = u - a P m with a number a, so that
// adding x - m changes u at the entries of x, and a. With <m, u> kept as well, a product with
// x - m takes one with x, and <P m, x>, which is the same for a whole run.
#pragma once

#include "rows.hpp"

namespace antithetic {

// Centre and metric, one number per column each; none for rows as they are. Of sparse rows also the
// products <P m, x>, one per row.
template <class Real>
struct Preconditioner {
  std::span<const Real> centre, metric;
  std::span<const double> products;

  bool exist() const { return !metric.empty(); }
};

// Dense rows are read in whole registers, beyond their ends into the next row: there the metric,
// the centre and all vectors are zero, so that what is read does not count. The last rows, which
// nothing follows, are copied.
template <class Real_>
struct CentredDenseRows : DenseRows<Real_> {
  using Real = Real_;
  static constexpr bool is_centred = true;

 private:
  using Sums = detail::Lanes<Real, lanes<Real>>;
  Index width_;  // columns, up to whole registers
  Index roomy_;  // rows that may be read up to that width
  AlignedVector<Real> padded_, last_;

 public:
  const Real* centre;
  const Real* metric;

  CentredDenseRows(const DenseRows<Real>& rows, const Preconditioner<Real>& given)
      : DenseRows<Real>(rows),
        width_((rows.d + Sums::width - 1) / Sums::width * Sums::width),
        roomy_(rows.roomy(width_)),
        padded_(2 * width_),
        last_((rows.n - roomy_) * width_) {
    std::copy_n(given.centre.data(), rows.d, padded_.data());
    std::copy_n(given.metric.data(), rows.d, padded_.data() + width_);
    centre = padded_.data();
    metric = padded_.data() + width_;
    for (Index i = roomy_; i < rows.n; ++i) {
      std::copy_n(rows.row(i), rows.d, last_.data() + (i - roomy_) * width_);
    }
  }

  CentredDenseRows(const CentredDenseRows&) = delete;  // centre and metric are its own

  const Real* row(Index i) const {
    return i < roomy_ ? this->X + i * this->d : last_.data() + (i - roomy_) * width_;
  }

  void look_ahead(Rows order, Index k) const { DenseRows<Real>::look_ahead(order, k, width_); }

  // Products of some rows with some vectors: those of the first row with each vector come first.
  template <std::size_t rows, std::size_t vectors>
  ANTITHETIC_INLINE std::array<Real, rows * vectors> products_with(
      const Real* const (&x)[rows], const Real* const (&w)[vectors]) const {
    Sums sums[rows * vectors];
    // a call would pass the sums through memory
    const auto add = [&](Index first, auto part) ANTITHETIC_INLINE_LAMBDA {
      constexpr Index width = Sums::width;
      const auto middle = block_at<width>(centre + first);
      detail::unrolled<rows>([&](auto i) {
        const auto entries = block_at<width>(x[i] + first) - middle;
        detail::unrolled<vectors>([&](auto k) {
          sums[i * vectors + k].part[part] += entries * block_at<width>(w[k] + first);
        });
      });
    };
    const auto first_of = [](Index c, auto part) {
      return c + static_cast<Index>(part()) * Sums::width;
    };
    Index c = 0;
    for (; c + lanes<Real> <= width_; c += lanes<Real>) {
      detail::unrolled<Sums::parts>([&](auto part) { add(first_of(c, part), part); });
    }
    detail::unrolled<Sums::parts - 1>([&](auto part) {
      if (first_of(c, part) < width_) add(first_of(c, part), part);
    });
    std::array<Real, rows * vectors> totals;
    detail::unrolled<rows * vectors>([&](auto k) { totals[k] = sums[k].total(); });
    return totals;
  }

  Real dot(Index i, const Real* w) const { return products_with<1, 1>({row(i)}, {w})[0]; }

  ANTITHETIC_INLINE TwoProducts<Real> dots(Index i, Index j, const Real* w) const {
    const auto [p, q] = products_with<2, 1>({row(i), row(j)}, {w});
    return {p, q};
  }

  ANTITHETIC_INLINE FourProducts<Real> dots(Index i, Index j, const Real* w, const Real* s) const {
    const auto [p, r, q, t] = products_with<2, 2>({row(i), row(j)}, {w, s});
    return {p, q, r, t};
  }

  void add(Index i, Real a, Real* w) const {
    const Real* x = row(i);
    in_whole_blocks(
        [&](Index c, auto many) { put(w + c, block_at<many>(w + c) + a * scaled<many>(x, c)); });
  }

  // Weights moved along two rows, and shrunk: w -= shrinkage P w, all at the weights before.
  ANTITHETIC_INLINE void add(Index i, Real a, Index j, Real b, Real* w, Real shrinkage = 0) const {
    const Real *x = row(i), *z = row(j);
    in_whole_blocks([&](Index c, auto many) {
      put(w + c, moved<many>(w, c, a * scaled<many>(x, c) + b * scaled<many>(z, c), shrinkage));
    });
  }

  // Weights and signed sum in one pass.
  ANTITHETIC_INLINE void add(Index i, Real a, Real e, Index j, Real b, Real f, Real* w, Real* s,
                             Real shrinkage) const {
    const Real *x = row(i), *z = row(j);
    in_whole_blocks([&](Index c, auto many) {
      const auto first = scaled<many>(x, c), second = scaled<many>(z, c);
      const auto weights = moved<many>(w, c, a * first + b * second, shrinkage);
      const auto summed = block_at<many>(s + c) + (e * first + f * second);
      put(w + c, weights);
      put(s + c, summed);
    });
  }

  void shrink(Real* w, Real shrinkage) const {
    for (Index c = 0; c < this->d; ++c) w[c] -= shrinkage * metric[c] * w[c];
  }

 private:
  // Entries from the centre on, times the metric.
  template <Index many>
  ANTITHETIC_INLINE Block<Real, many> scaled(const Real* x, Index c) const {
    return block_at<many>(metric + c) * (block_at<many>(x + c) - block_at<many>(centre + c));
  }

  // Weights after a move and a shrinkage.
  template <Index many>
  ANTITHETIC_INLINE Block<Real, many> moved(const Real* w, Index c, const Block<Real, many>& move,
                                            Real shrinkage) const {
    const auto before = block_at<many>(w + c);
    return (before - shrinkage * (block_at<many>(metric + c) * before)) + move;
  }

  template <class Step>
  ANTITHETIC_INLINE void in_whole_blocks(Step step) const {
    constexpr Index many = register_lanes<Real>;
    for (Index c = 0; c < width_; c += many) step(c, std::integral_constant<Index, many>{});
  }
};

template <class Real_>
struct CentredCsrRows : CsrRows<Real_> {
  using Real = Real_;
  using Plain = CsrRows<Real_>;
  static constexpr bool is_centred = true;

  const Real* centre;
  const Real* metric;
  const double* shared;  // <P m, x> of each row
  double span = 0.0;     // <P m, m>

  CentredCsrRows(const Plain& rows, const Preconditioner<Real>& given)
      : Plain(rows),
        centre(given.centre.data()),
        metric(given.metric.data()),
        shared(given.products.data()) {
    span = sum_in_lanes(this->d, [this](Index j) {
      const double middle = static_cast<double>(centre[j]);
      return static_cast<double>(metric[j]) * middle * middle;
    });
  }

  void look_ahead(Rows order, Index k) const {
    Plain::look_ahead(order, k);
    const auto later = static_cast<std::size_t>(k + Plain::starts_ahead);
    if (later < order.size()) prefetch(shared + order[later]);
  }

  template <int Stride = 1>
  void add(Index i, Real a, Real* w) const {
    for (Index place = this->begin(i); place < this->end(i); ++place) {
      const auto feature = static_cast<Index>(this->indices[place]);
      w[Stride * feature] += a * (metric[feature] * this->data[place]);
    }
  }

  ANTITHETIC_INLINE void add_interleaved(Index i, Real a, Real e, Real* both) const {
    const auto in_metric = [scale = metric](Index column, Real value)
                               ANTITHETIC_INLINE_LAMBDA { return scale[column] * value; };
    Plain::add_interleaved(i, a, e, both, in_metric);
  }
};

// What is subtracted from a vector u that sparse rows are added to: `along` times P m.
struct Offset {
  double along = 0.0;
  double product = 0.0;  // <m, u>

  // Product with x - m, from that of u with x.
  template <class RowAccess>
  typename RowAccess::Real corrected(typename RowAccess::Real score, const RowAccess& rows,
                                     Index i) const {
    const double left = product + along * (rows.shared[i] - rows.span);
    return static_cast<typename RowAccess::Real>(static_cast<double>(score) - left);
  }

  // A row was added so many times.
  template <class RowAccess>
  void add(double many, const RowAccess& rows, Index i) {
    along += many;
    product += many * rows.shared[i];
  }
};

// Rows of a kind, centred.
template <class RowAccess>
struct CentredRowsOf;

template <class Real>
struct CentredRowsOf<DenseRows<Real>> {
  using Type = CentredDenseRows<Real>;
};

template <class Real>
struct CentredRowsOf<CsrRows<Real>> {
  using Type = CentredCsrRows<Real>;
};

template <class RowAccess>
using CentredRows = typename CentredRowsOf<RowAccess>::Type;

}  // namespace antithetic
