#include "vortex/record_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/support/random_seed.h"
#include "vortex/detail/merge/record_kernels.h"

namespace vortex { namespace {

using namespace detail;

static_assert(OrderRules<FormatRules>);
static_assert(OrderRules<ComparatorRules<std::uint64_t>>);

// Every type in both directions, alone and followed by another key, against the format itself.
TEST(RecordOrder, FormatOrderAgreesWithTheFormat) {
  auto random = test::test_random();
  const std::vector<std::string> first = {"3:8:u64",   "3:8:u64be", "3:8:i64", "3:8:i64be",
                                          "3:8:f64",   "3:8:f64be", "3:8",     "3:10",
                                          "3:7",       "3:1",       "3:4:u32", "3:4:f32",
                                          "3:4:i32be", "3:4:f32be", "3:2:i16", "3:1:i8"};
  for (const std::string& text : first) {
    for (const char* direction : {"", ":desc"}) {
      for (const bool second : {false, true}) {
        const std::string type =
            *direction != 0 && text.find_first_of("uif") == std::string::npos ? ":bytes" : "";
        std::vector<RecordKey> keys = {parse_record_key(text + type + direction)};
        if (second) keys.push_back(parse_record_key("0:2"));
        const RecordFormat format(13, keys);
        const FormatOrder order(format);
        SCOPED_TRACE(to_string(format));
        EXPECT_EQ(order.record_bytes(), 13u);
        EXPECT_EQ(order.leading_bits_decide(), format.leading_bits_decide());
        std::byte a[13], b[13];
        for (int i = 0; i < 500; ++i) {
          const unsigned mask = i % 2 == 0 ? 0xff : 0x81;
          for (auto* record : {a, b}) {
            for (std::size_t at = 0; at < 13; ++at) {
              record[at] = static_cast<std::byte>(random() & mask);
            }
          }
          if (i % 3 == 0) std::memcpy(b + 3, a + 3, 10);
          ASSERT_EQ(order.leading_bits(a), format.leading_bits(a));
          ASSERT_EQ(order.less(a, b), format.compare(a, b) < 0);
          ASSERT_EQ(order.less(b, a), format.compare(b, a) < 0);
        }
      }
    }
  }
}

TEST(RecordOrder, ComparatorOrderReadsRecordsAtAnyAddress) {
  struct Pair {
    std::uint64_t key;
    std::uint64_t value;
  };
  const auto by_key = [](const Pair& a, const Pair& b) { return a.key > b.key; };
  const ComparatorOrder<Pair, decltype(by_key)> order(by_key);
  EXPECT_EQ(order.record_bytes(), 16u);
  EXPECT_FALSE(order.leading_bits_decide());
  alignas(16) std::byte bytes[64];
  for (std::size_t shift = 0; shift < 16; ++shift) {
    const Pair small{1, 9}, large{2, 3};
    std::memcpy(bytes + shift, &small, sizeof small);
    std::memcpy(bytes + shift + 17, &large, sizeof large);
    EXPECT_EQ(order.leading_bits(bytes + shift), order.leading_bits(bytes + shift + 17));
    EXPECT_FALSE(order.less(bytes + shift, bytes + shift + 17));
    EXPECT_TRUE(order.less(bytes + shift + 17, bytes + shift));
  }
}

}  // namespace

}  // namespace vortex
