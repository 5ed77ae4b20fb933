// Alternate signal stacks of threads, and streams to touch in them.
#pragma once

#include <signal.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/memory_source.h"
#include "tests/support/sanitizers.h"
#include "vortex/block_pool.h"
#include "vortex/input_stream.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

namespace vortex::test {

inline constexpr std::size_t kBlockBytes = kMinBlockBytes;

// What our handler takes beside the signal's frame, as limits.md says. Sanitizers take more.
inline constexpr std::size_t kHandlerBytes = std::size_t{kShadowMemory ? 16 : 2} << 10;

// A signal stack for the calling thread, as small as the kernel accepts plus what a handler needs.
class SignalStack {
 public:
  explicit SignalStack(std::size_t more_bytes, int flags = 0)
      : memory_(std::max<std::size_t>(getauxval(AT_MINSIGSTKSZ), 2048) + more_bytes, kPaint) {
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    stack.ss_flags = flags;
    sigaltstack(&stack, &before_);
  }
  ~SignalStack() { sigaltstack(&before_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  bool contains(const void* address) const {
    return address >= memory_.data() && address < memory_.data() + memory_.size();
  }

  // Whether it is the calling thread's, and the thread is not on it.
  bool in_place() const {
    stack_t now{};
    sigaltstack(nullptr, &now);
    return now.ss_sp == memory_.data() && now.ss_size == memory_.size() &&
           (now.ss_flags & (SS_ONSTACK | SS_DISABLE)) == 0;
  }

  // The most that was used since the last call.
  std::size_t take_used() {
    const auto lowest =
        std::find_if(memory_.begin(), memory_.end(), [](char c) { return c != kPaint; });
    const auto used = static_cast<std::size_t>(memory_.end() - lowest);
    std::fill(memory_.begin(), memory_.end(), kPaint);
    return used;
  }

 private:
  static constexpr char kPaint = 0x5a;
  std::vector<char> memory_;
  stack_t before_{};
};

inline auto stream_of(BlockPool& pool, std::function<void(std::span<std::byte>)> fill,
                      std::size_t blocks = 1) {
  return input_from_callback<char>(
      pool,
      [fill = std::move(fill)](std::span<std::byte> block, std::uint64_t) {
        fill(block);
        return block.size();
      },
      {}, blocks * kBlockBytes);
}

// A stream of which nothing can be read.
inline auto failing_stream(BlockPool& pool) {
  return stream_of_bytes(pool, patterned_bytes(kBlockBytes), {}, failing_at(0));
}

inline bool stream_works() {
  BlockPool pool(small_blocks(2));
  auto stream = stream_of(pool, [](std::span<std::byte> block) { block[0] = std::byte{7}; });
  return touch(stream.data()) == 7;
}

}  // namespace vortex::test
