// Sorters of what is pushed, on a disk of runs that says that all went well, and has other bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "study/fault_plan.h"
#include "tests/disk/test_disk.h"
#include "tests/sort/pushed_sorts.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/sorter.h"
#include "vortex/stream.h"

namespace vortex::test::sorter_lies_test { namespace {

// Records of a format, with the interface of pushed_sorts.h.
class PushedRecords {
 public:
  using Item = std::uint64_t;
  static Item item_of(std::uint64_t number) { return number; }

  explicit PushedRecords(const SortResources& resources)
      : sorter_(resources, RecordFormat(8, {parse_record_key("0:8:u64")})) {}
  void push(Item item) { sorter_.push(std::as_bytes(std::span(&item, 1))); }
  void sort() {
    sorter_.sort();
    next_ = sorter_.data();
  }
  std::optional<Item> next() {
    if (given_ == sorter_.size()) return {};
    Item item = 0;
    std::memcpy(&item, next_, sizeof item);
    next_ += sizeof item;
    ++given_;
    return item;
  }

 private:
  RecordSorter sorter_;
  const std::byte* next_ = nullptr;
  std::uint64_t given_ = 0;
};

template <typename Kind>
class PushedOnDisks : public ::testing::Test {
 protected:
  using Item = typename Kind::Item;
  static constexpr std::size_t kItems = std::is_same_v<Kind, PushedLines> ? 60'000 : 150'000;

  PushedOnDisks() {
    resources_.folders = {folder_.path().string()};
    resources_.block_bytes = std::size_t{16} << 10;
    resources_.threads = 2;
    resources_.memory_bytes = least_memory([&](std::uint64_t bytes) {
      resources_.memory_bytes = bytes;
      const Kind sorter(resources_);
    });
    sorted_ = items_;
    put_in_order(sorted_);
  }

  // What goes in comes out in order; items that do not are counted, and in front of an error too.
  void sort() {
    Kind sorter(resources_);
    for (const Item& item : items_) sorter.push(item);
    guarded([&] {
      sorter.sort();
      for (const Item& item : sorted_) {
        const auto next = sorter.next();
        wrong_ += !next || *next != item;
      }
      wrong_ += sorter.next().has_value();
    }).throw_if_failed();
  }

  const TemporaryFolder folder_{fast_folder()};
  SortResources resources_;
  const std::vector<Item> items_ = random_items<Kind>(kItems);
  std::vector<Item> sorted_;
  std::size_t wrong_ = 0;
};

struct Name {
  template <typename Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, PushedRecords> ? "Records" : PushedName::GetName<Kind>(0);
  }
};
using Kinds = ::testing::Types<PushedNumbers, PushedRecords, PushedLines>;
TYPED_TEST_SUITE(PushedOnDisks, Kinds, Name);

TYPED_TEST(PushedOnDisks, ADiskThatLiesIsFoundOut) {
  auto random = test_random(1);
  unsigned found = 0;
  for (const Lie& lie : kLies) {
    this->resources_.compression =
        random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    const auto all = counted(lie.operation);
    this->resources_.open_disk = run_disks(all);
    this->sort();
    ASSERT_EQ(this->wrong_, 0U);
    const std::uint64_t requests = all->attempts();
    ASSERT_GT(requests, 8U);
    const std::uint64_t step = long_tests() ? 1 : std::max<std::uint64_t>(requests / 4, 1);
    for (std::uint64_t k = random() % step; k < requests; k += step) {
      SCOPED_TRACE(::testing::Message() << lie.name << ", " << k << " of " << requests);
      this->resources_.open_disk = run_disks(lie_at(k, lie, random));
      std::string message;
      const int error = error_of([&] { this->sort(); }, &message);
      EXPECT_EQ(this->wrong_, 0U) << message;
      if (error != 0) {
        ++found;
        EXPECT_TRUE(finds_out(error, message, lie));
      }
      if (this->HasFailure()) return;
    }
  }
  EXPECT_GT(found, 5U);
}

}  // namespace

}  // namespace vortex::test::sorter_lies_test
