// Threads whose start fails, whatever allocation it is that fails, and parts that end early.
#include "threads.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include "team.hpp"

namespace {

constexpr long plenty = 1L << 30;
std::atomic<long> allowed{plenty};  // allocations that succeed before all others fail

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

}  // namespace

void* operator new(std::size_t size) {
  void* memory = allowed.fetch_sub(1) > 0 ? std::malloc(size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace antithetic {
namespace {

constexpr Index threads = 4;

// Allow none, one, two, ... allocations, until the work succeeds; return how often it failed.
template <class Work>
int failures(const Work& work) {
  for (int many = 0;; ++many) {
    allowed = many;
    try {
      work();
      allowed = plenty;
      return many;
    } catch (const std::bad_alloc&) {
      allowed = plenty;
    }
  }
}

// Parts wait for each other: they end only if all begin, or if the flag is set.
int failures_of_parts() {
  std::atomic<Index> begun;
  const int failed = failures([&] {
    begun = 0;
    in_threads(threads, [&](Index, const StopFlag& stop) {
      ++begun;
      while (begun < threads && !stop) std::this_thread::yield();
    });
  });
  require(begun == threads, "a part did not run once");
  return failed;
}

int failures_of_a_team() {
  std::atomic<Index> ran = 0;
  const int failed = failures([&] { Team(threads).run([&](Index) { ++ran; }); });
  require(ran == threads, "a member of the team did not run once");
  return failed;
}

// The part that throws waits until all have begun; the others go on until the flag is set.
void end_together(Index throwing) {
  std::atomic<Index> begun = 0;
  try {
    in_threads(threads, [&](Index t, const StopFlag& stop) {
      ++begun;
      while (begun < threads) std::this_thread::yield();
      if (t == throwing) throw std::runtime_error("interrupted");
      while (!stop) std::this_thread::yield();
    });
  } catch (const std::runtime_error&) {
    return;
  }
  require(false, "the exception of a part was lost");
}

}  // namespace
}  // namespace antithetic

int main() {
  using namespace antithetic;
  for (Index t = 0; t < threads; ++t) end_together(t);
  std::printf("%d %d\n", failures_of_parts(), failures_of_a_team());
}
