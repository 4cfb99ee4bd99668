// Products of all columns with each other, summed over dense rows.
#include "column_products.hpp"

namespace antithetic {

template <class Real>
ColumnProducts<Real>::ColumnProducts(Index columns)
    : columns_(columns),
      panels_((columns + wide - 1) / wide),
      stride_(panels_ * wide),
      packed_(panels_ * panel_size),
      sums_(stride_ * stride_) {}

template <class Real>
void ColumnProducts<Real>::add(Index rows, std::span<const std::byte> next) {
  const Index tiles = 1 + (columns_ + few - 1) / few * (panels_ + 1) / 2;  // about
  const auto share = static_cast<std::size_t>(length(next) / tiles + cache_line);
  for (Index j = 0; j < columns_; j += few) {
    for (Index panel = j / wide; panel < panels_; ++panel) {
      const auto part = next.first(std::min(share, next.size()));
      prefetch_lines<Cache::second>(part.data(), length(part));
      next = next.subspan(part.size());
      if (panel * wide + narrow <= j) {  // what is left of the diagonal is not needed,
        add_tile<1, 1>(rows, j, panel);
      } else if (panel * wide + narrow >= columns_) {  // nor what is beyond the last column
        add_tile<0, 1>(rows, j, panel);
      } else {
        add_tile<0, 2>(rows, j, panel);
      }
    }
  }
}

template <class Real>
template <std::size_t first, std::size_t parts>
void ColumnProducts<Real>::add_tile(Index rows, Index j, Index panel) {
  Block<Real, narrow> sums[few][parts] = {};
  const Real* columns = packed_.data() + j / wide * panel_size + j % wide;
  const Real* others = packed_.data() + panel * panel_size + static_cast<Index>(first) * narrow;
  for (Index i = 0; i < rows; ++i, columns += wide, others += wide) {
    Block<Real, narrow> part[parts];
    detail::unrolled<parts>(
        [&](auto p) { part[p] = block_at<narrow>(others + static_cast<Index>(p()) * narrow); });
    detail::unrolled<static_cast<std::size_t>(few)>([&](auto r) {
      detail::unrolled<parts>([&](auto p) { sums[r][p] += columns[r] * part[p]; });
    });
  }
  constexpr Index many = static_cast<Index>(parts) * narrow;
  for (Index r = 0; r < few; ++r) {
    Real line[many];
    std::memcpy(line, sums[r], sizeof line);
    double* out =
        sums_.data() + (j + r) * stride_ + panel * wide + static_cast<Index>(first) * narrow;
    for (Index k = 0; k < many; ++k) out[k] += static_cast<double>(line[k]);
  }
}

template <class Real>
void ColumnProducts<Real>::add_to(std::span<double> matrix) const {
  for (Index j = 0; j < columns_; ++j) {
    for (Index c = j; c < columns_; ++c) {
      const double sum = sums_.data()[j * stride_ + c];
      matrix[static_cast<std::size_t>(j * columns_ + c)] += sum;
      if (c > j) matrix[static_cast<std::size_t>(c * columns_ + j)] += sum;
    }
  }
}

template class ColumnProducts<float>;
template class ColumnProducts<double>;

}  // namespace antithetic
