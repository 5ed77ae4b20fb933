// Orders of lines, against GNU sort.
#include "vortex/line_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/fields/character_choice.h"
#include "lines/fields/collation.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "lines/keys/field_encoders.h"
#include "tests/lines/gnu_sort.h"
#include "tests/lines/line_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/locales.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"

namespace vortex::test::line_key_test { namespace {

constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;
constexpr const char* kLocales[] = {"C", "en_US.UTF-8", "de_DE.ISO-8859-1"};

// An order in our words and in GNU sort's.
struct Order {
  LineKeyOptions ours;
  char delimiter = '\n';
  std::vector<std::string> arguments() const {
    std::vector<std::string> result{kGnuSort};
    if (!ours.letters.empty()) result.push_back("-" + ours.letters);
    for (const std::string& key : ours.keys) result.push_back("-k" + key);
    if (ours.separator) {
      result.push_back("-t");
      result.push_back(*ours.separator == '\0' ? "\\0" : std::string(1, *ours.separator));
    }
    if (ours.stable) result.push_back("-s");
    if (ours.unique) result.push_back("-u");
    if (delimiter == '\0') result.push_back("-z");
    return result;
  }
  std::string text() const {
    std::string text = "LC_ALL=" + ours.locale;
    for (const std::string& argument : arguments()) text += " '" + argument + "'";
    return text;
  }
};

class OrderMaker {
 public:
  explicit OrderMaker(std::mt19937_64& random) : fields_(random) {}

  Order order() {
    Order made;
    made.ours.locale = kLocales[fields_.some(std::size(kLocales))];
    made.ours.stable = fields_.some(3) == 0;
    made.ours.unique = fields_.some(4) == 0;
    if (fields_.some(3) == 0) made.delimiter = '\0';
    if (fields_.some(2) == 0)
      made.ours.separator = fields_.one_of({',', 'a', '\t', '.', ' ', '\0'});
    if (fields_.some(3) != 0) made.ours.letters = letters();
    for (std::size_t keys = fields_.some(4); keys-- > 0;) made.ours.keys.push_back(key());
    return made;
  }

 private:
  // Letters that GNU sort takes together.
  std::string letters() {
    std::string result = fields_.one_of(
        {"", "", "n", "g", "h", "M", "V", "d", "i", "f", "df", "fi", "nf", "Mf", "Vf", "gf", "hf"});
    if (fields_.some(4) == 0) result += 'b';
    if (fields_.some(4) == 0) result += 'r';
    return result;
  }
  std::string place(bool end) {
    std::string result = std::to_string(1 + fields_.some(3));
    if (fields_.some(3) == 0) result += "." + std::to_string(fields_.some(4) + (end ? 0 : 1));
    return result;
  }
  std::string key() {
    std::string result = place(false) + letters();
    if (fields_.some(2) != 0) return result;
    result += "," + place(true);
    return fields_.some(2) == 0 ? result + (fields_.some(2) == 0 ? "b" : "r") : result;
  }

  FieldMaker fields_;
};

Lines lines_for(const Order& order, std::size_t count, FieldMaker& fields) {
  Lines lines;
  const char separator = order.ours.separator.value_or(' ');
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(lines.empty() || fields.some(6) != 0 ? fields.line(separator)
                                                         : lines[fields.some(lines.size())]);
    for (char& c : lines.back()) {
      if (c == order.delimiter) c = order.delimiter == '\n' ? '\0' : '\n';
    }
  }
  return lines;
}

class LineKey : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { locales_.emplace(); }
  static void TearDownTestSuite() { locales_.reset(); }

  void expect_order_of_gnu_sort(const Order& order, const Lines& lines,
                                std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = order.arguments();
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult theirs =
        runner_.run(arguments, joined(lines, order.delimiter), {"LC_ALL=" + order.ours.locale});
    ASSERT_EQ(theirs.code, 0) << order.text() << ": " << theirs.errors;
    const std::string ours =
        joined(sorted_in_memory(lines, line_order(order.ours)), order.delimiter);
    ASSERT_EQ(ours == theirs.output, true)
        << order.text() << "\n"
        << ::testing::PrintToString(first_difference(ours, theirs.output));
  }

  // Our line and theirs where the two differ first, and the one before.
  static std::vector<std::string> first_difference(const std::string& ours,
                                                   const std::string& theirs) {
    std::size_t at = 0;
    while (at < ours.size() && at < theirs.size() && ours[at] == theirs[at]) ++at;
    const std::size_t begin = at < 60 ? 0 : at - 60;
    return {ours.substr(begin, 120), theirs.substr(begin, 120)};
  }

  ProgramRunner runner_;
  static inline std::optional<Locales> locales_;
};

// Takes out of lines what GNU sort has an order of its own for: where a locale has no separator of
// thousands, GNU sort 9.1 skips bytes of 0x80 in numbers, for the value stands for "none" there.
void leave_out_quirks(const LineKeyOptions& ours, Lines& lines) {
  if (ours.locale != "C") return;
  for (std::string& line : lines) std::replace(line.begin(), line.end(), '\x80', '\x81');
}

TEST_F(LineKey, EachOrderAlone) {
  auto random = test_random();
  FieldMaker fields(random);
  for (const char* locale : kLocales) {
    for (const char* letters : {"", "n", "g", "h", "M", "V", "d", "i", "f", "b", "df"}) {
      for (unsigned kind = 0; kind < FieldMaker::kKinds; ++kind) {
        Order order{.ours = {.letters = letters, .stable = true, .locale = locale}};
        Lines lines;
        for (int i = 0; i < 300; ++i) {
          lines.push_back(fields.field(kind));
          std::replace(lines.back().begin(), lines.back().end(), '\n', '\v');
        }
        leave_out_quirks(order.ours, lines);
        expect_order_of_gnu_sort(order, lines);
      }
    }
  }
}

TEST_F(LineKey, RandomOrdersOfRandomLines) {
  auto random = test_random();
  FieldMaker fields(random);
  OrderMaker orders(random);
  const int orders_to_try = long_tests() ? 50000 : 500;
  for (int i = 0; i < orders_to_try; ++i) {
    const Order order = orders.order();
    Lines lines = lines_for(order, 1 + fields.some(60), fields);
    leave_out_quirks(order.ours, lines);
    ASSERT_NO_FATAL_FAILURE(expect_order_of_gnu_sort(order, lines));
  }
}

// A lesser key means a lesser whole key, also where characters are simple on one side only.
TEST_F(LineKey, ShortenedKeysAgreeWithWholeOnes) {
  auto random = test_random();
  FieldMaker fields(random);
  OrderMaker orders(random);
  std::size_t shortened = 0;
  std::size_t undecided = 0;
  constexpr int kOrders = 750;
  for (int i = 0; i < kOrders; ++i) {
    const Order order = orders.order();
    const std::shared_ptr<const RecordKeys> keys = line_order(order.ours).keys;
    if (keys == nullptr || !keys->shortened()) continue;
    ++shortened;
    const Lines lines = lines_for(order, 20, fields);
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    KeyBatch batch;
    keys->append(views, batch);
    ASSERT_EQ(batch.keys(), lines.size());
    Lines whole(lines.size());
    for (std::size_t a = 0; a < lines.size(); ++a) {
      keys->append_whole(lines[a], whole[a]);
      for (std::size_t b = 0; b < a; ++b) {
        const int compared = batch.key(a).compare(batch.key(b));
        undecided += compared == 0;
        ASSERT_TRUE(compared == 0 || (compared < 0) == (whole[a] < whole[b]))
            << order.text() << ": " << ::testing::PrintToString(lines[a]) << " and "
            << ::testing::PrintToString(lines[b]);
        ASSERT_TRUE(compared == 0 || whole[a] != whole[b]) << order.text();
      }
    }
  }
  EXPECT_GT(shortened, kOrders / 6u);
  EXPECT_GT(undecided, kOrders / 3u);
}

int sign(int compared) { return (compared > 0) - (compared < 0); }

// Texts of a few letters, and others that differ from them in little.
class TextMaker {
 public:
  explicit TextMaker(std::mt19937_64& random) : random_(random) { choose_letters(); }

  void choose_letters() {
    using namespace std::string_view_literals;
    static const std::vector<std::string> kLetters = words_in(
        "a|aA|aAbB|a-A|ab\0|a,. -_|cChH|a\xe9|\xc3\xa9"
        "e|aA\0-\xc3\xa9|\x01\x02 |\0|"sv);
    letters_ = kLetters[some(kLetters.size())];
    if (some(6) == 0) {
      letters_.clear();
      for (int c = 0; c < 128; ++c) letters_ += static_cast<char>(c);
    }
  }
  // Of pieces of 1024 characters, and so on.
  std::string text() {
    const std::size_t pieces = some(12) != 0 ? 0 : 1 + some(3);
    return of_length(pieces == 0 ? some(12) : 1024 * pieces - 2 + some(4));
  }
  std::string like(std::string text) {
    for (std::size_t changes = some(3); changes > 0; --changes) {
      const std::size_t at = some(text.size() + 1);
      switch (some(5)) {
        case 0:
          text.insert(at, of_length(1));
          break;
        case 1:
          text.erase(at, 1 + some(2));
          break;
        case 2:
          text += of_length(1);
          break;
        default:
          if (at < text.size()) text[at] = swapped(text[at]);
      }
    }
    return text;
  }
  std::size_t some(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

 private:
  std::string of_length(std::size_t length) {
    std::string text(length, ' ');
    for (char& c : text) c = letters_[some(letters_.size())];
    return text;
  }
  // Case is what the first rule does not tell apart.
  static char swapped(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return static_cast<char>(byte >= 128               ? byte
                             : std::islower(byte) != 0 ? std::toupper(byte)
                                                       : std::tolower(byte));
  }

  std::mt19937_64& random_;
  std::string letters_;
};

// Names, sizes, versions, dates and paths as systems have them, and what differs from them in
// little.
class NameMaker {
 public:
  explicit NameMaker(std::mt19937_64& random) : random_(random) {}

  std::string name() {
    static const std::vector<std::string> kWords = words_in(
        "usr|Lib|lib|share|README|readme|x86_64|a|B|\xc3\xa9t\xc3\xa9|M\xc3\xbcller|Stra\xc3\x9f"
        "e|chata|\xc4\xb1lk|\xc4\xb0lk|\xe6\x97\xa5\xe6\x9c\xac|\xe3\x81\x82|e\xcc\x81|\xce\xa9|"
        "\xff|K|");
    static constexpr const char* kBetween[] = {".", "-", "_", "/", " ", "+", "$", ":", "", "0"};
    std::string result;
    for (std::size_t parts = 1 + some(5); parts > 0; --parts) {
      switch (some(3)) {
        case 0:
          result += std::to_string(some(some(2) == 0 ? 12 : 3000));
          break;
        case 1:
          result += kWords[some(kWords.size())];
          break;
        default:
          result += kBetween[some(std::size(kBetween))];
      }
    }
    return result.empty() ? "x" : result;
  }
  // The same with something more or less in it.
  std::string like(std::string name) {
    const std::size_t at = some(name.size() + 1);
    static constexpr std::string_view kMore = ".-_/ 0aA+$";
    if (some(2) == 0) return name.insert(at, 1, kMore[some(kMore.size())]);
    if (at < name.size() && name.size() > 1) name.erase(at, 1);
    return name;
  }
  std::size_t some(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

 private:
  std::mt19937_64& random_;
};

constexpr const char* kLanguages[] = {"en_US", "de_DE", "fr_FR", "cs_CZ", "tr_TR", "ja_JP"};

class LineKeyOfLanguage : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    locales_.emplace(std::vector<std::string>(std::begin(kLanguages), std::end(kLanguages)));
  }
  static void TearDownTestSuite() { locales_.reset(); }

  const std::string name_ = std::string(GetParam()) + ".UTF-8";
  ProgramRunner runner_;
  static inline std::optional<Locales> locales_;
};

INSTANTIATE_TEST_SUITE_P(, LineKeyOfLanguage, ::testing::ValuesIn(kLanguages),
                         [](const auto& info) { return std::string(info.param); });

// Of any two texts the keys, and the comparison without keys, say what strcoll() says.
TEST_P(LineKeyOfLanguage, PairsAreOrderedAsByStrcoll) {
  auto random = test_random();
  NameMaker names(random);
  const KeyLocale locale(name_);
  std::size_t decided_later = 0;
  for (int i = 0; i < (kSanitized ? 4000 : 20000); ++i) {
    const std::string a = names.name();
    const std::string b = names.some(4) == 0 ? names.name() : names.like(a);
    std::string key_of_a, key_of_b, first_of_a, first_of_b;
    const auto make = [&](const std::string& text, std::string& whole, std::string& first) {
      KeyBytes whole_bytes(whole), first_bytes(first);
      append_collated(text, {locale, {}}, whole_bytes);
      append_first_rule(text, locale, first_bytes);
      whole_bytes.finish();
      first_bytes.finish();
    };
    make(a, key_of_a, first_of_a);
    make(b, key_of_b, first_of_b);
    const int expected = sign(strcoll_l(a.c_str(), b.c_str(), locale.handle()));
    const std::string pair = ::testing::PrintToString(a) + " and " + ::testing::PrintToString(b);
    ASSERT_EQ(sign(key_of_a.compare(key_of_b)), expected) << pair;
    ASSERT_EQ(sign(compare_collated(a, b, locale, {locale, {}})), expected) << pair;
    const int first = sign(first_of_a.compare(first_of_b));
    ASSERT_TRUE(first == 0 || first == expected) << pair;
    decided_later += first == 0 && expected != 0;
  }
  if (std::string_view(GetParam()) != "ja_JP") {  // which has one rule
    EXPECT_GT(decided_later, 200U);
  }
}

TEST_P(LineKeyOfLanguage, LinesAreSortedForGnuSort) {
  auto random = test_random();
  NameMaker names(random);
  Lines lines = {"40K", "4.0K", "10K", "1.0K", "10.0K", "100K"};
  for (int i = 0; i < (kSanitized ? 2000 : 8000); ++i) {
    lines.push_back(i % 2 == 0 ? names.name() : names.like(lines.back()));
  }
  for (const char* letters : {"", "f", "d", "r"}) {
    std::vector<std::string> arguments{kGnuSort};
    if (*letters != '\0') arguments.push_back(std::string("-") + letters);
    const std::string ours =
        joined(sorted_in_memory(lines, line_order({.letters = letters, .locale = name_})));
    const ProgramResult theirs = runner_.run(arguments, joined(lines), {"LC_ALL=" + name_});
    ASSERT_EQ(theirs.code, 0) << theirs.errors;
    EXPECT_EQ(ours == theirs.output, true) << name_ << " " << letters;
  }
}

// Texts are compared piece by piece as their keys are.
TEST_F(LineKey, TextsWithoutTheirKeys) {
  auto random = test_random();
  TextMaker texts(random);
  std::size_t less = 0;
  std::size_t equal = 0;
  for (const char* name : {"en_US.UTF-8", "de_DE.ISO-8859-1", "cs_CZ.UTF-8"}) {
    const KeyLocale locale(name);
    for (int i = 0; i < (kSanitized ? 3000 : 15000); ++i) {
      texts.choose_letters();
      const KeyFlags flags{.dictionary = texts.some(4) == 0,
                           .fold = texts.some(4) == 0,
                           .printable = texts.some(4) == 0};
      const std::string a = texts.text();
      const std::string b = texts.some(4) == 0 ? texts.text() : texts.like(a);
      const auto key = [&](const std::string& text) {
        std::string chosen;
        for (const char c : text) {
          if (flags.dictionary && !locale.in_dictionary(c)) continue;
          if (!flags.dictionary && flags.printable && !locale.is_printable(c)) continue;
          chosen += flags.fold ? locale.to_upper(c) : c;
        }
        std::string result;
        KeyBytes bytes(result);
        append_collated(chosen, {locale, {}}, bytes);
        bytes.finish();
        return result;
      };
      const int expected = sign(key(a).compare(key(b)));
      less += expected < 0;
      equal += expected == 0;
      ASSERT_EQ(sign(compare_collated(a, b, locale, {locale, flags})), expected)
          << name << ": " << ::testing::PrintToString(a) << " and " << ::testing::PrintToString(b)
          << (flags.dictionary ? " d" : "") << (flags.fold ? " f" : "")
          << (flags.printable ? " i" : "");
    }
  }
  EXPECT_GT(less, 3000u);
  EXPECT_GT(equal, 3000u);
}

// Two records of three fields each, which may be quoted.
std::pair<std::string, std::string> records_alike(TextMaker& texts, bool quoted) {
  const auto put = [&](const std::string& field) {
    return quoted ? "\"" + field + "\"\"\"" : field;
  };
  std::string a, b;
  for (int field = 0; field < 3; ++field) {
    const std::string text = texts.text();
    a += put(text) + ",";
    b += put(texts.like(text)) + ",";
  }
  return {a, b};
}

// And so are records whose keys were shortened.
TEST_F(LineKey, RecordsWithoutTheirWholeKeys) {
  auto random = test_random();
  TextMaker texts(random);
  const std::vector<std::vector<std::string>> kKeys = {{},
                                                       {"1"},
                                                       {"1r"},
                                                       {"1,1f"},
                                                       {"1,1d", "2r"},
                                                       {"2,2fr"},
                                                       {"1,1", "2"},
                                                       {"1,1i", "2,2n"},
                                                       {"1,1n", "2,2"},
                                                       {"2,2r", "1,1V", "3,3nr"},
                                                       {"2,2", "1,1R"}};
  const std::vector<std::vector<std::string>> kColumns = {
      {}, {"1"}, {"1r", "2f"}, {"2", "1n"}, {"1d", "2r"}};
  std::size_t less = 0;
  std::size_t equal = 0;
  for (const char* name : {"en_US.UTF-8", "de_DE.ISO-8859-1", "cs_CZ.UTF-8"}) {
    for (const FieldRules fields : {FieldRules::kLines, FieldRules::kCsv}) {
      for (const auto& keys : fields == FieldRules::kLines ? kKeys : kColumns) {
        for (const char* letters : {"", "r", "f"}) {
          const LineOrder order = line_order({.keys = keys,
                                              .letters = letters,
                                              .separator = ',',
                                              .fields = fields,
                                              .stable = texts.some(2) == 0,
                                              .locale = name});
          for (int i = 0; i < (kSanitized ? 30 : 80); ++i) {
            texts.choose_letters();
            const auto [a, b] =
                records_alike(texts, fields == FieldRules::kCsv && texts.some(2) == 0);
            const std::string_view views[] = {a, b};
            KeyBatch batch;
            order.keys->append(views, batch);
            if (batch.key(0) != batch.key(1)) continue;
            std::string of_a, of_b;
            order.keys->append_whole(a, of_a);
            order.keys->append_whole(b, of_b);
            const int expected = sign(of_a.compare(of_b));
            less += expected < 0;
            equal += expected == 0;
            ASSERT_EQ(sign(order.keys->compare_whole(a, b)), expected)
                << name << " " << ::testing::PrintToString(keys) << " " << letters << ": "
                << ::testing::PrintToString(a) << " and " << ::testing::PrintToString(b);
          }
        }
      }
    }
  }
  EXPECT_GT(less, 500u);
  EXPECT_GT(equal, 500u);
}

// GNU sort leaves the order of NaNs with the same bits to chance: no two of these are spelled in
// different ways.
TEST_F(LineKey, NaNs) {
  expect_order_of_gnu_sort({.ours = {.letters = "g", .stable = true}},
                           {"nan", "1", "-nan", "x", "nan(12)", "-inf", "nan", "-nan", "0"});
}

TEST_F(LineKey, LongNumbersAndVersions) {
  Lines lines;
  for (const std::size_t digits : {1, 99, 100, 101, 102, 252, 253, 254, 255, 256, 1000, 70000}) {
    for (const char digit : {'1', '9'}) {
      for (const char* sign : {"", "-", "a"}) {
        lines.push_back(sign + std::string(digits, digit));
        lines.push_back(sign + std::string(digits, digit) + ".5");
        lines.push_back(sign + std::string("0.") + std::string(digits, '0') + digit);
      }
    }
  }
  for (const char* letters : {"n", "nr", "V", "Vr", "h"}) {
    expect_order_of_gnu_sort({.ours = {.letters = letters}}, lines);
  }
}

// Eight digits are one word: zeros in front, behind and in between, and what may stand behind.
TEST_F(LineKey, IntegersOfAllLengths) {
  auto random = test_random();
  Lines lines;
  for (std::size_t digits = 0; digits <= 34; ++digits) {
    for (const char* behind : {"", ".", ".5", ",", ",1", " 7", "x", "/", ":"}) {
      std::string line = random() % 3 == 0 ? "-" : "";
      line += std::string(random() % 4, '0');
      // Mostly zeros, so that whole words are.
      for (std::size_t i = 0; i < digits; ++i) line += random() % 12 == 0 ? '5' : '0';
      lines.push_back(line + behind);
      if (digits > 0) line[line.size() - 1 - random() % digits] = '9';
      lines.push_back(line + behind);
    }
  }
  for (const char* locale : kLocales) {
    for (const char* letters : {"n", "nr"}) {
      expect_order_of_gnu_sort({.ours = {.letters = letters, .locale = locale}}, lines);
    }
  }
}

TEST_F(LineKey, RandomOrderWithTheSameSeed) {
  auto random = test_random();
  FieldMaker fields(random);
  TemporaryFolder folder;
  for (const char* locale : {"C", "C.UTF-8", "en_US.UTF-8", "de_DE.ISO-8859-1"}) {
    for (const char* key : {"1", "2,2", "1,1r"}) {
      Order order{.ours = {.keys = {key}, .letters = "R", .locale = locale}};
      for (char& c : order.ours.random_seed) c = static_cast<char>(fields.some(256));
      if (order.ours.keys.front() == "1,1r") order.ours.keys.front() = "1,1Rr";
      const std::string seed = folder.file("seed");
      put_file_text(seed, {order.ours.random_seed.data(), order.ours.random_seed.size()});
      Lines lines = lines_for(order, 200, fields);
      leave_out_quirks(order.ours, lines);
      expect_order_of_gnu_sort(order, lines, {"--random-source=" + seed});
      Lines long_lines;
      for (std::size_t length = 0; length < 200; ++length) {
        long_lines.push_back(std::string(length, 'x'));
      }
      expect_order_of_gnu_sort(order, long_lines, {"--random-source=" + seed});
    }
  }
}

// The messages of GNU sort about an order, without its name.
TEST_F(LineKey, RefusesInGnuSortsWords) {
  for (const char* key :
       {"",      "0",     "1.0", "1,0", "x",   "1x",  "1,",    "1,x", "1.",     "1.x",
        "1,2.x", "1,2n ", "1nq", "-1",  "1nM", "1dn", "1,2gh", "1Vd", "2,3Rid", "1ib,2h"}) {
    const ProgramResult theirs =
        runner_.run({kGnuSort, std::string("-k") + key, "/dev/null"}, "", {"LC_ALL=C"});
    std::string ours;
    const int error = error_of([&] { line_order({.keys = {key}}); }, &ours);
    if (key[0] == '\0') {  // GNU sort takes the next argument for the key
      EXPECT_EQ(error, EINVAL);
      continue;
    }
    EXPECT_EQ(error, theirs.code == 0 ? 0 : EINVAL) << key << " " << theirs.errors;
    if (error == 0) continue;
    ours.resize(ours.rfind(": Invalid argument"));
    EXPECT_EQ(std::string(kGnuSort) + ": " + ours + "\n", theirs.errors);
  }
}

TEST_F(LineKey, RefusesUnknownLettersAndLocales) {
  EXPECT_EQ(error_of([] { line_order({.letters = "nq"}); }), EINVAL);
  EXPECT_TRUE(fails([] { line_order({.locale = "xx_YY"}); }, ENOENT, "'xx_YY'"));
}

// What is put together character by character is what strcoll() compares of the whole.
TEST_F(LineKey, WeightsOfCharacters) {
  auto random = test_random();
  const auto some = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (const char* name : {"en_US.UTF-8", "de_DE.ISO-8859-1", "cs_CZ.UTF-8"}) {
    SCOPED_TRACE(name);
    const ::locale_t locale = newlocale(LC_ALL_MASK, name, nullptr);
    ASSERT_NE(locale, nullptr);
    const CharacterWeights weights(locale);
    const CollationTables tables(locale);
    std::string simple;
    for (int c = 1; c < 256; ++c) {
      if (weights.is_simple(static_cast<char>(c))) simple += static_cast<char>(c);
    }
    EXPECT_GT(simple.size(), 90u);
    for (const char c : simple) EXPECT_GE(c, 0);
    std::string last_text;
    std::string last_key;
    for (int i = 0; i < 5000; ++i) {
      std::string alphabet = simple;  // or a part, so that neighbours come again
      if (i % 2 == 0) {
        alphabet.clear();
        for (std::size_t letters = 1 + some(4); letters > 0; --letters) {
          alphabet += simple[some(simple.size())];
        }
      }
      std::string text(1 + some(i % 100 == 0 ? 2000 : 30), ' ');
      for (char& c : text) c = alphabet[some(alphabet.size())];
      if (i % 3 == 0 && !last_text.empty()) {
        text = last_text;
        text.insert(some(text.size() + 1), 1, alphabet[some(alphabet.size())]);
      }
      std::string ours_string = "in front";
      std::string theirs_string = ours_string;
      KeyBytes ours(ours_string);
      KeyBytes theirs(theirs_string);
      ASSERT_TRUE(weights.append(text, ours));
      for (std::size_t rule = 0; rule < weights.rules(); ++rule) {
        if (rule > 0) theirs += kEndOfRule;
        tables.append(rule, text, theirs);
      }
      ASSERT_EQ(ours.view(), theirs.view()) << ::testing::PrintToString(text);
      std::string key(ours.view());
      if (!last_text.empty()) {
        ASSERT_EQ(sign(key.compare(last_key)),
                  sign(strcoll_l(text.c_str(), last_text.c_str(), locale)))
            << ::testing::PrintToString(text) << " and " << ::testing::PrintToString(last_text);
      }
      last_text = std::move(text);
      last_key = std::move(key);
    }
    freelocale(locale);
  }
}

TEST_F(LineKey, WeightsOfCharactersWhereTheyHaveNone) {
  const ::locale_t czech = newlocale(LC_ALL_MASK, "cs_CZ.UTF-8", nullptr);
  const CharacterWeights weights(czech);  // "ch" is a letter
  EXPECT_FALSE(weights.is_simple('c') && weights.is_simple('h'));
  freelocale(czech);
  const ::locale_t bytes = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string string;
  KeyBytes none(string);
  EXPECT_FALSE(CharacterWeights(bytes).append("a", none));
  EXPECT_EQ(none.view(), "");
  freelocale(bytes);
}

TEST_F(LineKey, WholeLinesNeedNoKeys) {
  EXPECT_EQ(line_order({}).keys, nullptr);
  EXPECT_EQ(line_order({.letters = "r"}).keys, nullptr);
  EXPECT_TRUE(line_order({.letters = "r"}).descending);
  EXPECT_NE(line_order({.locale = "en_US.UTF-8"}).keys, nullptr);
}

TEST_F(LineKey, ColumnsOfCsv) {
  const Lines lines = {"1,\"a \"\"quoted\"\" one\",9\r",
                       "2,\"a, with comma\",10",
                       "3,plain,8\r",
                       "4,\"two\nlines\",",
                       "5",
                       "\"6\"x,\"a\"b,7"};
  const auto order_by = [&](const std::string& key, std::optional<char> separator = {}) {
    const LineOrder order =
        line_order({.keys = {key}, .separator = separator, .fields = FieldRules::kCsv});
    std::string first;
    for (const std::string& line : sorted_in_memory(lines, order)) {
      first += line[0] == '"' ? line[1] : line[0];
    }
    return first;
  };
  EXPECT_EQ(order_by("1nr"), "654321");
  // Quoted: a "quoted" one; a, with comma; two and lines; ab.
  EXPECT_EQ(order_by("2"), "512634");
  // No number is 0; of equal keys the lines decide.
  EXPECT_EQ(order_by("3n"), "456312");
  EXPECT_EQ(error_of([&] { order_by("2,3"); }), EINVAL);
  EXPECT_EQ(error_of([&] { order_by("2.1"); }), EINVAL);
}

TEST_F(LineKey, BlanksInFrontOfColumns) {
  // Of the value between quotes, too.
  const Lines lines = {"1, b", "2,a", "3,\" \tc\"", "4,\"  \"", " 5,d"};
  const auto order_by = [&](const LineKeyOptions& options) {
    std::string first;
    for (const std::string& line : sorted_in_memory(lines, line_order(options))) {
      first += line[0] == ' ' ? line[1] : line[0];
    }
    return first;
  };
  EXPECT_EQ(order_by({.keys = {"2"}, .fields = FieldRules::kCsv}), "34125");
  EXPECT_EQ(order_by({.keys = {"2b"}, .fields = FieldRules::kCsv}), "42135");
  EXPECT_EQ(order_by({.keys = {"2"}, .letters = "b", .fields = FieldRules::kCsv}), "42135");
  EXPECT_EQ(order_by({.letters = "b", .fields = FieldRules::kCsv}), "12345");
}

}  // namespace

}  // namespace vortex::test::line_key_test
