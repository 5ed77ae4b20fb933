// Vortex-A: the producer runs inside the consumer's page faults (Vortex paper, section 4.1,
// Algorithm 6).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "vortex/block_quota.h"
#include "vortex/input_stream.h"

namespace vortex::inline v0 {

// Writes the bytes of the stream from `offset` on into `block` and returns how many it wrote; fewer
// than the block holds means that the data end there. Runs inside a page fault of the reader, so it
// must not touch the stream itself, or hold what the interrupted code may hold (if the reader can
// be inside malloc when it faults, do not allocate). It may read and write other streams. What it
// throws becomes the stream's error, with the errno
// value that it carries.
using FillFunction = std::function<std::size_t(std::span<std::byte> block, std::uint64_t offset)>;

class CallbackSource final : public Source {
 public:
  // Guarantees `blocks` blocks of the pool to the stream. With a known length the function is never
  // asked for more. Throws Error(ENOMEM) when the pool cannot guarantee them.
  CallbackSource(BlockPool& pool, std::size_t blocks, FillFunction fill_function,
                 std::optional<std::uint64_t> length_bytes, const std::string& name);
  ~CallbackSource() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }
  Taken take(std::uint64_t index, std::uint64_t floor) noexcept override;
  void release(std::uint64_t index, Block block) noexcept override;
  std::optional<std::uint64_t> length() const noexcept override;

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  BlockQuota quota_;
  FillFunction fill_function_;
  // The block the function fills at present. Still set at the end if the function never returned,
  // because a stream that it read failed inside vortex::guarded().
  Block filling_;
  std::atomic<std::uint64_t> length_;
  CauseText exception_text_;
};

// An array whose bytes a function computes as they are read. Needs M + 1 blocks of the pool.
//
//   vortex::BlockPool pool({.pool_bytes = 4 << 20});
//   auto squares = vortex::input_from_callback<std::uint64_t>(pool, fill, {.name = "squares"});
//   squares.data()[123456789012];
template <typename T>
InputStream<T> input_from_callback(BlockPool& pool, FillFunction fill_function,
                                   InputStreamOptions options = {},
                                   std::optional<std::uint64_t> length_bytes = std::nullopt) {
  auto source = std::make_unique<CallbackSource>(
      pool, options.comeback_blocks + 1, std::move(fill_function), length_bytes, options.name);
  return InputStream<T>(std::move(source), std::move(options));
}

}  // namespace vortex::inline v0
