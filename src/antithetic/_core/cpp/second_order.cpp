// What a second-order solver asks that does not depend on the kind of rows.
#include "second_order.hpp"

namespace antithetic {
namespace {

// Losses, slopes and curvatures of some predictions. Not inlined, or GCC no longer vectorises it.
ANTITHETIC_OUTLINE void judge_logistic(const double* ANTITHETIC_RESTRICT y,
                                       const double* ANTITHETIC_RESTRICT predictions, Index many,
                                       double* ANTITHETIC_RESTRICT losses,
                                       double* ANTITHETIC_RESTRICT slopes,
                                       double* ANTITHETIC_RESTRICT curvatures) {
  for (Index k = 0; k < many; ++k) {
    const double margin = y[k] * predictions[k];
    const double tail = exp_of_negative<1>(-std::abs(margin));
    const double share = 1.0 / (1.0 + tail), small = tail * share;
    slopes[k] = -y[k] * (margin >= 0.0 ? small : share);
    curvatures[k] = small * share;
    losses[k] = log1p_of_unit(tail) + (margin > 0.0 ? 0.0 : -margin);
  }
}

ANTITHETIC_OUTLINE void bend_logistic(const double* ANTITHETIC_RESTRICT y,
                                      const double* ANTITHETIC_RESTRICT predictions, Index many,
                                      double* ANTITHETIC_RESTRICT slopes,
                                      double* ANTITHETIC_RESTRICT curvatures) {
  for (Index k = 0; k < many; ++k) {
    const double margin = y[k] * predictions[k];
    const double tail = exp_of_negative<1>(-std::abs(margin));
    const double share = 1.0 / (1.0 + tail), small = tail * share;
    slopes[k] = -y[k] * (margin >= 0.0 ? small : share);
    curvatures[k] = small * share;
  }
}

}  // namespace

void PredictionBlock::bend(const Targets& targets, const Loss& loss, Index start, Index many) {
  const double* y = targets.y.data() + start;
  if (loss.code == log_loss) {
    bend_logistic(y, predictions, many, slopes, curvatures);
  } else {
    for (Index k = 0; k < many; ++k) {
      slopes[k] = loss.slope(y[k], predictions[k]);
      curvatures[k] = loss.curvature(y[k], predictions[k]);
    }
  }
  if (!targets.has_weights()) return;
  for (Index k = 0; k < many; ++k) {
    const double w = targets.weight[static_cast<std::size_t>(start + k)];
    slopes[k] = w > 0.0 ? w * slopes[k] : 0.0;
    curvatures[k] = w > 0.0 ? w * curvatures[k] : 0.0;
  }
}

Totals PredictionBlock::judge(const Targets& targets, const Loss& loss, Index start, Index many) {
  const double* y = targets.y.data() + start;
  if (loss.code == log_loss) {
    judge_logistic(y, predictions, many, losses, slopes, curvatures);
  } else {
    for (Index k = 0; k < many; ++k) {
      losses[k] = loss.value(y[k], predictions[k]);
      slopes[k] = loss.slope(y[k], predictions[k]);
      curvatures[k] = loss.curvature(y[k], predictions[k]);
    }
  }
  if (targets.has_weights()) weigh(targets.weight.data() + start, many);
  return {sum_in_lanes(losses, many), sum_in_lanes(slopes, many), sum_of_squares(slopes, many),
          sum_in_lanes(curvatures, many)};
}

// Weight 0 beats an infinite loss.
void PredictionBlock::weigh(const double* weight, Index many) {
  for (Index k = 0; k < many; ++k) {
    const double w = weight[k];
    losses[k] = w > 0.0 ? w * losses[k] : 0.0;
    slopes[k] = w > 0.0 ? w * slopes[k] : 0.0;
    curvatures[k] = w > 0.0 ? w * curvatures[k] : 0.0;
  }
}

void bend_predictions(const Targets& targets, const Loss& loss, std::span<const double> predictions,
                      std::span<double> slopes, std::span<double> curvatures) {
  PredictionBlock block;
  for (Index start = 0; start < length(predictions); start += most_rows_at_once) {
    const Index many = std::min(most_rows_at_once, length(predictions) - start);
    std::copy_n(predictions.data() + start, many, block.predictions);
    block.bend(targets, loss, start, many);
    std::copy_n(block.slopes, many, slopes.data() + start);
    std::copy_n(block.curvatures, many, curvatures.data() + start);
  }
}

std::pair<double, double> loss_along(const Targets& targets, const Loss& loss,
                                     std::span<const double> predictions,
                                     std::span<const double> after, double step) {
  std::pair<double, double> all{0.0, 0.0};
  PredictionBlock block;
  for (Index start = 0; start < length(predictions); start += most_rows_at_once) {
    const Index many = std::min(most_rows_at_once, length(predictions) - start);
    const double *from = predictions.data() + start, *to = after.data() + start;
    for (Index k = 0; k < many; ++k) block.predictions[k] = from[k] + step * (to[k] - from[k]);
    all.first += block.judge(targets, loss, start, many).loss;
    all.second += sum_of(many, [&](Index k) {
      const double slope = block.slopes[k];  // 0 times an infinite change would be NaN
      return slope != 0.0 ? slope * (to[k] - from[k]) : 0.0;
    });
  }
  return all;
}

void in_blocks_of_rows(Index n, Index at_once, Index threads, std::span<double> total,
                       BlockWork work) {
  threads = std::clamp<Index>(threads, 1, std::max<Index>(1, n / at_once));
  std::vector<Padded> sums(static_cast<std::size_t>(threads), Padded(length(total)));
  in_threads(threads, [&](Index t, const StopFlag& stop) {
    const Index blocks = (n + at_once - 1) / at_once;
    const Index last = std::min(n, blocks * (t + 1) / threads * at_once);
    for (Index start = blocks * t / threads * at_once; start < last && !stop; start += at_once) {
      work(start, std::min(at_once, last - start), t, sums[static_cast<std::size_t>(t)]);
    }
  });
  std::fill(total.begin(), total.end(), 0.0);
  for (const auto& sum : sums) {
    for (std::size_t j = 0; j < total.size(); ++j) total[j] += sum.data()[j];
  }
}

}  // namespace antithetic
