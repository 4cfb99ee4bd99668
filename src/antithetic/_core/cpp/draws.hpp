// Random orders, and draws by cumulative probabilities.
#pragma once

#include "common.hpp"

namespace antithetic {

// The numbers from 0 on, fewer than 2^32, in random order (Fisher and Yates).
void draw_order(std::span<Index> order, std::span<const std::uint64_t, 4> seed);

// For each number, the first unit whose cumulative probability is above it. A guide says where to
// begin for each of as many cells as there are units; a binary search would miss the cache at every
// turn. The last sum must be at least 1 and the numbers below 1.
void invert(std::span<const double> sums, std::span<const double> numbers, std::span<Index> drawn);

// Numbers of the rows whose hash, a number from 0 up to 1, is below their share times the size of
// the sample. The hash is that of the seed and the row's number, the first of which is given, so a
// sample is part of each larger one.
std::vector<Index> draw_by_hash(std::span<const double> share, double size, std::uint64_t seed,
                                std::uint64_t first);

// Pair balancing of rows that are observed a few at a time (for PyTorch): the vector of row k is
// the product of its slopes and its entries in `vectors`. `marks` are the ends of front and back,
// and the row that waits for another, whose vector is `held`; -1 for none. Rows placed already are
// passed over.
struct Observed {
  std::span<const Index> rows;
  const float* vectors;
  const float* slopes;
  Index width, n_slopes;
};

void balance_observed(const Observed& seen, std::span<bool> placed, std::span<Index> following,
                      std::span<std::int64_t> marks, std::span<double> signed_sum,
                      std::span<double> held);

}  // namespace antithetic
