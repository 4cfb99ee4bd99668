// Kernels of dense float rows.
#include "row_set_of.hpp"

namespace antithetic {

std::unique_ptr<RowSet> dense_rows(const float* X, Index n, Index d) {
  return std::make_unique<RowSetOf<DenseRows<float>>>(DenseRows<float>{X, n, d});
}

}  // namespace antithetic
