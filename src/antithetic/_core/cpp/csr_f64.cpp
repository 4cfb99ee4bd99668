// Kernels of sparse double rows.
#include "row_set_of.hpp"

namespace antithetic {

std::unique_ptr<RowSet> csr_rows(const CsrArrays<double, std::int32_t>& given) {
  return checked_csr(given);
}

std::unique_ptr<RowSet> csr_rows(const CsrArrays<double, std::int64_t>& given) {
  return checked_csr(given);
}

}  // namespace antithetic
