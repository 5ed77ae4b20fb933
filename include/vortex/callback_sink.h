// Vortex-A for writers: the consumer runs inside the producer's page faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "vortex/block_quota.h"
#include "vortex/output_stream.h"

namespace vortex::inline v0 {

// Takes the finished bytes of the stream from `offset` on. Called in order, inside a page fault of
// the writer or inside finish(), under the same rules as FillFunction. What it throws becomes the
// stream's error, with the errno value that it carries.
using DrainFunction = std::function<void(std::span<const std::byte> block, std::uint64_t offset)>;

class CallbackSink final : public Sink {
 public:
  // Guarantees `blocks` blocks of the pool to the stream. Throws Error(ENOMEM) when the pool
  // cannot.
  CallbackSink(BlockPool& pool, std::size_t blocks, DrainFunction drain_function,
               const std::string& name);
  ~CallbackSink() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }
  Taken take(std::uint64_t index) noexcept override;
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override;
  void discard(Block block) noexcept override { quota_.give_back(block); }

 private:
  BlockQuota quota_;
  DrainFunction drain_function_;
  // The block the function reads at present. Still set at the end if the function never returned,
  // because a stream that it touched failed inside vortex::guarded().
  Block draining_;
  CauseText exception_text_;
};

// An array whose bytes go to a function as they are finished. Needs L + 1 blocks of the pool.
template <typename T>
OutputStream<T> output_to_callback(BlockPool& pool, DrainFunction drain_function,
                                   OutputStreamOptions options = {}) {
  auto sink = std::make_unique<CallbackSink>(pool, options.comeback_blocks + 1,
                                             std::move(drain_function), options.name);
  return OutputStream<T>(std::move(sink), std::move(options));
}

}  // namespace vortex::inline v0
