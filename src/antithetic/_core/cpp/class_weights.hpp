// Weights of many classes: their products with the rows of a batch, and steps along these.
//
// Dense rows: the weights of a class lie side by side, and a step waits until the scores of the
// next batch are wanted, so that each weight passes through the registers once per batch: a few
// classes take the step, then give their scores. Sparse rows: the classes of a feature lie side by
// side, so that an entry of a row meets them in one stretch.
//
// In units of the data's own (centred.hpp), rows are packed as z = sqrt(P) (x - m), and the weights
// kept here are v = w / sqrt(P): plain steps on v are steps in the metric P on w. The L2 penalty
// then divides each column by 1 + P_j l2 (sum of steps): of dense rows after every fourth step, of
// sparse ones when the column is met again. That proximal step moves no optimum, however late it
// comes and long it is. Sparse rows are scaled and not centred.
#pragma once

#include "centred.hpp"
#include "team.hpp"

namespace antithetic {

// Tiles of sums that fit into all registers: with 16 of them, 12 sums, 3 weights and an entry; a
// tile of 16 sums would pass through memory.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr Index most_classes_at_once = 4;
#else
constexpr Index most_classes_at_once = 3;
#endif
constexpr Index rows_at_once = 4, registers_at_once = 4;

// Numbers in one register; other compilers have no blocks that can be compared.
#if defined(__GNUC__) || defined(__clang__)
template <class Real>
constexpr Index in_register = register_lanes<Real>;
#else
template <class Real>
constexpr Index in_register = 1;
#endif

// A count rounded up to whole registers.
template <class Real>
Index filled(Index many) {
  return (many + in_register<Real> - 1) / in_register<Real> * in_register<Real>;
}

// A count rounded up to an odd number of cache lines: rows a power of two apart would take the same
// places in the cache.
template <class Real>
Index padded(Index many) {
  constexpr Index line = cache_line / static_cast<Index>(sizeof(Real));
  return ((many + line - 1) / line | 1) * line;
}

template <class Real>
ANTITHETIC_INLINE Real total(const Block<Real, in_register<Real>>& block) {
  if constexpr (in_register<Real> == 1) {
    return block;
  } else {
    constexpr Index many = in_register<Real>;
    auto folded = [](auto& self, auto part, auto size) {
      if constexpr (size == 1) {
        return part;
      } else {
        return self(self, detail::sum_of_halves<size, Real>(part),
                    std::integral_constant<Index, size / 2>{});
      }
    };
    return folded(folded, block, std::integral_constant<Index, many>{});
  }
}

// Units that steps on the weights of all classes are taken in: those of the rows if there are none.
template <class Real>
class ClassUnits {
 public:
  ClassUnits(const Preconditioner<Real>& given, Index d)
      : centre_(given.centre.data()),
        metric_(given.metric.data()),
        exist_(given.exist()),
        roots_(exist_ ? static_cast<std::size_t>(d) : 0) {
    for (std::size_t j = 0; j < roots_.size(); ++j) roots_[j] = std::sqrt(given.metric[j]);
  }

  bool exist() const { return exist_; }
  const Real* roots() const { return roots_.data(); }
  const Real* centre() const { return centre_; }
  const Real* metric() const { return metric_; }
  Real root(Index j) const { return roots_.data()[j]; }

  // An entry of a row, as steps see it.
  Real entry(Index j, Real x) const { return exist_ ? (x - centre_[j]) * root(j) : x; }

  // A weight as steps see it: columns that never vary have none.
  Real inside(Index j, Real w) const {
    if (!exist_) return w;
    return root(j) > 0 ? w / root(j) : Real{0};
  }

 private:
  const Real *centre_, *metric_;
  bool exist_;
  std::vector<Real> roots_;
};

// Where a batch's rows lie, and what is added to the scores or multiplied with the rows: both are
// rows of the batch times classes. `kept` is what a step leaves of the weights of each column.
template <class Real>
struct PackedBatch {
  const Real* rows;
  Real* by_class;
  Index many, class_stride;
  const Real* kept = nullptr;
};

template <class Real>
struct Tiles {
  static constexpr Index lanes = in_register<Real>;
  using Numbers = Block<Real, lanes>;

  // Add the rows, each times its factor, to `width` registers of the weights of some classes.
  template <Index classes, Index width>
  static ANTITHETIC_INLINE void move(Real* weights, Index stride, const PackedBatch<Real>& batch,
                                     Index first_class, Index column) {
    Numbers sums[classes][width];
    for (Index k = 0; k < classes; ++k) {
      for (Index j = 0; j < width; ++j) {
        sums[k][j] = block_at<lanes>(weights + k * stride + column + j * lanes);
      }
    }
    const Real* x = batch.rows + column;
    const Real* factors = batch.by_class + first_class;
    for (Index r = 0; r < batch.many; ++r, x += stride, factors += batch.class_stride) {
      Numbers entries[width];
      for (Index j = 0; j < width; ++j) entries[j] = block_at<lanes>(x + j * lanes);
      for (Index k = 0; k < classes; ++k) {
        for (Index j = 0; j < width; ++j) sums[k][j] += factors[k] * entries[j];
      }
    }
    if (batch.kept != nullptr) {
      for (Index j = 0; j < width; ++j) {
        const Numbers kept = block_at<lanes>(batch.kept + column + j * lanes);
        for (Index k = 0; k < classes; ++k) sums[k][j] *= kept;
      }
    }
    for (Index k = 0; k < classes; ++k) {
      for (Index j = 0; j < width; ++j) {
        put(weights + k * stride + column + j * lanes, sums[k][j]);
      }
    }
  }

  // Add to the scores of some rows what some columns of the weights of some classes give.
  template <Index classes, Index rows>
  static ANTITHETIC_INLINE void score(const Real* weights, Index stride,
                                      const PackedBatch<Real>& batch, Index first_class, Index row,
                                      Index column, Index last) {
    Numbers sums[classes][rows] = {};
    const Real* x = batch.rows + row * stride;
    for (Index c = column; c < last; c += lanes) {
      Numbers some[classes];
      for (Index k = 0; k < classes; ++k) some[k] = block_at<lanes>(weights + k * stride + c);
      for (Index r = 0; r < rows; ++r) {
        const Numbers entries = block_at<lanes>(x + r * stride + c);
        for (Index k = 0; k < classes; ++k) sums[k][r] += some[k] * entries;
      }
    }
    for (Index r = 0; r < rows; ++r) {
      Real* scores = batch.by_class + (row + r) * batch.class_stride + first_class;
      for (Index k = 0; k < classes; ++k) scores[k] += total<Real>(sums[k][r]);
    }
  }

  // The step of the batch before on some classes and columns, then their scores.
  template <Index classes>
  static void move_and_score(Real* weights, Index stride, Index first_class,
                             const PackedBatch<Real>& before, const PackedBatch<Real>& now,
                             Index column, Index last) {
    if (before.many > 0) {
      constexpr Index wide = registers_at_once * lanes;
      Index c = column;
      for (; c + wide <= last; c += wide) {
        move<classes, registers_at_once>(weights, stride, before, first_class, c);
      }
      for (; c < last; c += lanes) move<classes, 1>(weights, stride, before, first_class, c);
    }
    Index r = 0;
    for (; r + rows_at_once <= now.many; r += rows_at_once) {
      score<classes, rows_at_once>(weights, stride, now, first_class, r, column, last);
    }
    for (; r < now.many; ++r) score<classes, 1>(weights, stride, now, first_class, r, column, last);
  }
};

template <class RowAccess>
class ClassWeights;

template <class Real>
class ClassWeights<DenseRows<Real>> {
 public:
  ClassWeights(const DenseRows<Real>& rows, const ClassUnits<Real>& units, const Real* coef,
               Index n_classes, Index longest, Index class_stride, Index threads)
      : rows_(rows),
        units_(units),
        n_classes_(n_classes),
        class_stride_(class_stride),
        columns_(filled<Real>(rows.d)),
        stride_(padded<Real>(rows.d)),
        tiles_((n_classes + most_classes_at_once - 1) / most_classes_at_once),
        weights_(n_classes * stride_),
        packed_{AlignedVector<Real>(longest * stride_), AlignedVector<Real>(longest * stride_)},
        factors_(longest * class_stride),
        kept_(units.exist() ? stride_ : 0),
        team_(std::clamp<Index>(threads, 1,
                                std::max<Index>(1, longest * n_classes * rows.d / least_work))) {
    for (Index k = 0; k < n_classes; ++k) {
      for (Index j = 0; j < rows.d; ++j) {
        weights_.data()[k * stride_ + j] = units.inside(j, coef[k * rows.d + j]);
      }
    }
  }

  // Products of all classes with the rows of a batch, after the step before it.
  void scores(Rows batch, Real* found) {
    const Index many = length(batch);
    Real* now = packed_[turn_].data();
    for (Index r = 0; r < many; ++r) {
      pack(rows_.row(batch[static_cast<std::size_t>(r)]), now + r * stride_);
    }
    std::fill_n(found, many * class_stride_, Real{0});
    pass({now, found, many, class_stride_});
    many_ = many;
    turn_ = 1 - turn_;
  }

  // Add the rows of the last batch, each times a factor for every class.
  void move(const Real* factors) {
    std::copy_n(factors, many_ * class_stride_, factors_.data());
    waiting_ = many_;
  }

  // Shrink each column by so much times its metric, after the step that comes next or a later one.
  void shrink(double shrinkage) {
    owed_ += shrinkage;
    if (++steps_owed_ == steps_between_shrinking) set_kept();
  }

  // Take the step that still waits, and shrink.
  void settle() {
    if (waiting_ > 0 && steps_owed_ > 0) set_kept();
    pass({nullptr, nullptr, 0, class_stride_});
  }

  template <class Function>
  void for_each_class(Function function) {
    for (Index k = 0; k < n_classes_; ++k) {
      Real* w = weights_.data() + k * stride_;
      for (Index j = 0; j < rows_.d; ++j) function(k, j, w[j]);
    }
  }

 private:
  // Columns of two batches that stay near while all classes meet them; each part of a product costs
  // a sum over the register, so they are many.
  static constexpr Index panel = 1024;
  static constexpr Index least_work = Index{1} << 17;  // products per thread worth waiting for
  static constexpr Index steps_between_shrinking = 4;

  void set_kept() {
    const Real* metric = units_.metric();
    const Real much = static_cast<Real>(owed_);
    in_blocks<Real>(rows_.d, [&](Index c, auto many) {
      put(kept_.data() + c, Real{1} / (Real{1} + much * block_at<many>(metric + c)));
    });
    is_shrunk_ = owed_ > 0.0;
    owed_ = 0.0;
    steps_owed_ = 0;
  }

  void pack(const Real* x, Real* packed) const {
    if (!units_.exist()) {
      std::copy_n(x, rows_.d, packed);
      return;
    }
    const Real *centre = units_.centre(), *roots = units_.roots();
    in_blocks<Real>(rows_.d, [&](Index c, auto many) {
      const auto entries = block_at<many>(x + c) - block_at<many>(centre + c);
      put(packed + c, entries * block_at<many>(roots + c));
    });
  }

  Index first_of_tile(Index tile) const { return n_classes_ * tile / tiles_; }

  void pass(const PackedBatch<Real>& now) {
    const PackedBatch<Real> before{packed_[1 - turn_].data(), factors_.data(), waiting_,
                                   class_stride_, is_shrunk_ ? kept_.data() : nullptr};
    const Index parts = team_.size();
    team_.run([&](Index t) {
      const Index first = tiles_ * t / parts, last = tiles_ * (t + 1) / parts;
      for (Index column = 0; column < columns_; column += panel) {
        const Index end = std::min(columns_, column + panel);
        for (Index tile = first; tile < last; ++tile) visit(tile, before, now, column, end);
      }
    });
    waiting_ = 0;
    is_shrunk_ = false;
  }

  void visit(Index tile, const PackedBatch<Real>& before, const PackedBatch<Real>& now,
             Index column, Index end) {
    const Index k = first_of_tile(tile), many = first_of_tile(tile + 1) - k;
    Real* w = weights_.data() + k * stride_;
    if constexpr (most_classes_at_once > 3) {
      if (many == 4)
        return Tiles<Real>::template move_and_score<4>(w, stride_, k, before, now, column, end);
    }
    if (many == 3)
      return Tiles<Real>::template move_and_score<3>(w, stride_, k, before, now, column, end);
    if (many == 2)
      return Tiles<Real>::template move_and_score<2>(w, stride_, k, before, now, column, end);
    Tiles<Real>::template move_and_score<1>(w, stride_, k, before, now, column, end);
  }

  const DenseRows<Real>& rows_;
  const ClassUnits<Real>& units_;
  const Index n_classes_, class_stride_, columns_, stride_, tiles_;
  AlignedVector<Real> weights_, packed_[2], factors_, kept_;
  Index turn_ = 0, many_ = 0, waiting_ = 0;
  double owed_ = 0.0;  // what columns are to be shrunk by
  Index steps_owed_ = 0;
  bool is_shrunk_ = false;
  Team team_;
};

template <class Real>
class ClassWeights<CsrRows<Real>> {
 public:
  ClassWeights(const CsrRows<Real>& rows, const ClassUnits<Real>& units, const Real* coef,
               Index n_classes, Index, Index class_stride, Index)
      : rows_(rows),
        units_(units),
        n_classes_(n_classes),
        stride_(class_stride),
        weights_(rows.d * class_stride),
        shrunk_(units.exist() ? static_cast<std::size_t>(rows.d) : 0) {
    for (Index k = 0; k < n_classes; ++k) {
      for (Index j = 0; j < rows.d; ++j) {
        weights_.data()[j * stride_ + k] = units.inside(j, coef[k * rows.d + j]);
      }
    }
  }

  void scores(Rows batch, Real* found) {
    batch_ = batch;
    std::fill_n(found, length(batch) * stride_, Real{0});
    for (const Index i : batch) {
      for_each_entry(i, [&](Index j, Real x) {
        if (units_.exist()) catch_up(j);
        add(x, weights_.data() + j * stride_, found);
      });
      found += stride_;
    }
  }

  void move(const Real* factors) {
    for (const Index i : batch_) {
      for_each_entry(i, [&](Index j, Real x) { add(x, factors, weights_.data() + j * stride_); });
      factors += stride_;
    }
  }

  // Shrink the weights of each column by so much times its metric: when it is met the next time.
  void shrink(double shrinkage) { shrinkage_ += shrinkage; }

  void settle() {
    if (!units_.exist()) return;
    for (Index j = 0; j < rows_.d; ++j) catch_up(j);
  }

  template <class Function>
  void for_each_class(Function function) {
    for (Index j = 0; j < rows_.d; ++j) {
      Real* w = weights_.data() + j * stride_;
      for (Index k = 0; k < n_classes_; ++k) function(k, j, w[k]);
    }
  }

 private:
  template <class Function>
  void for_each_entry(Index i, Function function) {
    rows_.for_each(i, [&](Index j, Real x) { function(j, units_.entry(j, x)); });
  }

  // Shrink the weights of a column by what was asked for since it was met.
  void catch_up(Index j) {
    double& shrunk = shrunk_[static_cast<std::size_t>(j)];
    const double much = (shrinkage_ - shrunk) * static_cast<double>(units_.metric()[j]);
    shrunk = shrinkage_;
    if (!(much > 0.0)) return;
    const Real left = static_cast<Real>(1.0 / (1.0 + much));
    Real* w = weights_.data() + j * stride_;
    constexpr Index many = in_register<Real>;
    for (Index k = 0; k < stride_; k += many) put(w + k, left * block_at<many>(w + k));
  }

  // sum += x * numbers, of all classes
  void add(Real x, const Real* numbers, Real* sum) const {
    constexpr Index many = in_register<Real>;
    for (Index k = 0; k < stride_; k += many) {
      put(sum + k, block_at<many>(sum + k) + x * block_at<many>(numbers + k));
    }
  }

  const CsrRows<Real>& rows_;
  const ClassUnits<Real>& units_;
  const Index n_classes_, stride_;
  AlignedVector<Real> weights_;
  std::vector<double> shrunk_;  // what each column was asked to shrink by when it was last met
  double shrinkage_ = 0.0;      // and what it was asked for by now
  Rows batch_;
};

}  // namespace antithetic
