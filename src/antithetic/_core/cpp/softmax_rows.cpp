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

  Column weight, largest, rest, square, inverse;

 private:
  Index classes_;
  std::unique_ptr<Column[]> columns_;
};

// The columns as rows of a table again, which may have other columns between one row and the next.
template <class Real>
void put_back(SoftmaxRows& rows, Index many, Index classes, Real* out, Index apart) {
  in_tiles(many, classes,
           [&](Index r, Index k) { out[r * apart + k] = static_cast<Real>(rows.column(k)[r]); });
}

// Add the products of two columns to a third.
ANTITHETIC_OUTLINE void add_products(const Column& ANTITHETIC_RESTRICT a,
                                     const Column& ANTITHETIC_RESTRICT b,
                                     Column& ANTITHETIC_RESTRICT sum) {
  for (Index r = 0; r < side_by_side; ++r) sum[r] += a[r] * b[r];
}

// Add to sums the chances times the squared relative changes, and the chances that a change leaves,
// which take the place of the exponentials; and find the least of what is left.
ANTITHETIC_OUTLINE void change_chances(Column& ANTITHETIC_RESTRICT chances,
                                       const Column& ANTITHETIC_RESTRICT changes,
                                       const Column& ANTITHETIC_RESTRICT inverse,
                                       Column& ANTITHETIC_RESTRICT squares,
                                       Column& ANTITHETIC_RESTRICT left,
                                       Column& ANTITHETIC_RESTRICT least) {
  for (Index r = 0; r < side_by_side; ++r) {
    const double p = chances[r] * inverse[r], c = changes[r], kept = 1.0 + c;
    squares[r] += p * c * c;
    least[r] = kept < least[r] ? kept : least[r];
    chances[r] = kept < 0.0 ? 0.0 : p * kept;  // NaN stays NaN
    left[r] += chances[r];
  }
}

// The relative changes of chances that a quadratic model expects of changes of scores.
class ChanceChanges {
 public:
  explicit ChanceChanges(Index classes)
      : classes_(classes),
        columns_(std::make_unique<Column[]>(static_cast<std::size_t>(classes))) {}

  template <class Real>
  void take(const ScoreChange<Real>& change, Index start, SoftmaxRows& rows) {
    take_scores(change, start, rows);
    subtract_mean(rows);
    subtract_mean(rows);  // of which rounding has left a little
  }

  // The changes of the scores themselves.
  template <class Real>
  void take_scores(const ScoreChange<Real>& change, Index start, const SoftmaxRows& rows) {
    const Index many = std::min(side_by_side, change.before.rows - start);
    in_tiles(side_by_side, classes_, [&](Index r, Index k) {
      const Index place = (start + r) * classes_ + k;
      const bool counts = r < many && rows.weight[r] > 0.0;
      columns_[k][r] = counts ? static_cast<double>(change.after[place]) -
                                    static_cast<double>(change.before.scores[place])
                              : 0.0;
    });
  }

  const Column& column(Index k) const { return columns_[k]; }

 private:
  void subtract_mean(SoftmaxRows& rows) {
    Column mean = {};
    for (Index k = 0; k < classes_; ++k) add_products(rows.column(k), columns_[k], mean);
    multiply(mean, rows.inverse);
    for (Index k = 0; k < classes_; ++k) {
      for (Index r = 0; r < side_by_side; ++r) columns_[k][r] -= mean[r];
    }
  }

  Index classes_;
  std::unique_ptr<Column[]> columns_;
};

// p'' log(p'' / p) - p'' + p, which is not negative, with p'' = p (1 + change).
double divergence(double chance, double log_chance, double moved, double change) {
  if (std::abs(change) < 0.01) {  // a series is as exact, and needs no logarithm
    const double c = change;
    return chance * c * c *
           (1.0 / 2 - c * (1.0 / 6 - c * (1.0 / 12 - c * (1.0 / 20 - c * (1.0 / 30 - c / 42)))));
  }
  if (change < 1.0) {  // also where p'' is zero
    const double left = 1.0 + change;
    return left > 0.0 ? chance * (left * std::log1p(change) - change) : chance;
  }
  return moved * (std::log(moved) - log_chance) - (moved - chance);
}

}  // namespace

namespace {

// Write weighted slopes of the rows that were taken, and add them to one sum per class. Their
// scores may lie where the slopes are written.
template <class Real>
void write_slopes(SoftmaxRows& rows, Index many, Index classes, const Index* labels,
                  const Real* scores, Real* out, Index apart, std::span<double> sums,
                  SoftmaxTotals& totals) {
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
  put_back(rows, many, classes, out, apart);
  for (Index r = 0; r < many; ++r) {
    out[r * apart + labels[r]] = static_cast<Real>(others[r]);
    sums[static_cast<std::size_t>(labels[r])] -= rows.weight[r];
  }
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
    rows.take(table, start);
    write_slopes(rows, many, classes, table.labels.data() + start, scores, scores, classes, sums,
                 totals);
    pulse.beat(many * classes);
  }
  return totals;
}

template <class Real>
SoftmaxStep softmax_step(const ScoreChange<Real>& change, Real* both, std::span<double> sums,
                         Pulse& pulse) {
  const ScoreTable<const Real>& before = change.before;
  const ScoreTable<const Real> after{change.after, before.rows, before.classes, before.labels,
                                     before.weight};
  const Index classes = before.classes, apart = 2 * classes;
  const auto of_slopes = sums.first(static_cast<std::size_t>(classes));
  const auto of_expected = sums.subspan(static_cast<std::size_t>(classes));
  SoftmaxRows rows(classes);
  ChanceChanges changes(classes);
  SoftmaxStep found;
  for (Index start = 0; start < before.rows; start += side_by_side) {
    const Index many = std::min(side_by_side, before.rows - start);
    const Index* labels = before.labels.data() + start;
    Real* out = both + start * apart;
    rows.take(after, start);
    write_slopes(rows, many, classes, labels, change.after + start * classes, out, apart, of_slopes,
                 found.totals);
    rows.take(before, start);
    changes.take(change, start, rows);
    Column squares = {}, left = {}, least, factors;
    std::fill_n(least, side_by_side, 1.0);
    for (Index k = 0; k < classes; ++k) {
      change_chances(rows.column(k), changes.column(k), rows.inverse, squares, left, least);
    }
    for (Index r = 0; r < side_by_side; ++r) {
      found.square += rows.weight[r] * squares[r];
      factors[r] = rows.weight[r] / (least[r] < 0.0 ? left[r] : 1.0);
    }
    Column own = {};  // the weighted chances of other classes than the row's: 1 - a, all digits
    for (Index k = 0; k < classes; ++k) {
      multiply(rows.column(k), factors);
      for (Index r = 0; r < many; ++r) own[r] += labels[r] == k ? 0.0 : rows.column(k)[r];
    }
    for (Index r = 0; r < many; ++r) rows.column(labels[r])[r] = -own[r];
    for (Index k = 0; k < classes; ++k) {
      of_expected[static_cast<std::size_t>(k)] += sum_in_lanes(rows.column(k), side_by_side);
    }
    put_back(rows, many, classes, out + classes, apart);
    pulse.beat(2 * many * classes);
  }
  return found;
}

template <class Real>
std::pair<double, double> softmax_along(const ScoreChange<Real>& change, double length,
                                        Pulse& pulse) {
  const ScoreTable<const Real>& before = change.before;
  const Index classes = before.classes;
  // a float has too few digits for scores between
  std::vector<double> scores(static_cast<std::size_t>(side_by_side * classes));
  SoftmaxRows rows(classes);
  ChanceChanges changes(classes);
  double loss = 0.0, slope = 0.0;
  for (Index start = 0; start < before.rows; start += side_by_side) {
    const Index many = std::min(side_by_side, before.rows - start);
    const Real *from = before.scores + start * classes, *to = change.after + start * classes;
    for (std::size_t place = 0; place < static_cast<std::size_t>(many * classes); ++place) {
      const auto at_start = static_cast<double>(from[place]);
      scores[place] = at_start + length * (static_cast<double>(to[place]) - at_start);
    }
    const auto part = [&](auto whole) {
      return whole.empty() ? whole : whole.subspan(static_cast<std::size_t>(start));
    };
    rows.take(ScoreTable<const double>{scores.data(), many, classes, part(before.labels),
                                       part(before.weight)},
              0);
    changes.take_scores(change, start, rows);
    Column steepness = {}, losses;
    for (Index k = 0; k < classes; ++k) add_products(rows.column(k), changes.column(k), steepness);
    for (Index r = 0; r < side_by_side; ++r) losses[r] = log1p_of_positive(rows.rest[r]);
    for (Index r = 0; r < many; ++r) {
      const double weight = rows.weight[r];
      if (!(weight > 0.0)) continue;
      const Index label = before.labels[static_cast<std::size_t>(start + r)];
      const double own = scores[static_cast<std::size_t>(r * classes + label)];
      loss += weight * (losses[r] + (rows.largest[r] - own));
      slope += weight * (steepness[r] * rows.inverse[r] - changes.column(label)[r]);
    }
    pulse.beat(many * classes);
  }
  return {loss, slope};
}

template <class Real>
void softmax_chances(const ScoreTable<Real>& table, Real* curvatures, Pulse& pulse) {
  const Index classes = table.classes;
  SoftmaxRows rows(classes);
  for (Index start = 0; start < table.rows; start += side_by_side) {
    const Index many = std::min(side_by_side, table.rows - start);
    rows.take(table, start);
    for (Index k = 0; k < classes; ++k) multiply(rows.column(k), rows.inverse);
    put_back(rows, many, classes, table.scores + start * classes, classes);
    for (Index k = 0; k < classes; ++k) {
      Column& p = rows.column(k);
      for (Index r = 0; r < side_by_side; ++r) {
        // 1 - p loses no digits where p is nearly 1
        p[r] *= p[r] == rows.inverse[r] ? rows.rest[r] * rows.inverse[r] : 1.0 - p[r];
      }
    }
    put_back(rows, many, classes, curvatures + start * classes, classes);
    pulse.beat(many * classes);
  }
}

namespace {

// The chances that a step's model expects in a row, in units of its own, less one.
class ExpectedChanges {
 public:
  ExpectedChanges(const SoftmaxRows& rows, const ChanceChanges& changes, Index classes, Index r)
      : changes_(changes), r_(r) {
    double least = 1.0;
    for (Index k = 0; k < classes; ++k) {
      const double kept = 1.0 + changes.column(k)[r];
      least = std::min(least, kept);
      left_ += kept < 0.0 ? 0.0 : rows.chance(k, r) * kept;
    }
    is_cut_ = least < 0.0;
  }
  double operator()(Index k) const {
    const double c = changes_.column(k)[r_];
    return is_cut_ ? std::max(0.0, 1.0 + c) / left_ - 1.0 : c;
  }

 private:
  const ChanceChanges& changes_;
  Index r_;
  double left_ = 0.0;
  bool is_cut_;
};

// How far other chances of a row are from its own: those that a step's model expects, restored.
template <class Real>
double divergence_of_row(const SoftmaxRows& rows, Index r, const Real* scores, Index classes,
                         Index label, const OtherChances& others, const ExpectedChanges& expected) {
  double taken = 0.0;
  for (Index k = 0; k < classes; ++k) {
    taken +=
        (1.0 - others.kept[static_cast<std::size_t>(k)]) * rows.chance(k, r) * (1.0 + expected(k));
  }
  const double log_sum = std::log1p(rows.rest[r]);
  double of_row = 0.0;
  for (Index k = 0; k < classes; ++k) {
    const auto place = static_cast<std::size_t>(k);
    const double p = rows.chance(k, r), kept = others.share * others.kept[place], c = expected(k);
    const double added =
        others.share * taken * others.given[place] + (k == label ? 1.0 - others.share : 0.0);
    const double moved = kept * p * (1.0 + c) + added;
    double change = kept * c + (kept - 1.0);
    if (added > 0.0) change += added / p;
    if (change != 0.0) {
      const double log_chance = (static_cast<double>(scores[k]) - rows.largest[r]) - log_sum;
      of_row += divergence(p, log_chance, moved, change);
    }
  }
  return of_row;
}

}  // namespace

template <class Real>
double softmax_step_cost(const ScoreChange<Real>& change, const OtherChances& others,
                         Pulse& pulse) {
  const ScoreTable<const Real>& before = change.before;
  const Index classes = before.classes;
  SoftmaxRows rows(classes);
  ChanceChanges changes(classes);
  double total = 0.0;
  for (Index i = 0; i < before.rows; ++i) {
    const Index r = i % side_by_side;
    if (r == 0) {
      rows.take(before, i);
      changes.take(change, i, rows);
    }
    if (!(rows.weight[r] > 0.0)) continue;
    const Index label = before.labels[static_cast<std::size_t>(i)];
    total +=
        rows.weight[r] * divergence_of_row(rows, r, before.scores + i * classes, classes, label,
                                           others, ExpectedChanges(rows, changes, classes, r));
    pulse.beat(classes);
  }
  return total;
}

template SoftmaxTotals softmax_slopes(const ScoreTable<float>&, std::span<double>, Pulse&);
template SoftmaxTotals softmax_slopes(const ScoreTable<double>&, std::span<double>, Pulse&);
template void softmax_chances(const ScoreTable<float>&, float*, Pulse&);
template void softmax_chances(const ScoreTable<double>&, double*, Pulse&);
template SoftmaxStep softmax_step(const ScoreChange<float>&, float*, std::span<double>, Pulse&);
template SoftmaxStep softmax_step(const ScoreChange<double>&, double*, std::span<double>, Pulse&);
template std::pair<double, double> softmax_along(const ScoreChange<float>&, double, Pulse&);
template std::pair<double, double> softmax_along(const ScoreChange<double>&, double, Pulse&);
template double softmax_step_cost(const ScoreChange<float>&, const OtherChances&, Pulse&);
template double softmax_step_cost(const ScoreChange<double>&, const OtherChances&, Pulse&);

}  // namespace antithetic
