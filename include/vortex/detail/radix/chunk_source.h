// Where a sorter that distributes an array gets its chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/detail/radix/chunk_arena.h"

namespace vortex { inline namespace v0 { namespace detail {

// Chunks of an array that lie together, and the arena's number of the first.
template <typename Record>
struct ChunkRow {
  Record* records;
  std::size_t chunks;
  std::uint32_t node;
};

// One call gives many chunks.
template <typename Record>
class ChunkSource {
 public:
  // Those that come next. False when there are none.
  virtual bool next(ChunkRow<Record>& to) noexcept = 0;
  // What lies behind the last whole chunk of the array, if it belongs to these: asked for after
  // all chunks.
  virtual Piece<Record> rest() noexcept = 0;

 protected:
  ~ChunkSource() = default;
};

// A whole array, whose chunks are the first of the arena.
template <typename Record>
class WholeArray final : public ChunkSource<Record> {
 public:
  WholeArray(Record* array, std::size_t count) noexcept : array_(array), count_(count) {}

  bool next(ChunkRow<Record>& to) noexcept override {
    to = {array_, taken_ ? 0 : count_ / kChunk, 0};
    taken_ = true;
    return to.chunks != 0;
  }
  Piece<Record> rest() noexcept override {
    return {array_ + count_ / kChunk * kChunk, count_ % kChunk};
  }

 private:
  static constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;

  Record* const array_;
  const std::size_t count_;
  bool taken_ = false;
};

}}}  // namespace vortex::v0::detail
