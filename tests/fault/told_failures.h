// What streams tell of touches that they could not serve: Stream::fill_on_failure().
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "vortex/error.h"
#include "vortex/stream.h"
#include "vortex/thread/this_thread.h"

namespace vortex::test {

// How often it was told, to which thread last, and what.
struct ToldFailures {
  // The error that all of them have; 0: any.
  explicit ToldFailures(int only_error = 0) : error(only_error) {}

  // For calls of one thread at a time.
  Stream::FailureCall call() {
    return {[](void* told, const Failure& failure) noexcept {
              auto& to = *static_cast<ToldFailures*>(told);
              if (to.error != 0) {
                EXPECT_EQ(failure.error, to.error);
              }
              ++to.calls;
              to.thread = current_thread_id();
              to.failure = failure;
            },
            this};
  }
  // For several threads: counts alone.
  Stream::FailureCall count() {
    return {[](void* told, const Failure&) noexcept { ++static_cast<ToldFailures*>(told)->calls; },
            this};
  }

  const int error;
  std::atomic<int> calls{0};
  std::atomic<std::int32_t> thread{0};
  Failure failure;
};

}  // namespace vortex::test
