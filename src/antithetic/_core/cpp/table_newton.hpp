// Newton's method on a table of few rows and columns, and the axes of a small symmetric matrix:
// what a search for steps asks. Calls of LAPACK from Python would take longer than the work.
#pragma once

#include "table_parts.hpp"

namespace antithetic {

// Mean loss of predictions offset + table w, plus sum_j ridge_j w_j^2 / 2.
struct TableProblem {
  const double* table;  // (n, k)
  Index n, k;
  Targets targets;
  Loss loss;
  std::span<const double> offset, ridge;
};

struct NewtonRule {
  Index steps;         // at most, and halvings of each
  double enough;       // a gain of this share of the objective ends it
  double least_ridge;  // added to the diagonal, as a share of the trace
};

// Newton's steps from `point`, halved where they would raise the objective; then the Hessian there,
// (k, k).
void newton_on_table(const TableProblem& problem, const NewtonRule& rule, std::span<double> point,
                     std::span<double> hessian, Pulse& pulse);

// Eigenvalues of a symmetric matrix, and the components of a vector along its axes. The axes are
// not formed: Householder's reflections and the rotations of the QL algorithm turn the vector
// alone. False if the iterations do not converge.
bool along_axes(std::span<const double> matrix, std::span<double> values,
                std::span<double> components);

}  // namespace antithetic
