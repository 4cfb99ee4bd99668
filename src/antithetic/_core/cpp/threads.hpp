// Work in parts, one for each of a few threads.
#pragma once

#include <atomic>

#include "common.hpp"

namespace antithetic {

// Set once a part has failed or was interrupted. Parts read it before each block, and return.
using StopFlag = std::atomic<bool>;

// Call part(t, stop) for t = 0 .. threads - 1, the first in this thread, and wait for all; an
// exception of any, or of the start of its thread, is thrown here. Parts that the system has no
// thread for are done in this one.
void in_threads(Index threads, FunctionRef<void(Index, const StopFlag&)> part);

}  // namespace antithetic
