// One epoch of mini-batch SGD on the softmax loss: one row of weights for each class.
//
// As in sgd.hpp the weights are kept as w = s v, so that the L2 penalty changes the scale s alone;
// in units of the data's own, it shrinks each column by itself (class_weights.hpp).
// The gradient of a row x is (p - e_y) times x, with p the probabilities of the classes. A balanced
// order needs products of such gradients with a signed sum of them, either in full or of sketches:
// columns, and slopes of many classes, are added up with random signs in fewer places, which leaves
// the expected product as it is.
#pragma once

#include "balance.hpp"
#include "class_weights.hpp"
#include "sgd.hpp"

namespace antithetic {

// Exponential of numbers that are not positive; NaN stays NaN. Float32 to a relative error of 2e-7.
template <class Real, Index many>
ANTITHETIC_INLINE Block<Real, many> exp_below_zero(Block<Real, many> x) {
  if constexpr (sizeof(Real) == sizeof(double)) {
    return exp_of_negative<many>(x);
  } else {
    using Numbers = Block<float, many>;
    using Bits = Block<std::int32_t, many>;
    constexpr float log2_e = 1.44269504f, log_2 = 0.693359375f, log_2_rest = -2.12194440e-4f;
    constexpr float least = -87.0f;       // where exp is about to leave the normal numbers
    constexpr float shift = 12582912.0f;  // 1.5 * 2^23: a sum with it is rounded to a whole
    x = x < least ? Numbers{} + least : x;
    const Numbers shifted = x * log2_e + shift, k = shifted - shift;
    const Numbers r = (x - k * log_2) - k * log_2_rest, r2 = r * r;
    const Numbers low = (1.0f + r) + r2 * (0.5f + r * (1.0f / 6.0f));
    const Numbers high = (1.0f / 24.0f + r * (1.0f / 120.0f)) + r2 * (1.0f / 720.0f);
    const Bits bits = (std::bit_cast<Bits>(shifted) << 23) + std::bit_cast<std::int32_t>(1.0f);
    return (low + (r2 * r2) * high) * std::bit_cast<Numbers>(bits);
  }
}

// Codes of the classes, and weights of the rows where these are not all 1.
struct ClassTargets {
  Rows codes;
  std::span<const double> weight;
  Index n_classes;

  Index code(Index i) const { return codes[static_cast<std::size_t>(i)]; }
  double weight_of(Index i) const {
    return weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)];
  }
};

// What an epoch changes; averages are empty where nothing is averaged.
template <class Real>
struct SoftmaxModel {
  std::span<Real> coef;
  std::span<double> intercept, average, average_intercept;
  double average_weight, met;
};

// How a balanced order compares gradients: units of so many rows (0: not at all), by whole
// gradients or by a sketch of so many bytes.
struct Balancing {
  Index unit, sketch_bytes;
  std::span<Index> following;
};

// Where numbers are added up, and with which signs: as many places as there are numbers, or fewer.
class Places {
 public:
  Places(Index many, Index places, std::uint64_t seed) : many_(std::min(many, places)) {
    if (many_ == many) return;
    for (Index j = 0; j < many; ++j) {
      const std::uint64_t bits = mixed(seed + static_cast<std::uint64_t>(j));
      place_.push_back(static_cast<Index>((bits >> 32) % static_cast<std::uint64_t>(many_)));
      is_negative_.push_back(bits & 1);
    }
  }

  Index many() const { return many_; }
  bool is_whole() const { return place_.empty(); }
  Index place(Index j) const { return place_[static_cast<std::size_t>(j)]; }

  template <class Real>
  Real sign(Index j) const {
    return is_negative_[static_cast<std::size_t>(j)] ? Real{-1} : Real{1};
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {  // SplitMix64
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  Index many_;
  std::vector<Index> place_;
  std::vector<std::uint8_t> is_negative_;
};

// The signed sum of gradients, and where the rows of an epoch go in the next.
template <class RowAccess>
class ClassBalance {
  using Real = typename RowAccess::Real;

 public:
  ClassBalance(const RowAccess& rows, const ClassUnits<Real>& units, Rows order,
               const Balancing& given, Index n_classes, bool fit_intercept)
      : rows_(rows),
        units_(units),
        order_(order),
        unit_(given.unit),
        next_(order, std::max<Index>(1, given.unit), given.following),
        classes_(n_classes, given.sketch_bytes == 0 ? n_classes : most_classes, 1),
        columns_(rows.d, given.sketch_bytes == 0 ? rows.d : places(given, classes_.many()), 2),
        fit_intercept_(fit_intercept),
        stride_(filled<Real>(classes_.many())),
        sum_(given.unit == 0 ? 0 : (columns_.many() + 1) * stride_),
        slopes_(given.unit == 0 ? 0 : 2 * given.unit * stride_),
        row_(columns_.is_whole() ? 0 : columns_.many()) {}

  bool is_wanted() const { return unit_ > 0; }

  // Count in the row at a place of the order, whose slopes these are, one per class.
  void add(Index place, const Real* slopes, Index n_classes) {
    const Index position = place % (2 * unit_);
    const Real sign = position < unit_ ? Real{1} : Real{-1};
    Real* kept = slopes_.data() + position * stride_;
    if (classes_.is_whole()) {
      for (Index k = 0; k < n_classes; ++k) kept[k] = sign * slopes[k];
    } else {
      std::fill_n(kept, stride_, Real{0});
      for (Index k = 0; k < n_classes; ++k) {
        kept[classes_.place(k)] += sign * classes_.template sign<Real>(k) * slopes[k];
      }
    }
    visit(place, [&](Index j, Real x) {
      lean_ += static_cast<double>(x * product(sum_.data() + j * stride_, kept));
    });
    if (position + 1 == 2 * unit_) decide(place - position);
  }

  void finish() { next_.finish(); }

 private:
  static constexpr Index most_classes = 64;  // slopes of more are sketched

  static Index places(const Balancing& given, Index classes) {
    return std::max<Index>(1, given.sketch_bytes / Index{sizeof(Real)} / filled<Real>(classes) - 1);
  }

  // Two units are over: add their difference to the signed sum, and place them.
  void decide(Index start) {
    const Real sign = balancing_sign(static_cast<Real>(lean_));
    lean_ = 0.0;
    for (Index k = 0; k < 2 * unit_; ++k) {
      const Real* kept = slopes_.data() + k * stride_;
      visit(start + k, [&](Index j, Real x) {
        constexpr Index many = in_register<Real>;
        Real* sum = sum_.data() + j * stride_;
        for (Index c = 0; c < stride_; c += many) {
          put(sum + c, block_at<many>(sum + c) + (sign * x) * block_at<many>(kept + c));
        }
      });
    }
    next_.place(sign > 0);
  }

  // Entries of a row, or of its sketch, and the 1 of the intercept last.
  template <class Function>
  void visit(Index place, Function function) {
    const Index i = order_[static_cast<std::size_t>(place)];
    if (columns_.is_whole()) {
      rows_.for_each(i, [&](Index j, Real x) { function(j, units_.entry(j, x)); });
    } else {
      Real* row = row_.data();
      std::fill_n(row, columns_.many(), Real{0});
      rows_.for_each(i, [&](Index j, Real x) {
        row[columns_.place(j)] += columns_.template sign<Real>(j) * units_.entry(j, x);
      });
      for (Index j = 0; j < columns_.many(); ++j) function(j, row[j]);
    }
    if (fit_intercept_) function(columns_.many(), Real{1});
  }

  Real product(const Real* one, const Real* other) const {
    constexpr Index many = in_register<Real>;
    Block<Real, many> sum{};
    for (Index c = 0; c < stride_; c += many)
      sum += block_at<many>(one + c) * block_at<many>(other + c);
    return total<Real>(sum);
  }

  const RowAccess& rows_;
  const ClassUnits<Real>& units_;
  Rows order_;
  const Index unit_;
  NextOrder next_;
  const Places classes_, columns_;
  const bool fit_intercept_;
  const Index stride_;
  AlignedVector<Real> sum_, slopes_, row_;
  double lean_ = 0.0;
};

template <class RowAccess>
class SoftmaxEpoch {
  using Real = typename RowAccess::Real;
  static constexpr Index lanes = in_register<Real>;
  using Numbers = Block<Real, lanes>;

 public:
  SoftmaxEpoch(const RowAccess& rows, const ClassTargets& targets, const Batches& batches,
               const StepRule& rule, const Averaging& averaging, SoftmaxModel<Real>& model,
               const Balancing& balancing, const Preconditioner<Real>& preconditioner,
               Index threads)
      : rows_(rows),
        targets_(targets),
        batches_(batches),
        rule_(rule),
        averaging_(averaging),
        model_(model),
        units_(preconditioner, rows.d),
        balance_(rows, units_, batches.rows, balancing, targets.n_classes, rule.fit_intercept),
        stride_(filled<Real>(targets.n_classes)),
        longest_(batches.longest()),
        weights_(rows, units_, model.coef.data(), targets.n_classes, longest_, stride_, threads),
        scores_(longest_ * stride_),
        constants_(stride_) {
    move_intercepts(1.0);
    set_constants();
  }

  void run(Pulse& pulse) {
    for (Index batch = 0; batch < batches_.count(); ++batch) {
      step(batch);
      Index met = 0;
      for (Index k = batches_.first(batch); k < batches_.last(batch); ++k) {
        met += rows_.length(batches_.row(k)) + 1;
      }
      pulse.beat(met * targets_.n_classes);
    }
    if (balance_.is_wanted()) balance_.finish();
    rescale();
    const Index d = rows_.d;
    weights_.for_each_class(
        [&](Index k, Index j, Real w) { model_.coef[at(k * d + j)] = coef_of(k, j, w); });
    move_intercepts(-1.0);
  }

 private:
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  // A weight of the rows as they are; those of columns that never vary stay as they were.
  Real coef_of(Index k, Index j, Real w) const {
    if (!units_.exist()) return w;
    return units_.root(j) > 0 ? units_.root(j) * w : model_.coef[at(k * rows_.d + j)];
  }

  // Between the intercepts of rows as they are and those of centred ones (sign 1), and back (-1).
  void move_intercepts(double sign) {
    if (!units_.exist()) return;
    const bool averaged = model_.average_weight > 0.0 && !model_.average.empty();
    for (Index k = 0; k < targets_.n_classes; ++k) {
      double product = 0.0, of_average = 0.0;
      for (Index j = 0; j < rows_.d; ++j) {
        const double middle = static_cast<double>(units_.centre()[j]);
        product += middle * static_cast<double>(model_.coef[at(k * rows_.d + j)]);
        if (averaged) of_average += middle * model_.average[at(k * rows_.d + j)];
      }
      model_.intercept[at(k)] += sign * product;
      if (averaged) model_.average_intercept[at(k)] += sign * of_average;
    }
  }

  void step(Index batch) {
    const Index first = batches_.first(batch), last = batches_.last(batch);
    if constexpr (RowAccess::is_sparse) {
      for (Index k = first; k < last; ++k) rows_.look_ahead(batches_.rows, k);
    }
    weights_.scores(batches_.rows.subspan(at(first), at(last - first)), scores_.data());
    for (Index k = first; k < last; ++k) find_slopes(k, scores_.data() + (k - first) * stride_);
    const double eta = rule_.schedule.step(batches_.steps + batch, samples_);
    shrink(eta * batches_.part(batch));
    // slopes become what the rows are multiplied by to make the step
    const double rate = eta / static_cast<double>(batches_.size);
    const Real share = static_cast<Real>(-rate / scale_);
    for (Index k = first; k < last; ++k) {
      Real* slopes = scores_.data() + (k - first) * stride_;
      if (rule_.fit_intercept) {
        for (Index c = 0; c < targets_.n_classes; ++c) {
          model_.intercept[at(c)] -= rate * static_cast<double>(slopes[c]);
        }
      }
      for (Index c = 0; c < stride_; c += lanes)
        put(slopes + c, share * block_at<lanes>(slopes + c));
    }
    if (rule_.fit_intercept) set_constants();
    weights_.move(scores_.data());
    samples_ += last - first;
    average(batch);
  }

  // Places beyond the last class have no probability.
  void set_constants() {
    std::fill_n(constants_.data(), stride_, std::numeric_limits<Real>::lowest());
    for (Index k = 0; k < targets_.n_classes; ++k) {
      constants_.data()[k] = static_cast<Real>(model_.intercept[at(k)]);
    }
  }

  // Make the slopes of a row, with its weight and factor, of its products with the weights.
  void find_slopes(Index place, Real* row) {
    const Index i = batches_.row(place), n_classes = targets_.n_classes, code = targets_.code(i);
    const Real scale = static_cast<Real>(scale_);
    Numbers most = Numbers{} + std::numeric_limits<Real>::lowest();
    for (Index c = 0; c < stride_; c += lanes) {
      const Numbers score =
          scale * block_at<lanes>(row + c) + block_at<lanes>(constants_.data() + c);
      most = score > most ? score : most;
      put(row + c, score);
    }
    const Real highest = largest(most);
    const double distance = static_cast<double>(highest) - static_cast<double>(row[code]);
    Numbers sum{};
    for (Index c = 0; c < stride_; c += lanes) {
      const Numbers share = exp_below_zero<Real, lanes>(block_at<lanes>(row + c) - highest);
      sum += share;
      put(row + c, share);
    }
    const Real all = total<Real>(sum);
    const double weight = targets_.weight_of(i), factor = batches_.factor(place) * weight;
    if (rule_.watch && weight > 0.0) {
      model_.met += factor * (distance + std::log(static_cast<double>(all)));
    }
    if (weight > 0.0) {
      const Real share = static_cast<Real>(factor) / all;
      for (Index c = 0; c < stride_; c += lanes) put(row + c, share * block_at<lanes>(row + c));
      row[code] -= static_cast<Real>(factor);
      std::fill(row + n_classes, row + stride_, Real{0});
    } else {
      std::fill_n(row, stride_, Real{0});  // even if the scores have overflowed
    }
    if (balance_.is_wanted()) balance_.add(place, row, n_classes);
  }

  static Real largest(const Numbers& block) {
    Real parts[lanes];
    put(parts, block);
    return *std::max_element(parts, parts + lanes);
  }

  void shrink(double step) {
    if (units_.exist()) return weights_.shrink(step * rule_.l2);
    scale_ *= std::max(0.0, 1.0 - step * rule_.l2);
    if (scale_ < smallest_scale) rescale();
  }

  // Multiply the scale into the weights.
  void rescale() {
    weights_.settle();
    const Real factor = static_cast<Real>(scale_);
    if (factor != Real{1}) weights_.for_each_class([&](Index, Index, Real& w) { w *= factor; });
    scale_ = 1.0;
  }

  void average(Index batch) {
    if (averaging_.from <= 0) return;
    const std::int64_t steps = batches_.steps + batch + 1;
    if (samples_ < averaging_.from || steps % averaging_.every != 0) return;
    const double gain = averaging_.linear ? static_cast<double>(steps) : 1.0;
    model_.average_weight += gain;
    const double share = gain / model_.average_weight, scale = scale_;
    for (Index k = 0; k < targets_.n_classes; ++k) {
      double& mean = model_.average_intercept[at(k)];
      mean += share * (model_.intercept[at(k)] - mean);
    }
    weights_.settle();
    const Index d = rows_.d;
    double* means = model_.average.data();
    weights_.for_each_class([=, this](Index k, Index j, Real w) {
      double& mean = means[k * d + j];
      mean += share * (scale * static_cast<double>(coef_of(k, j, w)) - mean);
    });
  }

  const RowAccess& rows_;
  const ClassTargets& targets_;
  const Batches& batches_;
  const StepRule& rule_;
  const Averaging& averaging_;
  SoftmaxModel<Real>& model_;
  const ClassUnits<Real> units_;
  ClassBalance<RowAccess> balance_;
  const Index stride_, longest_;
  ClassWeights<RowAccess> weights_;
  AlignedVector<Real> scores_, constants_;
  double scale_ = 1.0;
  std::int64_t samples_ = batches_.samples;
};

}  // namespace antithetic
