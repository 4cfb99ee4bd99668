// Losses of columns.
#include "passes.hpp"

namespace antithetic {
namespace {

#if defined(__GNUC__) || defined(__clang__)
constexpr Index losses_at_once = register_lanes<double>;
#else
constexpr Index losses_at_once = 1;  // without vectors of the compiler's own
#endif

// Sum of the logistic losses of some rows, by few logarithms of products.
double sum_of_log_losses(const double* y, const double* p, Index n) {
  constexpr Index width = losses_at_once, pair = 2 * width;
  using Numbers = Block<double, width>;
  constexpr Index at_once = 512 * width;  // factors of at most 2: no product overflows
  double total = 0.0;
  Index i = 0;
  while (i + pair <= n) {
    Numbers linear[2] = {}, products[2] = {Numbers{} + 1.0, Numbers{} + 1.0};
    for (const Index last = std::min(n, i + at_once); i + pair <= last; i += pair) {
      for (Index half = 0; half < 2; ++half) {  // neither waits for the other
        const Index first = i + half * width;
        const auto found = logistic<width>(block_at<width>(y + first) * block_at<width>(p + first));
        linear[half] += found.linear;
        products[half] *= found.factor;
      }
    }
    double parts[2][width], factors[2][width];
    std::memcpy(parts, linear, sizeof parts);
    std::memcpy(factors, products, sizeof factors);
    for (Index half = 0; half < 2; ++half) {
      for (Index lane = 0; lane < width; ++lane) {
        total += parts[half][lane] + std::log(factors[half][lane]);
      }
    }
  }
  for (; i < n; ++i) {
    const auto found = logistic<1>(y[i] * p[i]);
    total += found.linear + std::log(found.factor);
  }
  return total;
}

template <class T>
std::array<T, 2> only_two(std::span<const T> y) {
  if (y.empty()) return {};
  const T first = y.front();
  const auto other = std::find_if(y.begin(), y.end(), [&](T value) { return value != first; });
  if (other == y.end()) return {first, first};
  const T second = *other;
  // by blocks without a branch, which would be mispredicted at every other label
  constexpr std::ptrdiff_t block = 1024;
  for (auto at = other; at != y.end();) {
    const auto last = at + std::min(block, y.end() - at);
    bool are_two = true;
    for (; at != last; ++at) are_two &= (*at == first) | (*at == second);
    if (!are_two) return {};
  }
  return {std::min(first, second), std::max(first, second)};
}

}  // namespace

std::array<double, 2> two_values(std::span<const double> y) { return only_two(y); }

std::array<std::int64_t, 2> two_values(std::span<const std::int64_t> y) { return only_two(y); }

double sum_of_losses(const Loss& loss, std::span<const double> y, std::span<const double> p,
                     std::span<const double> weight) {
  const Index n = static_cast<Index>(y.size());
  if (loss.code == log_loss && weight.empty()) return sum_of_log_losses(y.data(), p.data(), n);
  double total = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (weight.empty()) {
      total += loss.value(y[i], p[i]);
    } else if (weight[i] > 0.0) {
      total += weight[i] * loss.value(y[i], p[i]);
    }
  }
  return total;
}

void each_loss(const Loss& loss, LossFunction function, std::span<const double> y,
               std::span<const double> p, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (loss.*function)(y[i], p[i]);
}

}  // namespace antithetic
