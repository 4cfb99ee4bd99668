// Losses, slopes and divergences of many classes.
#include "softmax_rows.hpp"

#include "second_order.hpp"

namespace antithetic {
namespace {

// These loops are not inlined, or GCC no longer vectorises them.

// exp(score - largest) of a row
template <class Real>
ANTITHETIC_OUTLINE void exponentials(const Real* ANTITHETIC_RESTRICT scores, Index classes,
                                     double largest, double* ANTITHETIC_RESTRICT out) {
  for (Index k = 0; k < classes; ++k) {
    out[k] = exp_of_negative<1>(static_cast<double>(scores[k]) - largest);
  }
}

// Slopes s p of a row, and their sums over rows
template <class Real>
ANTITHETIC_OUTLINE void weigh(const double* ANTITHETIC_RESTRICT exponentials, Index classes,
                              double factor, Real* ANTITHETIC_RESTRICT slopes,
                              double* ANTITHETIC_RESTRICT sums) {
  for (Index k = 0; k < classes; ++k) {
    const double slope = factor * exponentials[k];
    slopes[k] = static_cast<Real>(slope);
    sums[k] += slope;
  }
}

// The largest score of a row; NaN if one is NaN
template <class Real>
Real largest_of(const Real* scores, Index classes) {
  constexpr Index many = lanes<Real>;
  Real best[many], wrong[many] = {};
  std::fill(best, best + many, scores[0]);
  in_blocks<Real>(classes, [&](Index c, auto width) {
    for (Index lane = 0; lane < width; ++lane) {
      const Real score = scores[c + lane];
      best[lane] = score > best[lane] ? score : best[lane];
      wrong[lane] += score - score;  // NaN for infinity too: no number may be subtracted from it
    }
  });
  Real found = best[0], sum = 0;
  for (Index lane = 0; lane < many; ++lane) {
    found = best[lane] > found ? best[lane] : found;
    sum += wrong[lane];
  }
  return sum == 0 ? found : std::numeric_limits<Real>::quiet_NaN();
}

// A row of scores as exponentials, which the largest does not dominate: `rest` is their sum without
// it, so that 1 - p keeps its digits.
template <class Real>
class SoftmaxRow {
 public:
  explicit SoftmaxRow(Index classes) : exponentials_(static_cast<std::size_t>(classes)) {}

  void take(const Real* scores) {
    const Index classes = static_cast<Index>(exponentials_.size());
    const Real found = largest_of(scores, classes);
    for (top = 0; top + 1 < classes && scores[top] != found;) ++top;
    largest = static_cast<double>(found);
    double* all = exponentials_.data();
    exponentials(scores, classes, largest, all);
    const double one = all[top];  // 1, or NaN
    all[top] = 0.0;
    rest = sum_in_lanes(all, classes);
    all[top] = one;
    inverse = 1.0 / (one + rest);
  }

  const double* all() const { return exponentials_.data(); }
  double chance(Index k) const { return exponentials_[static_cast<std::size_t>(k)] * inverse; }
  // 1 - p
  double other_chance(Index k) const {
    const double e = exponentials_[static_cast<std::size_t>(k)];
    return (k == top ? rest : 1.0 + (rest - e)) * inverse;
  }
  // -log p
  double loss(double score) const { return std::log1p(rest) + (largest - score); }

  double largest = 0.0, rest = 0.0, inverse = 1.0;
  Index top = 0;

 private:
  std::vector<double> exponentials_;
};

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
  SoftmaxRow<Real> row(classes);
  SoftmaxTotals totals;
  for (Index i = 0; i < table.rows; ++i) {
    Real* scores = table.scores + i * classes;
    const double weight = table.weight_of(i);
    if (!(weight > 0.0)) {  // which beats an infinite loss
      std::fill(scores, scores + classes, Real{0});
      continue;
    }
    row.take(scores);
    const Index label = table.labels[static_cast<std::size_t>(i)];
    totals.loss += weight * row.loss(static_cast<double>(scores[label]));
    const double square = sum_of_squares(row.all(), classes) * row.inverse * row.inverse;
    weigh(row.all(), classes, weight * row.inverse, scores, sums.data());
    const double p = row.chance(label), q = row.other_chance(label);
    scores[label] = static_cast<Real>(-weight * q);
    sums[static_cast<std::size_t>(label)] -= weight;
    totals.slope_square += weight * weight * (square + q * q - p * p);
    totals.curvature += weight * std::max(0.0, 1.0 - square);
    pulse.beat(classes);
  }
  return totals;
}

template <class Real>
void softmax_chances(const ScoreTable<Real>& table, Real* curvatures, Pulse& pulse) {
  SoftmaxRow<Real> row(table.classes);
  for (Index i = 0; i < table.rows; ++i) {
    Real *scores = table.scores + i * table.classes, *out = curvatures + i * table.classes;
    row.take(scores);
    for (Index k = 0; k < table.classes; ++k) {
      scores[k] = static_cast<Real>(row.chance(k));
      out[k] = static_cast<Real>(row.chance(k) * row.other_chance(k));
    }
    pulse.beat(table.classes);
  }
}

template <class Real>
double softmax_divergence(const ScoreTable<Real>& table, const OtherChances& others, Pulse& pulse) {
  const Index classes = table.classes;
  SoftmaxRow<Real> row(classes);
  double total = 0.0;
  for (Index i = 0; i < table.rows; ++i) {
    const double weight = table.weight_of(i);
    if (!(weight > 0.0)) continue;
    const Real* scores = table.scores + i * classes;
    row.take(scores);
    double taken = 0.0;
    for (Index k = 0; k < classes; ++k) {
      taken += (1.0 - others.kept[static_cast<std::size_t>(k)]) * row.chance(k);
    }
    const Index label = table.labels[static_cast<std::size_t>(i)];
    double of_row = 0.0;
    for (Index k = 0; k < classes; ++k) {
      const auto place = static_cast<std::size_t>(k);
      const double p = row.chance(k), kept = others.kept[place];
      const double more = taken * others.given[place];
      double moved = others.share * (kept * p + more);
      double change = others.share * kept - 1.0;
      if (k == label) moved += 1.0 - others.share;
      const double added = others.share * more + (k == label ? 1.0 - others.share : 0.0);
      if (added > 0.0) change += added / p;
      if (change != 0.0) {
        of_row += divergence(p, -row.loss(static_cast<double>(scores[k])), moved, change);
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
