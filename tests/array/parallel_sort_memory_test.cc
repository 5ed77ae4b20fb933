// The memory that sorts by several threads, and of strings, take besides the array.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sort/arrays/nth_key.h"
#include "sort/arrays/numbers.h"
#include "tests/array/instruction_sets.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "vortex/array_calls.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/parallel_sort.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/sort.h"

namespace {

std::atomic<std::size_t> held{0}, most_held{0}, refused_beyond{~std::size_t{0}};
std::atomic<std::size_t> times_taken{0}, refused_from{~std::size_t{0}};

// In front of memory. The heap would tell of large alignments what it has left out beside them.
struct Taken {
  std::size_t bytes;
  std::size_t alignment;
};

void* take(std::size_t bytes, std::size_t alignment) {
  if (held + bytes > refused_beyond || times_taken++ >= refused_from) throw std::bad_alloc();
  void* const block =
      std::aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  void* const memory = static_cast<char*>(block) + alignment;
  static_cast<Taken*>(memory)[-1] = {bytes, alignment};
  const std::size_t now = held += bytes;
  std::size_t most = most_held;
  while (now > most && !most_held.compare_exchange_weak(most, now)) {
  }
  return memory;
}
void give(void* memory) noexcept {
  if (memory == nullptr) return;
  const Taken taken = static_cast<Taken*>(memory)[-1];
  held -= taken.bytes;
  std::free(static_cast<char*>(memory) - taken.alignment);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }

namespace vortex::parallel_sort_memory_test { namespace {

using namespace detail;

using Sort = ParallelSort<std::uint64_t, detail::KeyOfWord, detail::WordCodec<std::uint64_t>>;

// As many as are asked for, of however few records.
struct TestShares : detail::Shares {
  TestShares(std::size_t count, unsigned threads) : Shares(count, threads, count / threads) {}
};

std::vector<std::uint64_t> random_keys(std::size_t count) {
  auto random = test::test_random();
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = random();
  return keys;
}

TEST(ParallelSortMemory, AsMuchAsItTells) {
  for (const unsigned threads : {1u, 2u, 7u}) {
    for (const std::size_t count : {50'000u, 4'000'000u}) {
      std::vector<std::uint64_t> keys = random_keys(count);
      const SortRules<std::uint64_t, detail::KeyOfWord> rules{
          {}, small_sort_for<std::uint64_t>(best_isa())};
      const detail::WordCodec<std::uint64_t> codec(key_code<std::uint64_t>(Order::kAscending));
      ThreadTeam team(threads);
      const std::size_t before = held;
      most_held = before;
      Sort(keys.data(), count, rules, codec, team).sort();
      constexpr std::size_t kRounding = 64 << 10;  // by the heap
      EXPECT_LE(most_held - before, Sort::working_bytes(count, threads) + kRounding) << threads;
      EXPECT_GE(most_held - before, Sort::working_bytes(count, threads) * 3 / 4) << threads;
      EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
    }
  }
}

// The promise of sort.h.
template <typename Record, typename KeyOf>
void expect_little_promised() {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  using SortOf = ParallelSort<Record, KeyOf, NoCodec<Record>>;
  for (const unsigned threads : {2u, 7u, 16u, 64u, 128u}) {
    for (int lg = 17; lg <= 36; ++lg) {
      const std::size_t count = std::size_t{1} << lg;
      EXPECT_LE(SortOf::working_bytes(count, threads),
                threads * 9 * kMiB + count * sizeof(Record) / 100 + kMiB)
          << threads << " threads, 2^" << lg << " of " << sizeof(Record) << " bytes";
    }
  }
}

template <std::size_t bytes>
void expect_little_of_size() {
  expect_little_promised<SizedRecord<bytes>, KeyOfSized<bytes>>();
}
template <std::size_t... numbers>
void expect_little_of_sizes(std::index_sequence<numbers...>) {
  (expect_little_of_size<12 + 4 * numbers>(), ...);
}

TEST(ParallelSortMemory, AsLittleAsItPromises) {
  expect_little_promised<std::uint64_t, KeyOfWord>();
  expect_little_promised<Pair64, KeyOfPair>();
  static_assert(12 + 4 * 61 == kMaxCarriedBytes);
  expect_little_of_sizes(std::make_index_sequence<62>());
  // Chunks of which are a little less than 4 KiB, or more.
  expect_little_of_size<205>();
  expect_little_of_size<235>();
  expect_little_of_size<249>();
  expect_little_of_size<255>();
}

// Records that are not carried have their places sorted, and move once.
TEST(ParallelSortMemory, LargeRecordsTakeTheirPlaces) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kCount = std::size_t{1} << 17;
  struct Large {
    std::uint64_t key;
    std::array<char, 292> more;
  };
  const std::vector<std::uint64_t> keys = random_keys(kCount);
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    std::vector<Large> records(kCount);
    for (std::size_t i = 0; i < kCount; ++i) records[i].key = keys[i];
    release_sort_memory();
    const std::size_t before = held;
    most_held = before;
    sort(std::span(records), &Large::key, {.threads = threads});
    // So few places are sorted by one thread.
    const std::size_t sort_bytes = 10 * kMiB + 16 * kCount / 100;
    EXPECT_LE(most_held - before, 16 * kCount + threads * kMiB / 2 + sort_bytes) << threads;
    EXPECT_TRUE(std::ranges::is_sorted(records, {}, &Large::key)) << threads;
  }
}

// What the heap gives to more threads than sort() starts for so few records.
template <typename Record, typename KeyOf>
void expect_promise_kept(const SortRules<Record, KeyOf>& rules, std::size_t count,
                         std::initializer_list<unsigned> teams) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::vector<std::uint64_t> keys = random_keys(count);
  const NoCodec<Record> codec;
  auto random = test::test_random();
  for (const unsigned threads : test::some_of(teams, 1, random)) {
    std::vector<Record> records(count);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&records[i], &keys[i], sizeof keys[i]);
    ThreadTeam team(threads);
    const std::size_t before = held;
    most_held = before;
    ParallelSort<Record, KeyOf, NoCodec<Record>>(records.data(), count, rules, codec, team).sort();
    EXPECT_LE(most_held - before, (threads * 9 + 1) * kMiB + count * sizeof(Record) / 100)
        << threads << " threads, records of " << sizeof(Record) << " bytes";
    EXPECT_TRUE(std::ranges::is_sorted(
        records, {}, [&](const Record& record) { return std::uint64_t{rules.key_of(record)}; }));
  }
}

TEST(ParallelSortMemory, ManyThreadsTakeAsLittleAsIsPromised) {
  expect_promise_kept<std::uint64_t, KeyOfWord>({{}, small_sort_for<std::uint64_t>(best_isa())},
                                                std::size_t{1} << 19, {16, 64, 128});
  expect_promise_kept<Pair64, KeyOfPair>({{}, small_sort_for<Pair64>(best_isa())},
                                         std::size_t{1} << 18, {16, 64});
  using Largest = SizedRecord<kMaxCarriedBytes>;
  const SortKey first_word{.code = key_code<std::uint64_t>(Order::kAscending),
                           .place = {.offset = 0, .bytes = 8}};
  expect_promise_kept<Largest, KeyOfSized<kMaxCarriedBytes>>(
      {KeyOfSized<kMaxCarriedBytes>(first_word)}, std::size_t{1} << 15, {16, 64});
}

// Memory that is refused at any point ends the sort before a record has moved.
TEST(ParallelSortMemory, WithoutMemoryNothingHasMoved) {
  // As many as two threads are for: one thread may need none, as where there is AVX-512.
  const std::vector<std::uint64_t> keys = random_keys(std::size_t{1} << 22);
  std::vector<std::uint64_t> sorted = keys;
  std::size_t refusals = 0;
  for (std::size_t room = 1 << 10;; room += room / 4) {
    refused_beyond = held + room;
    bool refused = false;
    try {
      sort(std::span(sorted), {.threads = 2});
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    refused_beyond = ~std::size_t{0};
    if (!refused) break;
    ++refusals;
    ASSERT_EQ(sorted, keys);
  }
  EXPECT_GT(refusals, 20u);
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

// Whichever allocation fails, nothing has moved.
template <typename Key>
std::size_t expect_unmoved_without_memory(const std::vector<Key>& keys, unsigned threads) {
  for (std::size_t granted = 0;; ++granted) {
    std::vector<Key> sorted = keys;
    release_sort_memory();
    refused_from = times_taken + granted;
    bool refused = false;
    try {
      sort(std::span(sorted), {.threads = threads});
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    refused_from = ~std::size_t{0};
    if (!refused) {
      EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
      return granted;
    }
    EXPECT_EQ(sorted, keys) << granted;
  }
}

TEST(ParallelSortMemory, WithoutMemoryWhatBeginsInOrderHasNotMoved) {
  std::vector<std::uint64_t> keys = random_keys(1000);
  std::sort(keys.begin(), keys.begin() + 800);
  EXPECT_GT(expect_unmoved_without_memory(keys, 1), 1U);
}

TEST(ParallelSortMemory, WithoutMemoryToCountProcessorsNothingHasMoved) {
  const std::vector<std::uint64_t> words = random_keys((std::size_t{1} << 20) + 1);
  const std::vector<std::uint32_t> keys(words.begin(), words.end());
  test::for_each_isa([&] { EXPECT_GT(expect_unmoved_without_memory(keys, 0), 0U); });
}

// The promises of array_calls.h. Each of many threads keeps few of the first keys, and a block of
// what is kept once.
TEST(ArrayCallMemory, AsLittleAsItPromises) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kCount = std::size_t{1} << 22;
  const std::vector<std::uint64_t> given = random_keys(kCount);
  const NumberForm form = number_form<std::uint64_t>(Order::kAscending);
  const auto taken = [](const auto& call) {
    const std::size_t before = held;
    most_held = before;
    call();
    return most_held - before;
  };
  for (const unsigned threads : {1U, 7U, 16U, 64U}) {
    for (const std::size_t k : {kMostKeptByEach, kCount / 64}) {
      auto numbers = given;
      const Selection all{numbers.data(), 8, kCount, keys_of_numbers(numbers.data(), form),
                          &form,          1};
      const std::size_t bytes = taken([&] {
        detail::partial_sort(all, k, [&](std::size_t count) {
          return std::make_unique<TestShares>(count, threads);
        });
      });
      // The last: what the order of k pairs takes.
      const std::size_t of_threads = threads == 1 ? 0 : threads * kMiB;
      const std::size_t of_select = threads == 1 || k <= kMostKeptByEach ? 0 : kCount * 8 / 100;
      EXPECT_LE(bytes, (33 + 8) * k + of_threads + of_select + 7 * kMiB + 16 * k / 100)
          << threads << ", " << k;
      EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.begin() + static_cast<long>(k)));
    }
    std::vector<std::uint64_t> numbers(kCount);
    for (std::size_t i = 0; i < kCount; ++i) numbers[i] = i / 3;
    const CopyFirstOfEach copy = [&](std::size_t begin, std::size_t end, void* to) {
      return static_cast<std::size_t>(std::unique_copy(numbers.data() + begin, numbers.data() + end,
                                                       static_cast<std::uint64_t*>(to)) -
                                      static_cast<std::uint64_t*>(to));
    };
    EXPECT_LE(taken([&] { keep_first_of_each(numbers.data(), 8, kCount, copy, threads); }),
              threads == 1 ? 0 : 4 * kMiB + kMiB / 16);
    EXPECT_EQ(numbers[kCount / 3], kCount / 3);
  }
}

// Of any keys: at random, so few different ones that many lie beside the wanted one, and in order.
TEST(ArrayCallMemory, SelectionsTakeOnePercent) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kCount = std::size_t{1} << 24;
  std::vector<std::uint64_t> given = random_keys(kCount);
  auto random = test::test_random();
  test::Turns turns(random, 3);
  for (const std::uint64_t different : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{1}}) {
    if (different == 1) std::sort(given.begin(), given.end());
    if (different > 1) {
      for (std::uint64_t& key : given) key = key % different << 50;
    }
    for (const unsigned threads : {1U, 7U, 64U}) {
      if (turns.leave_out()) continue;
      auto numbers = given;
      const NumberForm form = number_form<std::uint64_t>(Order::kAscending);
      const Selection all{numbers.data(), 8, kCount, keys_of_numbers(numbers.data(), form),
                          &form,          1};
      release_sort_memory();
      TestShares shares(kCount, threads);
      const std::size_t before = held;
      most_held = before;
      detail::select(all, kCount / 2, shares);
      EXPECT_LE(most_held - before, kCount * 8 / 100 + 6 * kMiB) << threads << ", " << different;
      const auto middle = numbers.begin() + kCount / 2;
      EXPECT_TRUE(std::all_of(numbers.begin(), middle, [=](auto key) { return key <= *middle; }));
      EXPECT_TRUE(std::all_of(middle, numbers.end(), [=](auto key) { return key >= *middle; }));
    }
  }
}

// One thread needs none.
TEST(ArrayCallMemory, WithoutMemoryOneOfEachIsKept) {
  std::vector<std::uint64_t> numbers(std::size_t{1} << 21);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i / 5;
  const CopyFirstOfEach copy = [&](std::size_t begin, std::size_t end, void* to) {
    return static_cast<std::size_t>(std::unique_copy(numbers.data() + begin, numbers.data() + end,
                                                     static_cast<std::uint64_t*>(to)) -
                                    static_cast<std::uint64_t*>(to));
  };
  refused_beyond = held.load();
  const std::size_t kept = keep_first_of_each(numbers.data(), 8, numbers.size(), copy, 2);
  refused_beyond = ~std::size_t{0};
  ASSERT_EQ(kept, numbers.size() / 5 + 1);
  for (std::size_t i = 0; i < kept; ++i) ASSERT_EQ(numbers[i], i);
}

// The promise of sort.h for strings, and their views when memory is refused anywhere.
TEST(StringSortMemory, AsLittleAsItPromises) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kCount = 1'000'000;
  const std::vector<std::uint64_t> numbers = random_keys(kCount);
  std::string text;
  for (const std::uint64_t number : numbers) text += std::to_string(number % 100'000) + "-and-more";
  std::vector<std::string_view> made;
  for (std::size_t i = 0; i < kCount; ++i) {
    made.emplace_back(text.data() + text.size() / kCount * i, numbers[i] % 24);
  }
  for (const unsigned threads : {1u, 2u, 16u, 64u}) {
    // What the sort of pairs takes.
    const std::size_t sort_bytes = threads * 9 * kMiB + kMiB + 16 * kCount / 100;
    for (const bool stable : {false, true}) {
      auto views = made;
      const std::size_t before = held;
      most_held = before;
      sort(std::span(views), {.stable = stable, .threads = threads});
      EXPECT_LE(most_held - before, (stable ? 16 * kCount : 0) + sort_bytes);
      EXPECT_TRUE(std::is_sorted(views.begin(), views.end()));
    }
    for (const bool unique : {false, true}) {
      std::vector<std::string> objects(made.begin(), made.end());
      const std::size_t before = held;
      most_held = before;
      const std::size_t kept = detail::sort_strings(objects, {.threads = threads}, unique);
      EXPECT_LE(most_held - before, 16 * kCount + sort_bytes);
      EXPECT_TRUE(std::is_sorted(objects.begin(), objects.begin() + static_cast<long>(kept)));
    }
  }
}

// Large groups of strings, which are sorted side by side, take no more than all of them together.
TEST(StringSortMemory, GroupsSideBySideTakeAsLittle) {
  constexpr std::size_t kMiB = std::size_t{1} << 20, kCount = kMiB, kLength = 26;
  std::string text;
  for (const std::uint64_t number : random_keys(kCount)) {
    std::string one(1, static_cast<char>('a' + number % 6));
    one += "-prefix-of-a-group-" + std::to_string(number);
    text += one.substr(0, kLength);
  }
  std::vector<std::string_view> views;
  for (std::size_t i = 0; i < kCount; ++i) views.emplace_back(text.data() + i * kLength, kLength);
  release_sort_memory();
  const std::size_t before = held;
  most_held = before;
  sort(std::span(views), {.threads = 2});
  EXPECT_LE(most_held - before, 2 * 9 * kMiB + kMiB + 16 * kCount / 100);
  EXPECT_TRUE(std::is_sorted(views.begin(), views.end()));
  EXPECT_EQ(held, before);
}

TEST(StringSortMemory, WithoutMemoryAllViewsAreThere) {
  // Some are too long for the word that stands for a view, and need memory.
  const std::string text(70'000, 'x');
  std::vector<std::string_view> made;
  for (std::size_t i = 0; i < 80'000; ++i) {
    made.emplace_back(text.data() + i % 20, i % 50 == 0 ? 69'000 + i % 7 : i * 7919 % 1000);
  }
  const auto in_order_of_place = [](std::vector<std::string_view> views) {
    std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) {
      return std::pair(a.data(), a.size()) < std::pair(b.data(), b.size());
    });
    std::vector<std::pair<const char*, std::size_t>> places;
    for (const auto& view : views) places.emplace_back(view.data(), view.size());
    return places;
  };
  const auto all = in_order_of_place(made);
  std::size_t refusals = 0;
  for (std::size_t room = 1 << 10;; room += room / 4) {
    auto views = made;
    refused_beyond = held + room;
    bool refused = false;
    try {
      sort(std::span(views), {.threads = 2});
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    refused_beyond = ~std::size_t{0};
    ASSERT_EQ(in_order_of_place(views), all);
    if (!refused) {
      EXPECT_TRUE(std::is_sorted(views.begin(), views.end()));
      break;
    }
    ++refusals;
  }
  EXPECT_GT(refusals, 10u);
}

// The same whichever allocation fails first: small ones come behind those that take much.
TEST(StringSortMemory, WithoutAnyAllocationAllViewsAreThere) {
  const std::string text(1000, 'x');
  std::vector<std::string_view> made;
  for (std::size_t i = 0; i < 3000; ++i) made.emplace_back(text.data(), i * 7919 % 900);
  const auto bytes_of = [&](const std::vector<std::string_view>& views) {
    std::size_t bytes = 0;
    for (const std::string_view view : views) {
      EXPECT_EQ(view.data(), text.data());
      bytes += view.size();
    }
    return bytes;
  };
  for (const bool unique : {false, true}) {
    for (std::size_t granted = 0;; ++granted) {
      auto views = made;
      bool refused = false;
      refused_from = times_taken + granted;
      try {
        detail::sort_strings(std::span(views), {.threads = 1}, unique);
      } catch (const std::bad_alloc&) {
        refused = true;
      }
      refused_from = ~std::size_t{0};
      if (!refused) {
        EXPECT_GT(granted, 2U);
        break;
      }
      ASSERT_EQ(bytes_of(views), bytes_of(made)) << granted;
    }
  }
}

}  // namespace

}  // namespace vortex::parallel_sort_memory_test
