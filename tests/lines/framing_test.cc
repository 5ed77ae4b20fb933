// Records are found where a byte-by-byte search finds them, however the text is cut.
#include "lines/record/framing.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/lines/fuzzed_input.h"
#include "tests/lines/line_cases.h"
#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::test::framing_test { namespace {

using Records = std::vector<std::string>;

// All records of a text, taken `batch` at a time.
Records records_of(const RecordFraming& framing, std::string_view text, std::size_t batch,
                   bool ends = true) {
  Records all;
  std::vector<std::string_view> some(batch);
  for (std::size_t done = 0; done < text.size();) {
    const FramedRecords found = split_records(framing, text.substr(done), ends, some);
    for (std::size_t i = 0; i < found.records; ++i) all.emplace_back(some[i]);
    if (found.records == 0) break;
    done += found.bytes;
  }
  return all;
}

TEST(Framing, DelimitersAreFoundWherever) {
  auto random = test_random();
  for (const char delimiter : {'\n', '\0', '\xff'}) {
    for (int round = 0; round < 300; ++round) {
      std::string text(random() % 300, ' ');
      const unsigned rarity = 1 + random() % 80;
      for (char& c : text) {
        c = random() % rarity == 0 ? delimiter : static_cast<char>(random());
      }
      const Records expected = *records_in(RecordFraming::Kind::kDelimited, delimiter, text);
      for (const std::size_t batch : {1, 3, 1000}) {
        EXPECT_EQ(records_of(RecordFraming::delimited(delimiter), text, batch), expected);
      }
    }
  }
}

TEST(Framing, AnUnfinishedLineIsNoneUntilTheTextEnds) {
  const RecordFraming lines = RecordFraming::delimited();
  EXPECT_EQ(records_of(lines, "a\n\nbc", 9, false), (Records{"a", ""}));
  EXPECT_EQ(records_of(lines, "a\n\nbc", 9, true), (Records{"a", "", "bc"}));
  EXPECT_EQ(records_of(lines, "", 9), Records{});
  EXPECT_EQ(records_of(lines, "\n", 9), Records{""});
}

TEST(Framing, DelimitersInQuotesArePartOfTheRecord) {
  auto random = test_random();
  for (int round = 0; round < 300; ++round) {
    std::string text;
    Records expected;
    for (std::size_t i = random() % 10; i > 0; --i) {
      std::string record;
      for (std::size_t parts = random() % 4; parts > 0; --parts) {
        record += random() % 2 == 0 ? "ab," : "\"a\n\"\"b\n\n\",";
      }
      text += record + "\n";
      expected.push_back(std::move(record));
    }
    if (!expected.empty() && !expected.back().empty() && random() % 2 == 0) text.pop_back();
    for (const std::size_t batch : {1, 3, 1000}) {
      EXPECT_EQ(records_of(RecordFraming::quoted(), text, batch), expected);
    }
  }
  EXPECT_EQ(records_of(RecordFraming::quoted(), "a\n\"b\n", 9, false), Records{"a"});
  std::string_view record;
  // Until its quote is closed, which is done where the input ends.
  EXPECT_EQ(split_records(RecordFraming::quoted(), "\"b\n", true, {&record, 1}).records, 0U);
}

// Where Python's csv module finds it, however the text is cut.
TEST(Framing, AQuoteOpensAValueOnlyWhereItBegins) {
  auto random = test_random();
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t i = random() % 60; i > 0; --i) text += "\"\",,ab\n\r"[random() % 8];
    if (random() % 4 == 0) text += std::string(random() % 200, random() % 2 == 0 ? 'x' : '"');
    Records expected = FuzzedCsv::records_in(text);
    text += '\n';
    const bool closed = FuzzedCsv::records_in(text) == expected ||
                        FuzzedCsv::records_in(text).size() > expected.size();
    if (!closed) expected.pop_back();
    for (const std::size_t batch : {1, 1000}) {
      Records found = records_of(RecordFraming::quoted(), text, batch, false);
      if (!found.empty() && found.back().empty() && found.size() > expected.size())
        found.pop_back();
      EXPECT_EQ(found, expected) << text;
    }
    // A record that grows is looked at from where the last look ended.
    CsvRecordScan scan('\n', ',');
    CsvRecordScan at_once('\n', ',');
    const std::size_t length = at_once.find_end(text, true);
    std::size_t grown = CsvRecordScan::kOpen;
    for (std::size_t bytes = 0; bytes <= text.size() && grown == CsvRecordScan::kOpen;
         bytes += 1 + random() % 3) {
      grown = scan.find_end(std::string(text.substr(0, bytes)), false);
    }
    if (grown == CsvRecordScan::kOpen) grown = scan.find_end(text, true);
    EXPECT_EQ(grown, length) << text;
    EXPECT_EQ(scan.invalid(), at_once.invalid()) << text;
    EXPECT_EQ(scan.invalid_at(), at_once.invalid_at()) << text;
  }
}

TEST(Framing, InvalidQuotesAreCountedAndPlaced) {
  struct Case {
    std::string_view text;
    std::size_t invalid;
    InvalidQuote first;
    std::size_t at;
  };
  for (const Case& c : {Case{"a,\"b\",\"\"\n\"c\n\"\"\"\r\nd", 0, InvalidQuote::kNone, 0},
                        Case{"a\nb\"\n\"c\"d\"\"\n", 2, InvalidQuote::kInsideValue, 3},
                        Case{"\"a\"b\n", 1, InvalidQuote::kTextBehind, 3},
                        Case{"\"a\"\rb\n", 1, InvalidQuote::kTextBehind, 3},
                        Case{"x,\"a\" ,\"b\"\"c\",\n", 1, InvalidQuote::kTextBehind, 5}}) {
    std::string_view records[8];
    const FramedRecords found = split_records(RecordFraming::quoted(), c.text, true, records);
    EXPECT_EQ(found.bytes, c.text.size());
    EXPECT_EQ(found.invalid, c.invalid) << c.text;
    EXPECT_EQ(found.first_invalid, c.first) << c.text;
    EXPECT_EQ(found.first_invalid_at, c.at) << c.text;
  }
  std::string_view records[8];
  const FramedRecords found =
      split_records(RecordFraming::quoted('\r'), "\"a\"\r\"b\r\"\rc\r\"d\"x\r", true, records);
  EXPECT_EQ(found.records, 4U);
  EXPECT_EQ(found.invalid, 1U);
  EXPECT_EQ(found.first_invalid_at, 14U);
  CsvRecordScan scan('\n', ',');
  EXPECT_EQ(scan.find_end("a,\"b\n", true), CsvRecordScan::kOpen);
  EXPECT_EQ(scan.invalid(), InvalidQuote::kNeverClosed);
  EXPECT_EQ(scan.invalid_at(), 2U);
  for (const char separator : {'"', '\n'}) {
    EXPECT_THROW(RecordFraming::quoted('\n', separator), Error);
  }
}

TEST(Framing, LengthsStandInFront) {
  auto random = test_random();
  const RecordFraming framing = RecordFraming::length_prefixed();
  Records expected;
  for (int i = 0; i < 200; ++i) {
    expected.emplace_back(random() % 3 == 0 ? 0 : random() % 400, static_cast<char>(random()));
  }
  const std::string text = prefixed(expected);
  EXPECT_EQ(records_of(framing, text, 7), expected);
  std::string_view found[8];
  EXPECT_TRUE(split_records(framing, text.substr(0, 3), true, found).malformed);
  EXPECT_FALSE(split_records(framing, text.substr(0, 3), false, found).malformed);
  EXPECT_TRUE(split_records(framing, std::string_view("\5\0\0\0abcd", 8), true, found).malformed);
}

TEST(Framing, AFunctionSaysHowLong) {
  // The first byte is the length of the rest.
  const RecordFraming framing =
      RecordFraming::by_function([](std::string_view text, bool) -> std::size_t {
        const std::size_t bytes = 1 + static_cast<unsigned char>(text[0]);
        return bytes <= text.size() ? bytes : 0;
      });
  EXPECT_EQ(records_of(framing, std::string_view("\1a\0\2bc", 6), 2),
            (Records{"\1a", std::string(1, '\0'), "\2bc"}));
  std::string_view found[8];
  EXPECT_TRUE(split_records(framing, "\2b", true, found).malformed);
  EXPECT_FALSE(split_records(framing, "\2b", false, found).malformed);
  const RecordFraming beyond =
      RecordFraming::by_function([](std::string_view text, bool) { return text.size() + 1; });
  EXPECT_TRUE(split_records(beyond, "abc", false, found).malformed);
}

}  // namespace

}  // namespace vortex::test::framing_test
