#include "vortex/detail/merge/merge_frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/support/random_seed.h"
#include "vortex/record_order.h"

namespace vortex::multisequence_selection_test { namespace {

// Keys of two bytes and a byte that no key holds.
constexpr std::size_t kRecordBytes = 3;

unsigned key_of(const std::byte* record) {
  return std::to_integer<unsigned>(record[0]) << 8 | std::to_integer<unsigned>(record[1]);
}

std::vector<std::byte> sorted_sequence(std::size_t records, unsigned keys, unsigned shift,
                                       std::mt19937_64& random) {
  std::vector<unsigned> values(records);
  for (unsigned& value : values) value = static_cast<unsigned>(shift + random() % keys) & 0xffffU;
  std::ranges::sort(values);
  std::vector<std::byte> bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value >> 8));
    bytes.push_back(static_cast<std::byte>(value));
    bytes.push_back(static_cast<std::byte>(random()));
  }
  return bytes;
}

// The sequence of each record of the merge, in order.
std::vector<std::size_t> merged_order(std::span<const MergeInput> sequences) {
  struct Place {
    unsigned key;
    std::size_t sequence;
  };
  std::vector<Place> all;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::uint64_t at = 0; at < sequences[i].records; ++at) {
      all.push_back({key_of(sequences[i].begin + at * kRecordBytes), i});
    }
  }
  std::ranges::stable_sort(all, {}, &Place::key);
  std::vector<std::size_t> order;
  for (const Place& place : all) order.push_back(place.sequence);
  return order;
}

TEST(MultisequenceSelection, FindsWhatAMergeWouldHaveTaken) {
  auto random = test::test_random();
  const FormatRules two_bytes(RecordFormat(kRecordBytes, {{.offset = 0, .length = 2, .type = {}}}));
  for (unsigned round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    const std::size_t count = 1 + random() % (round % 4 == 0 ? 40 : 5);
    const unsigned keys = std::vector<unsigned>{1, 2, 7, 1000, 65536}[random() % 5];
    const bool disjoint = random() % 4 == 0;
    std::vector<std::vector<std::byte>> data;
    std::vector<MergeInput> sequences;
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned shift = disjoint ? static_cast<unsigned>((i + 1) * 1500) : 0;
      data.push_back(sorted_sequence(random() % (random() % 4 == 0 ? 3 : 300),
                                     disjoint ? 1500 : keys, shift, random));
      sequences.push_back({data.back().data(), data.back().size() / kRecordBytes});
    }
    const std::vector<std::size_t> order = merged_order(sequences);
    detail::MultisequenceSelection<FormatRules> selection(two_bytes, count);
    for (unsigned trial = 0; trial < 5 && !order.empty(); ++trial) {
      // Exact ranks, too, with which all rounds are needed.
      const std::uint64_t least = 1 + random() % order.size();
      const std::uint64_t most = least + (trial % 2 == 0 ? 0 : random() % 200);
      const auto [counts, bound] = selection.select(sequences, least, most);
      ASSERT_EQ(counts.size(), count);
      std::uint64_t rank = 0;
      for (const std::uint64_t of_sequence : counts) rank += of_sequence;
      ASSERT_GE(rank, least);
      ASSERT_LE(rank, most);
      std::vector<std::uint64_t> expected(count);
      for (std::uint64_t i = 0; i < rank; ++i) ++expected[order[i]];
      ASSERT_TRUE(std::ranges::equal(counts, expected));
      ASSERT_EQ(bound == nullptr, rank == order.size() && rank <= most);
      for (std::size_t i = 0; i < count && bound != nullptr; ++i) {
        const std::byte* const begin = sequences[i].begin;
        if (counts[i] > 0) {
          ASSERT_LE(key_of(begin + (counts[i] - 1) * kRecordBytes), key_of(bound));
        }
        if (counts[i] < sequences[i].records) {
          ASSERT_GE(key_of(begin + counts[i] * kRecordBytes), key_of(bound));
        }
      }
    }
  }
}

}  // namespace

}  // namespace vortex::multisequence_selection_test
