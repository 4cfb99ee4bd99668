// Work in parts, one for each of a few threads.
#include "threads.hpp"

#include <exception>
#include <system_error>
#include <thread>

namespace antithetic {

void in_threads(Index threads, FunctionRef<void(Index, const StopFlag&)> part) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  StopFlag stop{false};
  const auto fail = [&](Index t) {
    failures[static_cast<std::size_t>(t)] = std::current_exception();
    stop = true;
  };
  const auto guarded = [&](Index t) {
    try {
      part(t, stop);
    } catch (...) {
      fail(t);
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(threads));
  Index begun = 1;
  try {
    for (; begun < threads; ++begun) others.emplace_back(guarded, begun);
  } catch (const std::system_error&) {  // the system has no more threads
  } catch (...) {                       // such as no memory: those that have begun must be joined
    fail(begun);
  }
  guarded(0);
  for (Index t = begun; t < threads && !stop; ++t) guarded(t);
  for (auto& other : others) other.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace antithetic
