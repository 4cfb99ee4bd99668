// What every kernel uses: index types, prefetching, and a pulse for interruptions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

// RARE is for what runs once per epoch: compiled for size, which takes less of a compiler's time.
#if defined(_MSC_VER) && !defined(__clang__)
#define ANTITHETIC_RESTRICT __restrict
#define ANTITHETIC_INLINE __forceinline
#define ANTITHETIC_INLINE_LAMBDA [[msvc::forceinline]]
#define ANTITHETIC_OUTLINE __declspec(noinline)
#define ANTITHETIC_RARE __declspec(noinline)
#else
#define ANTITHETIC_RESTRICT __restrict__
#define ANTITHETIC_INLINE inline __attribute__((always_inline))
#define ANTITHETIC_INLINE_LAMBDA __attribute__((always_inline))
#define ANTITHETIC_OUTLINE __attribute__((noinline))
#define ANTITHETIC_RARE __attribute__((noinline, cold))
#endif

namespace antithetic {

using Index = std::ptrdiff_t;  // row numbers, NumPy's intp
using Rows = std::span<const Index>;

template <class Number>
Index length(std::span<Number> numbers) {
  return static_cast<Index>(numbers.size());
}

constexpr Index cache_line = 64;
constexpr double infinity = std::numeric_limits<double>::infinity();

// How near to the core a prefetched line is wanted. What takes long to come is wanted in the second
// level: on its way to the first, it would occupy one of the few buffers there.
enum class Cache { first, second };

// Ask for the cache line that holds an address; nothing is read.
template <Cache level = Cache::first>
inline void prefetch(const void* address) {
  constexpr bool is_first = level == Cache::first;
#if defined(__GNUC__) && defined(__x86_64__)
  // GCC 12 removes loops that hold nothing but its own builtin
  if constexpr (is_first) {
    asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(address)));
  } else {
    asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(address)));
  }
#elif defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(address, 0, is_first ? 3 : 2);
#elif defined(_M_X64) || defined(_M_IX86)
  _mm_prefetch(static_cast<const char*>(address), is_first ? _MM_HINT_T0 : _MM_HINT_T1);
#else
  (void)address;
#endif
}

// Ask for all cache lines of some numbers.
template <Cache level = Cache::first, class Number>
void prefetch_lines(const Number* first, Index count) {
  constexpr Index line = cache_line / static_cast<Index>(sizeof(Number));
  for (Index k = 0; k < count; k += line) prefetch<level>(first + k);
  if (count > 0) prefetch<level>(first + count - 1);
}

// Ask for all cache lines of numbers that mostly fill few. Three lines are asked for without
// looking at the count: where each row has another one, a branch that depends on it is often
// mispredicted.
template <class Number>
void prefetch_few(const Number* first, Index count) {
  constexpr Index line = cache_line / static_cast<Index>(sizeof(Number));
  prefetch(first);
  prefetch(first + line);
  prefetch(first + std::max<Index>(count - 1, 0));
  for (Index k = 2 * line; k < count; k += line) prefetch(first + k);
}

// A reference to a function of any type that is kept elsewhere: its caller is compiled once.
template <class Signature>
class FunctionRef;

template <class... Arguments>
class FunctionRef<void(Arguments...)> {
 public:
  template <class Function>
  FunctionRef(const Function& function)
      : function_(&function), call_([](const void* given, Arguments... arguments) {
          (*static_cast<const Function*>(given))(arguments...);
        }) {}

  void operator()(Arguments... arguments) const { call_(function_, arguments...); }

 private:
  const void* function_;
  void (*call_)(const void*, Arguments...);
};

// Calls a function from time to time, which throws if the user has pressed Ctrl-C. Kernels run
// without Python's lock, so Python would not notice. No function is for threads that are not told.
class Pulse {
 public:
  using Check = void (*)();

  explicit Pulse(Check check) : check_(check) {}

  // Count some entries of work; a check costs a microsecond and comes every few milliseconds.
  void beat(Index work) {
    done_ += work;
    if (done_ >= between_checks) {
      done_ = 0;
      if (check_ != nullptr) check_();
    }
  }

 private:
  static constexpr Index between_checks = Index{1} << 24;
  Check check_;
  Index done_ = 0;
};

}  // namespace antithetic
