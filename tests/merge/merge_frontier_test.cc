#include "vortex/detail/merge/merge_frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/record_order.h"

namespace vortex::merge_frontier_test { namespace {

constexpr std::size_t kBlock = 256;

// A record in the order of a merge.
struct Place {
  std::uint8_t key;
  std::size_t input;
  std::uint64_t index;

  auto operator<=>(const Place&) const = default;
};

// The inputs, and what the frontier must say of them.
class Model {
 public:
  Model(std::size_t record_bytes, std::size_t count, std::mt19937_64& random)
      : record_bytes_(record_bytes) {
    const unsigned keys = random() % 2 == 0 ? 3 : 256;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint8_t> sorted(random() % 4 == 0 ? random() % 3 : random() % 200);
      for (std::uint8_t& key : sorted) key = static_cast<std::uint8_t>(random() % keys);
      std::ranges::sort(sorted);
      data_.emplace_back(sorted.size() * record_bytes);
      for (std::size_t at = 0; at < sorted.size(); ++at) {
        data_.back()[at * record_bytes] = static_cast<std::byte>(sorted[at]);
      }
      inputs_.push_back({data_.back().data(), sorted.size()});
      // What lies in one block does so wherever an input begins.
      const std::size_t step = kBlock % record_bytes == 0 ? record_bytes : 1;
      skipped_.push_back(random() % 2 == 0 ? 0 : random() % (kBlock / step) * step);
      there_.push_back(0);
      enter(i);
    }
  }

  const std::vector<MergeInput>& inputs() const noexcept { return inputs_; }
  const std::vector<std::size_t>& skipped() const noexcept { return skipped_; }
  // Compares what is there of each input behind what was taken; how many records that are.
  template <typename Frontier>
  std::uint64_t expect_parts(const Frontier& frontier,
                             const std::vector<std::uint64_t>& taken) const {
    std::uint64_t records = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const MergeInput& part = frontier.parts()[i];
      EXPECT_EQ(part.begin, inputs_[i].begin + taken[i] * record_bytes_);
      EXPECT_EQ(part.records, end(i) - taken[i]);
      records += part.records;
    }
    return records;
  }
  Place place(std::size_t input, std::uint64_t index) const {
    return {std::to_integer<std::uint8_t>(data_[input][index * record_bytes_]), input, index};
  }
  // The input whose next block is needed first; none: the number of inputs.
  std::size_t entering() const {
    std::size_t first = inputs_.size();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (there_[i] == inputs_[i].records) continue;
      if (first == inputs_.size() || last(i) < last(first)) first = i;
    }
    return first;
  }
  Place last(std::size_t input) const { return place(input, there_[input] - 1); }
  // How many records of an input need no further block.
  std::uint64_t end(std::size_t input) const {
    const std::size_t bounding = entering();
    std::uint64_t records = 0;
    while (records < there_[input] &&
           (bounding == inputs_.size() || place(input, records) <= last(bounding))) {
      ++records;
    }
    return records;
  }
  // The first byte, counted from where the first block begins, that stays when the next block of an
  // input is entered.
  std::uint64_t stays_from(std::size_t input, std::size_t window) const {
    const std::uint64_t block = block_to_enter(input);
    return block + 1 <= window ? 0 : (block + 1 - window) * kBlock;
  }
  void enter(std::size_t input) {
    const std::uint64_t end = (block_to_enter(input) + 1) * kBlock - skipped_[input];
    there_[input] = std::min(end / record_bytes_, inputs_[input].records);
  }

 private:
  std::uint64_t block_to_enter(std::size_t input) const {
    return (skipped_[input] + (there_[input] + 1) * record_bytes_ - 1) / kBlock;
  }

  std::size_t record_bytes_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<MergeInput> inputs_;
  std::vector<std::size_t> skipped_;
  std::vector<std::uint64_t> there_;
};

// Blocks, within the first of which inputs may begin, are entered in the order of their last
// records, and none goes that is still needed, with
// records that divide blocks, that straddle them, and that are as long.
TEST(MergeFrontier, GoesOnAsAMergeNeedsBlocks) {
  auto random = test::test_random();
  for (unsigned round = 0; round < (test::kShadowMemory ? 300U : 1000U); ++round) {
    SCOPED_TRACE(round);
    constexpr std::size_t kSizes[] = {1, 8, 64, 128, 256, 3, 100, 171, 255};
    const std::size_t record_bytes = kSizes[random() % std::size(kSizes)];
    const std::size_t count = 1 + random() % 9;
    const std::size_t window = blocks_for_records(kBlock, record_bytes) + random() % 2;
    Model model(record_bytes, count, random);
    const FormatRules rules(RecordFormat(record_bytes, {{.offset = 0, .length = 1, .type = {}}}));
    detail::MergeFrontier<FormatRules> frontier(
        rules, model.inputs(),
        {.block_bytes = kBlock, .window_blocks = window, .skipped = model.skipped()});
    frontier.start();
    std::vector<std::uint64_t> taken(count), done(count);
    std::vector<std::vector<MergeInput>> pieces;
    for (;;) {
      const std::size_t entering = model.entering();
      const std::uint64_t records = model.expect_parts(frontier, taken);
      ASSERT_FALSE(testing::Test::HasFailure());
      ASSERT_EQ(frontier.records(), records);
      ASSERT_EQ(frontier.bound() == nullptr, entering == count);
      const bool may_enter =
          entering != count && model.skipped()[entering] + done[entering] * record_bytes >=
                                   model.stays_from(entering, window);
      ASSERT_EQ(frontier.may_enter(), may_enter);
      if (may_enter && random() % 2 == 0) {
        frontier.enter();
        model.enter(entering);
      } else if (records > 0 && random() % 2 == 0) {
        // Some of each part: which ones they are is nothing to the frontier.
        std::vector<std::uint64_t> counts(count);
        std::vector<MergeInput> piece(count);
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          counts[i] = random() % (frontier.parts()[i].records + 1);
          sum += counts[i];
        }
        ASSERT_EQ(frontier.take(counts, piece), sum);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(piece[i].begin, model.inputs()[i].begin + taken[i] * record_bytes);
          ASSERT_EQ(piece[i].records, counts[i]);
          taken[i] += counts[i];
        }
        pieces.push_back(std::move(piece));
      } else if (!pieces.empty()) {
        frontier.done_with(pieces.front());
        for (std::size_t i = 0; i < count; ++i) done[i] += pieces.front()[i].records;
        pieces.erase(pieces.begin());
      } else if (records == 0 && entering == count) {
        break;
      } else {
        // All is done with that was taken: when nothing more is there, a block can be entered.
        ASSERT_TRUE(records > 0 || may_enter);
      }
    }
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(done[i], model.inputs()[i].records);
  }
}

}  // namespace

}  // namespace vortex::merge_frontier_test
