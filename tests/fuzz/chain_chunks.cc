// Looks for keys that leave a sort by chains as few free chunks as possible.
//
// The bytes of an input describe nested outliers. How many chunks a sort has taken is part of the
// coverage that libFuzzer sees, so that it keeps every input that takes more than those before and
// goes on from there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "tests/array/chain_sort.h"
#include "tests/array/nested_outliers.h"
#include "tests/fuzz/targets.h"

namespace vortex::test {
namespace {

using namespace detail;

struct Record {
  std::uint64_t key;
  std::uint64_t index;
  std::uint64_t filler;
};
struct KeyOf {
  std::uint64_t operator()(const Record& record) const noexcept { return record.key; }
};
constexpr std::size_t kMinCount = ChainSorter<Record, KeyOf>::Dense::kMax + 1;

// One counter for every two chunks taken.
[[gnu::section("__libfuzzer_extra_counters")]] std::array<std::uint8_t, 1024> taken_counters;

std::size_t least_free_so_far = static_cast<std::size_t>(-1);

}  // namespace

void fuzz_chain_chunks(std::string_view input) {
  FuzzedBytes bytes(input);
  const auto next = [&]() -> std::size_t { return bytes.byte(); };
  const auto order = static_cast<NestedOrder>(next() % 3);
  std::mt19937_64 random(next());
  const std::size_t count = kMinCount + next() * 128;
  std::vector<NestedLevel> levels;
  std::size_t outliers = 0;
  constexpr std::size_t kMaxOutliers = 40'000;
  while (!bytes.empty() && outliers < kMaxOutliers) {
    NestedLevel level;
    level.bits = static_cast<int>(1 + next() % 8);
    level.through = next() & ((std::size_t{1} << level.bits) - 1);
    level.at_ends = next() * 4;
    level.elsewhere = next() % 8;
    outliers += 2 * level.at_ends + (level.elsewhere << level.bits);
    levels.push_back(level);
  }
  const auto keys = nested_keys<std::uint64_t>(levels, count, random, order);
  std::vector<Record> records(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) records[i] = {keys[i], i, ~keys[i]};

  const ChainSortChunks chunks = sort_by_chains(std::span<Record>(records), KeyOf{});
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i].filler, ~records[i].key) << "a record in pieces";
    ASSERT_TRUE(i == 0 || records[i - 1].key < records[i].key ||
                (records[i - 1].key == records[i].key && records[i - 1].index < records[i].index));
  }
  ASSERT_GE(chunks.least_free, 1U);
  const std::size_t taken = chunks.spare - std::min(chunks.least_free, chunks.spare);
  taken_counters[std::min(taken / 2, taken_counters.size() - 1)] = 1;
  if (chunks.least_free < least_free_so_far) {
    least_free_so_far = chunks.least_free;
    std::fprintf(stderr, "%zu of %zu spare chunks free, %zu records, %zu levels\n",
                 chunks.least_free, chunks.spare, records.size(), levels.size());
  }
}

}  // namespace vortex::test
