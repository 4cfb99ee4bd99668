// Losses, slopes and divergences of many classes.
//
// A few rows at a time lie side by side, one column for each class, so that all sums over classes
// are sums of columns: no loop is shorter than the registers, however few the classes are.
#include "softmax_rows.hpp"

#include "logistic.hpp"
#include "second_order.hpp"

namespace antithetic {
namespace {

constexpr Index side_by_side = 32;

// One number for each of the rows that lie side by side.
using Column = double[side_by_side];

// log(1 + r) for r >= 0, of operations that vectorise; NaN stays NaN.
inline double log1p_of_positive(double r) {
  constexpr std::int64_t one = std::bit_cast<std::int64_t>(1.0);
  constexpr std::int64_t fraction = (std::int64_t{1} << 52) - 1;
  constexpr double log_2 = 0.6931471805599453;
  const std::int64_t bits = std::bit_cast<std::int64_t>(1.0 + r), power = (bits - one) >> 52;
  const double rest = std::bit_cast<double>((bits & fraction) | one) - 1.0;
  const double whole = static_cast<double>(static_cast<std::int32_t>(power)) * log_2;
  return (whole + log1p_of_unit(power > 0 ? rest : r)) + 0.0 * r;
}

// These loops are not inlined, or GCC no longer vectorises them.

// The largest score of each row; NaN if one is NaN or infinite.
ANTITHETIC_OUTLINE void largest_of(const Column* ANTITHETIC_RESTRICT scores, Index classes,
                                   Column& ANTITHETIC_RESTRICT largest) {
  Column wrong = {};
  std::copy_n(scores[0], side_by_side, largest);
  for (Index k = 0; k < classes; ++k) {
    for (Index r = 0; r < side_by_side; ++r) {
      const double score = scores[k][r];
      largest[r] = score > largest[r] ? score : largest[r];
      wrong[r] += score - score;
    }
  }
  for (Index r = 0; r < side_by_side; ++r) largest[r] += wrong[r];
}

// exp(score - largest), and their sums: of those below the largest, of the others, of squares.
ANTITHETIC_OUTLINE void exponentials(Column& ANTITHETIC_RESTRICT scores,
                                     const Column& ANTITHETIC_RESTRICT largest,
                                     Column& ANTITHETIC_RESTRICT below,
                                     Column& ANTITHETIC_RESTRICT tops,
                                     Column& ANTITHETIC_RESTRICT squares) {
  for (Index r = 0; r < side_by_side; ++r) {
    const double e = exp_of_negative<1>(scores[r] - largest[r]);
    const double top = e == 1.0 ? 1.0 : 0.0;
    below[r] += e - top;
    tops[r] += top;
    squares[r] += e * e;
    scores[r] = e;
  }
}

ANTITHETIC_OUTLINE void multiply(Column& ANTITHETIC_RESTRICT numbers,
                                 const Column& ANTITHETIC_RESTRICT factors) {
  for (Index r = 0; r < side_by_side; ++r) numbers[r] *= factors[r];
}

// Visit all rows and classes, a few classes at a time: of many, the columns or the rows would leave
// the cache before their lines are full.
template <class Step>
ANTITHETIC_INLINE void in_tiles(Index rows, Index classes, Step step) {
  constexpr Index few = 8;
  for (Index first = 0; first < classes; first += few) {
    const Index last = std::min(classes, first + few);
    for (Index r = 0; r < rows; ++r) {
      for (Index k = first; k < last; ++k) step(r, k);
    }
  }
}

// Scores of a few rows as exponentials, which the largest does not dominate: `rest` is their sum
// without it, so that 1 - p keeps its digits.
class SoftmaxRows {
 public:
  explicit SoftmaxRows(Index classes)
      : classes_(classes),
        columns_(std::make_unique<Column[]>(static_cast<std::size_t>(classes))) {}

  // Rows of weight zero, and those beyond the last, have equal scores.
  template <class Real>
  void take(const ScoreTable<Real>& table, Index start) {
    const Index many = std::min(side_by_side, table.rows - start);
    for (Index r = 0; r < side_by_side; ++r) {
      weight[r] = r < many ? table.weight_of(start + r) : 0.0;
    }
    in_tiles(side_by_side, classes_, [&](Index r, Index k) {
      const bool counts = weight[r] > 0.0;  // a weight of zero beats an infinite loss
      const Index place = (start + r) * classes_ + k;
      columns_[k][r] = counts ? static_cast<double>(table.scores[place]) : 0.0;
    });
    largest_of(columns_.get(), classes_, largest);
    Column below = {}, tops = {};
    std::fill_n(square, side_by_side, 0.0);
    for (Index k = 0; k < classes_; ++k) exponentials(columns_[k], largest, below, tops, square);
    for (Index r = 0; r < side_by_side; ++r) {
      rest[r] = below[r] + (tops[r] - 1.0);
      inverse[r] = 1.0 / (1.0 + rest[r]);
    }
  }

  Column& column(Index k) { return columns_[k]; }
  double chance(Index k, Index r) const { return columns_[k][r] * inverse[r]; }
  // 1 - p
  double other_chance(Index k, Index r) const {
    const double e = columns_[k][r];
    return (e == 1.0 ? rest[r] : 1.0 + (rest[r] - e)) * inverse[r];
  }
  // -log p
  double loss(double score, Index r) const { return std::log1p(rest[r]) + (largest[r] - score); }

  Column weight, largest, rest, square, inverse;

 private:
  Index classes_;
  std::unique_ptr<Column[]> columns_;
};

// The columns as rows of a table again.
template <class Real>
void put_back(SoftmaxRows& rows, Index many, Index classes, Real* out) {
  in_tiles(many, classes,
           [&](Index r, Index k) { out[r * classes + k] = static_cast<Real>(rows.column(k)[r]); });
}

// p'' log(p'' / p) - p'' + p, which is not negative, with p'' = p (1 + change).
double divergence(double chance, double log_chance, double moved, double change) {
  if (change < 1.0) {  // also where p'' is zero
    const double left = 1.0 + change;
    return left > 0.0 ? chance * (left * std::log1p(change) - change) : chance;
  }
  return moved * (std::log(moved) - log_chance) - (moved - chance);
}

}  // namespace

template <class Real>
SoftmaxTotals softmax_slopes(const ScoreTable<Real>& table, std::span<double> sums, Pulse& pulse) {
  const Index classes = table.classes;
  SoftmaxRows rows(classes);
  SoftmaxTotals totals;
  for (Index start = 0; start < table.rows; start += side_by_side) {
    const Index many = std::min(side_by_side, table.rows - start);
    Real* scores = table.scores + start * classes;
    const Index* labels = table.labels.data() + start;
    rows.take(table, start);
    Column losses = {}, others = {}, squares, factors;
    for (Index r = 0; r < side_by_side; ++r) losses[r] = log1p_of_positive(rows.rest[r]);
    for (Index r = 0; r < side_by_side; ++r) {
      squares[r] = rows.square[r] * rows.inverse[r] * rows.inverse[r];
      factors[r] = rows.weight[r] * rows.inverse[r];
    }
    for (Index r = 0; r < many; ++r) {
      const double w = rows.weight[r], p = rows.chance(labels[r], r);
      const double q = rows.other_chance(labels[r], r);
      others[r] = -w * q;
      if (w > 0.0)
        losses[r] += rows.largest[r] - static_cast<double>(scores[r * classes + labels[r]]);
      totals.loss += w * losses[r];
      totals.slope_square += w * w * (squares[r] + q * q - p * p);
      totals.curvature += w * std::max(0.0, 1.0 - squares[r]);
    }
    for (Index k = 0; k < classes; ++k) {
      multiply(rows.column(k), factors);
      sums[static_cast<std::size_t>(k)] += sum_in_lanes(rows.column(k), side_by_side);
    }
    put_back(rows, many, classes, scores);
    for (Index r = 0; r < many; ++r) {
      scores[r * classes + labels[r]] = static_cast<Real>(others[r]);
      sums[static_cast<std::size_t>(labels[r])] -= rows.weight[r];
    }
    pulse.beat(many * classes);
  }
  return totals;
}

template <class Real>
void softmax_chances(const ScoreTable<Real>& table, Real* curvatures, Pulse& pulse) {
  const Index classes = table.classes;
  SoftmaxRows rows(classes);
  for (Index start = 0; start < table.rows; start += side_by_side) {
    const Index many = std::min(side_by_side, table.rows - start);
    rows.take(table, start);
    for (Index k = 0; k < classes; ++k) multiply(rows.column(k), rows.inverse);
    put_back(rows, many, classes, table.scores + start * classes);
    for (Index k = 0; k < classes; ++k) {
      Column& p = rows.column(k);
      for (Index r = 0; r < side_by_side; ++r) {
        // 1 - p loses no digits where p is nearly 1
        p[r] *= p[r] == rows.inverse[r] ? rows.rest[r] * rows.inverse[r] : 1.0 - p[r];
      }
    }
    put_back(rows, many, classes, curvatures + start * classes);
    pulse.beat(many * classes);
  }
}

template <class Real>
double softmax_divergence(const ScoreTable<Real>& table, const OtherChances& others, Pulse& pulse) {
  const Index classes = table.classes;
  SoftmaxRows rows(classes);
  double total = 0.0;
  for (Index i = 0; i < table.rows; ++i) {
    const Index r = i % side_by_side;
    if (r == 0) rows.take(table, i);
    const double weight = rows.weight[r];
    if (!(weight > 0.0)) continue;
    const Real* scores = table.scores + i * classes;
    double taken = 0.0;
    for (Index k = 0; k < classes; ++k) {
      taken += (1.0 - others.kept[static_cast<std::size_t>(k)]) * rows.chance(k, r);
    }
    const Index label = table.labels[static_cast<std::size_t>(i)];
    double of_row = 0.0;
    for (Index k = 0; k < classes; ++k) {
      const auto place = static_cast<std::size_t>(k);
      const double p = rows.chance(k, r), kept = others.kept[place];
      const double more = taken * others.given[place];
      double moved = others.share * (kept * p + more);
      double change = others.share * kept - 1.0;
      if (k == label) moved += 1.0 - others.share;
      const double added = others.share * more + (k == label ? 1.0 - others.share : 0.0);
      if (added > 0.0) change += added / p;
      if (change != 0.0) {
        of_row += divergence(p, -rows.loss(static_cast<double>(scores[k]), r), moved, change);
      }
    }
    total += weight * of_row;
    pulse.beat(classes);
  }
  return total;
}

template SoftmaxTotals softmax_slopes(const ScoreTable<float>&, std::span<double>, Pulse&);
template SoftmaxTotals softmax_slopes(const ScoreTable<double>&, std::span<double>, Pulse&);
template void softmax_chances(const ScoreTable<float>&, float*, Pulse&);
template void softmax_chances(const ScoreTable<double>&, double*, Pulse&);
template double softmax_divergence(const ScoreTable<float>&, const OtherChances&, Pulse&);
template double softmax_divergence(const ScoreTable<double>&, const OtherChances&, Pulse&);

}  // namespace antithetic
