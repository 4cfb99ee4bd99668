// Losses of columns.
#include "passes.hpp"

namespace antithetic {
namespace {

// Sum of the logistic losses of some rows, by few logarithms of products.
double sum_of_log_losses(const double* y, const double* p, Index n) {
  constexpr Index at_once = 512 * lanes<double>;  // factors of at most 2: no product overflows
  double total = 0.0;
  for (Index start = 0; start < n; start += at_once) {
    double linear[lanes<double>] = {}, products[lanes<double>];
    std::fill(products, products + lanes<double>, 1.0);
    in_blocks<double>(std::min(at_once, n - start), [&](Index c, auto many) {
      for (Index lane = 0; lane < many; ++lane) {
        const double margin = y[start + c + lane] * p[start + c + lane];
        linear[lane] += margin > 0.0 ? 0.0 : -margin;  // NaN stays
        products[lane] *= 1.0 + exp_of_negative<1>(-std::abs(margin));
      }
    });
    for (Index lane = 0; lane < lanes<double>; ++lane) {
      total += linear[lane] + std::log(products[lane]);
    }
  }
  return total;
}

}  // namespace

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
