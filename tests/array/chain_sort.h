// A sort of an array by chains of chunks, with a look at the chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex::test {

using namespace detail;

struct ChainSortChunks {
  std::size_t spare = 0;
  std::size_t least_free = 0;  // at any time
};

// Sorts more than ChainSorter::Dense::kMax records where they are, as InPlaceSort does.
template <typename Record, typename KeyOf>
ChainSortChunks sort_by_chains(std::span<Record> records, KeyOf key_of) {
  using Sorter = ChainSorter<Record, KeyOf>;
  using Arena = ChunkArena<Record>;
  class Output final : public SortedOutput<Record> {
   public:
    Output(Record* at, Arena& arena) : at_(at), arena_(arena) {}
    Record* room(std::size_t count) noexcept override {
      Record* const here = at_ + records_;
      records_ += count;
      arena_.claim(records_);
      return here;
    }
    void written(Record*, std::size_t) noexcept override {}

   private:
    Record* const at_;
    std::size_t records_ = 0;
    Arena& arena_;
  };

  const SortRules<Record, KeyOf> rules{key_of};
  ChainSortChunks chunks;
  chunks.spare = Sorter::spare_chunks_for(records.size());
  const std::unique_ptr<Record[]> spare(new Record[chunks.spare * Arena::kChunkRecords]);
  Arena arena(records.data(), records.size() / Arena::kChunkRecords, spare.get(), chunks.spare);
  Output output(records.data(), arena);
  Sorter sorter(rules, arena, output);
  sorter.sort_array(records.data(), records.size(), KeyRange<typename Sorter::Bits>{},
                    NoCodec<Record>{});
  chunks.least_free = arena.least_free_chunks();
  return chunks;
}

}  // namespace vortex::test
