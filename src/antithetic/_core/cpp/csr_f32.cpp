// Kernels of sparse float rows.
#include "row_set_of.hpp"

namespace antithetic {

std::unique_ptr<RowSet> csr_rows(const CsrArrays<float, std::int32_t>& given) {
  return checked_csr(given);
}

std::unique_ptr<RowSet> csr_rows(const CsrArrays<float, std::int64_t>& given) {
  return checked_csr(given);
}

}  // namespace antithetic
