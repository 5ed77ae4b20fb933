// The memory that calls on arrays take besides their arrays is what their headers say.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/array/array_inputs.h"
#include "tests/support/child_peak.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/array_calls.h"

namespace vortex::test::array_memory_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kCount = std::size_t{1} << 21;
// What the sort of an array takes (sort.h), and whole huge pages.
constexpr std::uint64_t kSort = 9 * kMiB;

struct Wide {
  std::uint64_t part[3];
};

// Arrays that are touched before a call.
struct Arrays {
  explicit Arrays(ArrayShape shape) {
    auto random = test_random();
    keys = numbers_of<std::uint64_t>(shape, kCount, random);
  }
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> places = std::vector<std::uint64_t>(kCount, 1);
  std::vector<std::uint32_t> narrow = std::vector<std::uint32_t>(kCount, 1);
  std::vector<Wide> wide = std::vector<Wide>(kCount, Wide{{1, 1, 1}});
};

constexpr SortOptions kAlone{.threads = 1};

struct Case {
  const char* name;
  ArrayShape shape;
  std::uint64_t least_bytes;  // of a key: or else it is not the memory that is measured
  std::uint64_t bytes;        // of a key
  std::function<void(Arrays&)> call;
};

// What the child's peak is above that of a child that makes the arrays alone.
class ArrayMemory : public testing::TestWithParam<Case> {};

TEST_P(ArrayMemory, IsWhatTheHeaderSays) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
  const Case& tried = GetParam();
  test_seed();  // the children have the parent's
  const std::uint64_t without = peak_beyond_start([&] { const Arrays arrays(tried.shape); });
  const std::uint64_t with = peak_beyond_start([&] {
    Arrays arrays(tried.shape);
    tried.call(arrays);
  });
  const std::uint64_t extra = with - std::min(with, without);
  EXPECT_LE(extra, tried.bytes * kCount + kSort) << extra / kMiB << " MiB";
  EXPECT_GE(extra, tried.least_bytes * kCount) << extra / kMiB << " MiB";
}

const Case kCases[] = {
    {"PlacesOf64Bits", ArrayShape::kUniform, 0, 0,
     [](Arrays& a) {
       argsort_into(std::span<const std::uint64_t>(a.keys), std::span(a.places), kAlone);
     }},
    {"PlacesOf32Bits", ArrayShape::kUniform, 7, 8,
     [](Arrays& a) {
       argsort_into(std::span<const std::uint64_t>(a.keys), std::span(a.narrow), kAlone);
     }},
    {"PlacesOfKeysThatAgree", ArrayShape::kZipf, 15, 16,
     [](Arrays& a) {
       argsort_into(std::span<const std::uint64_t>(a.keys), std::span(a.narrow), kAlone);
     }},
    {"RecordsIntoAnotherArray", ArrayShape::kUniform, 1, 2,
     [](Arrays& a) {
       // A quarter of as many, of 48 bytes, which take 8 each.
       using Wider = std::array<Wide, 2>;
       constexpr std::size_t kRecords = kCount / 4;
       auto* const records = reinterpret_cast<Wider*>(a.wide.data());
       for (std::size_t i = 0; i < kRecords; ++i) records[i][0].part[0] = a.keys[i];
       sort_into(
           std::span<const Wider>(records, kRecords), std::span(records + kRecords, kRecords),
           [](const Wider& record) { return record[0].part[0]; }, kAlone);
     }},
    {"ValuesThatAreCarried", ArrayShape::kUniform, 15, 16,
     [](Arrays& a) { sort_by_key(kAlone, a.keys, a.places); }},
    {"ValuesThatAreFetched", ArrayShape::kUniform, 15, 16,
     [](Arrays& a) { sort_by_key(kAlone, a.keys, a.places, a.narrow); }},
    {"WideValues", ArrayShape::kUniform, 31, 32,
     [](Arrays& a) { sort_by_key(kAlone, a.keys, a.wide, a.narrow); }},
    {"ValuesOfKeysThatAgree", ArrayShape::kZipf, 23, 32,
     [](Arrays& a) { sort_by_key(kAlone, a.keys, a.places, a.narrow); }},
    {"Select", ArrayShape::kUniform, 0, 1, [](Arrays& a) { select(a.keys, kCount / 2, kAlone); }},
    {"SelectAmongEqual", ArrayShape::kFew, 0, 1,
     [](Arrays& a) { select(a.keys, kCount / 2, kAlone); }},
    {"FirstFew", ArrayShape::kReversed, 0, 1,
     [](Arrays& a) { partial_sort(a.keys, 1000, kAlone); }},
    {"FirstThird", ArrayShape::kUniform, 0, 1,
     [](Arrays& a) { partial_sort(a.keys, kCount / 3, kAlone); }},
    {"FirstThirdOfRecords", ArrayShape::kUniform, 12, 20,
     [](Arrays& a) {
       partial_sort(
           a.wide, kCount / 3, [](const Wide& wide) { return wide.part[0]; }, kAlone);
     }},
    {"Chunks", ArrayShape::kUniform, 7, 8,
     [](Arrays& a) {
       const std::span all(a.keys);
       sort_chunks(std::vector{all.first(kCount / 2), all.subspan(kCount / 2)}, kAlone);
     }},
    {"Unique", ArrayShape::kZipf, 0, 0, [](Arrays& a) { sort_unique(a.keys, kAlone); }},
};
INSTANTIATE_TEST_SUITE_P(, ArrayMemory, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace

}  // namespace vortex::test::array_memory_test
