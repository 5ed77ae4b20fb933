// Records pushed and read back in order, against std::stable_sort.
#include "vortex/sorter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <regex>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "sort/runs/sort_watch.h"
#include "tests/array/number_order.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/record/key.h"
#include "vortex/error.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"

namespace vortex::test::sorter_test { namespace {

// Folders for runs, in which nothing may be left.
class RunFolders {
 public:
  explicit RunFolders(unsigned count) {
    for (unsigned i = 0; i < count; ++i) folders_.emplace_back(fast_folder());
  }
  ~RunFolders() {
    for (const TemporaryFolder& folder : folders_) EXPECT_EQ(folder.entries(), 0U);
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    for (const TemporaryFolder& folder : folders_) paths.push_back(folder.path().string());
    return paths;
  }

 private:
  std::deque<TemporaryFolder> folders_;
};

template <std::size_t kBytes>
struct Record {
  std::array<unsigned char, kBytes> bytes;
};
// By the first byte alone, so that there are equal ones, or by all.
struct ByFirst {
  template <std::size_t kBytes>
  bool operator()(const Record<kBytes>& a, const Record<kBytes>& b) const noexcept {
    return descending ? b.bytes[0] < a.bytes[0] : a.bytes[0] < b.bytes[0];
  }
  bool descending = false;
};
struct ByAll {
  template <std::size_t kBytes>
  bool operator()(const Record<kBytes>& a, const Record<kBytes>& b) const noexcept {
    return a.bytes < b.bytes;
  }
};

SortResources random_options(const RunFolders& folders, std::mt19937_64& random) {
  SortResources options;
  options.folders = folders.paths();
  options.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
  options.caching = random() % 4 == 0 ? Caching::kBuffered : Caching::kAuto;
  const Backend backend = kAllBackends[random() % kAllBackends.size()];
  options.open_disk = sort_disks(backend, random() % 3 == 0 ? harmless_faults(random) : nullptr);
  // Virtual time is for one.
  options.threads =
      backend == Backend::kVirtual ? 1 : kThreadCounts[random() % std::size(kThreadCounts)];
  options.seed = random();
  return options;
}

// Sorts `list` in as little memory as may be, or some more.
void sort_and_compare(const RecordOrder& order, const RecordList& list, SortResources options,
                      Seen& paths, std::mt19937_64& random) {
  options.memory_bytes = least_memory([&](std::uint64_t bytes) {
    options.memory_bytes = bytes;
    ByteSorter(options, borrowed(order));
  });
  constexpr unsigned kShares[] = {10, 10, 11, 15, 20, 40, 160};
  options.memory_bytes = options.memory_bytes * kShares[random() % std::size(kShares)] / 10;
  ByteSorter sorter(options, borrowed(order));
  for (std::size_t at = 0; at < list.count();) {
    const std::size_t count = std::min<std::size_t>(1 + random() % 3000, list.count() - at);
    if (random() % 2 == 0) {
      sorter.push(list.at(at), count);
    } else {
      for (std::size_t i = 0; i < count; ++i) sorter.push(list.at(at + i));
    }
    at += count;
  }
  ASSERT_EQ(sorter.size(), list.count());
  sorter.sort();
  ASSERT_EQ(sorter.size(), list.count());
  const RunCounts counts = sorter.counts();
  paths.note(counts.runs == 0 ? "in memory" : counts.passes == 1 ? "one merge" : "several passes");
  const RecordList expected = stably_sorted(order, list);
  const std::byte* const array = sorter.bytes();
  for (std::size_t i = 0; i < list.count(); ++i) {
    ASSERT_EQ(std::memcmp(array + i * list.record_bytes, expected.at(i), list.record_bytes), 0)
        << "record " << i << " of " << list.count() << '\n'
        << to_string(sorter.plan());
    // Back a block: what was read is still there.
    const std::size_t block = sorter.plan().block_bytes / list.record_bytes;
    if (block > 0 && i >= block && i % 1000 == 0) {
      const std::size_t back = i - block + 1;
      ASSERT_EQ(std::memcmp(array + back * list.record_bytes, expected.at(back), list.record_bytes),
                0);
    }
  }
}

TEST(Sorter, RecordsOfAFormatComeAsAStableSortGivesThem) {
  auto random = test_random();
  Seen paths({{"in memory"}, {"one merge"}, {"several passes"}});
  const unsigned rounds = long_tests() ? 3000 : kShadowMemory ? 60 : 120;
  for (unsigned round = 0; paths.another(round, rounds); ++round) {
    SCOPED_TRACE(round);
    const std::size_t record_bytes = random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()));
    const std::size_t most = std::min<std::size_t>(record_bytes * 60000, std::size_t{2} << 20);
    const RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                         random_count(record_bytes, most, random), random);
    const RunFolders folders(1 + random() % 3);
    sort_and_compare(order, list, random_options(folders, random), paths, random);
  }
  paths.expect_all();
}

template <std::size_t kBytes, typename Less>
void sort_typed(Less less, std::mt19937_64& random) {
  const RecordList list = make_records(kShapes[random() % std::size(kShapes)], kBytes,
                                       random_count(kBytes, 1 << 20, random), random);
  std::vector<Record<kBytes>> expected(list.count());
  if (!expected.empty()) std::memcpy(expected.data(), list.bytes.data(), list.bytes.size());
  const std::vector<Record<kBytes>> pushed = expected;
  std::stable_sort(expected.begin(), expected.end(), less);
  const RunFolders folders(2);
  SortResources options = random_options(folders, random);
  options.memory_bytes = std::uint64_t{1} << (19 + random() % 3);
  Sorter<Record<kBytes>, Less> sorter(options, less);
  const std::size_t half = pushed.size() / 2;
  for (std::size_t i = 0; i < half; ++i) sorter.push(pushed[i]);
  sorter.push(std::span(pushed).subspan(half));
  sorter.sort();
  ASSERT_EQ(sorter.size(), expected.size());
  ASSERT_TRUE(same_bytes(sorter.data(), expected.data(), expected.size()));
}

// Records by a number of theirs.
struct Item {
  std::uint32_t place;
  std::int32_t level;
  double price;
};

template <typename T, typename KeyFunction>
void sort_by_key(std::vector<T> pushed, const ByKey<KeyFunction>& by, std::mt19937_64& random) {
  const RunFolders folders(2);
  SortResources options = random_options(folders, random);
  options.memory_bytes = std::uint64_t{512} << 10;
  Sorter<T, ByKey<KeyFunction>> sorter(options, by);
  sorter.push(std::span<const T>(pushed));
  sorter.sort();
  ASSERT_GT(sorter.counts().runs, 1U);
  std::stable_sort(pushed.begin(), pushed.end(), [&](const T& left, const T& right) {
    const auto a = std::invoke(by.key(), left);
    const auto b = std::invoke(by.key(), right);
    return by.order() == Order::kAscending ? belongs_before(a, b) : belongs_before(b, a);
  });
  for (std::size_t i = 0; i < pushed.size(); ++i) {
    ASSERT_EQ(sorter.data()[i].place, pushed[i].place) << "record " << i;
  }
}

TEST(Sorter, ByKeysOfRecords) {
  auto random = test_random();
  std::vector<Item> items((std::size_t{1} << 20) / sizeof(Item));
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    const double price = random() % 8 == 0 ? -0.0 : static_cast<double>(random() % 5000) - 2500;
    items[i] = {i, static_cast<std::int32_t>(random() % 300) - 150, price};
  }
  for (const Order order : {Order::kAscending, Order::kDescending}) {
    sort_by_key(items, ByKey(&Item::price, order), random);
    sort_by_key(items, ByKey(&Item::level, order), random);
    sort_by_key(items,
                ByKey([](const Item& item) noexcept { return item.price * item.level; }, order),
                random);
  }
  const auto made = [](const auto& by) { return detail::order_of_type<Item>(by); };
  EXPECT_NE(dynamic_cast<const FormatOrder*>(made(ByKey(&Item::price)).get()), nullptr);
  EXPECT_TRUE(made(ByKey([](const Item& item) { return item.level; }))->leading_bits_decide());
  EXPECT_TRUE(ByKey(&Item::level)(Item{0, -1, 0}, Item{0, 1, 0}));
  EXPECT_FALSE(ByKey(&Item::level, Order::kDescending)(Item{0, -1, 0}, Item{0, 1, 0}));
}

// Numbers of every kind with all that is odd about them, against a sort of their bits.
template <typename T>
class SorterOfNumbers : public ::testing::Test {};
using Numbers = TypesOf<
    ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                     std::int16_t, std::int32_t, std::int64_t, float, double, char, bool, wchar_t>,
    ::testing::Types<std::uint16_t, std::int64_t, float, bool>>;
TYPED_TEST_SUITE(SorterOfNumbers, Numbers);

template <typename T>
void make_odd_numbers(std::span<T> numbers, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  for (T& number : numbers) {
    if constexpr (std::same_as<T, bool>) {
      number = random() % 2 == 0;
    } else if constexpr (std::floating_point<T>) {
      const T odd[] = {T{0},
                       -T{0},
                       Limits::quiet_NaN(),
                       -Limits::quiet_NaN(),
                       Limits::infinity(),
                       -Limits::infinity(),
                       Limits::denorm_min(),
                       -Limits::max()};
      number = random() % 2 == 0 ? odd[random() % std::size(odd)]
                                 : static_cast<T>(static_cast<double>(random()) - 0x1p63);
    } else {
      const T odd[] = {Limits::min(), Limits::max(), T{0}, static_cast<T>(-1)};
      number = random() % 4 == 0 ? odd[random() % std::size(odd)] : static_cast<T>(random());
    }
  }
}

template <typename T, typename Less>
void sort_numbers(std::mt19937_64& random) {
  // Not a vector: there is none of bool.
  const std::size_t count = (std::size_t{1} << 20) / sizeof(T);
  const std::unique_ptr<T[]> pushed = std::make_unique<T[]>(count);
  make_odd_numbers(std::span<T>(pushed.get(), count), random);
  std::vector<KeyBits<T>> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = to_key_bits(pushed[i]);
  std::sort(expected.begin(), expected.end());
  const RunFolders folders(2);
  SortResources options = random_options(folders, random);
  options.memory_bytes = std::uint64_t{512} << 10;
  Sorter<T, Less> sorter(options);
  sorter.push(std::span<const T>(pushed.get(), count));
  sorter.sort();
  ASSERT_GT(sorter.counts().runs, 1U);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(to_key_bits(sorter.data()[i]), expected[i]) << "number " << i;
  }
}

TYPED_TEST(SorterOfNumbers, ComeInTheOrderOfTheirBits) {
  const auto order = detail::order_of_type<TypeParam>(std::less<TypeParam>());
  ASSERT_NE(dynamic_cast<const FormatOrder*>(order.get()), nullptr);
  auto random = test_random();
  sort_numbers<TypeParam, std::less<TypeParam>>(random);
  sort_numbers<TypeParam, std::less<>>(random);
}

TEST(Sorter, RecordsOfATypeComeInTheOrderOfTheirComparator) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 200 : 8;
  for (unsigned round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    sort_typed<1>(ByAll{}, random);
    sort_typed<4>(ByFirst{}, random);
    sort_typed<7>(ByFirst{.descending = true}, random);
    sort_typed<16>(ByAll{}, random);
    sort_typed<100>(ByFirst{}, random);
    sort_typed<1000>(ByAll{}, random);
  }
}

RecordList random_list(std::size_t record_bytes, std::size_t count, std::mt19937_64& random) {
  return make_records(Shape::kRandom, record_bytes, count, random);
}

// A sorter whose records, of 24 bytes, do not fit in memory: several runs.
constexpr std::size_t kRecordBytes = 24;
SortResources small_options(const RunFolders& folders) {
  SortResources options;
  options.folders = folders.paths();
  options.memory_bytes = 512 << 10;
  return options;
}

void touch(const RecordSorter& sorter, std::size_t byte) {
  static_cast<void>(*const_cast<const volatile std::byte*>(sorter.data() + byte));
}

TEST(Sorter, AFewOrNoRecords) {
  for (std::size_t count = 0; count < 4; ++count) {
    auto random = test_random();
    const RunFolders folders(1);
    RecordSorter sorter(small_options(folders), RecordFormat(kRecordBytes));
    const RecordList list = random_list(kRecordBytes, count, random);
    sorter.push(list.bytes);
    sorter.sort();
    const RecordList expected = stably_sorted(FormatOrder(RecordFormat(kRecordBytes)), list);
    EXPECT_EQ(sorter.size(), count);
    EXPECT_EQ(sorter.data(), sorter.data());
    if (count > 0) {
      EXPECT_EQ(std::memcmp(sorter.data(), expected.bytes.data(), expected.bytes.size()), 0);
      EXPECT_EQ(sorter.data()[expected.bytes.size()], std::byte{0}) << "zeros follow";
    }
  }
}

TEST(Sorter, AReaderMayJumpForward) {
  auto random = test_random();
  const RunFolders folders(2);
  const FormatOrder order{RecordFormat(kRecordBytes)};
  const RecordList list = random_list(kRecordBytes, 60000, random);
  const RecordList expected = stably_sorted(order, list);
  RecordSorter sorter(small_options(folders), order.format());
  sorter.push(list.bytes);
  sorter.sort();
  ASSERT_GT(sorter.counts().runs, 1U);
  for (std::size_t i = 0; i < list.count(); i += 1 + random() % 5000) {
    ASSERT_EQ(std::memcmp(sorter.data() + i * kRecordBytes, expected.at(i), kRecordBytes), 0) << i;
  }
}

TEST(Sorter, SaysWhatItMayBeAskedFor) {
  auto random = test_random();
  const RunFolders folders(1);
  const RecordList list = random_list(kRecordBytes, 10, random);
  RecordSorter sorter(small_options(folders), RecordFormat(kRecordBytes));
  EXPECT_EQ(error_of([&] { sorter.data(); }), EINVAL);
  EXPECT_EQ(error_of([&] { sorter.stream(); }), EINVAL);
  EXPECT_EQ(error_of([&] { sorter.push(std::span(list.bytes).first(25)); }), EINVAL);
  EXPECT_EQ(sorter.size(), 0U);
  sorter.push(list.bytes);
  sorter.sort();
  EXPECT_EQ(error_of([&] { sorter.push(list.at(0)); }), EINVAL);
  EXPECT_EQ(error_of([&] { sorter.push(list.bytes); }), EINVAL);
  EXPECT_EQ(error_of([&] { sorter.sort(); }), EINVAL);
  EXPECT_EQ(sorter.size(), 10U);

  SortResources options = small_options(folders);
  const auto make = [&] { RecordSorter(options, RecordFormat(kRecordBytes)); };
  options.memory_bytes = 1000;
  EXPECT_EQ(error_of(make), ENOMEM);
  options = small_options(folders);
  options.folders = {"/proc/self/exe"};
  EXPECT_EQ(error_of(make), ENOTDIR);
  options.folders = {"/there is none"};
  EXPECT_EQ(error_of(make), ENOENT);
  options = small_options(folders);
  options.block_bytes = 12345;
  EXPECT_EQ(error_of(make), EINVAL);
  EXPECT_TRUE(fails([&] { ByteSorter(small_options(folders), nullptr); }, EINVAL, "an order"));
}

// Whichever request fails: its error comes out of push(), sort() or the reading, and nothing is
// left (RunFolders looks; the pool ends the process if a block is lost).
TEST(Sorter, EveryRequestMayFail) {
  auto random = test_random();
  const FormatOrder order{RecordFormat(kRecordBytes)};
  const RecordList list = random_list(kRecordBytes, 60000, random);
  const RecordList expected = stably_sorted(order, list);
  std::size_t round = 0;
  const auto sort_with = [&](const std::shared_ptr<FaultPlan>& faults) {
    const RunFolders folders(2);
    SortResources options = small_options(folders);
    options.memory_bytes = 400 << 10;
    options.threads = kThreadCounts[round++ % std::size(kThreadCounts)];
    options.open_disk = sort_disks(Backend::kThreads, faults);
    RecordSorter sorter(options, order.format());
    bool right = true;
    const int error = error_of([&] {
      sorter.push(list.bytes);
      sorter.sort();
      guarded([&] {
        right = std::memcmp(sorter.data(), expected.bytes.data(), expected.bytes.size()) == 0;
      }).throw_if_failed();
      EXPECT_GT(sorter.counts().runs, 2U);
    });
    EXPECT_TRUE(right);
    if (error != 0) {  // it does not go on
      const int again = error_of([&] { sorter.push(list.at(0)); });
      EXPECT_TRUE(again == ENOTRECOVERABLE || again == EINVAL) << again;
    }
    return error;
  };
  for (const Operation operation : {Operation::kRead, Operation::kWrite}) {
    const auto all = counted(operation);
    ASSERT_EQ(sort_with(all), 0);
    const std::uint64_t step = long_tests() ? 1 : std::max<std::uint64_t>(all->attempts() / 25, 1);
    ASSERT_GT(all->attempts(), 20U);
    for (std::uint64_t k = random() % step; k < all->attempts(); k += step) {
      SCOPED_TRACE(k);
      const int error = operation == Operation::kWrite && k % 2 == 0 ? ENOSPC : EIO;
      EXPECT_EQ(sort_with(error_at(k, error, operation, error == ENOSPC)), error);
    }
  }
}

enum class Moment { kBeforePush, kAfterPush, kAfterSort, kWhileReading };

TEST(Sorter, MayGoAtAnyMoment) {
  auto random = test_random();
  const RecordList list = random_list(kRecordBytes, 60000, random);
  for (const std::size_t count : {list.count(), std::size_t{3000}}) {
    for (const Moment moment :
         {Moment::kBeforePush, Moment::kAfterPush, Moment::kAfterSort, Moment::kWhileReading}) {
      for (const unsigned threads : kThreadCounts) {
        const RunFolders folders(2);
        SortResources options = small_options(folders);
        options.threads = threads;
        options.open_disk = sort_disks(random() % 2 == 0 ? Backend::kUring : Backend::kThreads);
        RecordSorter sorter(options, RecordFormat(kRecordBytes));
        if (moment == Moment::kBeforePush) continue;
        sorter.push(std::span(list.bytes).first(count * kRecordBytes));
        if (moment == Moment::kAfterPush) continue;
        sorter.sort();
        if (moment == Moment::kAfterSort) continue;
        touch(sorter, count / 2 * kRecordBytes);
      }
    }
  }
}

// A request to stop ends it soon, wherever it is.
TEST(Sorter, CanBeStopped) {
  auto random = test_random();
  const std::size_t count = 200000;
  const RecordList list = random_list(kRecordBytes, count, random);
  std::array<unsigned, 3> stopped_in{};
  for (unsigned at = 0; at < 20; ++at) {
    SCOPED_TRACE(at);
    const RunFolders folders(1);
    std::stop_source stop;
    unsigned reports = 0;
    SortPhase last = SortPhase::kReading;
    SortResources options = small_options(folders);
    options.block_bytes = 64 << 10;
    options.memory_bytes = 1100 << 10;
    options.threads = kThreadCounts[at % std::size(kThreadCounts)];
    options.stop = stop.get_token();
    options.progress = [&](const SortProgress& now) {
      last = now.phase;
      if (reports++ == at) stop.request_stop();
    };
    const int error = error_of([&] {
      RecordSorter sorter(options, RecordFormat(kRecordBytes));
      sorter.push(list.bytes);
      sorter.sort();
      guarded([&] {
        for (std::size_t i = 0; i < count; ++i) touch(sorter, i * kRecordBytes);
      }).throw_if_failed();
    });
    EXPECT_EQ(error, reports > at ? ECANCELED : 0);
    if (reports > at) ++stopped_in[static_cast<std::size_t>(last)];
  }
  EXPECT_GT(stopped_in[0], 0U);
  EXPECT_GT(stopped_in[1], 0U);
  EXPECT_GT(stopped_in[2], 0U);
}

TEST(Sorter, TellsHowFarItIs) {
  auto random = test_random();
  const RunFolders folders(1);
  const RecordList list = random_list(kRecordBytes, 300000, random);
  SortResources options = small_options(folders);
  std::array<std::uint64_t, 3> bytes{};
  options.progress = [&](const SortProgress& now) {
    auto& seen = bytes[static_cast<std::size_t>(now.phase)];
    if (now.phase != SortPhase::kMerging) {
      EXPECT_GE(now.bytes, seen);
    }
    seen = now.bytes;
    if (now.phase == SortPhase::kWriting) {
      EXPECT_EQ(now.phase_bytes, list.bytes.size());
    }
  };
  {
    RecordSorter sorter(options, RecordFormat(kRecordBytes));
    sorter.push(list.bytes);
    sorter.sort();
    touch(sorter, list.bytes.size() - 1);
  }
  EXPECT_GE(bytes[0] + SortWatch::kNoteBytes, list.bytes.size());
  EXPECT_GE(bytes[2] + SortWatch::kNoteBytes, list.bytes.size());
}

// An exception of the progress function comes out of the call, or is the failure of the array.
TEST(Sorter, ProgressMayThrow) {
  auto random = test_random();
  const RecordList list = random_list(kRecordBytes, 300000, random);
  std::size_t round = 0;
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting, SortPhase::kReading,
                                SortPhase::kWriting, SortPhase::kReading, SortPhase::kWriting}) {
    const RunFolders folders(1);
    SortResources options = small_options(folders);
    options.threads = kThreadCounts[round++ % std::size(kThreadCounts)];
    options.progress = [&](const SortProgress& now) {
      if (now.phase == phase && now.bytes > 0) throw std::runtime_error("enough");
    };
    RecordSorter sorter(options, RecordFormat(kRecordBytes));
    std::string what;
    try {
      sorter.push(list.bytes);
      sorter.sort();
      guarded([&] { touch(sorter, list.bytes.size() - 1); }).throw_if_failed();
    } catch (const std::exception& error) {
      what = error.what();
    }
    EXPECT_NE(what.find("enough"), std::string::npos) << what;
  }
}

TEST(Sorter, SeveralWorkSideBySide) {
  run_together(3, [](std::size_t thread) {
    auto random = test_random(thread + 1);
    const RunFolders folders(1);
    const FormatOrder order{RecordFormat(kRecordBytes)};
    const RecordList list = random_list(kRecordBytes, 40000, random);
    RecordSorter sorter(small_options(folders), order.format());
    sorter.push(list.bytes);
    sorter.sort();
    const RecordList expected = stably_sorted(order, list);
    EXPECT_EQ(std::memcmp(sorter.data(), expected.bytes.data(), expected.bytes.size()), 0);
  });
}

// One sorter reads what another one has sorted, straight from its array.
TEST(Sorter, TakesWhatAnotherOneGives) {
  auto random = test_random();
  const RunFolders folders(2);
  const FormatOrder forwards{RecordFormat(kRecordBytes)};
  const FormatOrder backwards(forwards.format().reversed());
  const RecordList list = random_list(kRecordBytes, 60000, random);
  RecordSorter first(small_options(folders), forwards.format());
  first.push(list.bytes);
  first.sort();
  RecordSorter second(small_options(folders), backwards.format());
  second.push(std::span(first.data(), list.bytes.size()));
  second.sort();
  const RecordList expected = stably_sorted(backwards, stably_sorted(forwards, list));
  EXPECT_EQ(std::memcmp(second.data(), expected.bytes.data(), expected.bytes.size()), 0);
}

// What comes at once is put to buckets by all threads: nothing sorts meanwhile, and none of them
// goes on before all have a record. Who pushes puts the first ones alone.
TEST(Sorter, PartitionsByAllThreads) {
  auto random = test_random();
  const RunFolders folders(1);
  // Batches end with blocks.
  constexpr std::size_t kBlock = std::size_t{2} << 20, kFirst = std::size_t{1} << 15;
  constexpr std::size_t kAll = 3 * kBlock / sizeof(KeyAndValue);
  std::vector<KeyAndValue> memory(kAll + kBlock / sizeof(KeyAndValue));
  KeyAndValue* first = memory.data();
  while (reinterpret_cast<std::uintptr_t>(first) % kBlock != 0) ++first;
  const std::span records(first, kAll);
  for (KeyAndValue& record : records) record = {random(), 0};
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    SCOPED_TRACE(threads);
    std::atomic<TeamCounts*> counts = nullptr;
    const auto key = [&](const KeyAndValue& record) {
      thread_local unsigned counted = 0;  // the number of threads that this one was counted for
      TeamCounts* const to = counts;
      if (to != nullptr && std::exchange(counted, threads) != threads) to->add(1);
      return record.key;
    };
    SortResources options;
    options.folders = folders.paths();
    options.threads = threads;
    options.memory_bytes = std::uint64_t{threads > 16 ? 2U : 1U} << 30;
    options.block_bytes = kBlock;
    const ByKey by_key(key);
    Sorter<KeyAndValue, std::remove_const_t<decltype(by_key)>> sorter(options, by_key);
    EXPECT_EQ(sorter.plan().partition_threads, threads);
    sorter.push(records.first(kFirst));
    TeamCounts partitioners(threads);
    counts = &partitioners;
    sorter.push(records.subspan(kFirst));
    counts = nullptr;
    EXPECT_EQ(partitioners.of_threads().size(), threads);
  }
}

// The failure of an array that is pushed is thrown, and the sorter can only go.
TEST(Sorter, WhatIsPushedMayFail) {
  auto random = test_random();
  const RunFolders folders(2);
  const RecordList list = random_list(kRecordBytes, 60000, random);
  // The last read, which the last merge does.
  const auto reads = counted(Operation::kRead);
  SortResources options = small_options(folders);
  options.open_disk = sort_disks(Backend::kThreads, reads);
  {
    RecordSorter whole(options, RecordFormat(kRecordBytes));
    whole.push(list.bytes);
    whole.sort();
    touch(whole, list.bytes.size() - 1);
  }
  options.open_disk =
      sort_disks(Backend::kThreads, error_at(reads->attempts() - 1, EIO, Operation::kRead));
  RecordSorter first(options, RecordFormat(kRecordBytes));
  first.push(list.bytes);
  first.sort();
  RecordSorter second(small_options(folders), RecordFormat(kRecordBytes));
  std::string what;
  EXPECT_EQ(error_of([&] { second.push(std::span(first.data(), list.bytes.size())); }, &what), EIO);
  // The first cause whole, and each thing said once.
  const std::regex whole(
      "stream 'sorted records \\(reader\\)': stream 'run \\d+': reading a temporary file in '.*' "
      "\\(block \\d+ of a run\\) at byte \\d+ \\(offset \\d+, block \\d+, window of blocks "
      "\\[\\d+, \\d+\\)\\) "
      "\\(offset \\d+, block \\d+, window of blocks \\[\\d+, \\d+\\)\\): Input/output error");
  EXPECT_TRUE(std::regex_match(what, whole)) << what;
  EXPECT_TRUE(fails([&] { second.sort(); }, ENOTRECOVERABLE));
}

}  // namespace

}  // namespace vortex::test::sorter_test
