// Keys of records: what is understood, what is refused, and the order against the types' own.
#include "vortex/record_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/array/number_order.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::record_format_test { namespace {

TEST(RecordKey, ParsesWhatItPrints) {
  for (const char* text : {"0:10:bytes", "3:1:u8", "8:2:u16le", "8:4:u32be:desc", "0:8:u64le",
                           "1:1:i8:desc", "2:2:i16be", "7:4:i32le", "9:8:i64be", "0:4:f32le",
                           "0:8:f64be:desc", "5:1000:bytes:desc"}) {
    EXPECT_EQ(to_string(parse_record_key(text)), text);
  }
}

TEST(RecordKey, FillsInDefaults) {
  EXPECT_EQ(to_string(parse_record_key("2:7")), "2:7:bytes");
  EXPECT_EQ(to_string(parse_record_key("2:7:desc")), "2:7:bytes:desc");
  EXPECT_EQ(to_string(parse_record_key("0:4:u32")), "0:4:u32le");
  EXPECT_EQ(to_string(parse_record_key("0:1:u8be")), "0:1:u8");
}

TEST(RecordKey, RefusesWithTheKeyAndTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "OFFSET:LENGTH"},
      {"5", "OFFSET:LENGTH"},
      {"1:2:u16:desc:x", "OFFSET:LENGTH"},
      {"x:4", "the offset 'x'"},
      {":4", "the offset ''"},
      {"-1:4", "the offset '-1'"},
      {"0:4x", "the length '4x'"},
      {"0:0", "the length is 0"},
      {"0:99999999999999999999", "the length is too large"},
      {"0:4:u33", "no type 'u33'"},
      {"0:4:le", "no type 'le'"},
      {"0:4:desc:u32", "'u32'"},
      {"0:4:u64", "u64le has 8 bytes"},
      {"0:2:i8", "i8 has 1 byte"},
  };
  for (const auto& [text, reason] : cases) {
    const std::string refusal = test::message_of_error([key = text] { parse_record_key(key); });
    EXPECT_TRUE(test::contains(refusal, "key '" + text + "'"));
    EXPECT_TRUE(test::contains(refusal, reason));
  }
}

TEST(RecordFormat, RefusesKeysThatLieOutside) {
  const auto refused = [](std::size_t record_bytes, const std::string& key) {
    return test::message_of_error([&] { RecordFormat(record_bytes, {parse_record_key(key)}); });
  };
  EXPECT_EQ(refused(100, "90:10"), "");
  EXPECT_TRUE(test::contains(refused(100, "91:10"),
                             "10 bytes from byte 91 on do not lie inside a record of 100 bytes"));
  EXPECT_NE(refused(100, "18446744073709551615:2"), "");
  EXPECT_NE(refused(0, "0:1"), "");
  EXPECT_EQ(refused(kMaxRecordBytes, "0:1"), "");
  EXPECT_NE(refused(kMaxRecordBytes + 1, "0:1"), "");
}

TEST(RecordFormat, RefusesNumbersThatThereAreNot) {
  for (const KeyKind kind : {KeyKind::kUnsigned, KeyKind::kSigned, KeyKind::kFloat}) {
    for (std::size_t bytes = 0; bytes <= 40; ++bytes) {
      const bool there_is =
          bytes == 4 || bytes == 8 || (kind != KeyKind::kFloat && (bytes == 1 || bytes == 2));
      for (const ByteOrder order : {ByteOrder::kLittleEndian, ByteOrder::kBigEndian}) {
        const RecordKey key{.offset = 0, .length = bytes, .type = {kind, bytes, order}};
        EXPECT_EQ(test::error_of([&] { RecordFormat(64, {key}); }), there_is ? 0 : EINVAL)
            << to_string(key);
      }
    }
  }
}

// A record that holds one value, which the oracle compares as the type it is.
template <typename T>
std::vector<std::byte> record_of(T value, bool big_endian) {
  std::vector<std::byte> record(sizeof(T) + 3, std::byte{0x5a});
  std::memcpy(record.data() + 3, &value, sizeof value);
  if (big_endian) std::reverse(record.begin() + 3, record.end());
  return record;
}

template <typename T>
class NumberOrder : public ::testing::Test {};
using Numbers =
    ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                     std::int16_t, std::int32_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(NumberOrder, Numbers);

TYPED_TEST(NumberOrder, IsTheTypesOwn) {
  using T = TypeParam;
  std::mt19937_64 random = test::test_random();
  std::vector<T> values = {T{0}, T{1}, std::numeric_limits<T>::lowest(),
                           std::numeric_limits<T>::max(), static_cast<T>(-1)};
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    values.insert(values.end(), {-T{0}, Limits::infinity(), -Limits::infinity(),
                                 Limits::denorm_min(), -Limits::denorm_min(), Limits::quiet_NaN(),
                                 std::copysign(Limits::quiet_NaN(), T{-1})});
  }
  while (values.size() < 60) {
    const std::uint64_t bits = random();
    T value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  const std::string kind = std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u";
  for (const bool big_endian : {false, true}) {
    for (const bool descending : {false, true}) {
      const RecordFormat format(
          sizeof(T) + 3,
          {parse_record_key("3:" + std::to_string(sizeof(T)) + ":" + kind +
                            std::to_string(8 * sizeof(T)) + (big_endian ? "be" : "le") +
                            (descending ? ":desc" : ""))});
      for (const T left : values) {
        for (const T right : values) {
          const auto a = record_of(left, big_endian);
          const auto b = record_of(right, big_endian);
          const bool less = test::belongs_before(left, right);
          const bool greater = test::belongs_before(right, left);
          const int order = format.compare(a.data(), b.data());
          ASSERT_EQ(order < 0, descending ? greater : less) << +left << " and " << +right;
          ASSERT_EQ(order > 0, descending ? less : greater) << +left << " and " << +right;
          const std::uint64_t left_bits = format.leading_bits(a.data());
          const std::uint64_t right_bits = format.leading_bits(b.data());
          ASSERT_TRUE(format.leading_bits_decide());
          ASSERT_EQ(left_bits < right_bits, order < 0) << +left << " and " << +right;
          ASSERT_EQ(left_bits == right_bits, order == 0) << +left << " and " << +right;
        }
      }
    }
  }
}

// Several keys of bytes and unsigned big-endian integers, whose order std::string has as well.
TEST(RecordFormat, SeveralKeysCountInTurn) {
  std::mt19937_64 random = test::test_random();
  for (int round = 0; round < 200; ++round) {
    const std::size_t record_bytes = 1 + random() % 40;
    std::vector<RecordKey> keys;
    for (std::size_t i = 0; i < 1 + random() % 4; ++i) {
      const std::size_t offset = random() % record_bytes;
      keys.push_back({.offset = offset,
                      .length = 1 + random() % (record_bytes - offset),
                      .type = {},
                      .descending = random() % 2 == 0});
    }
    const RecordFormat format(record_bytes, keys);
    std::vector<std::string> records(20, std::string(record_bytes, 'a'));
    for (std::string& record : records) {
      for (char& c : record) c = static_cast<char>(random() % 3 * 127);  // ties are frequent
    }
    const auto bytes_of = [](const std::string& text) {
      return reinterpret_cast<const std::byte*>(text.data());
    };
    for (const std::string& a : records) {
      for (const std::string& b : records) {
        int expected = 0;
        for (const RecordKey& key : keys) {
          if (expected != 0) break;
          expected = a.substr(key.offset, key.length).compare(b.substr(key.offset, key.length));
          if (key.descending) expected = -expected;
        }
        const int order = format.compare(bytes_of(a), bytes_of(b));
        ASSERT_EQ(order < 0, expected < 0);
        ASSERT_EQ(order > 0, expected > 0);
        const int reverse = format.reversed().compare(bytes_of(a), bytes_of(b));
        ASSERT_EQ(reverse<0, expected> 0);
        std::vector<std::byte> left(format.normalised_bytes());
        std::vector<std::byte> right(format.normalised_bytes());
        format.normalise(bytes_of(a), left.data());
        format.normalise(bytes_of(b), right.data());
        const int normalised = std::memcmp(left.data(), right.data(), left.size());
        ASSERT_EQ(normalised < 0, expected < 0);
        ASSERT_EQ(normalised > 0, expected > 0);
        if (format.leading_bits(bytes_of(a)) < format.leading_bits(bytes_of(b))) {
          ASSERT_LT(expected, 0);
        }
        if (format.leading_bits_decide() && expected == 0) {
          ASSERT_EQ(format.leading_bits(bytes_of(a)), format.leading_bits(bytes_of(b)));
        }
      }
    }
  }
}

TEST(RecordFormat, EncodedNumbersHaveAnInverse) {
  std::mt19937_64 random = test::test_random();
  for (const char* name : {"u8", "i8", "u16be", "i32", "f32", "i64", "f64", "u64"}) {
    const KeyType type = parse_key_type(name, "");
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t word = random() << (64 - 8 * type.bytes);
      for (const bool descending : {false, true}) {
        const auto encoder = key_encoder({0, type.bytes, type, descending});
        EXPECT_EQ(encoder.decode(encoder.encode(word)), word) << name;
      }
    }
  }
}

}  // namespace

}  // namespace vortex::record_format_test
