// A few threads that do parts of many short pieces of work, one piece after the other.
#pragma once

#include <atomic>
#include <system_error>
#include <thread>

#include "common.hpp"

namespace antithetic {

// Threads are started once and wait between the pieces, since starting one may take longer than a
// piece. The work must not throw.
class Team {
 public:
  explicit Team(Index threads) {
    try {
      for (Index t = 1; t < threads; ++t) others_.emplace_back([this, t] { serve(t); });
    } catch (const std::system_error&) {  // the system has no more threads: fewer must do
    } catch (...) {
      end();
      throw;
    }
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  ~Team() { end(); }

  Index size() const { return static_cast<Index>(others_.size()) + 1; }

  // Call part(t) for t = 0 .. size() - 1, the first in this thread, and wait for all.
  template <class Part>
  void run(const Part& part) {
    if (others_.empty()) {
      part(Index{0});
      return;
    }
    context_ = &part;
    part_ = [](const void* given, Index t) { (*static_cast<const Part*>(given))(t); };
    begin_piece();
    part(Index{0});
    for (Index tries = 0; busy_.load(std::memory_order_acquire) > 0; ++tries) pause(tries);
  }

 private:
  using Call = void (*)(const void*, Index);
  static constexpr Index spins = 1 << 12;  // some microseconds, then others may have the core

  static void pause(Index tries) {
    if (tries >= spins) std::this_thread::yield();
  }

  void end() {
    part_ = nullptr;
    begin_piece();
    for (auto& other : others_) other.join();
  }

  void begin_piece() {
    busy_.store(static_cast<Index>(others_.size()), std::memory_order_relaxed);
    piece_.fetch_add(1, std::memory_order_release);
  }

  void serve(Index t) {
    for (std::uint64_t done = 0;; ++done) {
      for (Index tries = 0; piece_.load(std::memory_order_acquire) == done; ++tries) pause(tries);
      const Call part = part_;
      if (part == nullptr) return;
      part(context_, t);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> others_;
  std::atomic<std::uint64_t> piece_{0};
  std::atomic<Index> busy_{0};
  Call part_ = nullptr;
  const void* context_ = nullptr;
};

}  // namespace antithetic
