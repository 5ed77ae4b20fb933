// Generated records: the same for any division into parts, and distributed as promised.
#include "cli/records/record_generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::cli::record_generator_test { namespace {

constexpr std::array kNumberDistributions = {Distribution::kUniform,      Distribution::kZipf,
                                             Distribution::kSorted,       Distribution::kReversed,
                                             Distribution::kNearlySorted, Distribution::kOrganPipe,
                                             Distribution::kFew,          Distribution::kEqual};

RecordGeneratorOptions what(const std::string& form, Distribution distribution,
                            std::uint64_t records, std::uint64_t seed = 1) {
  return {.form = parse_record_form(form),
          .distribution = distribution,
          .records = records,
          .seed = seed};
}

std::vector<std::byte> whole(const RecordGeneratorOptions& options) {
  const RecordGenerator generator(options);
  std::vector<std::byte> data(options.records * generator.record_bytes());
  generator.write(0, options.records, data.data());
  return data;
}

std::vector<std::string> texts(const std::string& form, Distribution distribution,
                               std::uint64_t records) {
  const std::vector<std::byte> data = whole(what(form, distribution, records));
  std::vector<std::string> result;
  for (std::size_t at = 0; at < data.size(); at += 100) {
    result.emplace_back(reinterpret_cast<const char*>(data.data()) + at, 100);
  }
  return result;
}

template <typename T>
std::vector<T> numbers(const std::string& form, Distribution distribution, std::uint64_t records,
                       std::uint64_t distinct = 0) {
  RecordGeneratorOptions options = what(form, distribution, records);
  options.distinct = distinct;
  const std::vector<std::byte> data = whole(options);
  std::vector<T> values(records);
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

TEST(RecordGenerator, PartsOfAnyLengthMakeTheWhole) {
  std::mt19937_64 random = test::test_random();
  std::vector<RecordGeneratorOptions> cases;
  for (const char* form : {"records", "ascii"}) {
    cases.push_back(what(form, Distribution::kUniform, 3000, random()));
    cases.push_back(what(form, Distribution::kSkewed, 3000, random()));
  }
  for (const char* form : {"u8", "i16be", "u32", "f32", "i64", "f64be", "pairs"}) {
    for (const Distribution distribution : kNumberDistributions) {
      cases.push_back(what(form, distribution, 3000, random()));
    }
  }
  for (const RecordGeneratorOptions& options : cases) {
    const RecordGenerator generator(options);
    const std::vector<std::byte> expected = whole(options);
    std::vector<std::byte> data(expected.size());
    for (std::uint64_t first = 0; first < options.records;) {
      const std::uint64_t count = std::min(1 + random() % 700, options.records - first);
      generator.write(first, count, data.data() + first * generator.record_bytes());
      first += count;
    }
    ASSERT_TRUE(data == expected) << to_string(options.form) << " "
                                  << to_string(options.distribution);
  }
}

TEST(RecordGenerator, SeedsDiffer) {
  for (const char* form : {"records", "ascii", "u64", "pairs"}) {
    EXPECT_EQ(whole(what(form, Distribution::kUniform, 10, 7)),
              whole(what(form, Distribution::kUniform, 10, 7)));
    EXPECT_NE(whole(what(form, Distribution::kUniform, 10, 7)),
              whole(what(form, Distribution::kUniform, 10, 8)));
  }
}

// Values that must never change: files are named by their seeds.
TEST(RecordGenerator, IsTheSameOnEveryMachine) {
  const auto uniform = numbers<std::uint64_t>("u64", Distribution::kUniform, 2);
  // splitmix64 from the state that it first outputs for seed 1.
  std::mt19937_64::result_type state = 0x910a2dec89025cc1U;
  for (const std::uint64_t value : uniform) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    EXPECT_EQ(value, z ^ (z >> 31));
  }
}

TEST(RecordGenerator, BinaryRecordsHaveTheirForm) {
  const std::vector<std::string> records = texts("records", Distribution::kUniform, 300);
  for (std::size_t i = 0; i < 300; ++i) {
    const std::string& record = records[i];
    char number[33];
    std::snprintf(number, sizeof number, "%032zX", i);
    EXPECT_EQ(record.substr(10, 2), std::string("\x00\x11", 2));
    EXPECT_EQ(record.substr(12, 32), number);
    EXPECT_EQ(record.substr(44, 4), "\x88\x99\xaa\xbb");
    for (std::size_t at = 48; at < 96; at += 4) {
      EXPECT_NE(std::string("0123456789ABCDEF").find(record[at]), std::string::npos);
      EXPECT_EQ(record.substr(at, 4), std::string(4, record[at]));
    }
    EXPECT_EQ(record.substr(96, 4), "\xcc\xdd\xee\xff");
  }
}

TEST(RecordGenerator, AsciiRecordsAreLines) {
  for (const Distribution distribution : {Distribution::kUniform, Distribution::kSkewed}) {
    std::set<char> seen;
    for (const std::string& record : texts("ascii", distribution, 3000)) {
      seen.insert(record.begin(), record.begin() + 10);
      EXPECT_EQ(record.substr(10, 2), "  ");
      EXPECT_EQ(record.substr(98), "\r\n");
      for (std::size_t at = 0; at < 98; ++at) ASSERT_TRUE(record[at] >= ' ' && record[at] <= '~');
    }
    EXPECT_EQ(seen.size(), 95U);
  }
}

TEST(RecordGenerator, UniformKeysAreSpread) {
  constexpr std::size_t kRecords = 100'000;
  const std::vector<std::string> records = texts("records", Distribution::kUniform, kRecords);
  for (std::size_t at = 0; at < 10; ++at) {
    std::array<std::size_t, 256> counts{};
    for (const std::string& record : records) ++counts[static_cast<unsigned char>(record[at])];
    double chi_square = 0;
    for (const std::size_t count : counts) {
      const double expected = kRecords / 256.0;
      chi_square += std::pow(static_cast<double>(count) - expected, 2) / expected;
    }
    EXPECT_LT(chi_square, 255 + 6 * std::sqrt(2 * 255.0)) << "byte " << at;
    EXPECT_GT(chi_square, 255 - 6 * std::sqrt(2 * 255.0)) << "byte " << at;
  }
}

TEST(RecordGenerator, SkewedKeysShareTheirPrefixes) {
  constexpr std::size_t kRecords = 100'000;
  for (const char* form : {"records", "ascii"}) {
    std::map<std::string, std::size_t> prefixes;
    std::set<std::string> keys;
    for (const std::string& record : texts(form, Distribution::kSkewed, kRecords)) {
      ++prefixes[record.substr(0, 6)];
      keys.insert(record.substr(0, 10));
    }
    std::vector<std::size_t> counts;
    for (const auto& [prefix, count] : prefixes) counts.push_back(count);
    std::sort(counts.rbegin(), counts.rend());
    EXPECT_NEAR(static_cast<double>(counts[0]), kRecords / 16.0, kRecords / 16.0 * 0.1);
    EXPECT_NEAR(static_cast<double>(counts[1]), kRecords / 32.0, kRecords / 32.0 * 0.15);
    EXPECT_NEAR(static_cast<double>(counts[10]), kRecords / 128.0, kRecords / 128.0 * 0.3);
    EXPECT_GT(keys.size(), kRecords * 9 / 10);
  }
}

TEST(RecordGenerator, SortedOnesAreSorted) {
  for (const std::uint64_t records : {1, 2, 3, 999, 1000}) {
    const auto sorted = numbers<std::uint64_t>("u64", Distribution::kSorted, records);
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
    const auto reversed = numbers<std::int32_t>("i32", Distribution::kReversed, records);
    EXPECT_TRUE(std::is_sorted(reversed.rbegin(), reversed.rend()));
    const auto fractions = numbers<double>("f64", Distribution::kSorted, records);
    EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
    EXPECT_GE(fractions.front(), 0);
    EXPECT_LT(fractions.back(), 1);
    const auto pipe = numbers<std::int64_t>("i64", Distribution::kOrganPipe, records);
    const auto top = std::max_element(pipe.begin(), pipe.end());
    EXPECT_TRUE(std::is_sorted(pipe.begin(), top));
    EXPECT_TRUE(std::is_sorted(pipe.rbegin(), std::make_reverse_iterator(top)));
    EXPECT_LE(std::abs((top - pipe.begin()) - (pipe.end() - top)), 2);
  }
  const auto bytes = numbers<std::uint8_t>("u8", Distribution::kSorted, 25'600);
  EXPECT_TRUE(std::is_sorted(bytes.begin(), bytes.end()));
  for (int value = 0; value < 256; ++value) {
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), value), 100);
  }
}

TEST(RecordGenerator, NearlySortedOnesNearly) {
  const auto values = numbers<std::uint64_t>("u64", Distribution::kNearlySorted, 100'000);
  std::size_t descents = 0;
  for (std::size_t i = 1; i < values.size(); ++i) descents += values[i] < values[i - 1] ? 1 : 0;
  EXPECT_GT(descents, 100'000 / 128 / 2);
  EXPECT_LT(descents, 100'000 / 128 * 2);
}

TEST(RecordGenerator, FewAndEqual) {
  const auto few = numbers<std::uint64_t>("u64", Distribution::kFew, 10'000, 5);
  EXPECT_EQ(std::set<std::uint64_t>(few.begin(), few.end()).size(), 5U);
  const auto equal = numbers<std::int16_t>("i16", Distribution::kEqual, 1000);
  EXPECT_EQ(std::set<std::int16_t>(equal.begin(), equal.end()).size(), 1U);
}

TEST(RecordGenerator, ZipfRanksHaveTheirShares) {
  constexpr std::size_t kRecords = 1'000'000;
  for (const std::uint64_t ranks : {1, 2, 10, 1000, 1 << 20}) {
    const auto values = numbers<std::uint32_t>("u32", Distribution::kZipf, kRecords, ranks);
    std::vector<std::size_t> counts(ranks);
    for (const std::uint32_t value : values) {
      ASSERT_LT(value, ranks);
      ++counts[value];
    }
    const double total = std::log(static_cast<double>(ranks) + 1);
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(ranks, 20); ++k) {
      const double x = static_cast<double>(k);
      const double share = std::log((x + 2) / (x + 1)) / total;
      const double expected = kRecords * share;
      EXPECT_NEAR(static_cast<double>(counts[k]), expected,
                  0.01 * expected + 5 * std::sqrt(expected))
          << "rank " << k << " of " << ranks;
    }
  }
  const auto fractions = numbers<float>("f32", Distribution::kZipf, 1000, 10);
  for (const float value : fractions) EXPECT_EQ(value, std::floor(value));
}

TEST(RecordGenerator, PairsCarryTheirNumbers) {
  const auto words = [](std::uint64_t records) {
    const std::vector<std::byte> data = whole(what("pairs", Distribution::kUniform, records));
    std::vector<std::uint64_t> result(2 * records);
    std::memcpy(result.data(), data.data(), data.size());
    return result;
  }(500);
  const auto keys = numbers<std::uint64_t>("u64", Distribution::kUniform, 500);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(words[2 * i], keys[i]);
    EXPECT_EQ(words[2 * i + 1], i);
  }
}

TEST(RecordGenerator, RefusesWhatDoesNotGoTogether) {
  EXPECT_THROW(RecordGenerator(what("records", Distribution::kZipf, 1)), Error);
  EXPECT_THROW(RecordGenerator(what("u64", Distribution::kSkewed, 1)), Error);
  RecordGeneratorOptions options = what("i8", Distribution::kZipf, 1);
  options.distinct = 128;
  EXPECT_NO_THROW(RecordGenerator{options});
  options.distinct = 129;
  EXPECT_THROW(RecordGenerator{options}, Error);
  EXPECT_THROW(parse_record_form("bytes"), Error);
  EXPECT_THROW(parse_record_form("u33"), Error);
  EXPECT_THROW(parse_distribution("gauss"), Error);
}

}  // namespace

}  // namespace vortex::cli::record_generator_test
