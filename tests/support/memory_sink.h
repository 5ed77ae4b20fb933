// A sink that keeps what it gets, and does what a test tells it.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/threads.h"
#include "vortex/block_pool.h"
#include "vortex/output_stream.h"
#include "vortex/thread/futex.h"

namespace vortex::test {

// Instructions for a MemorySink, and the data and calls that it got. The test shares them, and
// looks at them while the stream owns the sink.
struct SinkScript {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // complete() writes here; must hold the whole of what the test writes, rounded up to blocks.
  std::vector<std::byte> data;
  bool may_skip = false;                // skip() leaves its part of `data` as it is
  std::uint64_t fail_take_at = kNever;  // take() of this block returns `failure`
  std::uint64_t fail_complete_at = kNever;
  Status failure = {EIO, "the test says so"};
  std::uint64_t call_at = kNever;  // complete() of this block calls `called`
  std::function<void()> called;
  std::uint64_t wait_at = kNever;  // take() of this block opens `waiting` and waits for `go_on`
  Gate waiting;
  FutexSemaphore go_on;

  std::atomic<std::uint64_t> completed{0};  // blocks
  std::atomic<std::uint64_t> completed_bytes{0};
  std::atomic<std::uint64_t> skipped{0};           // blocks
  std::atomic<std::uint64_t> discarded{0};         // blocks
  std::atomic<std::uint64_t> next_index{0};        // one more than the last index that arrived
  std::atomic<bool> in_order{true};                // every index arrived once, none before another
  std::atomic<std::uint64_t> finished_at{kNever};  // length given to finish()
  std::atomic<bool> abandoned{false};
  std::atomic<std::uint64_t> cancelled{0};  // calls of cancel()
};

// Copies every block into the script's vector. Never allocates.
class MemorySink final : public Sink {
 public:
  MemorySink(BlockPool& pool, std::size_t blocks, std::shared_ptr<SinkScript> script)
      : quota_(pool, blocks, blocks, "memory sink"), script_(std::move(script)) {}

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }

  Taken take(std::uint64_t index) noexcept override {
    if (index == script_->wait_at) {
      script_->waiting.open();
      if (!script_->go_on.acquire()) return {{}, {ECANCELED, "cancelled"}};
    }
    if (index == script_->fail_take_at) return {{}, script_->failure};
    const auto [block, error] = quota_.try_take();
    if (error != 0) return {{}, {error, "no block left in the pool"}};
    return {block, {}};
  }

  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override {
    const std::uint64_t offset = index * pool().block_bytes();
    Status status;
    if (offset + bytes > script_->data.size()) {
      status = {ENOSPC, "the test's vector is too short"};
    } else {
      std::memcpy(script_->data.data() + offset, pool().home(block), bytes);
    }
    quota_.give_back(block);
    if (index == script_->call_at) script_->called();
    if (index == script_->fail_complete_at) return script_->failure;
    note_arrival(index, 1);
    script_->completed.fetch_add(1, std::memory_order_relaxed);
    script_->completed_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return status;
  }

  Status skip(std::uint64_t first, std::uint64_t count) noexcept override {
    if (!script_->may_skip) return Sink::skip(first, count);
    note_arrival(first, count);
    script_->skipped.fetch_add(count, std::memory_order_relaxed);
    return {};
  }

  void discard(Block block) noexcept override {
    script_->discarded.fetch_add(1, std::memory_order_relaxed);
    quota_.give_back(block);
  }

  Status finish(std::uint64_t length) noexcept override {
    script_->finished_at.store(length, std::memory_order_relaxed);
    return {};
  }

  void abandon() noexcept override { script_->abandoned.store(true, std::memory_order_relaxed); }

  void cancel() noexcept override {
    script_->cancelled.fetch_add(1, std::memory_order_relaxed);
    script_->go_on.close();
  }

 private:
  void note_arrival(std::uint64_t index, std::uint64_t count) noexcept {
    if (script_->next_index.exchange(index + count, std::memory_order_relaxed) != index) {
      script_->in_order.store(false, std::memory_order_relaxed);
    }
  }

  BlockQuota quota_;
  const std::shared_ptr<SinkScript> script_;
};

inline std::shared_ptr<SinkScript> sink_script(std::size_t bytes) {
  auto script = std::make_shared<SinkScript>();
  script->data.resize(bytes);
  return script;
}

// A stream into the script's vector, which is guaranteed its window.
template <typename T = char>
OutputStream<T> stream_into(BlockPool& pool, std::shared_ptr<SinkScript> script,
                            OutputStreamOptions options = {}) {
  return OutputStream<T>(
      std::make_unique<MemorySink>(pool, options.comeback_blocks + 1, std::move(script)), options);
}

}  // namespace vortex::test
