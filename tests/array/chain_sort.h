// A sort of an array by chains of chunks, with a look at the chunks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex::test {

struct ChainSortChunks {
  std::size_t spare = 0;
  std::size_t least_free = 0;  // at any time
};

// Sorts more than ChainSorter::Dense::kMax records where they are, as InPlaceSort does.
template <typename Record, typename KeyOf>
ChainSortChunks sort_by_chains(std::span<Record> records, KeyOf key_of) {
  using namespace detail;
  using Sorter = ChainSorter<Record, KeyOf>;
  using Arena = ChunkArena<Record>;
  const SortRules<Record, KeyOf> rules{key_of};
  ChainSortChunks chunks;
  chunks.spare = Sorter::spare_chunks_for(records.size());
  const std::unique_ptr<Record[]> spare(new Record[chunks.spare * Arena::kChunkRecords]);
  Arena arena(records.data(), records.size() / Arena::kChunkRecords, spare.get(), chunks.spare);
  const NoCodec<Record> codec;
  detail::ArrayOutput<Record, NoCodec<Record>> output(arena, codec);
  output.start(records.data());
  Sorter sorter(rules, arena, output);
  sorter.sort_array(records.data(), records.size(), KeyRange<typename Sorter::Bits>{}, codec);
  chunks.least_free = arena.least_free_chunks();
  return chunks;
}

}  // namespace vortex::test
