// Order, duplicates and checksums of records, whole and in parts, against plain loops over the
// same.
#include "cli/records/order_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/common/byte_size.h"
#include "cli/records/order_summary_json.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::cli::order_check_test { namespace {

// Records of few different bytes, so that ties and prefixes that are equal are frequent.
std::vector<std::byte> random_records(std::mt19937_64& random, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random() % 8 < 7 ? 0 : random() % 256);
  return data;
}

RecordFormat random_format(std::mt19937_64& random) {
  constexpr std::size_t kLengths[] = {1, 4, 8, 16, 17, 100, 300};
  const std::size_t record_bytes = kLengths[random() % 7];
  std::vector<RecordKey> keys;
  for (std::size_t i = 0; i < random() % 3; ++i) {
    RecordKey key{.offset = random() % record_bytes, .length = 0, .type = {}};
    key.length = 1 + random() % (record_bytes - key.offset);
    constexpr const char* kTypes[] = {"u64", "u64be", "i32", "f64", "u16be", "i64be"};
    const KeyType type = parse_key_type(kTypes[random() % 6], "");
    if (random() % 2 == 0 && key.offset + type.bytes <= record_bytes) {
      key.type = type;
      key.length = type.bytes;
    }
    key.descending = random() % 3 == 0;
    keys.push_back(key);
  }
  return RecordFormat(record_bytes, keys);
}

void sort_records(std::vector<std::byte>& data, const RecordFormat& format) {
  const std::size_t length = format.record_bytes();
  std::vector<std::vector<std::byte>> records;
  for (std::size_t at = 0; at < data.size(); at += length) {
    records.emplace_back(data.begin() + static_cast<std::ptrdiff_t>(at),
                         data.begin() + static_cast<std::ptrdiff_t>(at + length));
  }
  std::stable_sort(records.begin(), records.end(), [&](const auto& a, const auto& b) {
    return format.compare(a.data(), b.data()) < 0;
  });
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::memcpy(data.data() + i * length, records[i].data(), length);
  }
}

OrderSummary summary_of(const std::byte* records, std::size_t count, const RecordFormat& format,
                        std::mt19937_64& random) {
  OrderCheck check(format);
  while (count > 0) {
    const std::size_t now = std::min<std::size_t>(count, 1 + random() % 3000);
    check.add(records, now);
    records += now * format.record_bytes();
    count -= now;
  }
  return check.summary();
}

void expect_equal(const OrderSummary& found, const OrderSummary& expected) {
  EXPECT_EQ(found.records, expected.records);
  EXPECT_EQ(found.checksum, expected.checksum);
  EXPECT_EQ(found.duplicates, expected.duplicates);
  EXPECT_EQ(found.descents, expected.descents);
  EXPECT_EQ(found.first_descent, expected.first_descent);
  EXPECT_EQ(found.first, expected.first);
  EXPECT_EQ(found.last, expected.last);
}

TEST(OrderCheck, FindsWhatAPlainLoopFinds) {
  std::mt19937_64 random = test::test_random();
  for (int round = 0; round < 300; ++round) {
    const RecordFormat format = random_format(random);
    const std::size_t length = format.record_bytes();
    const std::size_t count = random() % 600;
    std::vector<std::byte> data = random_records(random, count * length);
    if (random() % 2 == 0) sort_records(data, format);
    OrderSummary expected;
    expected.records = count;
    for (std::size_t i = 1; i < count; ++i) {
      const int order = format.compare(&data[(i - 1) * length], &data[i * length]);
      if (order == 0) ++expected.duplicates;
      if (order > 0 && expected.descents++ == 0) expected.first_descent = i;
    }
    if (count > 0) {
      expected.first.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length));
      expected.last.assign(data.end() - static_cast<std::ptrdiff_t>(length), data.end());
    }
    const OrderSummary found = summary_of(data.data(), count, format, random);
    RecordChecksum plain(length);
    plain.add(data.data(), count);
    expected.checksum = plain.value();
    expect_equal(found, expected);
  }
}

TEST(OrderCheck, PartsJoinToTheWhole) {
  std::mt19937_64 random = test::test_random();
  for (int round = 0; round < 300; ++round) {
    const RecordFormat format = random_format(random);
    const std::size_t count = random() % 100;
    std::vector<std::byte> data = random_records(random, count * format.record_bytes());
    if (random() % 2 == 0) sort_records(data, format);
    OrderReport joined{.format = format, .files = {}, .summary = {}};
    for (std::size_t first = 0; first < count;) {
      const std::size_t now = std::min<std::size_t>(random() % 40, count - first);
      OrderReport part{.format = format, .files = {{"part", now}}, .summary = {}};
      part.summary = summary_of(data.data() + first * format.record_bytes(), now, format, random);
      part = order_report_from_json(to_json(part), "part");
      EXPECT_TRUE(part.format == format);
      joined.summary = join(format, joined.summary, part.summary);
      first += now;
    }
    expect_equal(joined.summary, summary_of(data.data(), count, format, random));
  }
}

TEST(RecordChecksum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random = test::test_random();
  for (const std::size_t length : {1, 4, 7, 8, 16, 100, 241, 1000}) {
    std::vector<std::byte> data(50 * length);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    const auto sum_in_order = [&](const std::vector<std::size_t>& order) {
      RecordChecksum checksum(length);
      for (const std::size_t i : order) checksum.add(&data[i * length], 1);
      return checksum.value();
    };
    std::vector<std::size_t> order(50);
    std::iota(order.begin(), order.end(), 0);
    RecordChecksum at_once(length);
    at_once.add(data.data(), 50);
    EXPECT_EQ(sum_in_order(order), at_once.value());
    std::shuffle(order.begin(), order.end(), random);
    EXPECT_EQ(sum_in_order(order), at_once.value());
    // But on every bit, and on how often a record is there.
    const std::size_t at = random() % data.size();
    data[at] ^= static_cast<std::byte>(1U << random() % 8);
    EXPECT_NE(sum_in_order(order), at_once.value());
    data[at] ^= std::byte{0xff};
    order.push_back(0);
    EXPECT_NE(sum_in_order(order), at_once.value());
  }
}

TEST(RecordChecksum, TextIsSixteenDigits) {
  EXPECT_EQ(checksum_text(0x12ab), "00000000000012ab");
  EXPECT_EQ(parse_checksum("00000000000012ab"), 0x12abU);
  EXPECT_THROW(parse_checksum("12ab"), Error);
  EXPECT_THROW(parse_checksum("00000000000012ag"), Error);
}

TEST(OrderReport, RefusesWhatIsNoSummary) {
  const RecordFormat format(4);
  OrderCheck check(format);
  const std::byte record[8] = {};
  check.add(record, 2);
  const std::string good =
      to_json({.format = format, .files = {{"a", 2}}, .summary = check.summary()});
  EXPECT_NO_THROW(order_report_from_json(good, "x"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string("[]"), std::string("{}"), good.substr(0, good.size() / 2),
        with("vortex check", "vortex gen"), with("\"records\": 2", "\"records\": 3"),
        with("\"duplicates\": 1", "\"duplicates\": \"1\""), with("00000000", "000000"),
        with("0:4:bytes", "0:5:bytes"), with("\"descents\": 0", "\"descents\": 1")}) {
    const std::string refusal = test::message_of_error([&] { order_report_from_json(bad, "'x'"); });
    EXPECT_TRUE(refusal.starts_with("'x' is no summary")) << bad << refusal;
  }
}

TEST(ByteSize, UnderstandsUnits) {
  EXPECT_EQ(parse_size("0", "x"), 0U);
  EXPECT_EQ(parse_size("17", "x"), 17U);
  EXPECT_EQ(parse_size("3k", "x"), 3072U);
  EXPECT_EQ(parse_size("3K", "x"), 3072U);
  EXPECT_EQ(parse_size("3KiB", "x"), 3072U);
  EXPECT_EQ(parse_size("3kB", "x"), 3000U);
  EXPECT_EQ(parse_size("2M", "x"), std::uint64_t{2} << 20);
  EXPECT_EQ(parse_size("2GB", "x"), 2'000'000'000U);
  EXPECT_EQ(parse_size("5TiB", "x"), std::uint64_t{5} << 40);
  for (const char* bad :
       {"", "k", "1.5G", "-1", "1 k", "1kk", "99999999999999999999", "99999999999T"}) {
    EXPECT_THROW(parse_size(bad, "x"), Error) << bad;
  }
}

}  // namespace

}  // namespace vortex::cli::order_check_test
