// FileReader in any order against the file's bytes: cursors, jumps, threads, errors, memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/disk/reluctant_disk.h"
#include "tests/fault/told_failures.h"
#include "tests/io/setting.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/os/memory.h"

namespace vortex::any_order_test { namespace {

using test::Backend;
using test::kBlock;
using test::Placing;
using test::put_file_text;
using test::Setting;

constexpr std::size_t kKept = 4;  // W, where M is less

char at(const FileReader<char>& in, std::size_t block, std::size_t within = 0) {
  return *static_cast<const volatile char*>(in.data() + block * kBlock + within);
}

// How often each block has been read.
class ReadCounts final : public FaultPlan {
 public:
  explicit ReadCounts(std::size_t blocks) : counts_(blocks + 1) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
    for (std::size_t done = 0; done < attempt.bytes; done += kBlock) {
      const std::size_t block = (attempt.offset + done) / kBlock;
      if (block < counts_.size()) counts_[block].fetch_add(1);
    }
    return {};
  }
  unsigned of(std::size_t block) const { return counts_[block].load(); }
  // Blocks of [begin, end) that were not read exactly once.
  std::size_t other_than_once(std::size_t begin, std::size_t end) const {
    std::size_t result = 0;
    for (std::size_t block = begin; block < end; ++block) result += of(block) != 1;
    return result;
  }

 private:
  std::vector<std::atomic<unsigned>> counts_;
};

using Bench = test::Bench<FileReader<char>>;

std::uint64_t faults_of(const Bench& bench) { return bench.file->stream().statistics().faults; }
AnyOrderStatistics order_of(const Bench& bench) { return bench.file->statistics().any_order; }
std::uint64_t requests_of(const Bench& bench) { return bench.file->statistics().source.requests; }

// Readers of one thread: walks in both directions, jumps, copies from the end.
class RandomReader {
 public:
  RandomReader(const char* data, const std::string& text, std::uint64_t seed)
      : data_(data), text_(text), random_(seed) {
    for (Walk& walk : walks_) begin(walk);
  }

  // Whether all that was read in so many steps is right.
  bool read(int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t choice = random_() % 100;
      const bool right = choice < 70   ? step(walks_[random_() % walks_.size()])
                         : choice < 90 ? same(random_() % text_.size(), 1 + random_() % 200)
                                       : same(random_() % text_.size(), random_() % (3 * kBlock));
      if (!right) return false;
    }
    return true;
  }

 private:
  struct Walk {
    std::size_t at;
    bool forward;
  };

  void begin(Walk& walk) { walk = {random_() % text_.size(), random_() % 3 != 0}; }

  bool step(Walk& walk) {
    if (random_() % 200 == 0) begin(walk);
    const std::size_t bytes = 1 + random_() % kBlock;
    if (walk.forward) {
      if (!same(walk.at, bytes)) return false;
      walk.at += bytes;
      if (walk.at >= text_.size()) walk.at = 0;
      return true;
    }
    const std::size_t back = std::min(walk.at, bytes);
    walk.at -= back;
    if (!same(walk.at, back)) return false;
    if (walk.at == 0) walk.at = text_.size();
    return true;
  }

  bool same(std::size_t at, std::size_t bytes) {
    bytes = std::min(bytes, text_.size() - at);
    return std::memcmp(data_ + at, text_.data() + at, bytes) == 0;
  }

  const char* const data_;
  const std::string& text_;
  std::mt19937_64 random_;
  std::array<Walk, 5> walks_{};
};

class AnyOrder : public test::SettingTest {
 protected:
  FileReaderOptions options(std::size_t read_ahead, std::size_t cursors = 1) const {
    return {.block_bytes = kBlock,
            .comeback_blocks = 0,
            .read_ahead = read_ahead,
            .request_bytes = group() * kBlock,
            .cursors = cursors};
  }
};

TEST_P(AnyOrder, EveryLengthInEveryDirection) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1,
                                 9 * kBlock - 1, 9 * kBlock, 40 * kBlock + 4097}) {
    SCOPED_TRACE(size);
    const std::string text = fill(size);
    for (const std::size_t read_ahead : {0, 3}) {
      Bench bench(path, GetParam(), options(read_ahead));
      const char* const data = bench.file->data();
      ASSERT_EQ(bench.file->size(), size);
      std::size_t wrong = 0;
      for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < size; i += 7) wrong += data[i] != text[i];
        for (std::size_t i = size; i-- > 0;) wrong += data[i] != text[i];
        for (int i = 0; i < 100 && size > 0; ++i) {
          const std::size_t place = random() % size;
          wrong += data[place] != text[place];
        }
        // Zeros follow, to the end of the page and a page more; then nothing.
        const std::size_t filled = (size + 4095) / 4096 * 4096 + 4096;
        for (std::size_t i = size; i < filled; ++i) wrong += data[i] != 0;
      }
      ASSERT_EQ(wrong, 0u);
      const std::size_t beyond = (size / kBlock + 1) * kBlock + 4096;
      const Failure failure =
          guarded([&] { (void)*static_cast<const volatile char*>(data + beyond); });
      EXPECT_EQ(failure.error, ERANGE) << failure.message();
    }
  }
}

TEST_P(AnyOrder, RandomReaders) {
  const std::string text = fill(150 * kBlock + random() % kBlock);
  const RandomFaults::Rates rates{
      .short_transfer = 0.2, .interrupted = 0.1, .try_again = 0.02, .late = 0.3};
  for (const std::size_t read_ahead : {0, 3}) {
    for (const std::size_t cursors : {1, 9}) {
      for (const bool disturbed : {false, true}) {
        Bench bench(path, GetParam(), options(read_ahead, cursors),
                    disturbed ? std::make_shared<RandomFaults>(random(), rates) : nullptr);
        RandomReader reader(bench.file->data(), text, random());
        ASSERT_TRUE(reader.read(test::kShadowMemory ? 150 : 600));
        if (bench.most < 50) {
          EXPECT_GT(order_of(bench).reread_bytes, 0u);
        }
      }
    }
  }
}

TEST_P(AnyOrder, SeveralThreads) {
  constexpr std::size_t kThreads = 4;
  const std::string text = fill(100 * kBlock + random() % kBlock);
  for (const std::size_t read_ahead : {0, 2}) {
    Bench bench(path, GetParam(), options(read_ahead, 2));
    std::array<std::uint64_t, kThreads> seeds{};
    for (std::uint64_t& seed : seeds) seed = random();
    std::atomic<int> right{0};
    test::run_together(kThreads, [&](std::size_t i) {
      RandomReader reader(bench.file->data(), text, seeds[i]);
      right += reader.read(test::kShadowMemory ? 100 : 400);
    });
    EXPECT_EQ(right, static_cast<int>(kThreads));
  }
}

// A block that is dropped while somebody reads it: the next read faults, and never meets anything
// but the file.
TEST_P(AnyOrder, BlocksAreDroppedUnderReaders) {
  const std::size_t blocks = FileReaderBase::blocks_needed(options(0), kBlock) + 5;
  const std::string text = fill(blocks * kBlock);
  Bench bench(path, GetParam(), options(0));
  std::atomic<std::size_t> wrong{0};
  std::array<std::uint64_t, 3> seeds{random(), random(), random()};
  test::run_together(seeds.size(), [&](std::size_t thread) {
    std::mt19937_64 own(seeds[thread]);
    for (int i = 0; i < (test::kShadowMemory ? 100 : 1000); ++i) {
      const std::size_t block = own() % blocks;
      for (int k = 0; k < 3000; ++k) {
        const std::size_t within = static_cast<std::size_t>(k) * 61 % kBlock;
        wrong += at(*bench.file, block, within) != text[block * kBlock + within];
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(order_of(bench).drops, 10u);
}

TEST_P(AnyOrder, ReadErrorsEndTheStream) {
  const std::string text = fill(80 * kBlock);
  for (std::uint64_t k = 0; k < 20; ++k) {
    Bench bench(path, GetParam(), options(2), test::error_at(k, EIO, std::nullopt, true));
    RandomReader reader(bench.file->data(), text, random());
    bool right = true;
    const Failure failure = guarded([&] {
      while (right) right = reader.read(10);
    });
    EXPECT_TRUE(right);
    EXPECT_TRUE(test::fails(failure, EIO, "file' at byte "));
    // It stays failed.
    const Failure again = guarded([&] {
      for (std::size_t block = 0; block < 80; ++block) (void)at(*bench.file, block);
    });
    EXPECT_EQ(again.error, EIO);
  }
}

TEST_P(AnyOrder, AFileThatShrinksIsAnError) {
  fill(60 * kBlock);
  Bench bench(path, GetParam(), options(1));
  EXPECT_NE(at(*bench.file, 50), '\0');
  ASSERT_EQ(truncate(path.c_str(), 20 * kBlock + 5), 0);
  EXPECT_EQ(guarded([&] { (void)at(*bench.file, 30); }).error, ENODATA);
}

TEST_P(AnyOrder, AFileThatShrinksReadsAsZerosWhereThatIsWanted) {
  std::string text = fill(90 * kBlock);
  Bench bench(path, GetParam(), options(1));
  test::ToldFailures told(ENODATA);
  bench.file->stream().fill_on_failure(told.call());
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  // Backwards, over more blocks than have filler at a time, and each again where it lies.
  for (std::size_t block = 90; block-- > 1;) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(at(*bench.file, block, 5), '\0');
  }
  EXPECT_EQ(told.calls, 89);
}

// The first touches of as many places as walks were announced read ahead; others read one block.
TEST_P(AnyOrder, AnnouncedWalksReadAheadFromTheirFirstTouch) {
  constexpr std::size_t kWalks = 3;
  const std::size_t apart = 8 * group();
  fill(10 * apart * kBlock);
  for (const std::size_t announced : {std::size_t{1}, kWalks}) {
    Bench bench(path, GetParam(), options(2, announced));
    for (std::size_t walk = 1; walk <= kWalks; ++walk) {
      const std::uint64_t before = requests_of(bench);
      (void)at(*bench.file, walk * apart);
      EXPECT_EQ(requests_of(bench) - before > 1, announced > 1);
    }
    const std::uint64_t before = requests_of(bench);
    (void)at(*bench.file, 9 * apart);
    EXPECT_EQ(requests_of(bench) - before, 1u);
    EXPECT_EQ(order_of(bench).cursors, announced > 1 ? kWalks : 0);
  }
}

TEST_P(AnyOrder, WritesAreErrors) {
  fill(30 * kBlock);
  Bench bench(path, GetParam(), options(1));
  auto* const data = const_cast<volatile char*>(bench.file->data());
  const Failure failure = guarded([&] { data[17 * kBlock] = 'x'; });
  EXPECT_EQ(failure.error, EACCES) << failure.message();
}

// W blocks that were touched last are there, whatever was touched and read ahead before.
TEST_P(AnyOrder, TheLastBlocksTouchedAreThere) {
  constexpr std::size_t kBlocks = 300;
  fill(kBlocks * kBlock);
  for (const std::size_t comeback : {0, 1, 6}) {
    FileReaderOptions wanted = options(3);
    wanted.comeback_blocks = comeback;
    const std::size_t kept = std::max(comeback + 1, kKept);
    Bench bench(path, GetParam(), wanted);
    std::vector<std::size_t> last;
    std::size_t walk = 0;
    for (int i = 0; i < 200; ++i) {
      // Two thirds are steps of a walk, which is read ahead.
      const bool steps = random() % 3 != 0;
      const std::size_t block = steps ? ++walk % kBlocks : random() % kBlocks;
      std::uint64_t before = faults_of(bench);
      (void)at(*bench.file, block);
      if (faults_of(bench) == before) continue;  // nobody sees the touch of a block that is there
      std::erase(last, block);
      last.push_back(block);
      if (last.size() > kept) last.erase(last.begin());
      before = faults_of(bench);
      for (const std::size_t there : last) (void)at(*bench.file, there, random() % kBlock);
      ASSERT_EQ(faults_of(bench), before);
    }
  }
}

// One instruction, two places, each over a border.
TEST_P(AnyOrder, AnyInstructionCanFinish) {
#if defined(__x86_64__)
  const std::string text = fill(60 * kBlock);
  Bench bench(path, GetParam(), options(0));
  ASSERT_EQ(bench.most, kKept + 2 * (group() - 1));
  for (int i = 0; i < 300; ++i) {
    const std::size_t one = (1 + random() % 59) * kBlock - 1 - random() % 7;
    const std::size_t other = (1 + random() % 59) * kBlock - 1 - random() % 7;
    const char* from = bench.file->data() + one;
    const char* to = bench.file->data() + other;
    bool below = false;
    asm volatile("cmpsq" : "+S"(from), "+D"(to), "=@ccb"(below) : : "memory");
    std::uint64_t left = 0;
    std::uint64_t right = 0;
    std::memcpy(&left, text.data() + one, 8);
    std::memcpy(&right, text.data() + other, 8);
    ASSERT_EQ(below, left < right);
  }
#else
  GTEST_SKIP() << "needs an instruction of x86-64";
#endif
}

// Touches alone drop what was touched longest ago.
TEST_P(AnyOrder, WhatWasTouchedLongestAgoIsDroppedFirst) {
  fill(200 * kBlock);
  Bench bench(path, GetParam(), options(0));
  const std::size_t blocks = bench.most;
  for (std::size_t i = 0; i < blocks; ++i) (void)at(*bench.file, 10 + 5 * i);
  EXPECT_EQ(order_of(bench).drops, 0u);
  for (std::size_t i = 0; i < 20; ++i) {
    (void)at(*bench.file, 10 + 5 * (blocks + i));
    EXPECT_EQ(order_of(bench).drops, i + 1);
    const std::uint64_t before = faults_of(bench);
    for (std::size_t k = i + 1; k <= blocks + i; ++k) (void)at(*bench.file, 10 + 5 * k);
    ASSERT_EQ(faults_of(bench), before) << i;
  }
  const std::uint64_t before = faults_of(bench);
  (void)at(*bench.file, 10);
  EXPECT_EQ(faults_of(bench), before + 1);
  EXPECT_EQ(order_of(bench).reread_bytes, kBlock);
}

// Whoever goes through all of it has one cursor and reads every block once: forward, in the memory
// of a reader, by as many requests as one that goes forward only.
TEST_P(AnyOrder, ASequentialReaderReadsEveryBlockOnce) {
  constexpr std::size_t kBlocks = 120;
  const std::string text = fill(kBlocks * kBlock - 17);
  for (const bool forward : {true, false}) {
    SCOPED_TRACE(forward);
    const auto counts = std::make_shared<ReadCounts>(kBlocks);
    Bench bench(path, GetParam(), options(3), counts);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::size_t at = forward ? i : text.size() - 1 - i;
      wrong += bench.file->data()[at] != text[at];
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(counts->other_than_once(0, kBlocks), 0u);
    EXPECT_EQ(order_of(bench).cursors, 1u);
    EXPECT_EQ(order_of(bench).unused, 0u);
    const std::uint64_t requests = requests_of(bench);
    if (forward) {
      EXPECT_EQ(faults_of(bench), kBlocks);
      EXPECT_EQ(requests, (kBlocks + group() - 1) / group());
      EXPECT_EQ(order_of(bench).reread_bytes, 0u);
    } else {
      // A first touch, the rest of its group, and groups.
      EXPECT_LE(requests, kBlocks / group() + 3);
    }
  }
}

// Sixteen columns, or runs of a merge: each is read ahead, in whole requests, and once.
TEST_P(AnyOrder, SixteenCursors) {
  constexpr std::size_t kCursors = 16;
  const std::size_t column = 12 * group();
  const std::size_t blocks = kCursors * column;
  const std::string text = fill(blocks * kBlock);
  const auto counts = std::make_shared<ReadCounts>(blocks);
  Bench bench(path, GetParam(), options(2, kCursors), counts);
  std::size_t wrong = 0;
  const auto look = [&](std::size_t cursor, std::size_t step) {
    const std::size_t block = cursor % 2 == 0 ? cursor * column + step  // every other one backward
                                              : (cursor + 1) * column - 1 - step;
    wrong += at(*bench.file, block, 9) != text[block * kBlock + 9];
  };
  std::vector<std::size_t> steps(kCursors);
  for (std::size_t left = blocks; left > 0;) {
    const std::size_t cursor = random() % kCursors;
    if (steps[cursor] == column) continue;
    look(cursor, steps[cursor]++);
    --left;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(order_of(bench).cursors, kCursors);
  // At the end of a column its cursor reads ahead into the next one, which others have read.
  EXPECT_LE(counts->other_than_once(0, blocks), kCursors * 3 * group());
  EXPECT_LE(requests_of(bench), 2 * blocks / group());
}

// A walk between random touches: it is read ahead all the time, and no block of it twice.
TEST_P(AnyOrder, RandomTouchesDoNotHinderACursor) {
  constexpr std::size_t kWalk = 200;
  const std::size_t elsewhere = 3000;
  put_file_text(path, "");
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>((kWalk + elsewhere) * kBlock)), 0);
  const auto counts = std::make_shared<ReadCounts>(kWalk + elsewhere);
  Bench bench(path, GetParam(), options(4), counts);
  for (std::size_t block = 0; block < kWalk; ++block) {
    // No neighbours, which would be a walk.
    for (int i = 0; i < 6; ++i) {
      (void)at(*bench.file, kWalk + 40 + random() % (elsewhere / 3 - 20) * 3);
    }
    // The walk is still in the block that it came to before them.
    if (block > 0) (void)at(*bench.file, block - 1, 100);
    const std::uint64_t before = requests_of(bench);
    (void)at(*bench.file, block);
    // All that the walk asks for is beyond the block that it is in.
    if (block > 0) {
      ASSERT_GE(counts->of(block), 1u);
      const std::uint64_t asked = requests_of(bench) - before;
      ASSERT_LE(asked, 2u) << block;
    }
    // The simulated disk begins with a request when another one has ended.
    if (block + 2 * group() < kWalk && backend() != Backend::kVirtual) {
      ASSERT_GE(counts->of(block + 2 * group()), 1u) << block;
    }
  }
  // The first touches elsewhere take blocks back that were read ahead.
  EXPECT_LE(counts->other_than_once(0, kWalk), 2u);
}

// The second of two walks gets its part, though the first was left in the middle and has all.
TEST_P(AnyOrder, ACursorThatStandsStillLosesItsPart) {
  constexpr std::size_t kBlocks = 400;
  fill(kBlocks * kBlock);
  Bench bench(path, GetParam(), options(4));
  for (std::size_t block = 0; block < 50; ++block) (void)at(*bench.file, block);
  // As long as reads for the cursor that stands still are under way, they take the blocks of which
  // requests would be made.
  for (std::size_t block = 200; block < 230; ++block) (void)at(*bench.file, block);
  const std::uint64_t begin = requests_of(bench);
  for (std::size_t block = 230; block < 330; ++block) (void)at(*bench.file, block);
  // From then on in whole ones; the first and the last of these may reach beyond what is counted.
  EXPECT_LE(requests_of(bench) - begin, 100 / group() + 2);
  EXPECT_GT(order_of(bench).unused, 0u);
}

TEST_P(AnyOrder, PrefaultedRangesServeSystemCalls) {
  const std::string text = fill(90 * kBlock + 100);
  Bench bench(path, GetParam(), options(2));
  const std::string copy = folder.file("copy");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(copy.c_str(), "w+b"), &fclose);
  ASSERT_NE(file, nullptr);
  const int descriptor = fileno(file.get());
  for (int i = 0; i < 60; ++i) {
    const std::size_t bytes = 1 + random() % ((kKept - 1) * kBlock);
    const std::size_t place = random() % (text.size() - bytes);
    bench.file->prefault(place, bytes);
    ASSERT_EQ(pwrite(descriptor, bench.file->data() + place, bytes, 0),
              static_cast<ssize_t>(bytes));
    const std::byte* const home = bench.file->home_of(bench.file->data() + place);
    ASSERT_NE(home, nullptr);
    EXPECT_EQ(static_cast<char>(*home), text[place]);
  }
  EXPECT_EQ(bench.file->home_of(&text), nullptr);
  EXPECT_THROW(bench.file->prefault(1, kKept * kBlock), Error);
  EXPECT_THROW(bench.file->prefault(text.size() - 10, 11), Error);
  ASSERT_EQ(ftruncate(descriptor, 0), 0);
  ASSERT_EQ(lseek(descriptor, 0, SEEK_SET), 0);
  write_from_stream(descriptor, *bench.file, 5, text.size() - 5);
  EXPECT_TRUE(test::file_text(copy) == text.substr(5));
}

// Bytes that a reader is told of are there, or on their way, when they are touched, and were asked
// for in whole requests; the last blocks touched stay.
TEST_P(AnyOrder, WhatItIsToldOfIsReadAhead) {
  const std::string text = fill(200 * kBlock + 77);
  FileReaderOptions wanted = options(2);
  // Walks backwards are noticed, too: what is told twice finds memory the first time, however much
  // their read-ahead has under way.
  wanted.memory_bytes = 40 * group() * kBlock;
  const auto counts = std::make_shared<ReadCounts>(201);
  Bench bench(path, GetParam(), wanted, counts);
  for (int round = 0; round < 10; ++round) {
    const std::size_t first = 24 + random() % 60 / group() * group();
    const std::size_t count = 1 + random() % 16;
    bench.file->will_need(first * kBlock, count * kBlock);
    const std::uint64_t asked = requests_of(bench);
    bench.file->will_need(first * kBlock + 5, count * kBlock - 5);
    ASSERT_EQ(requests_of(bench), asked) << "told twice";
    // Backwards, and with gaps, so that nothing follows by itself.
    for (std::size_t block = first + count; block-- > first;) {
      ASSERT_EQ(at(*bench.file, block, 9), text[block * kBlock + 9]);
      ASSERT_GE(counts->of(block), 1u);
    }
  }
  std::vector<std::size_t> last;
  while (last.size() < kKept) {
    const std::size_t block = 100 + random() % 100;
    const std::uint64_t before = faults_of(bench);
    (void)at(*bench.file, block);
    if (faults_of(bench) != before) last.push_back(block);
  }
  // More than there is memory for, and beyond the end.
  const std::uint64_t before = faults_of(bench);
  bench.file->will_need(0, text.size());
  bench.file->will_need(text.size() - 1, 2 * kBlock);
  bench.file->will_need(text.size() + kBlock, kBlock);
  for (const std::size_t block : last) (void)at(*bench.file, block);
  EXPECT_EQ(faults_of(bench), before);
  RandomReader reader(bench.file->data(), text, random());
  ASSERT_TRUE(reader.read(100));
}

// The kernel refuses a call now and then: right data or ENOMEM, and no block is lost in silence.
TEST_P(AnyOrder, RefusalsOfTheKernel) {
  const std::string text = fill(60 * kBlock);
  test::with_a_refusal(30, 3, random, [&](auto in_refusal) {
    Bench bench(path, GetParam(), options(2));
    RandomReader reader(bench.file->data(), text, random());
    bool right = false;
    EXPECT_TRUE(in_refusal([&] { right = reader.read(100); }) || right);
  });
}

int refuse_all(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kPopulate || call == os::MemoryCall::kUnmap ? 0 : ENOMEM;
}

// A block that the kernel will not move home when its reader ends is lost to the pool, which goes
// on with the others.
TEST_P(AnyOrder, WhatCannotBeMovedHomeIsGivenUp) {
  const std::string text = fill(60 * kBlock);
  Bench bench(path, GetParam(), options(0));
  for (const std::size_t block : {7, 20, 41}) (void)at(*bench.file, block);
  os::set_failure_hook(&refuse_all);
  bench.file.reset();
  os::set_failure_hook(nullptr);
  EXPECT_EQ(bench.pool.statistics().blocks_lost, 3u);
  EXPECT_EQ(bench.pool.statistics().blocks_in_use, 3u);
  FileReaderOptions again = options(0);
  again.disk = bench.disk.disk.get();
  again.pool = &bench.pool;
  bench.most += 3;
  bench.file = std::make_unique<FileReader<char>>(path, again);
  EXPECT_EQ(std::memcmp(bench.file->data(), text.data(), text.size()), 0);
}

// Once, and only where it is much.
TEST_P(AnyOrder, ReadingAgainIsSaid) {
  const std::string text = fill(100 * kBlock);
  Bench bench(path, GetParam(), options(1));
  EXPECT_EQ(std::memcmp(bench.file->data(), text.data(), text.size()), 0);
  EXPECT_EQ(bench.file->statistics().advice, "");
  EXPECT_EQ(std::memcmp(bench.file->data(), text.data(), text.size()), 0);
  EXPECT_NE(bench.file->statistics().advice.find("had been read before"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Settings, AnyOrder,
                         testing::Combine(testing::Values(Placing::kMoves, Placing::kAliases),
                                          testing::Values(Backend::kUring, Backend::kThreads,
                                                          Backend::kVirtual),
                                          testing::Values(1, 4)),
                         test::NameOfSetting());
INSTANTIATE_TEST_SUITE_P(OfTheKernelsFaults, AnyOrder,
                         testing::Values(Setting(Placing::kUserfaultfd, Backend::kUring, 4),
                                         Setting(Placing::kUserfaultfd, Backend::kThreads, 1)),
                         test::NameOfSetting());

TEST(AnyOrderOnAReluctantDisk, CanBeCancelled) {
  const test::TemporaryFolder folder;
  put_file_text(folder.file("in"), std::string(40 * kBlock, 'x'));
  test::ReluctantDisk disk;
  FileReader<char> in(folder.file("in"),
                      {.block_bytes = kBlock, .request_bytes = kBlock, .disk = &disk});
  std::thread canceller([&] { in.stream().cancel(EINTR, "enough"); });
  EXPECT_EQ(guarded([&] { (void)at(in, 30); }).error, EINTR);
  canceller.join();
  disk.carry_out();
}

TEST(AnyOrderOptions, TheStrictWindowIsAChoice) {
  const test::TemporaryFolder folder;
  put_file_text(folder.file("in"), std::string(40 * kBlock, 'x'));
  FileReader<char> in(folder.file("in"), {.block_bytes = kBlock, .order = ReadOrder::kForward});
  EXPECT_EQ(at(in, 20), 'x');
  EXPECT_EQ(guarded([&] { (void)at(in, 3); }).error, EFAULT);
  EXPECT_EQ(in.statistics().any_order.cursors, 0u);
}

TEST(AnyOrderOptions, BlocksFitTheMemory) {
  const test::TemporaryFolder folder;
  put_file_text(folder.file("in"), "");
  ASSERT_EQ(truncate(folder.file("in").c_str(), 64 << 20), 0);
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto block_for = [&](std::size_t memory, std::size_t cursors) {
    const FileReader<char> in(folder.file("in"), {.memory_bytes = memory, .cursors = cursors});
    EXPECT_TRUE(memory == 0 || in.statistics().pool_bytes <= memory);
    return in.block_bytes();
  };
  EXPECT_EQ(block_for(0, 1), kMiB);
  EXPECT_EQ(block_for(64 * kMiB, 1), kMiB);
  EXPECT_EQ(block_for(64 * kMiB, 16), kMiB / 2);
  EXPECT_EQ(block_for(4 * kMiB, 1), kMiB / 2);
}

TEST(AnyOrderOptions, MemoryGrowsWithWhatIsAskedFor) {
  const auto needed = [](std::size_t m, std::size_t n, std::size_t cursors) {
    return FileReaderBase::blocks_needed(
        {.comeback_blocks = m, .read_ahead = n, .cursors = cursors}, kDefaultBlockBytes);
  };
  EXPECT_EQ(needed(0, 0, 1), 4u);
  EXPECT_EQ(needed(1, 4, 1), 8u);
  EXPECT_EQ(needed(9, 4, 1), 14u);
  EXPECT_EQ(needed(1, 4, 16), 4 + 15 + 16 * 4u);
}

}  // namespace

}  // namespace vortex::any_order_test
