// Newton's method on a table of few rows and columns.
#include "table_newton.hpp"

namespace antithetic {
namespace {

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

// A table whose rows have whole lanes.
class PaddedTable {
 public:
  PaddedTable(const double* table, Index n, Index k)
      : stride_(in_whole_lanes<double>(k)), numbers_(n * stride_) {
    for (Index i = 0; i < n; ++i) std::copy_n(table + i * k, k, numbers_.data() + i * stride_);
  }

  const double* row(Index i) const { return numbers_.data() + i * stride_; }

  // Weighted products of the columns. Those of a few columns with the lanes of others stay in
  // registers while rows are visited that fit into the cache.
  void gram(const double* weight, Index n, Upper& out) const {
    constexpr Index entries_at_once = 4096;
    const Index at_once = std::max<Index>(8, entries_at_once / stride_);
    out.clear();
    for (Index first = 0; first < n; first += at_once) {
      const Index last = std::min(n, first + at_once);
      for (Index j = 0; j < out.size(); j += few) {
        for (Index c = Upper::first_lane(j); c < stride_; c += lanes<double>) {
          add_tile(weight, first, last, j, c, out);
        }
      }
    }
  }

 private:
  using Sums = detail::Lanes<double, lanes<double>>;
  static constexpr Index few = register_lanes<double>;  // whose tile fits into the registers

  void add_tile(const double* weight, Index first, Index last, Index j, Index c, Upper& out) const {
    Sums sums[few];
    for (Index i = first; i < last; ++i) {
      Sums weighted;
      weighted.add_multiple(weight[i], row(i) + c);
      const double* columns = row(i) + j;  // beyond the last, zeros up to whole lanes
      detail::unrolled<static_cast<std::size_t>(few)>([&](auto r) {
        detail::unrolled<Sums::parts>(
            [&](auto p) { sums[r].part[p] += columns[r] * weighted.part[p]; });
      });
    }
    for (Index r = 0; r < std::min(few, out.size() - j); ++r) {
      sums[r].add_multiple(1.0, out.row(j + r) + c);
      sums[r].store(out.row(j + r) + c);
    }
  }

  Index stride_;
  AlignedVector<double> numbers_;
};

void write_symmetric(const Upper& from, std::span<double> out) {
  const Index k = from.size();
  for (Index j = 0; j < k; ++j) {
    for (Index c = j; c < k; ++c) {
      out[static_cast<std::size_t>(j * k + c)] = out[static_cast<std::size_t>(c * k + j)] =
          from.row(j)[c];
    }
  }
}

// Cholesky's factor U of H = U'U in place; false if H is not positive definite.
bool factorise(Upper& h) {
  const Index k = h.size(), stride = h.stride();
  for (Index j = 0; j < k; ++j) {
    double* ANTITHETIC_RESTRICT line = h.row(j);
    if (!(line[j] > 0.0) || !std::isfinite(line[j])) return false;
    const double root = std::sqrt(line[j]);
    for (Index c = Upper::first_lane(j); c < stride; ++c) line[c] /= root;
    for (Index i = j + 1; i < k; ++i) {
      double* ANTITHETIC_RESTRICT other = h.row(i);
      const double factor = line[i];
      // whole lanes: for single numbers, loops take longer to begin than to run
      for (Index c = Upper::first_lane(i); c < stride; c += lanes<double>) {
        detail::Lanes<double, lanes<double>> left;
        left.add_multiple(1.0, other + c);
        left.add_multiple(-factor, line + c);
        left.store(other + c);
      }
    }
  }
  return true;
}

// Solve U'U x = x.
void solve(const Upper& u, std::vector<double>& x) {
  const Index k = u.size();
  for (Index j = 0; j < k; ++j) {
    const double* line = u.row(j);
    const double found = x[static_cast<std::size_t>(j)] /= line[j];
    for (Index c = j + 1; c < k; ++c) x[static_cast<std::size_t>(c)] -= found * line[c];
  }
  for (Index j = k - 1; j >= 0; --j) {
    const double* line = u.row(j);
    double sum = x[static_cast<std::size_t>(j)];
    for (Index c = j + 1; c < k; ++c) sum -= line[c] * x[static_cast<std::size_t>(c)];
    x[static_cast<std::size_t>(j)] = sum / line[j];
  }
}

// The objective at some weights, and the slopes and curvatures of the rows there.
class TableState {
 public:
  explicit TableState(const TableProblem& problem)
      : problem_(problem),
        rows_(problem.table, problem.n, problem.k),
        slopes_(static_cast<std::size_t>(problem.n)),
        curvatures_(static_cast<std::size_t>(problem.n)) {}

  double evaluate(const std::vector<double>& weights) {
    const Padded w(weights.data(), problem_.k);
    double total = 0.0;
    PredictionBlock block;
    for (Index start = 0; start < problem_.n; start += most_rows_at_once) {
      const Index many = std::min(most_rows_at_once, problem_.n - start);
      for (Index r = 0; r < many; ++r) {
        const double* x = rows_.row(start + r);
        block.predictions[r] = problem_.offset[static_cast<std::size_t>(start + r)] +
                               sum_of(w.size(), [&](Index c) { return x[c] * w.data()[c]; });
      }
      total += block.judge(problem_.targets, problem_.loss, start, many).loss;
      std::copy_n(block.slopes, many, slopes_.data() + start);
      std::copy_n(block.curvatures, many, curvatures_.data() + start);
    }
    double penalty = 0.0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      penalty += problem_.ridge[j] * weights[j] * weights[j];
    }
    return total / static_cast<double>(problem_.n) + 0.5 * penalty;
  }

  std::vector<double> gradient(const std::vector<double>& weights) const {
    Padded sum(problem_.k);
    for (Index i = 0; i < problem_.n; ++i) {
      const double factor = slopes_[static_cast<std::size_t>(i)];
      const double* x = rows_.row(i);
      for (Index c = 0; c < sum.size(); ++c) sum.data()[c] += factor * x[c];
    }
    std::vector<double> found(weights.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      found[j] = sum.data()[j] / static_cast<double>(problem_.n) + problem_.ridge[j] * weights[j];
    }
    return found;
  }

  void hessian(Upper& out) {
    for (double& c : curvatures_) c /= static_cast<double>(problem_.n);
    rows_.gram(curvatures_.data(), problem_.n, out);
    for (Index j = 0; j < problem_.k; ++j) {
      out.row(j)[j] += problem_.ridge[static_cast<std::size_t>(j)];
    }
  }

 private:
  const TableProblem& problem_;
  PaddedTable rows_;
  std::vector<double> slopes_, curvatures_;
};

// Newton's step; false where the Hessian cannot be factorised.
bool newton_step(TableState& state, const NewtonRule& rule, const std::vector<double>& point,
                 Upper& hessian, std::vector<double>& step) {
  state.hessian(hessian);
  double trace = 0.0;
  for (Index j = 0; j < hessian.size(); ++j) trace += hessian.row(j)[j];
  for (Index j = 0; j < hessian.size(); ++j) hessian.row(j)[j] += rule.least_ridge * trace;
  step = state.gradient(point);
  if (!factorise(hessian)) return false;
  solve(hessian, step);
  return true;
}

}  // namespace

NewtonEstimate newton_decrement_of_table(const TableProblem& problem, std::span<const double> point,
                                         double least_ridge) {
  TableState state(problem);
  const std::vector<double> at(point.begin(), point.end());
  const double objective = state.evaluate(at);
  const auto gradient = state.gradient(at);
  Upper hessian(problem.k);
  state.hessian(hessian);
  // columns of one unit, and a ridge far below what is asked for
  std::vector<double> roots(at.size()), solved(at.size());
  for (Index j = 0; j < problem.k; ++j) {
    const auto place = static_cast<std::size_t>(j);
    roots[place] = std::sqrt(std::max(hessian.row(j)[j], std::numeric_limits<double>::min()));
    solved[place] = gradient[place] / roots[place];
  }
  for (Index j = 0; j < problem.k; ++j) {
    const double root = roots[static_cast<std::size_t>(j)];
    for (Index c = j; c < problem.k; ++c) {
      hessian.row(j)[c] /= root * roots[static_cast<std::size_t>(c)];
    }
    hessian.row(j)[j] += least_ridge;
  }
  if (!factorise(hessian)) return {objective, infinity};
  const auto scaled = solved;
  solve(hessian, solved);
  double gained = 0.0;
  for (std::size_t j = 0; j < at.size(); ++j) gained += 0.5 * scaled[j] * solved[j];
  return {objective, gained >= 0.0 ? gained : infinity};
}

void newton_on_table(const TableProblem& problem, const NewtonRule& rule, std::span<double> point,
                     std::span<double> hessian, Pulse& pulse) {
  TableState state(problem);
  Upper matrix(problem.k);
  std::vector<double> at(point.begin(), point.end()), step, next(at.size());
  double last = state.evaluate(at);
  bool is_elsewhere = false;
  for (Index k = 0; k < rule.steps; ++k) {
    is_elsewhere = true;  // or its curvatures were used up
    if (!newton_step(state, rule, at, matrix, step)) break;
    double reached = last, share = 1.0;
    bool falls = false;
    for (Index half = 0; half < rule.steps && !falls; ++half, share *= 0.5) {
      for (std::size_t j = 0; j < at.size(); ++j) next[j] = at[j] - share * step[j];
      reached = state.evaluate(next);
      falls = reached <= last;
      pulse.beat(problem.n * problem.k);
    }
    if (!falls) break;
    is_elsewhere = false;
    at.swap(next);
    const double gained = last - reached;
    last = reached;
    if (gained <= rule.enough * std::abs(last)) break;
  }
  if (is_elsewhere) state.evaluate(at);
  state.hessian(matrix);
  write_symmetric(matrix, hessian);
  std::copy(at.begin(), at.end(), point.begin());
}

namespace {

// A symmetric matrix as a tridiagonal one, by Householder's reflections; `vector` is turned along.
// The matrix is (k, k) and is overwritten.
void make_tridiagonal(double* a, Index k, double* diagonal, double* beside, double* vector) {
  std::vector<double> scratch(static_cast<std::size_t>(2 * k));
  double *ANTITHETIC_RESTRICT u = scratch.data(), *ANTITHETIC_RESTRICT p = scratch.data() + k;
  for (Index j = 0; j + 1 < k; ++j) {
    const double* line = a + j * k;
    diagonal[j] = line[j];
    double square = 0.0;
    for (Index c = j + 2; c < k; ++c) square += line[c] * line[c];
    beside[j] = line[j + 1];
    if (square == 0.0) continue;
    const double length = std::sqrt(square + line[j + 1] * line[j + 1]);
    beside[j] = line[j + 1] > 0.0 ? -length : length;
    // the reflection I - u u' / h
    std::copy(line + j + 1, line + k, u + j + 1);
    u[j + 1] -= beside[j];
    const double h = -beside[j] * u[j + 1];
    std::fill(p + j + 1, p + k, 0.0);
    double along = 0.0, onto = 0.0;
    for (Index i = j + 1; i < k; ++i) {
      const double* ANTITHETIC_RESTRICT row = a + i * k;
      const double factor = u[i] / h;
      for (Index c = j + 1; c < k; ++c) p[c] += factor * row[c];
      onto += u[i] * vector[i];
    }
    for (Index c = j + 1; c < k; ++c) along += u[c] * p[c];
    along /= 2.0 * h;
    for (Index c = j + 1; c < k; ++c) {
      p[c] -= along * u[c];
      vector[c] -= onto / h * u[c];
    }
    for (Index i = j + 1; i < k; ++i) {
      double* ANTITHETIC_RESTRICT row = a + i * k;
      const double mine = u[i], its = p[i];
      for (Index c = j + 1; c < k; ++c) row[c] -= mine * p[c] + its * u[c];
    }
  }
  diagonal[k - 1] = a[k * k - 1];
  beside[k - 1] = 0.0;
}

// One implicit QL sweep on the block from `first` to `last`, rotating the vector.
void sweep(double* diagonal, double* beside, double* vector, Index first, Index last) {
  double g = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
  const double length = std::hypot(g, 1.0);
  g = diagonal[last] - diagonal[first] + beside[first] / (g + std::copysign(length, g));
  double sine = 1.0, cosine = 1.0, shift = 0.0;
  for (Index i = last - 1; i >= first; --i) {
    const double f = sine * beside[i], b = cosine * beside[i];
    const double r = std::sqrt(f * f + g * g);
    beside[i + 1] = r;
    if (r == 0.0) {  // the block falls apart
      diagonal[i + 1] -= shift;
      beside[last] = 0.0;
      return;
    }
    sine = f / r;
    cosine = g / r;
    g = diagonal[i + 1] - shift;
    const double t = (diagonal[i] - g) * sine + 2.0 * cosine * b;
    shift = sine * t;
    diagonal[i + 1] = g + shift;
    g = cosine * t - b;
    const double upper = vector[i + 1];
    vector[i + 1] = sine * vector[i] + cosine * upper;
    vector[i] = cosine * vector[i] - sine * upper;
  }
  diagonal[first] -= shift;
  beside[first] = g;
  beside[last] = 0.0;
}

}  // namespace

bool along_axes(std::span<const double> matrix, std::span<double> values,
                std::span<double> components) {
  constexpr Index most_sweeps = 60;
  const Index k = length(values);
  std::vector<double> a(matrix.begin(), matrix.end()), beside(values.size());
  double largest = 0.0;  // squares of numbers up to 1 do not overflow
  for (const double entry : a) {
    if (!std::isfinite(entry)) return false;
    largest = std::max(largest, std::abs(entry));
  }
  if (largest == 0.0) {
    std::fill(values.begin(), values.end(), 0.0);
    return true;
  }
  for (double& entry : a) entry /= largest;
  make_tridiagonal(a.data(), k, values.data(), beside.data(), components.data());
  const auto is_split = [&](Index i) {
    const auto at = static_cast<std::size_t>(i);
    // the largest entry is 1: what is far below it is rounding, of which zeros have no scale
    const double scale = std::max(1.0, std::abs(values[at]) + std::abs(values[at + 1]));
    return std::abs(beside[at]) <= std::numeric_limits<double>::epsilon() * scale;
  };
  for (Index first = 0; first < k; ++first) {
    for (Index sweeps = 0;; ++sweeps) {
      Index last = first;
      while (last + 1 < k && !is_split(last)) ++last;
      if (last == first) break;
      if (sweeps == most_sweeps) return false;
      sweep(values.data(), beside.data(), components.data(), first, last);
    }
  }
  for (double& value : values) value *= largest;
  return true;
}

}  // namespace antithetic
