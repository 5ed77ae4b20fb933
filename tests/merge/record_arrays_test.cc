// Arrays of records in memory: merged, and sorted on their way to an output.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/record_arrays.h"
#include "vortex/record_order.h"

namespace vortex::test::record_arrays_test { namespace {

// Records of one and two words, by words and not, longer ones by long and short keys, and one that
// is longer than a block of the merge.
struct Kind {
  std::size_t record_bytes;
  std::vector<RecordKey> keys;
  std::size_t most_records;
};
const std::vector<Kind> kKinds = {
    {8, {parse_record_key("0:8:u64")}, 60'000},
    {8, {parse_record_key("2:2")}, 60'000},
    {16, {parse_record_key("0:8:f64:desc")}, 30'000},
    {100, {parse_record_key("0:10")}, 5'000},
    {13, {parse_record_key("3:4:i32be"), parse_record_key("0:1")}, 20'000},
    {5, {}, 20'000},
    {300'000, {parse_record_key("299990:10")}, 5},
};

// Several lists as arrays at addresses of no alignment.
struct Arrays {
  template <typename Random>
  Arrays(const Kind& kind, Random& random) {
    const std::size_t count = random() % 9;
    for (std::size_t i = 0; i < count; ++i) {
      const Shape shape = kShapes[random() % std::size(kShapes)];
      const std::size_t records = random() % 4 == 0 ? random() % 3 : random() % kind.most_records;
      lists.push_back(make_records(shape, kind.record_bytes, records, random));
    }
  }

  // The lists one behind the other.
  RecordList joined() const {
    RecordList all{lists.empty() ? 1 : lists[0].record_bytes, {}};
    for (const RecordList& list : lists) {
      all.bytes.insert(all.bytes.end(), list.bytes.begin(), list.bytes.end());
    }
    return all;
  }
  std::vector<std::span<std::byte>> arrays() {
    std::vector<std::span<std::byte>> found;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      moved.push_back(std::make_unique<std::byte[]>(lists[i].bytes.size() + 8));
      std::byte* const begin = moved.back().get() + i % 8;
      std::ranges::copy(lists[i].bytes, begin);
      found.push_back({begin, lists[i].bytes.size()});
    }
    return found;
  }
  std::vector<MergeInput> inputs() {
    std::vector<MergeInput> found;
    for (const std::span<std::byte> array : arrays()) {
      found.push_back({array.data(), array.size() / lists[0].record_bytes});
    }
    return found;
  }

  std::vector<RecordList> lists;
  std::vector<std::unique_ptr<std::byte[]>> moved;
};

// Lists of numbers of 1 to 3, in which nothing but the place tells equal ones apart.
template <typename Random>
void make_few_keys(RecordList& list, const Kind& kind, Random& random) {
  if (random() % 3 != 0) return;
  for (std::size_t i = 0; i < list.count(); ++i) {
    for (const RecordKey& key : kind.keys) {
      std::byte* const at = list.bytes.data() + i * list.record_bytes + key.offset;
      std::memset(at, 0, key.length);
      *at = std::byte{static_cast<unsigned char>(random() % 3)};
    }
  }
}

template <typename Use>
void with_random_arrays(int rounds, const Use& use) {
  auto random = test_random();
  for (const Kind& kind : kKinds) {
    const auto order = order_of_format(RecordFormat(kind.record_bytes, kind.keys));
    for (int round = 0; round < rounds; ++round) {
      Arrays some(kind, random);
      for (RecordList& list : some.lists) make_few_keys(list, kind, random);
      SCOPED_TRACE(::testing::Message() << some.lists.size() << " arrays of records of "
                                        << kind.record_bytes << ", round " << round);
      use(*order, some, random);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(RecordArrays, AreMergedStably) {
  with_random_arrays(6, [](const RecordOrder& order, Arrays& some, auto& random) {
    for (RecordList& list : some.lists) list = stably_sorted(order, list);
    const RecordList expected = stably_sorted(order, some.joined());
    std::vector<std::byte> merged(expected.bytes.size());
    ArrayOutput out(merged, order.record_bytes());
    merge_arrays(order, some.inputs(), out, 1 + random() % 3);
    EXPECT_EQ(out.bytes(), merged.size());
    EXPECT_TRUE(merged == expected.bytes);
  });
}

// The result has each record once, in any order. Most arrays have a few records out of order; the
// others are not sorted at all. There may be so many that slices of them are sorted.
TEST(RecordArrays, WhatIsNotSortedIsMergedInAnyOrder) {
  with_random_arrays(4, [](const RecordOrder& order, Arrays& some, auto& random) {
    const auto whole = order_of_format(RecordFormat(order.record_bytes()));
    while (!some.lists.empty() && some.lists.size() < 40 && random() % 20 != 0) {
      some.lists.push_back(some.lists[random() % some.lists.size()]);
    }
    for (RecordList& list : some.lists) {
      if (random() % 4 == 0 || list.count() == 0) continue;
      const RecordList mixed = list;
      list = stably_sorted(order, list);
      for (std::size_t wrong = random() % 9; wrong > 0; --wrong) {
        std::memcpy(list.bytes.data() + random() % list.count() * list.record_bytes,
                    mixed.at(random() % list.count()), list.record_bytes);
      }
    }
    const RecordList expected = stably_sorted(*whole, some.joined());
    RecordList merged{order.record_bytes(), std::vector<std::byte>(expected.bytes.size())};
    ArrayOutput out(merged.bytes, order.record_bytes());
    merge_arrays(order, some.inputs(), out, 1 + random() % 3);
    EXPECT_EQ(out.bytes(), merged.bytes.size());
    EXPECT_TRUE(stably_sorted(*whole, merged).bytes == expected.bytes);
  });
}

TEST(RecordArrays, AreSortedStably) {
  with_random_arrays(6, [](const RecordOrder& order, Arrays& some, auto&) {
    const RecordList expected = stably_sorted(order, some.joined());
    std::vector<std::byte> sorted(expected.bytes.size());
    ArrayOutput out(sorted, order.record_bytes());
    const std::vector<std::span<std::byte>> arrays = some.arrays();
    sort_arrays(order, arrays, out);
    EXPECT_TRUE(sorted == expected.bytes);
    if (arrays.size() < 2) return;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(some.lists[i].bytes, arrays[i]));
    }
  });
}

TEST(RecordArrays, AreWrittenToADescriptor) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "merged";
  with_random_arrays(2, [&](const RecordOrder& order, Arrays& some, auto&) {
    for (RecordList& list : some.lists) list = stably_sorted(order, list);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    DescriptorOutput out(file, order.record_bytes());
    merge_arrays(order, some.inputs(), out, 1);
    out.flush();
    close(file);
    EXPECT_TRUE(read_file(path) == stably_sorted(order, some.joined()).bytes);
  });
}

// A descriptor that does not block takes a little at a time.
TEST(RecordArrays, AreWrittenToAPipeThatDoesNotBlock) {
  auto random = test_random();
  const auto order = order_of_format(RecordFormat(8));
  const RecordList list = stably_sorted(*order, make_records(Shape::kRandom, 8, 500'000, random));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, 0), 0);
  std::vector<std::byte> got;
  std::thread reader([&, room = std::vector<std::byte>(10'000)]() mutable {
    for (ssize_t bytes = 1; bytes > 0;) {
      bytes = read(ends[0], room.data(), room.size());
      got.insert(got.end(), room.begin(), room.begin() + std::max<ssize_t>(bytes, 0));
    }
  });
  DescriptorOutput out(ends[1], 8);
  const MergeInput inputs[] = {{list.bytes.data(), list.count()}};
  EXPECT_EQ(error_of([&] {
              merge_arrays(*order, inputs, out, 1);
              out.flush();
            }),
            0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(got == list.bytes);
}

// Where nobody reads any more the error says so, and no signal ends the process.
TEST(RecordArraysDeathTest, APipeWithoutAReaderIsAnError) {
  const auto body = [] {
    signal(SIGPIPE, SIG_DFL);
    int ends[2];
    if (pipe(ends) != 0 || close(ends[0]) != 0) return 1;
    DescriptorOutput out(ends[1], 8);
    std::memset(out.room(8).data(), 0, 8);
    out.written(8);
    return error_of([&] { out.flush(); }) == EPIPE ? 42 : 1;
  };
  EXPECT_EXIT(std::_Exit(body()), ::testing::ExitedWithCode(42), "");
}

TEST(RecordArrays, MistakesAreErrors) {
  const auto order = order_of_format(RecordFormat(8));
  std::vector<std::byte> records(80), room(79);
  const MergeInput ten[] = {{records.data(), 10}};
  ArrayOutput small(room, 8);
  EXPECT_EQ(error_of([&] { merge_arrays(*order, ten, small, 1); }), ENOBUFS);
  EXPECT_EQ(small.bytes(), 72U);
  const MergeInput endless[] = {{records.data(), ~std::uint64_t{0} / 4}};
  EXPECT_EQ(error_of([&] { merge_arrays(*order, endless, small, 1); }), EINVAL);
  const std::span<std::byte> more[] = {records, room};
  EXPECT_EQ(error_of([&] { sort_arrays(*order, more, small); }), EINVAL);
  std::vector<std::byte> many(1 << 20);
  const std::vector<std::span<std::byte>> too_many(4096, many);  // the same one again and again
  const auto order_of_bytes = order_of_format(RecordFormat(1));
  EXPECT_TRUE(fails([&] { sort_arrays(*order_of_bytes, too_many, small); }, EINVAL,
                    {"4096 arrays have 4294967296 records", "merge them"}));
  DescriptorOutput closed(-1, 8);
  merge_arrays(*order, ten, closed, 1);
  EXPECT_EQ(error_of([&] { closed.flush(); }), EBADF);
  const int full = open("/dev/full", O_WRONLY);
  DescriptorOutput nowhere(full, 8);
  merge_arrays(*order, ten, nowhere, 1);
  EXPECT_EQ(error_of([&] { nowhere.flush(); }), ENOSPC);
  close(full);
  EXPECT_EQ(error_of([] { DescriptorOutput(-1, 0); }), EINVAL);
  EXPECT_EQ(error_of([&] { ArrayOutput(room, 0).room(8); }), EINVAL);
}

}}  // namespace vortex::test::record_arrays_test
