// Work in parts, one for each of a few threads.
#pragma once

#include "common.hpp"

namespace antithetic {

// Call part(t) for t = 0 .. threads - 1, the first in this thread, and wait for all; an exception
// of any is thrown here. Parts that the system has no thread for are done in this one.
void in_threads(Index threads, FunctionRef<void(Index)> part);

}  // namespace antithetic
