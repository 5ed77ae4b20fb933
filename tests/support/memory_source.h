// A source that does what a test tells it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/threads.h"
#include "vortex/block_pool.h"
#include "vortex/input_stream.h"
#include "vortex/thread/futex.h"

namespace vortex::test {

// Instructions for a MemorySource, and its counts of calls. The test shares them, and looks at them
// while the stream owns the source.
struct SourceScript {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  bool length_known = true;        // from the start; otherwise once the end was seen
  std::uint64_t fail_at = kNever;  // take() of this block returns `failure`
  Status failure = {EIO, "the test says so"};
  std::uint64_t wait_at = kNever;  // take() of this block opens `waiting` and waits for `go_on`
  Gate waiting;
  FutexSemaphore go_on;

  std::atomic<std::uint64_t> taken{0};      // blocks handed out
  std::atomic<std::uint64_t> released{0};   // and returned
  std::atomic<std::uint64_t> cancelled{0};  // calls of cancel()
};

// Serves the bytes of a vector. Allocates in its constructor only.
class MemorySource final : public Source {
 public:
  MemorySource(BlockPool& pool, std::size_t blocks, std::vector<std::byte> data,
               std::shared_ptr<SourceScript> script = std::make_shared<SourceScript>())
      : quota_(pool, blocks, blocks, "memory source"),
        data_(std::move(data)),
        script_(std::move(script)),
        length_known_(script_->length_known) {}

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }

  Taken take(std::uint64_t index, std::uint64_t /*floor*/) noexcept override {
    if (index == script_->wait_at) {
      script_->waiting.open();
      if (!script_->go_on.acquire()) return {{}, 0, {ECANCELED, "cancelled"}};
    }
    if (index == script_->fail_at) return {{}, 0, script_->failure};
    const std::size_t block_bytes = pool().block_bytes();
    const std::uint64_t offset = index * block_bytes;
    if (offset >= data_.size()) {
      length_known_.store(true, std::memory_order_release);
      return {};
    }
    const auto [block, error] = quota_.try_take();
    if (error != 0) return {{}, 0, {error, "no block left in the pool"}};
    const std::size_t bytes = std::min<std::uint64_t>(block_bytes, data_.size() - offset);
    std::memcpy(pool().home(block), data_.data() + offset, bytes);
    if (bytes < block_bytes) length_known_.store(true, std::memory_order_release);
    script_->taken.fetch_add(1, std::memory_order_relaxed);
    return {block, bytes, {}};
  }

  void release(std::uint64_t /*index*/, Block block) noexcept override {
    script_->released.fetch_add(1, std::memory_order_relaxed);
    quota_.give_back(block);
  }

  std::optional<std::uint64_t> length() const noexcept override {
    if (!length_known_.load(std::memory_order_acquire)) return std::nullopt;
    return data_.size();
  }

  void cancel() noexcept override {
    script_->cancelled.fetch_add(1, std::memory_order_relaxed);
    script_->go_on.close();
  }

 private:
  BlockQuota quota_;
  const std::vector<std::byte> data_;
  const std::shared_ptr<SourceScript> script_;
  std::atomic<bool> length_known_;
};

inline std::shared_ptr<SourceScript> failing_at(std::uint64_t block,
                                                Status failure = {EIO, "the test says so"}) {
  auto script = std::make_shared<SourceScript>();
  script->fail_at = block;
  script->failure = failure;
  return script;
}

// A stream of these bytes, which is guaranteed its window.
inline InputStream<char> stream_of_bytes(
    BlockPool& pool, std::vector<std::byte> data, InputStreamOptions options = {},
    std::shared_ptr<SourceScript> script = std::make_shared<SourceScript>()) {
  return InputStream<char>(std::make_unique<MemorySource>(pool, options.comeback_blocks + 1,
                                                          std::move(data), std::move(script)),
                           options);
}

// An access that the compiler cannot drop.
inline char touch(const char* address) { return *static_cast<const volatile char*>(address); }

inline BlockPoolOptions small_blocks(std::size_t count) {
  return {.pool_bytes = count * kMinBlockBytes, .block_bytes = kMinBlockBytes};
}

// `bytes` bytes no two neighbouring words of which are equal: byte i of the data is a function of i
// alone, see byte_at().
inline std::byte byte_at(std::uint64_t offset) noexcept {
  const std::uint64_t word = (offset / 8 + 1) * 0x9e3779b97f4a7c15;
  return static_cast<std::byte>((word ^ word >> 29) >> (offset % 8 * 8));
}

inline std::vector<std::byte> patterned_bytes(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = byte_at(i);
  return data;
}

}  // namespace vortex::test
