// Newton's method on a table of few rows and columns.
#include "table_newton.hpp"

namespace antithetic {
namespace {

// The objective at some weights, and the slopes and curvatures of the rows there.
class TableState {
 public:
  explicit TableState(const TableProblem& problem)
      : problem_(problem),
        rows_{problem.table, problem.n, problem.k},
        slopes_(static_cast<std::size_t>(problem.n)),
        curvatures_(static_cast<std::size_t>(problem.n)) {}

  double evaluate(const std::vector<double>& weights) {
    const Padded w(weights.data(), problem_.k);
    double total = 0.0;
    PredictionBlock block;
    for (Index start = 0; start < problem_.n; start += most_rows_at_once) {
      const Index many = std::min(most_rows_at_once, problem_.n - start);
      products(rows_, start, many, w, block.predictions);
      for (Index r = 0; r < many; ++r) {
        block.predictions[r] += problem_.offset[static_cast<std::size_t>(start + r)];
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
    add_rows(rows_, 0, problem_.n, slopes_.data(), sum);
    std::vector<double> found(weights.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      found[j] = sum.data()[j] / static_cast<double>(problem_.n) + problem_.ridge[j] * weights[j];
    }
    return found;
  }

  void hessian(Upper& out) {
    for (double& c : curvatures_) c /= static_cast<double>(problem_.n);
    gram_of_table(rows_, curvatures_.data(), out);
    for (Index j = 0; j < problem_.k; ++j) {
      out.row(j)[j] += problem_.ridge[static_cast<std::size_t>(j)];
    }
  }

 private:
  const TableProblem& problem_;
  DenseRows<double> rows_;
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
