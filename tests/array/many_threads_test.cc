// Sorts by more threads than most machines have cores: how much work there is for each of them,
// counted, and what they make of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "sort/memory/few_values.h"
#include "tests/array/array_inputs.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/sort.h"

namespace vortex::many_threads_test { namespace {

using namespace detail;

// All teams; two of them, by turns, where a sanitizer makes them slow.
std::vector<unsigned> teams() {
  auto random = test::test_random();
  const std::size_t some = test::kShadowMemory ? 2 : 6;
  return test::some_of({1U, 2U, 7U, 16U, 64U, 128U}, some, random);
}

TEST(ManyThreads, PassesOfTheTeamDoNotGrowWithTheThreads) {
  // One thread would split so many to 64 buckets, all large enough for passes of their own.
  constexpr std::uint64_t kCount = 6'600'000, kStep = ~std::uint64_t{0} / kCount;
  std::vector<std::uint64_t> keys(kCount), expected(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    keys[i] = i * 4'000'037 % kCount * kStep;  // each multiple once
    expected[i] = i * kStep;
  }
  const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(best_isa())};
  using Codec = NoCodec<std::uint64_t>;
  const Codec codec;
  for (const unsigned threads : test::kShadowMemory ? std::vector{64U} : teams()) {
    std::vector<std::uint64_t> sorted = keys;
    ThreadTeam team(threads);
    const std::size_t passes = ParallelSort<std::uint64_t, KeyOfWord, Codec>(
                                   sorted.data(), sorted.size(), rules, codec, team)
                                   .sort();
    EXPECT_EQ(passes, 1u) << threads;
    EXPECT_TRUE(sorted == expected) << threads;
  }
}

// Notes who encodes the records of a stripe, and who decodes what it has sorted, where that is
// asked for. Samples are encoded one by one.
struct CountingCodec {
  void encode(std::uint64_t*, std::size_t count) const noexcept {
    if (count > 1) read->add(count);
  }
  void decode(std::uint64_t*, std::size_t count) const noexcept {
    if (sorted != nullptr) sorted->add(count);
  }
  test::TeamCounts* read;
  test::TeamCounts* sorted;
};
using CountedSort = InPlaceSort<std::uint64_t, KeyOfWord, CountingCodec>;

std::vector<std::uint64_t> random_keys(std::size_t count) {
  auto random = test::test_random();
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = random();
  return keys;
}

// The same, and who moves chunks to their buckets.
struct MovingCodec : CountingCodec {
  void moved(std::size_t chunks) const noexcept { chunks_moved->add(chunks); }
  test::TeamCounts* chunks_moved;
};

// No thread goes on before all have their first part of a step: so each has one stripe, moves to
// one bucket at least, and then sorts one. Of stripes that are long enough others take the rear.
TEST(ManyThreads, EachReadsAStripeAndSortsBuckets) {
  constexpr std::size_t kChunk = ChunkLayout<std::uint64_t>::kChunkRecords;
  const std::vector<std::uint64_t> keys = random_keys(std::size_t{1} << 21);
  const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(best_isa())};
  for (const unsigned threads : teams()) {
    test::TeamCounts read(threads), made(threads), moved(threads);
    const MovingCodec codec{{&read, &made}, &moved};
    std::vector<std::uint64_t> sorted = keys;
    ThreadTeam team(threads);
    ParallelSort<std::uint64_t, KeyOfWord, MovingCodec>(sorted.data(), sorted.size(), rules, codec,
                                                        team)
        .sort();
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end())) << threads;
    ASSERT_EQ(read.of_threads().size(), threads);
    ASSERT_EQ(made.of_threads().size(), threads);
    EXPECT_EQ(read.all(), keys.size());
    const bool all_equal = threads >= 64;
    for (const std::uint64_t records : read.of_threads()) {
      if (!all_equal) continue;
      EXPECT_LT(records, keys.size() / threads + kChunk) << threads;
      EXPECT_GT(records + kChunk, keys.size() / threads) << threads;
    }
    EXPECT_EQ(made.all(), keys.size());
    // Some chunks stay where they are.
    ASSERT_EQ(moved.of_threads().size(), threads);
    EXPECT_GT(moved.all() * kChunk, keys.size() / 2) << threads;
  }
}

// A thread that is late waits, with its first chunk, until another has read of its stripe. No other
// goes on before all have begun, or far before these have come a part of the way: so the late one
// has most left when the first of them has ended.
class LateThread {
 public:
  LateThread(std::span<const Pair64> array, unsigned threads, std::size_t late)
      : array_(array), late_(late), come_(threads, 0) {}

  void read(const Pair64* records, std::size_t count) noexcept {
    // What is behind the last chunk is read elsewhere.
    if (count < kChunk || records < array_.data() || records >= array_.data() + array_.size())
      return;
    const std::size_t chunk = static_cast<std::size_t>(records - array_.data()) / kChunk;
    std::size_t stripe = 0;
    while (begin_of(stripe + 1) <= chunk) ++stripe;
    const std::size_t come = chunk - begin_of(stripe) + 1;
    std::unique_lock lock(mutex_);
    if (stripe == late_ && come != 1 && !given_up_ && !helped_) {
      helped_ = true;
      changed_.notify_all();
    }
    come_[stripe] = std::max(come_[stripe], come);
    if (come == 1 || come == kPart) changed_.notify_all();
    const auto may_go_on = [&] {
      if (helped_ || given_up_) return true;
      if (stripe == late_) return false;
      for (std::size_t i = 0; i < come_.size(); ++i) {
        if (come_[i] < (i != late_ && come > 2 * kPart ? kPart : 1)) return false;
      }
      return true;
    };
    if (!changed_.wait_for(lock, std::chrono::minutes(1), may_go_on)) given_up_ = true;
  }
  bool helped() const noexcept { return helped_; }

 private:
  static constexpr std::size_t kChunk = ChunkLayout<Pair64>::kChunkRecords, kPart = 100;

  std::size_t begin_of(std::size_t stripe) const noexcept {
    return array_.size() / kChunk * stripe / come_.size();
  }

  const std::span<const Pair64> array_;
  const std::size_t late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> come_;  // how far, for each stripe
  bool helped_ = false;
  bool given_up_ = false;
};
struct LateCodec {
  void encode(Pair64* records, std::size_t count) const noexcept { late->read(records, count); }
  void decode(Pair64*, std::size_t) const noexcept {}
  LateThread* late;
};

// Whichever stripe is late, the records lie as after a sort by one thread.
TEST(ManyThreads, OthersHelpTheOneThatIsLate) {
  constexpr std::size_t kChunk = ChunkLayout<Pair64>::kChunkRecords;
  auto random = test::test_random();
  const SortRules<Pair64, KeyOfPair> rules{{}, small_sort_for<Pair64>(best_isa())};
  for (const unsigned threads : {2U, 3U, 16U}) {
    std::vector<Pair64> pairs(threads * 1024 * kChunk + 1 + random() % (kChunk - 1));
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {random() % 5000 << 50, i};
    std::vector<Pair64> expected = pairs;
    InPlaceSort<Pair64, KeyOfPair>::run(expected.data(), expected.size(), rules);
    for (const std::size_t stripe : {std::size_t{threads} - 1, random() % threads}) {
      std::vector<Pair64> sorted = pairs;
      LateThread late(sorted, threads, stripe);
      const LateCodec codec{&late};
      ThreadTeam team(threads);
      ParallelSort<Pair64, KeyOfPair, LateCodec>(sorted.data(), sorted.size(), rules, codec, team)
          .sort();
      EXPECT_TRUE(late.helped()) << stripe << " of " << threads;
      EXPECT_TRUE(test::same_bytes(sorted, expected)) << stripe << " of " << threads;
    }
  }
}

TEST(ManyThreads, NoMoreAreStartedThanTakePart) {
  for (const std::size_t count : {std::size_t{1} << 21, std::size_t{5} << 20}) {
    std::vector<std::uint64_t> keys = random_keys(count);
    const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(best_isa())};
    for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
      const unsigned started = CountedSort::threads_that_pay(count, threads);
      EXPECT_EQ(started, std::min<std::size_t>(threads, count >> 20));
      test::TeamCounts read(started), made(started);
      std::vector<std::uint64_t> sorted = keys;
      CountedSort::run(sorted.data(), count, rules, {&read, &made}, threads);
      ASSERT_EQ(read.of_threads().size(), started);
      ASSERT_EQ(made.of_threads().size(), started);
    }
  }
}

// Keys of all magnitudes, and heavy ones: buckets get passes of their own.
TEST(ManyThreads, PassesGrowWithTheLogarithmOfTheRecords) {
  auto random = test::test_random();
  const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(best_isa())};
  using Codec = NoCodec<std::uint64_t>;
  const Codec codec;
  for (const int lg : test::kShadowMemory ? std::vector{20} : std::vector{18, 20, 22}) {
    std::vector<std::uint64_t> keys(std::size_t{1} << lg);
    for (std::uint64_t& key : keys) {
      key = random() >> random() % 64;
      if (random() % 4 == 0) key = key % 3 << 40;
    }
    for (const unsigned threads : teams()) {
      std::vector<std::uint64_t> sorted = keys;
      ThreadTeam team(threads);
      const std::size_t passes = ParallelSort<std::uint64_t, KeyOfWord, Codec>(
                                     sorted.data(), sorted.size(), rules, codec, team)
                                     .sort();
      EXPECT_LE(passes, static_cast<unsigned>(lg) / 2) << threads << " threads, 2^" << lg;
      EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end())) << threads;
    }
  }
}

// Keys that each make a bucket of more than a half of what a thread would get.
TEST(ManyThreads, PassesDoNotGrowWithTheKeysThatAreHeavy) {
  auto random = test::test_random();
  const SortRules<Pair64, KeyOfPair> rules{{}, small_sort_for<Pair64>(best_isa())};
  using Codec = NoCodec<Pair64>;
  const Codec codec;
  for (const std::uint64_t heavy : {20, 100}) {
    std::vector<Pair64> pairs(std::size_t{1} << (test::kShadowMemory ? 20 : 22));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::uint64_t word = random();
      pairs[i] = {word % 8 == 0 ? word : word / 8 % heavy * 0x0280'0000'0000'0001, i};
    }
    std::vector<Pair64> expected = pairs;
    InPlaceSort<Pair64, KeyOfPair>::run(expected.data(), expected.size(), rules);
    for (const unsigned threads : test::some_of({16U, 64U, 128U}, 1, random)) {
      std::vector<Pair64> sorted = pairs;
      ThreadTeam team(threads);
      const std::size_t passes =
          ParallelSort<Pair64, KeyOfPair, Codec>(sorted.data(), sorted.size(), rules, codec, team)
              .sort();
      EXPECT_LE(passes, 6u) << threads << " threads, " << heavy << " keys";
      EXPECT_TRUE(test::same_bytes(sorted, expected)) << threads;
    }
  }
}

// Keys that come again and again, by turns or one of them most of the time.
TEST(ManyThreads, KeysThatRepeatAreForAllOfThem) {
  auto random = test::test_random();
  const unsigned threads = test::some_of({2U, 7U, 16U}, 1, random).front();
  std::vector<std::uint64_t> keys(std::size_t{threads} << 20);
  const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(best_isa())};
  const auto expect_all = [&](const char* kind, std::uint64_t of_kind) {
    std::vector<std::uint64_t> expected = keys, sorted = keys;
    std::sort(expected.begin(), expected.end());
    test::TeamCounts read(threads);
    CountedSort::run(sorted.data(), sorted.size(), rules, {&read, nullptr}, threads);
    EXPECT_EQ(read.of_threads().size(), threads) << kind << of_kind;
    EXPECT_TRUE(sorted == expected) << kind << of_kind;
  };
  for (const std::uint64_t period : test::some_of({2, 256, 1 << 16, 1 << 20}, 1, random)) {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i % period * 0x9e3779b97f4a7c15;
    expect_all("period ", period);
    // A sample that lines up with the period has few of the keys, and the buckets are unequal.
    std::vector<std::uint64_t> expected = keys, sorted = keys;
    std::sort(expected.begin(), expected.end());
    const NoCodec<std::uint64_t> codec;
    ThreadTeam team(threads);
    const std::size_t passes = ParallelSort<std::uint64_t, KeyOfWord, NoCodec<std::uint64_t>>(
                                   sorted.data(), sorted.size(), rules, codec, team)
                                   .sort();
    if (period > 2) {
      EXPECT_EQ(passes, 1U) << period;
    }
    EXPECT_TRUE(sorted == expected) << period;
    sorted = keys;
    vortex::sort(std::span(sorted), {.threads = threads});
    EXPECT_TRUE(sorted == expected) << period;
  }
  for (const std::uint64_t percent : test::some_of({50, 70, 90, 99}, 2, random)) {
    for (std::uint64_t& key : keys) key = random() % 100 < percent ? 42 : random();
    expect_all("percent ", percent);
  }
}

// Lists as the threads of a pass leave them: whole chunks one after the other, and the last of each
// in the store. The segments are moved in both orders, which stand for all that threads may take.
TEST(ManyThreads, RecordsOfOneKeyAreMovedInSegments) {
  auto random = test::test_random();
  using Movers = ChunkMovers<std::uint64_t>;
  constexpr std::size_t kP = ChunkLayout<std::uint64_t>::kChunkRecords;
  for (const std::size_t segments : {1, 2, 7, 16, 64, 128}) {
    for (int turn = 0; turn < 8; ++turn) {
      const std::size_t lists =
          turn % 4 == 0 ? std::min<std::size_t>(segments, 16) : 1 + random() % 5;
      const std::size_t whole = turn == 7 ? 1 : lists + 5 + segments * (lists + 5) / lists;
      const std::size_t begin = random() % kP, chunks = lists * whole + lists + 1;
      const std::size_t slots = begin == 0 ? 0 : 1;
      std::vector<std::uint64_t> array(chunks * kP), store(lists * kP);
      Movers movers(array.data(), chunks, store.data(), lists);
      std::vector<Movers::PlacedPiece> pieces;
      std::uint64_t number = 0;
      for (std::size_t list = 0; list < lists; ++list) {
        for (std::size_t i = 0; i <= whole; ++i) {
          const std::size_t place = i < whole ? slots + list * whole + i : movers.store(list);
          const std::size_t count = i < whole ? kP : turn < 4 ? kP - 1 : 1 + random() % (kP - 1);
          pieces.push_back({static_cast<Movers::Place>(place), static_cast<std::uint32_t>(count)});
          std::uint64_t* const records = movers.at(pieces.back().place);
          std::iota(records, records + count, number);
          number += count;
        }
      }
      std::vector<std::vector<std::uint64_t>> kept(segments);
      const std::size_t room = lists + 2;
      const auto all = movers.close_up(pieces, begin, segments, room);
      EXPECT_EQ(all.segments, turn == 7 ? 1 : segments);
      const auto for_segments = [&](const auto& body) {
        for (std::size_t i = 0; i < all.segments; ++i) {
          const std::size_t segment = turn % 2 == 0 ? i : all.segments - 1 - i;
          kept[segment].resize(room * kP);
          body(segment, kept[segment].data());
        }
      };
      for_segments([&](std::size_t i, std::uint64_t* to) { movers.keep(all, i, to); });
      for_segments([&](std::size_t i, std::uint64_t* from) { movers.move(all, i, from); });
      movers.finish(all);
      std::vector<std::uint64_t> expected(number);
      std::iota(expected.begin(), expected.end(), std::uint64_t{0});
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             array.begin() + static_cast<std::ptrdiff_t>(begin)))
          << segments;
    }
  }
}

TEST(ManyThreads, LargeRecordsAreMovedByAllOfThem) {
  auto random = test::test_random();
  struct Record {
    std::uint64_t key, place;
    std::array<std::uint64_t, 36> more;
  };
  std::vector<Record> records(test::kShadowMemory ? 30'000 : 100'000);
  std::vector<Pair64> keys(records.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = {random(), i};
  const auto made = [&] {
    for (std::size_t i = 0; i < keys.size(); ++i) records[i] = {keys[i].key, i, {keys[i].key}};
  };
  std::vector<Pair64> expected = keys;
  std::sort(expected.begin(), expected.end(),
            [](const Pair64& a, const Pair64& b) { return a.key < b.key; });
  const auto expect_sorted = [&](unsigned threads) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(records[i].key, expected[i].key) << threads;
      ASSERT_EQ(records[i].more[0], expected[i].key) << threads;
      ASSERT_EQ(records[i].place, expected[i].value) << threads;
    }
  };
  for (const unsigned threads : teams()) {
    made();
    std::vector<Pair64> places = expected;
    ThreadTeam team(threads);
    const std::size_t together = RecordMover(sizeof(Record), team)
                                     .move_to_places(records.data(), places.data(), places.size());
    EXPECT_GE(together, threads == 1 ? 0 : records.size() * 9 / 10) << threads;
    ASSERT_NO_FATAL_FAILURE(expect_sorted(threads));
    made();
    vortex::sort(std::span(records), &Record::key, {.threads = threads});
    ASSERT_NO_FATAL_FAILURE(expect_sorted(threads));
  }
}

// Each takes the keys of an equal share, 4 MiB of records at least, one after the other, which
// nobody does before. None goes on before all have.
TEST(ManyThreads, KeysOfLargeRecordsAreTakenByAllOfThem) {
  struct Record {
    std::uint64_t key;
    std::array<std::uint64_t, 49> more;
  };
  constexpr std::size_t kInARow = 1000;
  const std::size_t count = test::kShadowMemory ? 50'000 : 200'000;
  const std::vector<std::uint64_t> keys = random_keys(count);
  std::vector<std::uint64_t> expected = keys;
  std::sort(expected.begin(), expected.end());
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    const std::size_t most = std::min<std::size_t>(threads, count / ((4 << 20) / 400 + 1));
    std::vector<Record> records(count);
    for (std::size_t i = 0; i < count; ++i) records[i].key = keys[i];
    test::TeamCounts taken(most);
    vortex::sort(std::span(records),
                 [&](const Record& record) noexcept {
                   thread_local std::size_t last = 0, in_a_row = 0;
                   const auto at = static_cast<std::size_t>(&record - records.data());
                   in_a_row = at == last + 1 ? in_a_row + 1 : 0;
                   last = at;
                   if (in_a_row > kInARow) taken.add(1);
                   return record.key;
                 },
                 {.threads = threads});
    EXPECT_TRUE(std::ranges::equal(records, expected, {}, &Record::key)) << threads;
    ASSERT_EQ(taken.of_threads().size(), most);
    for (const std::uint64_t some : taken.of_threads()) {
      EXPECT_LE(some, count / most + most);
      EXPECT_GE(some + kInARow + 2, count / most);
    }
  }
}

struct Text {
  std::array<char, 20> bytes;
  std::uint32_t length;
  std::string_view key() const { return {bytes.data(), length}; }
  bool operator==(const Text&) const = default;
};

// Few first words, so that there is work behind the first level; a third of the records have one,
// and their keys differ in their lengths alone.
std::vector<Text> texts(std::size_t count) {
  auto random = test::test_random();
  std::vector<Text> texts(count);
  for (Text& text : texts) {
    text = {{}, static_cast<std::uint32_t>(random() % 21)};
    if (random() % 3 == 0) continue;
    text.bytes[random() % 4] = static_cast<char>(random() % 7);
    for (std::size_t i = 8; i < text.length; ++i) text.bytes[i] = static_cast<char>(random() % 3);
  }
  return texts;
}

TEST(ManyThreads, ByteStringsAreSortedToTheSameBytes) {
  auto random = test::test_random();
  const std::vector<Text> made = texts(test::kShadowMemory ? 140'000 : 500'000);
  for (const Order order : test::some_of({Order::kAscending, Order::kDescending}, 1, random)) {
    std::vector<Text> expected = made;
    std::stable_sort(expected.begin(), expected.end(), [&](const Text& a, const Text& b) {
      return order == Order::kAscending ? a.key() < b.key() : b.key() < a.key();
    });
    for (const unsigned threads : teams()) {
      std::vector<Text> sorted = made;
      vortex::sort(std::span(sorted), &Text::key, {.order = order, .threads = threads});
      ASSERT_EQ(sorted, expected) << threads;
      // So that several threads sort groups.
      sorted = made;
      ByteKeySort<Text, decltype(&Text::key)>(&Text::key, order, 1000)
          .run(std::span(sorted), threads,
               [&](std::span<Text> some, const auto& number, unsigned with) {
                 vortex::sort(some, number, {.order = order, .threads = with});
               });
      ASSERT_EQ(sorted, expected) << threads << " threads, small groups";
    }
  }
}

// Items of some shops, by shop and price. Few shops are for all threads, the others for a thread
// each, side by side.
TEST(ManyThreads, GroupsOfByteStringsAreSortedSideBySide) {
  auto random = test::test_random();
  const std::size_t before = test::threads_of_process();
  for (const unsigned threads :
       test::kShadowMemory ? std::vector{16U} : test::some_of({7U, 16U, 64U, 128U}, 1, random)) {
    const std::size_t count = std::size_t{std::max(threads, 16U)} << 16;  // each has enough
    std::vector<std::uint32_t> prices(count);
    for (std::size_t i = 0; i < count; ++i)
      prices[i] = static_cast<std::uint32_t>(i * 0x9e3779b1 % count);
    for (const std::size_t shops : {1U, 3U, 12U, 1000U}) {
      const auto numbers = [&](std::uint32_t price) {
        return std::pair<std::uint64_t, std::uint64_t>(price % shops, price);
      };
      PackedKey<std::uint32_t, decltype(numbers)> key(numbers);
      test::TeamCounts alone(shops <= 3 ? 1 : std::min<std::size_t>(threads, shops));
      std::size_t by_all = 0;
      bool others_sleep = false;
      std::vector<std::uint32_t> sorted = prices;
      ByteKeySort<std::uint32_t, decltype(key)>(key, Order::kAscending, count / 32)
          .run(std::span(sorted), threads,
               [&](std::span<std::uint32_t> some, const auto& number, unsigned with) {
                 with == 1 ? alone.add(some.size()) : static_cast<void>(++by_all);
                 // It has all threads.
                 if (with != 1 && !test::has_no_more_threads(before)) others_sleep = true;
                 vortex::sort(some, number, {.threads = 1});
               });
      EXPECT_FALSE(others_sleep) << shops << " shops, " << threads;
      EXPECT_EQ(by_all, shops <= 3 ? 1 + shops : 1) << shops << " shops, " << threads;
      EXPECT_EQ(alone.all(), shops <= 3 ? 0 : count) << shops << " shops, " << threads;
      EXPECT_EQ(alone.of_threads().size(), shops <= 3 ? 0 : std::min<std::size_t>(threads, shops));
      std::size_t at = 0;
      for (std::size_t shop = 0; shop < shops; ++shop) {
        for (std::size_t price = shop; price < count; price += shops)
          ASSERT_EQ(sorted[at++], price) << shops << " shops, " << threads;
      }
    }
  }
}

// All keys have the same eight bytes: the end of the group is found without reading them, and all
// look for longer ones.
TEST(ManyThreads, ByteStringsOfOneGroupAreForAllOfThem) {
  for (const unsigned threads : {2U, 7U, 16U}) {
    for (const std::uint32_t length : {8, 9}) {
      std::vector<Text> sorted(std::size_t{threads} << 16, Text{{}, length});
      std::atomic<bool> counts = false;
      test::TeamCounts read(length == 8 ? threads : 1);
      // Counts those that are read one after the other.
      const auto key = [&](const Text& text) {
        thread_local std::size_t last = 0, in_a_row = 0;
        const auto at = static_cast<std::size_t>(&text - sorted.data());
        in_a_row = at == last + 1 ? in_a_row + 1 : 0;
        last = at;
        if (counts && in_a_row > 100) read.add(1);
        return text.key();
      };
      int levels = 0;
      ByteKeySort<Text, decltype(key)>(key, Order::kAscending, 1000)
          .run(std::span(sorted), threads,
               [&](std::span<Text>, const auto&, unsigned) { counts = levels++ == 0; });
      EXPECT_EQ(levels, length == 8 ? 2 : 3);
      if (length == 8) {
        EXPECT_EQ(read.of_threads().size(), threads);
      } else {
        EXPECT_LT(read.all(), sorted.size() / threads);
      }
    }
  }
}

// The first level of so few is sorted by one thread, and their groups by two.
TEST(ManyThreads, ByteStringsAreGroupedBySeveral) {
  const std::vector<Text> made = texts(140'000);
  unsigned sorts = 0;
  const auto threads_of = [&](unsigned threads) {
    ++sorts;
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::vector<Text> sorted = made;
    vortex::sort(std::span(sorted),
                 [&](const Text& text) {
                   thread_local unsigned noted = 0;
                   if (noted != sorts) {
                     const std::lock_guard lock(mutex);
                     seen.insert(std::this_thread::get_id());
                     noted = sorts;
                   }
                   return text.key();
                 },
                 {.threads = threads});
    return seen.size();
  };
  EXPECT_EQ(threads_of(1), 1u);
  // Whoever calls may have done all of it before another thread is there.
  std::size_t most = 1;
  for (int turn = 0; turn < 200 && most < 2; ++turn) most = std::max(most, threads_of(2));
  EXPECT_EQ(most, 2u);
}

// Each part of the array has its own values and some of its neighbours', so that every list of
// counts that is merged with another one has some that the other one has not.
TEST(ManyThreads, FewValuesOfEachAreJoined) {
  auto random = test::test_random();
  using Codec = NoCodec<std::uint32_t>;
  for (const unsigned threads : {2u, 5u, 7u}) {
    std::vector<std::uint32_t> keys((std::size_t{threads} << 20) + random() % 1000);
    std::vector<std::uint32_t> chosen(threads * 200 + 200);
    for (std::uint32_t& value : chosen) value = static_cast<std::uint32_t>(random());
    const std::size_t share = keys.size() / threads + 1;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint64_t word = random();
      keys[i] = word % 4 == 0 ? 77 : chosen[i / share * 200 + word / 4 % 400];
    }
    std::vector<std::uint32_t> expected = keys;
    std::sort(expected.begin(), expected.end());
    EXPECT_NE((FewValues<std::uint32_t, Codec>::sort(keys, {}, threads)), 0u) << threads;
    EXPECT_TRUE(keys == expected) << threads;
  }
}

template <typename T>
class NarrowKeysOfAll : public testing::Test {};
using NarrowNumbers = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t>;
TYPED_TEST_SUITE(NarrowKeysOfAll, NarrowNumbers);

// Keys of one and two bytes are counted, the counts added, and the result written.
TYPED_TEST(NarrowKeysOfAll, AreCountedByAllOfThem) {
  using Bits = std::make_unsigned_t<TypeParam>;
  auto random = test::test_random();
  for (const test::ArrayShape shape : test::kArrayShapes) {
    for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
      const auto given = test::numbers_of<TypeParam>(shape, 40'000 + random() % 1000, random);
      const Order order = test::random_direction(random);
      auto numbers = given;
      test::CountedShares shares(numbers.size(), threads);
      detail::NarrowKeys<Bits>(key_code<TypeParam>(order))
          .sort(reinterpret_cast<Bits*>(numbers.data()), shares);
      ASSERT_TRUE(test::same_bytes(numbers, test::sorted(given, order))) << static_cast<int>(shape);
      EXPECT_EQ(shares.took_part(), std::vector<std::size_t>(3, threads));
    }
  }
}

// So many that they are shared.
TEST(ManyThreads, NarrowKeysAreSorted) {
  auto random = test::test_random();
  std::vector<std::int16_t> given((std::size_t{1} << 21) + 5);
  for (std::int16_t& key : given) key = static_cast<std::int16_t>(random());
  auto expected = given;
  std::sort(expected.begin(), expected.end());
  for (const unsigned threads : {1U, 2U, 7U}) {
    auto numbers = given;
    vortex::sort(std::span(numbers), {.threads = threads});
    ASSERT_TRUE(test::same_bytes(numbers, expected)) << threads;
  }
}

}  // namespace

}  // namespace vortex::many_threads_test
