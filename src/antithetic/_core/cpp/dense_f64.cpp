// Kernels of dense double rows.
#include "row_set_of.hpp"

namespace antithetic {

std::unique_ptr<RowSet> dense_rows(const double* X, Index n, Index d) {
  return std::make_unique<RowSetOf<DenseRows<double>>>(DenseRows<double>{X, n, d});
}

}  // namespace antithetic
