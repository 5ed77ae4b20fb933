// The result of a sort that goes where the records come from.
#pragma once

#include <cstddef>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/sorted_output.h"

namespace vortex { inline namespace v0 { namespace detail {

// The array whose chunks an arena has, front to back.
template <typename Record, typename Codec>
class ArrayOutput final : public SortedOutput<Record> {
 public:
  // Both outlive it.
  ArrayOutput(ChunkArena<Record>& arena, const Codec& codec) : arena_(arena), codec_(codec) {}

  // The result goes to `array`, and `before` records of it come before the arena's first chunk. It
  // is decoded unless it is to stay as it is.
  void start(Record* array, std::size_t before = 0, bool decodes = true) noexcept {
    at_ = array;
    before_ = before;
    records_ = 0;
    decodes_ = decodes;
  }

  Record* room(std::size_t count) noexcept override {
    Record* const here = at_;
    records_ += count;
    at_ += count;
    if (records_ > before_) arena_.claim(records_ - before_);
    return here;
  }
  void written(Record* records, std::size_t count) noexcept override {
    if (decodes_) codec_.decode(records, count);
  }

 private:
  Record* at_ = nullptr;
  std::size_t before_ = 0;
  std::size_t records_ = 0;
  bool decodes_ = true;
  ChunkArena<Record>& arena_;
  const Codec& codec_;
};

}}}  // namespace vortex::v0::detail
