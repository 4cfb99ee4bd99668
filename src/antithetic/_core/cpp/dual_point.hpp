// Points of the dual problem near a step of Newton's method, and what they cost: see
// exact/certificate.py.
#pragma once

#include "second_order.hpp"

namespace antithetic {

// Slopes of the quadratic model around some predictions, weighted and cut to what the loss allows;
// and the products of the curvatures with the squared changes of the predictions.
void expect_slopes(const Targets& targets, const Loss& loss, Index start, Index many,
                   const PredictionBlock& origin, const double* after, double* expected,
                   double* squares);

// How the slopes v that the model expects become ones whose weighted sum is zero, and small enough
// for an L1 penalty. With a shift, all predictions change by so much more, and no slope may have to
// be cut. With a factor, slopes of a logistic, Poisson or gamma loss become factor (v + b) - b,
// where v + b has one sign; `side` is the class whose probabilities are scaled, by its sign. Slopes
// of other losses are multiplied by `up` if they are positive, else by `down`. In the end all
// slopes are multiplied by `kept`.
struct Restoration {
  double factor = 1.0, shift = 0.0, up = 1.0, down = 1.0, kept = 1.0;
  int side = 0;
};

// What a restored point costs in all: the weighted sum of phi(p) + phi*(v) - v p, never below zero;
// infinite if a slope would have to be cut with the shift or without, or if a change is not known.
// The weighted slopes are written into `slopes` unless that is empty.
double dual_cost(const Targets& targets, const Loss& loss, std::span<const double> predictions,
                 std::span<const double> after, const Restoration& restoration,
                 std::span<double> slopes);

}  // namespace antithetic
