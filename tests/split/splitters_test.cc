// Which part a record belongs to, against a count of the splitters that are not greater.
#include "sort/split/splitters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/split/partitions.h"
#include "vortex/detail/merge/record_kernels.h"

namespace vortex::test::splitters_test { namespace {

std::vector<std::uint32_t> found(Splitters& splitters, const RecordList& list) {
  std::vector<std::uint32_t> parts(list.count());
  splitters.find(list.bytes.data(), list.count(), parts.data());
  return parts;
}

void expect_counted(const RecordOrder& order, const RecordList& list, RecordList splitters) {
  Splitters tested(order, splitters.bytes);
  ASSERT_EQ(tested.parts(), splitters.count() + 1);
  const std::vector<std::uint32_t> parts = found(tested, list);
  for (std::size_t i = 0; i < list.count(); ++i) {
    std::uint32_t expected = 0;
    for (std::size_t s = 0; s < splitters.count(); ++s) {
      if (!order.less(list.at(i), splitters.at(s))) ++expected;
    }
    ASSERT_EQ(parts[i], expected) << "record " << i;
  }
}

TEST(Splitters, CountThoseNotGreater) {
  auto random = test_random();
  for (int round = 0; round < 200; ++round) {
    const std::size_t bytes = random_record_bytes(random);
    const FormatOrder order(random_format(bytes, random));
    const Shape shape = kShapes[random() % std::size(kShapes)];
    const RecordList list = make_records(shape, bytes, random() % 300, random);
    const RecordList some =
        make_records(kShapes[random() % std::size(kShapes)], bytes, random() % 70, random);
    RecordList splitters = stably_sorted(order, random() % 2 == 0 ? some : list);
    expect_counted(order, list, std::move(splitters));
  }
}

TEST(Splitters, OfAComparatorAreComparedWhole) {
  auto random = test_random();
  const auto less = [](const KeyAndValue& a, const KeyAndValue& b) { return a.key < b.key; };
  const detail::ComparatorOrder<KeyAndValue, decltype(less)> order(less);
  const RecordList list = make_records(Shape::kFewValues, 16, 1000, random);
  expect_counted(order, list, stably_sorted(order, make_records(Shape::kRandom, 16, 50, random)));
  expect_counted(order, list, stably_sorted(order, list));
}

TEST(Splitters, OutOfOrderAreRefused) {
  const FormatOrder order(RecordFormat(1, {}));
  const auto make = [&](std::uint8_t a, std::uint8_t b) {
    Splitters(order, {std::byte{a}, std::byte{b}});
  };
  EXPECT_TRUE(fails([&] { make(2, 1); }, EINVAL, "splitter 1 comes before"));
  make(1, 1);
}

TEST(Splitters, DivideAKeyByItsPlaceInTheInput) {
  const FormatOrder order(RecordFormat(1, {}));
  Splitters splitters(order, {std::byte{1}, std::byte{5}, std::byte{5}, std::byte{9}},
                      {{.first = 1, .ends = {2, 5}}});
  RecordList list{1, {}};
  for (const int value : {5, 0, 5, 5, 9, 4, 5, 5, 6, 5, 5}) list.bytes.push_back(std::byte(value));
  const std::vector<std::uint32_t> expected = {1, 0, 1, 2, 4, 1, 2, 2, 3, 3, 3};
  EXPECT_EQ(found(splitters, list), expected);
}

}  // namespace

}  // namespace vortex::test::splitters_test
