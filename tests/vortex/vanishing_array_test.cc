// Streams that share their free blocks: buckets, and arrays that vanish as they are read.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/vortex/placing.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/vanishing_array.h"

namespace vortex::vanishing_array_test { namespace {

using test::error_of;

constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr std::size_t kWords = kBlock / sizeof(std::uint64_t);

class PooledTest : public ::testing::Test {
 protected:
  void make_pool(std::size_t blocks) {
    BlockPoolOptions options;
    options.pool_bytes = blocks * kBlock;
    options.block_bytes = kBlock;
    options.warming = Warming::kOnDemand;
    blocks_ = std::make_unique<BlockPool>(options);
    pool_ = std::make_unique<StreamPool>(*blocks_, blocks);
  }

  std::unique_ptr<BlockPool> blocks_;
  std::unique_ptr<StreamPool> pool_;
};

class BucketStreamTest : public PooledTest {
 protected:
  std::unique_ptr<BucketStream> make_bucket(std::size_t comeback_blocks = 0,
                                            bool guarded_by_seal = false) {
    return std::make_unique<BucketStream>(
        *pool_, BucketStreamOptions{.reserve_bytes = std::uint64_t{1} << 30,
                                    .comeback_blocks = comeback_blocks,
                                    .guarded_by_seal = guarded_by_seal});
  }
};

std::uint64_t* words(BucketStream& bucket) {
  return reinterpret_cast<std::uint64_t*>(bucket.bytes());
}

// Writes words [from, to) as a function of their index and a tag, and reads them back.
void write(BucketStream& bucket, std::size_t from, std::size_t to, std::uint64_t tag) {
  for (std::size_t i = from; i < to; ++i) words(bucket)[i] = tag << 48 | i;
}
void expect(BucketStream& bucket, std::size_t from, std::size_t to, std::uint64_t tag) {
  for (std::size_t i = from; i < to; ++i) {
    ASSERT_EQ(words(bucket)[i], tag << 48 | i) << "word " << i;
  }
}

TEST_F(BucketStreamTest, GrowsByWritingAndShrinksByReading) {
  make_pool(8);
  auto bucket = make_bucket();
  BlockMeter meter;
  bucket->count_with(&meter);
  EXPECT_EQ(bucket->held_blocks(), 0u);
  write(*bucket, 0, 6 * kWords, 1);
  EXPECT_EQ(bucket->held_blocks(), 6u);
  expect(*bucket, 0, 3 * kWords, 1);  // the first two have been left behind
  EXPECT_EQ(bucket->held_blocks(), 4u);
  expect(*bucket, 3 * kWords, 6 * kWords, 1);
  EXPECT_LE(bucket->held_blocks(), 2u);
  EXPECT_EQ(detail::BlockRanges::give_back(*bucket, 0, 6 * kBlock), 0);
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
  EXPECT_EQ(meter.peak(), 6u);
  EXPECT_EQ(meter.held(), 0u);
}

// Each meter counts its own streams, from the blocks that they hold when it is told to.
TEST_F(BucketStreamTest, MetersCountTheirOwnStreams) {
  make_pool(20);
  auto one = make_bucket();
  auto other = make_bucket();
  BlockMeter of_one, of_both;
  write(*one, 0, 3 * kWords, 1);
  one->count_with(&of_one);
  EXPECT_EQ(of_one.held(), 3u);
  other->count_with(&of_both);
  write(*other, 0, 5 * kWords, 2);
  EXPECT_EQ(of_one.peak(), 3u);
  one->count_with(&of_both);
  EXPECT_EQ(of_one.held(), 0u);
  EXPECT_EQ(of_one.peak(), 3u);
  EXPECT_EQ(of_both.held(), 8u);
  EXPECT_EQ(detail::BlockRanges::give_back(*other, 0, 5 * kBlock), 0);
  of_both.restart();
  EXPECT_EQ(of_both.peak(), 3u);
  other->count_with(nullptr);
  write(*other, 0, 5 * kWords, 2);
  EXPECT_EQ(of_both.peak(), 3u);
  one.reset();
  EXPECT_EQ(of_both.held(), 0u);
}

TEST_F(BucketStreamTest, PassesMemoryThatIsReadToThoseWhoWrite) {
  make_pool(10);
  auto from = make_bucket();
  auto to = make_bucket();
  write(*from, 0, 8 * kWords, 1);
  // 16 blocks would be needed if reading freed nothing.
  for (std::size_t i = 0; i < 8 * kWords; ++i) words(*to)[i] = words(*from)[i];
  expect(*to, 0, 8 * kWords, 1);
}

// Figure 6 (a): the data of three levels, L0 | L1 | L2, stacked in one bucket; each begins in the
// middle of a block. Reading L2 passes a block border above L1's end and must not free L1; reading
// L1 must not free L0.
TEST_F(BucketStreamTest, Figure6aLowerLevelsSurviveReadingOfHigherOnes) {
  make_pool(16);
  auto bucket = make_bucket();
  const std::size_t l1 = kWords + 700;
  const std::size_t l2 = 2 * kWords + 900;
  const std::size_t end = 4 * kWords + 300;
  write(*bucket, 0, l1, 10);
  write(*bucket, l1, l2, 11);
  write(*bucket, l2, end, 12);
  expect(*bucket, l2, end, 12);
  expect(*bucket, l1, l2, 11);
  expect(*bucket, 0, l1, 10);
}

// Figure 6 (b): L0 is read while data of its sub-levels come and go above it; its last block is
// where two later sets begin. The first read fault of the later ones lies exactly one block beyond
// the last of L0, and the block before it must survive.
TEST_F(BucketStreamTest, Figure6bDataAppendedSinceTheLastReadFaultSurvive) {
  make_pool(16);
  auto bucket = make_bucket();
  const std::size_t l0 = kWords + 500;
  write(*bucket, 0, l0, 1);
  // Appended after L0 and read before it, while lower buckets are processed.
  write(*bucket, l0, 2 * kWords + 100, 2);
  expect(*bucket, l0, 2 * kWords + 100, 2);
  expect(*bucket, 0, l0, 1);  // the last read fault is at block 1
  // Appended by the split of a later bucket.
  const std::size_t l1 = 2 * kWords;  // fills block 1 to its end
  const std::size_t l2 = 3 * kWords + 200;
  write(*bucket, l0, l1, 3);
  write(*bucket, l1, l2, 4);
  expect(*bucket, l1, l2, 4);  // first read fault: block 2
  expect(*bucket, l0, l1, 3);
}

TEST_F(BucketStreamTest, AComebackReadsAcrossTheBorder) {
  make_pool(12);
  auto bucket = make_bucket(1);
  write(*bucket, 0, 6 * kWords, 5);
  for (std::size_t border = kWords; border < 6 * kWords; border += kWords) {
    // A load of 16 bytes over the border, again and again, as a copy of a record does.
    for (int round = 0; round < 3; ++round) {
      std::uint64_t pair[2];
      std::memcpy(pair, words(*bucket) + border - 1, sizeof pair);
      ASSERT_EQ(pair[0], std::uint64_t{5} << 48 | (border - 1));
      ASSERT_EQ(pair[1], std::uint64_t{5} << 48 | border);
    }
  }
}

// Nothing is touched behind the last block of data, so that no fault can tell that it was read.
TEST_F(BucketStreamTest, WhatIsTruncatedGoesBackToThePool) {
  make_pool(8);
  auto bucket = make_bucket();
  write(*bucket, 0, kWords + 100, 1);
  write(*bucket, kWords + 100, 5 * kWords, 2);
  expect(*bucket, kWords + 100, 5 * kWords, 2);
  EXPECT_GT(bucket->held_blocks(), 2u);
  EXPECT_EQ(bucket->truncate((kWords + 100) * 8), 0);
  EXPECT_EQ(bucket->held_blocks(), 2u);
  EXPECT_EQ(bucket->truncate((kWords + 1) * 8), 0);  // within the block
  EXPECT_EQ(bucket->held_blocks(), 2u);
  write(*bucket, kWords + 100, 3 * kWords, 3);
  expect(*bucket, kWords + 100, 3 * kWords, 3);
  EXPECT_EQ(bucket->truncate((kWords + 100) * 8), 0);
  expect(*bucket, 0, kWords + 100, 1);
  EXPECT_EQ(bucket->truncate(kWords * 8), 0);  // the block that begins there may be written next
  EXPECT_EQ(bucket->held_blocks(), 1u);
  EXPECT_EQ(bucket->truncate(0), 0);
  EXPECT_EQ(bucket->held_blocks(), 0u);
}

// What is set aside is out of reach of others, until it is stored to or given back.
TEST_F(BucketStreamTest, AStoreFindsWhatWasSetAside) {
  make_pool(4);
  auto bucket = make_bucket();
  auto other = make_bucket();
  EXPECT_EQ(bucket->set_aside(kBlock - 1, 2), 0);  // of two blocks
  EXPECT_EQ(bucket->set_aside(0, 2 * kBlock), 0);  // no more
  EXPECT_EQ(bucket->held_blocks(), 2u);
  EXPECT_EQ(bucket->set_aside(2 * kBlock, 0), 0);
  EXPECT_EQ(bucket->set_aside(std::uint64_t{1} << 30, 1), ENOSPC);
  write(*other, 0, 2 * kWords, 1);
  EXPECT_EQ(other->set_aside(kBlock, 2 * kBlock), EAGAIN);
  EXPECT_EQ(bucket->statistics().faults, 0u);
  write(*bucket, 0, kWords, 2);
  EXPECT_EQ(bucket->statistics().faults, 1u);
  EXPECT_EQ(other->clear(), 0);
  EXPECT_EQ(pool_->blocks_in_use(), 2u);
  expect(*bucket, 0, kWords, 2);
  const Failure failure =
      guarded([&] { (void)*const_cast<volatile std::uint64_t*>(words(*bucket) + kWords); });
  EXPECT_EQ(failure.error, EFAULT) << failure.message();
  EXPECT_EQ(bucket->clear(), 0);
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
}

TEST_F(BucketStreamTest, WhatIsSealedGoesAsItIsRead) {
  make_pool(80);
  auto bucket = make_bucket(1, true);
  for (const std::size_t blocks : {80u, 5u}) {
    write(*bucket, 0, blocks * kWords, blocks);
    expect(*bucket, kWords, blocks * kWords, blocks);  // while nothing is guarded
    const std::uint64_t faults = bucket->statistics().faults;
    EXPECT_EQ(bucket->held_blocks(), blocks);
    EXPECT_EQ(bucket->seal(), 0);
    for (std::size_t block = 0; block < blocks; ++block) {
      expect(*bucket, block * kWords, (block + 1) * kWords, blocks);
      ASSERT_EQ(bucket->held_blocks(), blocks - (block > 1 ? block - 1 : 0));
    }
    EXPECT_EQ(bucket->statistics().faults, faults + blocks);
    EXPECT_EQ(bucket->clear(), 0);
    EXPECT_EQ(pool_->blocks_in_use(), 0u);
  }
}

TEST_F(BucketStreamTest, ReadingWhatWasNeverWrittenIsItsError) {
  make_pool(4);
  auto bucket = make_bucket();
  const Failure failure =
      guarded([&] { (void)*const_cast<volatile std::uint64_t*>(words(*bucket)); });
  EXPECT_EQ(failure.error, EFAULT) << failure.message();
}

TEST_F(BucketStreamTest, AUsedUpPoolIsItsError) {
  make_pool(2);
  auto bucket = make_bucket();
  const Failure failure = guarded([&] { write(*bucket, 0, 3 * kWords, 1); });
  EXPECT_TRUE(test::fails(failure, EAGAIN, "make the pool larger"));
  EXPECT_EQ(bucket->held_blocks(), 2u);
}

int fail_every_move(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kMove ? ENOMEM : 0;
}
int fail_every_guard(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kProtect ? ENOMEM : 0;
}

// A guard that was refused loses nothing, and a block that cannot be placed stays set aside.
TEST_F(BucketStreamTest, RefusalsLoseNothing) {
  const test::FaultsBy signals(test::signal_engine());
  make_pool(4);
  auto bucket = make_bucket(1, true);
  write(*bucket, 0, 3 * kWords, 4);
  os::set_failure_hook(&fail_every_guard);
  EXPECT_EQ(bucket->seal(), ENOMEM);
  os::set_failure_hook(nullptr);
  expect(*bucket, 0, 3 * kWords, 4);
  EXPECT_EQ(bucket->set_aside(3 * kBlock, 1), 0);
  os::set_failure_hook(&fail_every_move);
  const Failure failure = guarded([&] { write(*bucket, 3 * kWords, 3 * kWords + 1, 4); });
  os::set_failure_hook(nullptr);
  EXPECT_EQ(failure.error, ENOMEM) << failure.message();
  EXPECT_EQ(bucket->held_blocks(), 4u);
  EXPECT_EQ(bucket->clear(), 0);
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
}

TEST_F(BucketStreamTest, TheEndOfItsReservationIsItsError) {
  make_pool(2);
  BucketStream bucket(*pool_, {.reserve_bytes = 2 * kBlock});
  volatile std::byte* const end = bucket.bytes() + bucket.reserved_bytes();
  const Failure failure = guarded([&] { *end = std::byte{1}; });
  EXPECT_TRUE(test::fails(failure, ENOSPC, "raise reserve_bytes"));
}

TEST_F(BucketStreamTest, ExplicitCallsReportWhatFailed) {
  make_pool(4);
  auto bucket = make_bucket();
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 0, 3 * kBlock), 0);
  EXPECT_EQ(bucket->held_blocks(), 3u);
  os::set_failure_hook(&fail_every_move);
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 3 * kBlock, 8), ENOMEM);
  EXPECT_EQ(detail::BlockRanges::give_back(*bucket, 0, 3 * kBlock), ENOMEM);
  os::set_failure_hook(nullptr);
  EXPECT_EQ(bucket->held_blocks(), 3u);
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 3 * kBlock, 8), 0);
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 4 * kBlock, 8), EAGAIN);
  EXPECT_EQ(detail::BlockRanges::open(*bucket, std::uint64_t{1} << 30, 8), ENOSPC);
  EXPECT_EQ(detail::BlockRanges::give_back(*bucket, kBlock / 2, 3 * kBlock),
            0);  // whole blocks only: 1 and 2
  EXPECT_EQ(bucket->held_blocks(), 2u);
}

TEST_F(BucketStreamTest, BlocksThatCannotComeHomeAreGivenUp) {
  const test::FaultsBy signals(test::signal_engine());
  make_pool(4);
  {
    auto bucket = make_bucket();
    write(*bucket, 0, 3 * kWords, 1);  // the first two are guarded
    os::set_failure_hook(&fail_every_guard);
    EXPECT_EQ(detail::BlockRanges::give_back(*bucket, 0, kBlock), ENOMEM);
    bucket.reset();  // unable to take the guards away
    os::set_failure_hook(nullptr);
  }
  EXPECT_EQ(blocks_->statistics().blocks_lost, 2u);
  EXPECT_EQ(pool_->blocks_in_use(), 2u);
  auto bucket = make_bucket();
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 0, 2 * kBlock), 0);
  EXPECT_EQ(detail::BlockRanges::open(*bucket, 0, 3 * kBlock), EAGAIN);
}

// The rules once more, said in terms of plain containers: which blocks a bucket holds after a
// sequence of touches.
class ModelBucket {
 public:
  explicit ModelBucket(bool guarded_by_seal) : guarded_by_seal_(guarded_by_seal) {}

  void set_aside(std::uint64_t word) {
    blocks_.try_emplace(word / kWords).first->second.no_data = true;
  }

  void seal() {
    ++now_;
    for (auto& [index, state] : blocks_) {
      if (!state.guard && !state.no_data) state.guard = state.guard_was = now_;
    }
    forget_reader();
  }

  void clear() {
    blocks_.clear();
    forget_reader();
  }

  void touch_write(std::uint64_t word) {
    const std::uint64_t block = word / kWords;
    if (blocks_.count(block) != 0 && !blocks_[block].guard && !blocks_[block].no_data) return;
    blocks_[block].guard.reset();
    blocks_[block].no_data = false;
    if (guarded_by_seal_) return;
    if (block != 0 && blocks_.count(block - 1) != 0 && !blocks_[block - 1].guard) {
      blocks_[block - 1].guard = ++now_;
      blocks_[block - 1].guard_was = now_;
    }
  }

  void touch_read(std::uint64_t word) {
    const std::uint64_t block = word / kWords;
    ASSERT_EQ(blocks_.count(block), 1u) << "the model lost block " << block;
    if (!blocks_[block].guard) return;
    if (middle_ && *middle_ != block) {
      if (blocks_.count(*middle_) != 0 && !blocks_[*middle_].guard) {
        blocks_[*middle_].guard = blocks_[*middle_].guard_was;
      }
      middle_.reset();
    }
    if (block < reader_began_) {
      for (auto& [index, state] : blocks_) {
        if (index >= reader_began_ && !state.guard) state.guard = state.guard_was = ++now_;
      }
    }
    const std::uint64_t guard_set = *blocks_[block].guard;
    blocks_[block].guard.reset();
    if (word % kWords != 0) {
      last_fault_.reset();
      middle_ = block;
      reader_began_ = block;
      return;
    }
    const bool one_beyond = last_fault_ && last_fault_->first + 1 == block;
    if (one_beyond && guard_set < last_fault_->second && blocks_.count(block - 1) != 0 &&
        !blocks_[block - 1].guard) {
      blocks_.erase(block - 1);
    }
    if (!one_beyond && block != reader_began_ + 1) reader_began_ = block;
    last_fault_ = {block, ++now_};
  }

  void truncate(std::uint64_t words) {
    const std::uint64_t kept = words / kWords + 1;
    if (blocks_.empty() || blocks_.rbegin()->first < kept) return;
    blocks_.erase(blocks_.lower_bound(kept), blocks_.end());
    last_fault_.reset();
    if (middle_ && *middle_ >= kept) middle_.reset();
  }

  std::size_t held() const { return blocks_.size(); }
  bool holds(std::uint64_t word) const { return blocks_.count(word / kWords) != 0; }

 private:
  struct State {
    std::optional<std::uint64_t> guard;
    std::uint64_t guard_was = 0;
    bool no_data = false;  // set aside
  };
  void forget_reader() {
    last_fault_.reset();
    middle_.reset();
    reader_began_ = 0;
  }

  bool guarded_by_seal_;
  std::map<std::uint64_t, State> blocks_;
  std::uint64_t now_ = 0;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> last_fault_;  // block and time
  std::optional<std::uint64_t> middle_;
  std::uint64_t reader_began_ = 0;
};

// Random depth-first schedules of appends and reads, as a recursive partitioning makes them,
// against vectors: every word and every count of blocks.
class DepthFirstModel {
 public:
  enum class Way {
    kPlain,
    kTruncating,  // what has been read is cut off, and overwritten by what comes next
    kSealing,  // so, and a block is set aside for a store, and guards are set before a level reads
  };
  DepthFirstModel(StreamPool& pool, std::size_t buckets, std::uint64_t seed, Way way)
      : pool_(pool),
        way_(way),
        random_(seed),
        models_(buckets, ModelBucket(way == Way::kSealing)),
        contents_(buckets),
        ends_(buckets, 0) {
    for (std::size_t i = 0; i < buckets; ++i) {
      streams_.push_back(std::make_unique<BucketStream>(
          pool, BucketStreamOptions{.reserve_bytes = std::uint64_t{1} << 30,
                                    .guarded_by_seal = way == Way::kSealing}));
    }
  }

  void run(std::size_t count, int depth) {
    std::vector<std::size_t> starts = ends_;
    for (std::size_t i = 0; i < count; ++i) append(pick(), random_());
    descend(starts, depth);
    compare_counts();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      ASSERT_EQ(streams_[i]->clear(), 0);
      models_[i].clear();
    }
    compare_counts();
  }

  std::uint64_t words_compared() const { return words_compared_; }

 private:
  std::size_t pick() {
    // Some levels are skewed to few buckets, as real keys are.
    const std::size_t some = random_() % 4 == 0 ? streams_.size() : 1 + streams_.size() / 3;
    return random_() % some;
  }

  void append(std::size_t bucket, std::uint64_t value) {
    const std::size_t at = ends_[bucket]++;
    if (way_ == Way::kSealing && !models_[bucket].holds(at)) {
      ASSERT_EQ(streams_[bucket]->set_aside(at * sizeof value, sizeof value), 0);
      models_[bucket].set_aside(at);
      compare_counts();
    }
    reinterpret_cast<std::uint64_t*>(streams_[bucket]->bytes())[at] = value;
    models_[bucket].touch_write(at);
    contents_[bucket].resize(ends_[bucket]);
    contents_[bucket][at] = value;
  }

  void descend(const std::vector<std::size_t>& starts, int depth) {
    const std::vector<std::size_t> stops = ends_;
    for (std::size_t bucket = 0; bucket < streams_.size(); ++bucket) {
      const std::vector<std::size_t> inner_starts = ends_;
      // A level may stop partitioning and only read, as a base case does.
      const bool split = depth > 0 && random_() % 5 != 0;
      if (way_ == Way::kSealing) {
        ASSERT_EQ(streams_[bucket]->seal(), 0);
        models_[bucket].seal();
      }
      for (std::size_t at = starts[bucket]; at < stops[bucket]; ++at) {
        const std::uint64_t value =
            reinterpret_cast<volatile std::uint64_t*>(streams_[bucket]->bytes())[at];
        models_[bucket].touch_read(at);
        ASSERT_EQ(value, contents_[bucket][at]) << "bucket " << bucket << ", word " << at;
        ++words_compared_;
        if (split) append(pick(), value);
      }
      compare_counts();
      if (split) descend(inner_starts, depth - 1);
      if (testing::Test::HasFatalFailure()) return;
      // The inner levels have read all that they appended.
      ends_ = inner_starts;
      if (way_ != Way::kPlain) truncate(bucket, starts[bucket]);
    }
    ends_ = starts;
  }

  void truncate(std::size_t bucket, std::size_t end) {
    ends_[bucket] = end;
    ASSERT_EQ(streams_[bucket]->truncate(end * sizeof(std::uint64_t)), 0);
    models_[bucket].truncate(end);
    ASSERT_LE(streams_[bucket]->held_blocks(), end / kWords + 1);
    compare_counts();
  }

  void compare_counts() {
    std::size_t held = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      ASSERT_EQ(streams_[i]->held_blocks(), models_[i].held()) << "bucket " << i;
      held += models_[i].held();
    }
    ASSERT_EQ(pool_.blocks_in_use(), held);
  }

  StreamPool& pool_;
  const Way way_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<BucketStream>> streams_;
  std::vector<ModelBucket> models_;
  std::vector<std::vector<std::uint64_t>> contents_;
  std::vector<std::size_t> ends_;
  std::uint64_t words_compared_ = 0;
};

TEST_F(BucketStreamTest, RandomDepthFirstSchedulesLikeVectors) {
  make_pool(4000);
  auto random = test::test_random();
  const int rounds = test::long_tests() ? 201 : 9;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t buckets = 2 + random() % 9;
    SCOPED_TRACE("round " + std::to_string(round) + ", " + std::to_string(buckets) + " buckets");
    DepthFirstModel model(*pool_, buckets, random(), static_cast<DepthFirstModel::Way>(round % 3));
    model.run(random() % (24 * kWords), 3);
    if (HasFatalFailure()) return;
    EXPECT_GT(model.words_compared(), 0u);
  }
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
}

using VanishingArrayTest = PooledTest;

std::vector<std::uint64_t> random_words(std::size_t count) {
  auto random = test::test_random(count);
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) value = random();
  return values;
}

TEST_F(VanishingArrayTest, MemoryFlowsInAndAway) {
  make_pool(10);
  VanishingArray<std::uint64_t> array(*pool_, 10 * kWords);
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
  for (std::size_t i = 0; i < 10 * kWords; ++i) array.data()[i] = i * i;
  EXPECT_EQ(pool_->blocks_in_use(), 10u);
  array.seal();
  for (std::size_t i = 0; i < 10 * kWords; ++i) {
    ASSERT_EQ(array.data()[i], i * i);
    ASSERT_EQ(pool_->blocks_in_use(), 10 - i / kWords);
  }
  array.finish_reading();
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
}

// It has none of the blocks, and its own maps may lie where they were at home.
TEST_F(VanishingArrayTest, AForkedChildIsToldThatItHasNone) {
  make_pool(8);
  VanishingArray<std::uint64_t> array(*pool_, 4 * kWords);
  BucketStream bucket(*pool_, {.reserve_bytes = std::uint64_t{1} << 30});
  for (std::size_t i = 0; i < 4 * kWords; ++i) array.data()[i] = i;
  write(bucket, 0, 3 * kWords, 1);
  if (test::kThreadSanitizer) blocks_->wait_until_warm();
  test::expect_in_child([&] {
    const int told[] = {error_of([&] { array.clear(); }),
                        error_of([&] { array.seal(); }),
                        error_of([&] { array.finish_reading(); }),
                        bucket.truncate(0),
                        bucket.seal(),
                        bucket.clear(),
                        bucket.set_aside(0, kBlock),
                        detail::BlockRanges::open(bucket, 0, kBlock),
                        detail::BlockRanges::give_back(bucket, 0, kBlock)};
    return std::all_of(std::begin(told), std::end(told), [](int error) { return error == EFAULT; })
               ? 0
               : 1;
  });
  expect(bucket, 0, 3 * kWords, 1);
  for (std::size_t i = 0; i < 4 * kWords; ++i) ASSERT_EQ(array.data()[i], i);
}

TEST_F(VanishingArrayTest, TheResultFlowsBackIn) {
  // Room for the array and one block more: read it all into another that shares the pool, and back.
  make_pool(9);
  VanishingArray<std::uint64_t> array(*pool_, 8 * kWords);
  VanishingArray<std::uint64_t> other(*pool_, 8 * kWords);
  const auto values = random_words(8 * kWords);
  array.load(values);
  for (int trip = 0; trip < 3; ++trip) {
    array.seal();
    for (std::size_t i = 0; i < values.size(); ++i) other.data()[i] = array.data()[i];
    array.finish_reading();
    other.seal();
    for (std::size_t i = 0; i < values.size(); ++i) array.data()[i] = other.data()[i];
    other.finish_reading();
  }
  array.seal();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(array.data()[i], values[i]);
}

TEST_F(VanishingArrayTest, AWriterFollowsTheReader) {
  make_pool(17);
  const std::size_t distance = kWords + 77;
  for (std::size_t comeback : {0u, 1u}) {
    VanishingArray<std::uint64_t> array(*pool_, 16 * kWords, {.comeback_blocks = comeback});
    const auto values = random_words(16 * kWords);
    array.load(values);
    array.seal();
    const std::size_t behind = distance + comeback * kWords;
    // Each element moves to the place of the one `behind` places before it, doubled.
    for (std::size_t read = 0; read < values.size(); ++read) {
      const std::uint64_t value = array.data()[read];
      if (read >= behind) array.data()[read - behind] = 2 * value;
    }
    array.finish_reading();
    array.seal();
    for (std::size_t i = 0; i + behind < values.size(); ++i) {
      ASSERT_EQ(array.data()[i], 2 * values[i + behind]) << "element " << i;
    }
  }
}

TEST_F(VanishingArrayTest, LoadsAFileWithoutACopy) {
  make_pool(8);
  const auto values = random_words(7 * kWords + 123);
  std::string path = testing::TempDir() + "/vanishing_array_XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  unlink(path.c_str());
  const std::size_t bytes = values.size() * sizeof values[0];
  ASSERT_EQ(::write(fd, values.data(), bytes), static_cast<ssize_t>(bytes));
  VanishingArray<std::uint64_t> array(*pool_, values.size());
  array.load_with(
      values.size(),
      [fd](std::span<std::uint64_t> part, std::uint64_t first) {
        // The part is accessible to the system call: no short count, no EFAULT.
        ASSERT_EQ(pread(fd, part.data(), part.size_bytes(), static_cast<off_t>(first * 8)),
                  static_cast<ssize_t>(part.size_bytes()));
      },
      2 * kBlock);
  close(fd);
  EXPECT_EQ(array.size(), values.size());
  EXPECT_EQ(std::vector<std::uint64_t>(array.data(), array.data() + array.size()), values);
}

TEST_F(VanishingArrayTest, ElementsMayStraddleBlocksWithAComeback) {
  struct Odd {
    char bytes[24];
  };
  make_pool(8);
  const std::size_t count = 6 * kBlock / sizeof(Odd);
  VanishingArray<Odd> array(*pool_, count, {.comeback_blocks = 1});
  for (std::size_t i = 0; i < count; ++i) {
    Odd value{};
    std::memcpy(value.bytes, &i, sizeof i);
    std::memcpy(value.bytes + 16, &i, sizeof i);
    array.data()[i] = value;
  }
  array.seal();
  for (std::size_t i = 0; i < count; ++i) {
    const Odd value = array.data()[i];
    ASSERT_EQ(std::memcmp(value.bytes, &i, sizeof i), 0) << i;
    ASSERT_EQ(std::memcmp(value.bytes + 16, &i, sizeof i), 0) << i;
  }
  EXPECT_LE(pool_->blocks_in_use(), 2u);
}

TEST_F(VanishingArrayTest, SaysWhatIsWrong) {
  make_pool(2);
  VanishingArray<std::uint64_t> array(*pool_, 8 * kWords);
  // Three blocks out of a pool of two.
  EXPECT_TRUE(
      test::fails([&] { array.load(random_words(3 * kWords)); }, EAGAIN, "make the pool larger"));
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
  EXPECT_THROW(array.load(random_words(9 * kWords)), Error);
  EXPECT_THROW(array.resize(8 * kWords + 1), Error);
  const Failure failure =
      guarded([&] { (void)*const_cast<volatile std::uint64_t*>(array.data() + 100); });
  EXPECT_EQ(failure.error, EFAULT) << failure.message();
}

}  // namespace

}  // namespace vortex::vanishing_array_test
