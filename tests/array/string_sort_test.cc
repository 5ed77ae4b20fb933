// Sorts of strings: views, objects of std::string, and arrays of bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sort/arrays/string_sort.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/array_calls.h"

namespace vortex::test::string_sort_test { namespace {

using Random = std::mt19937_64;

// What strings are made of.
struct Texts {
  const char* name;
  std::size_t letters;  // beginning with NUL
  std::size_t longest;
  std::size_t prefix;  // bytes that all have in common
  std::size_t count;
};
constexpr std::size_t kMany = 70000;  // for two threads
constexpr Texts kTexts[] = {
    {"None", 4, 3, 0, 0},          {"One", 4, 3, 0, 1},
    {"Few", 3, 9, 0, 8},           {"SomeEqual", 2, 8, 0, 150},
    {"Empty", 2, 0, 0, 1000},      {"Bytes", 256, 40, 0, 5000},
    {"Nested", 2, 60, 0, 5000},    {"BehindAPrefix", 3, 12, 1000, 3000},
    {"Long", 200, 30, 65525, 300}, {"Parallel", 26, 14, 0, kMany},
    {"Frequent", 2, 9, 0, kMany},  {"ParallelPrefix", 4, 20, 30, kMany},
};

std::vector<std::string> made(const Texts& texts, Random& random) {
  std::string prefix;
  for (std::size_t i = 0; i < texts.prefix; ++i) prefix += static_cast<char>(random());
  std::vector<std::string> strings(texts.count);
  for (std::string& string : strings) {
    string = prefix;
    for (std::size_t left = random() % (texts.longest + 1); left > 0; --left) {
      string += static_cast<char>(random() % texts.letters);
    }
  }
  return strings;
}

// By unsigned bytes, as std::string compares.
template <typename T>
bool before(const T& a, const T& b, Order order) {
  return order == Order::kAscending ? a < b : b < a;
}

class StringSort : public testing::TestWithParam<Texts> {
 protected:
  // Calls use(strings, options) for both orders, with one thread and several.
  template <typename Use>
  void in_all_ways(const Use& use) {
    auto random = test_random();
    for (const Order order : {Order::kAscending, Order::kDescending}) {
      for (const unsigned threads : {1u, 2u, 7u}) {
        // Many strings take long: one thread in one order, several in the other.
        if (GetParam().count == kMany && (threads == 1) == (order == Order::kAscending)) continue;
        SCOPED_TRACE(threads);
        use(made(GetParam(), random), SortOptions{.order = order, .threads = threads});
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, StringSort, testing::ValuesIn(kTexts),
                         [](const auto& info) { return std::string(info.param.name); });

std::vector<std::string> sorted(std::vector<std::string> strings, Order order) {
  std::stable_sort(strings.begin(), strings.end(),
                   [&](const auto& a, const auto& b) { return before(a, b, order); });
  return strings;
}

TEST_P(StringSort, Objects) {
  in_all_ways([](std::vector<std::string> strings, const SortOptions& options) {
    const auto expected = sorted(strings, options.order);
    sort(strings, options);
    ASSERT_TRUE(strings == expected);
  });
}

TEST_P(StringSort, Views) {
  in_all_ways([](const std::vector<std::string>& strings, const SortOptions& options) {
    std::vector<std::string_view> views(strings.begin(), strings.end());
    const auto expected = sorted(strings, options.order);
    sort(views, options);
    ASSERT_TRUE(std::ranges::equal(views, expected));
    // Each view is there once.
    std::vector<const char*> places, all;
    for (const std::string_view view : views) places.push_back(view.data());
    for (const std::string& string : strings) all.push_back(string.data());
    std::ranges::sort(places);
    std::ranges::sort(all);
    ASSERT_TRUE(places == all);
  });
}

TEST_P(StringSort, EqualViewsKeepTheirOrder) {
  in_all_ways([](const std::vector<std::string>& strings, SortOptions options) {
    std::vector<std::string_view> views(strings.begin(), strings.end());
    auto expected = views;
    std::stable_sort(expected.begin(), expected.end(),
                     [&](const auto& a, const auto& b) { return before(a, b, options.order); });
    options.stable = true;
    sort(std::span(views), options);
    for (std::size_t i = 0; i < views.size(); ++i) {
      ASSERT_EQ(views[i].data(), expected[i].data());
      ASSERT_EQ(views[i].size(), expected[i].size());
    }
  });
}

TEST_P(StringSort, Places) {
  in_all_ways([](const std::vector<std::string>& strings, const SortOptions& options) {
    std::vector<std::uint32_t> expected(strings.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::stable_sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
      return before(strings[a], strings[b], options.order);
    });
    const auto string_of = [&](std::size_t place) { return std::string_view(strings[place]); };
    std::vector<std::uint32_t> places(strings.size());
    argsort_strings_into(strings.size(), string_of, std::span(places), options);
    EXPECT_EQ(places, expected);
    std::vector<std::int64_t> wide(strings.size());
    argsort_strings_into(strings.size(), string_of, std::span(wide), options);
    EXPECT_TRUE(std::equal(wide.begin(), wide.end(), expected.begin(), expected.end()));
    if (strings.empty()) return;
    places.pop_back();
    EXPECT_THROW(argsort_strings_into(strings.size(), string_of, std::span(places), options),
                 std::invalid_argument);
  });
}

TEST_P(StringSort, Unique) {
  in_all_ways([](std::vector<std::string> strings, SortOptions options) {
    auto expected = sorted(strings, options.order);
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    for (const bool stable : {false, true}) {
      options.stable = stable;
      std::vector<std::string_view> views(strings.begin(), strings.end());
      views.resize(sort_unique(views, options));
      ASSERT_TRUE(std::ranges::equal(views, expected));
    }
    strings.resize(sort_unique(strings, options));
    ASSERT_TRUE(strings == expected);
  });
}

// The first ten bytes of each string.
TEST_P(StringSort, ArraysOfBytes) {
  using Ten = std::array<unsigned char, 10>;
  in_all_ways([](const std::vector<std::string>& strings, const SortOptions& options) {
    std::vector<Ten> arrays(strings.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::string_view end = std::string_view(strings[i]).substr(GetParam().prefix);
      std::memcpy(arrays[i].data(), end.data(), std::min<std::size_t>(end.size(), 10));
    }
    auto expected = arrays;
    std::sort(expected.begin(), expected.end(),
              [&](const auto& a, const auto& b) { return before(a, b, options.order); });
    sort(arrays, options);
    ASSERT_TRUE(arrays == expected);
    arrays.resize(sort_unique(arrays, options));
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    ASSERT_TRUE(arrays == expected);
  });
}

// Many short cycles and one long one, sorted and reversed.
TEST(StringSortOrders, ObjectsThatMoveLittle) {
  constexpr std::size_t kCount = 70000;
  const auto text_of = [](std::size_t i) {
    const std::string digits = std::to_string(i);
    // Every other one is too long to lie in its object.
    return std::string(8 - digits.size(), '0') + digits + std::string(i % 2 * 20, 'x');
  };
  std::vector<std::string> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = text_of(i);
  const auto place_of = [](int kind, std::size_t i) {
    if (kind == 0) return i;
    if (kind == 1) return kCount - 1 - i;
    return kind == 2 ? i ^ 1 : (i + 1) % kCount;
  };
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<std::string> strings(kCount);
    for (std::size_t i = 0; i < kCount; ++i) strings[i] = text_of(place_of(kind, i));
    vortex::sort(strings, {.threads = 2});
    ASSERT_TRUE(strings == expected) << kind;
  }
}

// Strings of some groups, of which each has a prefix of its own.
class GroupedStrings {
 public:
  struct Scratch {};

  explicit GroupedStrings(const std::vector<std::string>& strings) : strings_(strings) {}

  std::string_view text(const IndexEntry& entry, unsigned, Scratch&) const {
    return strings_[entry.value];
  }
  static void prefetch(const IndexEntry&, std::size_t) {}
  static unsigned text_behind(unsigned) { return 0; }
  int compare(const IndexEntry& a, const IndexEntry& b, unsigned, std::size_t) const {
    return strings_[a.value].compare(strings_[b.value]);
  }
  static std::uint64_t flip() { return 0; }
  static bool by_value() { return true; }
  static bool marks_unique() { return false; }
  static bool marks_same() { return false; }
  static bool is_long(const IndexEntry&) { return false; }
  static bool keeps_long(unsigned) { return false; }

 private:
  const std::vector<std::string>& strings_;
};

// Some groups that are each more than a thread's share of the work of a fourth: side by side, in
// one job of the team. One of them that is nearly all is for all threads: so are all of few
// strings, of which no two sorts have had memory.
TEST(LargeGroups, AreSortedSideBySideOrTogether) {
  auto random = test_random();
  constexpr std::size_t kFew = 1 << 18, kMost = 1 << 20;
  Turns turns(random, 2);
  for (const std::size_t count : {kMost, kFew}) {
    for (const std::size_t heavy : {0, 9}) {  // of ten
      if (turns.leave_out()) continue;
      std::vector<std::string> strings(count);
      std::vector<IndexEntry> index(count), expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t group = random() % 10 < heavy ? 0 : i % 6;
        strings[i] = "?site/and-a-long-folder/" + std::to_string(random() % 1'000'000);
        strings[i][0] = static_cast<char>('a' + group);
        index[i] = {chunk_at(strings[i], 0), i};
      }
      expected = index;
      std::sort(expected.begin(), expected.end(), [&](const IndexEntry& a, const IndexEntry& b) {
        const int order = strings[a.value].compare(strings[b.value]);
        return order < 0 || (order == 0 && a.value < b.value);
      });
      for (const unsigned threads : {2U, 7U}) {
        std::vector<IndexEntry> sorted = index;
        CountedTeam team(threads);
        vortex::StringSort(GroupedStrings(strings), team).sort(sorted);
        EXPECT_TRUE(std::equal(sorted.begin(), sorted.end(), expected.begin(),
                               [](const auto& a, const auto& b) { return a.value == b.value; }));
        const bool side_by_side = threads == 2 && count == kMost && heavy == 0;
        EXPECT_EQ(team.took_part().size() == 1, side_by_side) << count << ", heavy " << heavy;
        for (const std::size_t took_part : team.took_part()) EXPECT_EQ(took_part, threads);
      }
    }
  }
}

// Records that have the same key, and the same text behind it, which long ones do not make.
class SameStrings {
 public:
  struct Scratch {};

  explicit SameStrings(std::uint64_t long_one_of) : long_one_of_(long_one_of) {}

  std::string_view text(const IndexEntry& entry, unsigned text, Scratch&) const {
    EXPECT_FALSE(text == 1 && is_long(entry));
    return text == 0 ? "key" : "text";
  }
  static void prefetch(const IndexEntry&, std::size_t) {}
  unsigned text_behind(unsigned text) const { return text == 0 && long_one_of_ != 0 ? 1 : 0; }
  static int compare(const IndexEntry&, const IndexEntry&, unsigned, std::size_t) { return 0; }
  static std::uint64_t flip() { return 0; }
  static bool by_value() { return true; }
  static bool marks_unique() { return true; }
  static bool marks_same() { return false; }
  bool is_long(const IndexEntry& entry) const {
    return long_one_of_ != 0 && entry.value % long_one_of_ == 0;
  }
  static bool keeps_long(unsigned text) { return text == 1; }

 private:
  const std::uint64_t long_one_of_;
};

// For each of them: to turn entries, to turn them back, and to mark them; with texts to look for
// long records, to bring them behind the others in three steps, and to read the others before, and
// behind that to merge them in two steps, and to mark all.
TEST(EqualStrings, AreForAllThreads) {
  auto random = test_random();
  std::vector<IndexEntry> expected(50'000);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = {i == 0 ? 0 : kSameKey, i};
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    for (const std::uint64_t long_one_of : {0, 1000}) {
      std::vector<IndexEntry> index = expected;
      std::shuffle(index.begin(), index.end(), random);
      for (IndexEntry& entry : index) entry.key = chunk_at("key", 0);
      CountedTeam team(threads);
      vortex::StringSort(SameStrings(long_one_of), team).sort(index);
      const std::uint64_t first = std::exchange(index[0].key, 0);
      if (long_one_of == 0) {
        EXPECT_EQ(first, chunk_at("key", 0));
      }
      EXPECT_TRUE(same_bytes(index, expected)) << threads;
      const std::size_t jobs = threads == 1 ? 0 : long_one_of == 0 ? 3 : 11;
      EXPECT_EQ(team.took_part(), std::vector<std::size_t>(jobs, threads));
    }
  }
}

// A team of more threads than a group has entries for, that of one processor.
struct LargeTeam {
  static unsigned threads() noexcept { return detail::ThreadTeam::kMaxThreads; }
  template <typename Part>
  static void run(std::size_t parts, const Part& part) {
    for (std::size_t i = 0; i < parts; ++i) part(i);
  }
};

// Two groups that are large enough for all threads, of which many get nothing.
TEST(EqualStrings, AreFewerThanParts) {
  constexpr std::size_t kGroup = 16'500;
  std::vector<IndexEntry> index(2 * kGroup);
  for (std::size_t i = 0; i < index.size(); ++i)
    index[i] = {chunk_at(i % 2 == 0 ? "a" : "b", 0), index.size() - i};
  LargeTeam team;
  ASSERT_LT(kGroup, parts_for(team));
  vortex::StringSort(SameStrings(0), team).sort(index);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::size_t group = i / kGroup;
    const std::uint64_t first = chunk_at(group == 0 ? "a" : "b", 0);
    ASSERT_EQ(index[i].key, i % kGroup == 0 ? first : kSameKey) << i;
    ASSERT_EQ(index[i].value, 2 * (i % kGroup) + (group == 0 ? 2 : 1)) << i;
  }
}

// Numbers as texts behind a key that all have, of which long ones are not made.
class NumberedStrings {
 public:
  using Scratch = std::string;

  NumberedStrings(const std::vector<std::string>& texts, bool by_value, bool unique)
      : texts_(texts), by_value_(by_value), unique_(unique) {}

  std::string_view text(const IndexEntry& entry, unsigned text, Scratch& scratch) const {
    EXPECT_FALSE(text == 1 && is_long(entry));
    if (text == 0) return "key";
    return scratch = texts_[entry.value];
  }
  static void prefetch(const IndexEntry&, std::size_t) {}
  static unsigned text_behind(unsigned text) { return text == 0 ? 1 : 0; }
  int compare(const IndexEntry& a, const IndexEntry& b, unsigned, std::size_t) const {
    return texts_[a.value].compare(texts_[b.value]);
  }
  static std::uint64_t flip() { return 0; }
  bool by_value() const { return by_value_; }
  bool marks_unique() const { return unique_; }
  bool marks_same() const { return !unique_ && by_value_; }
  bool is_long(const IndexEntry& entry) const { return texts_[entry.value].size() > 5; }
  static bool keeps_long(unsigned text) { return text == 1; }

 private:
  const std::vector<std::string>& texts_;
  const bool by_value_;
  const bool unique_;
};

// A group of all strings: long ones are brought behind the others, sorted and merged with them.
TEST(LongStrings, OfOneKeyAreSortedByAllThreads) {
  auto random = test_random();
  constexpr std::size_t kCount = 40'000;
  for (const std::uint64_t long_one_of : {1, 3, 1000, 50'000}) {
    for (const std::size_t texts : {20, 100'000}) {
      std::vector<std::string> made(kCount);
      for (std::string& text : made) {
        text = std::to_string(10'000 + random() % texts % 90'000);
        if (random() % long_one_of == 0) text += "+long";
      }
      std::vector<IndexEntry> expected(kCount);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] = {chunk_at("key", 0), i};
      const auto given = expected;
      std::ranges::stable_sort(expected, {}, [&](const IndexEntry& e) { return made[e.value]; });
      for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
        const bool unique = random() % 2 == 0, by_value = !unique || random() % 2 == 0;
        std::vector<IndexEntry> index = given;
        CountedTeam team(threads);
        vortex::StringSort(NumberedStrings(made, by_value, unique), team).sort(index);
        for (std::size_t i = 0; i < kCount; ++i) {
          if (by_value) {
            ASSERT_EQ(index[i].value, expected[i].value) << threads;
          }
          ASSERT_EQ(made[index[i].value], made[expected[i].value]) << threads;
          const bool same = i != 0 && made[expected[i].value] == made[expected[i - 1].value];
          ASSERT_EQ(index[i].key == kSameKey, same) << threads << ", " << i;
        }
        if (threads != 1) {
          EXPECT_GE(team.took_part().size(), long_one_of > kCount ? 3U : 8U);
        }
        EXPECT_EQ(team.took_part(), std::vector<std::size_t>(team.took_part().size(), threads));
      }
    }
  }
}

// By all: in pieces, then two by two, and each pass puts values where they were.
TEST(ComparedStrings, AreSortedAndMergedByAllThreads) {
  auto random = test_random();
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    for (const std::size_t count : {0, 1, 255, 256, 257, 5000, 20'011}) {
      for (const std::uint64_t keys : {1, 30, 1'000'000}) {
        std::vector<std::uint64_t> numbers(count);
        for (std::uint64_t& number : numbers) number = random() % keys;
        std::vector<IndexEntry> given(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) given[i] = {kSameKey, i};
        std::shuffle(given.begin(), given.end(), random);
        // The value decides where two are to be in one order only.
        const auto before = [&](const IndexEntry& a, const IndexEntry& b) {
          return std::pair(numbers[a.value], a.value) < std::pair(numbers[b.value], b.value);
        };
        const auto by_number = [&](const IndexEntry& a, const IndexEntry& b) {
          return numbers[a.value] < numbers[b.value];
        };
        for (std::size_t i = 0; i < count; ++i) expected[i] = {0, given[i].value};
        auto index = given;
        CountedTeam team(threads);
        if (count == 255) {
          // Fewer than threads are woken for.
          ComparedEntries(std::span(index), team, before).sort();
          std::sort(expected.begin(), expected.end(), before);
          EXPECT_EQ(team.took_part().size(), threads == 1 ? 1U : 0U);
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(index[i].value, expected[i].value);
          continue;
        }
        // The parts in order, and merged as std::inplace_merge() does.
        const std::size_t middle = random() % (count + 1);
        const auto half = static_cast<std::ptrdiff_t>(middle);
        ComparedEntries(std::span(index).first(middle), team, before).sort();
        ComparedEntries(std::span(index).subspan(middle), team, before).sort();
        std::sort(expected.begin(), expected.begin() + half, before);
        std::sort(expected.begin() + half, expected.end(), before);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(index[i].value, expected[i].value);
        ComparedEntries(std::span(index), team, by_number).merge(middle);
        std::inplace_merge(expected.begin(), expected.begin() + half, expected.end(), by_number);
        ASSERT_TRUE(same_bytes(index, expected)) << threads << ", " << count;
        EXPECT_EQ(team.took_part(), std::vector<std::size_t>(team.took_part().size(), threads));
        if (count > 512) {
          EXPECT_GE(team.took_part().size(), 3U);
        }
      }
    }
  }
}

TEST(EqualStrings, AreLeftOutByAllThreads) {
  auto random = test_random();
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    for (const std::size_t count : {0, 1, 100, 10'000}) {
      for (const std::uint64_t one_of : {1, 2, 100}) {
        std::vector<IndexEntry> index(count);
        for (std::size_t i = 0; i < count; ++i)
          index[i] = {random() % one_of == 0 ? kSameKey : 1, i};
        std::vector<std::uint64_t> kept, others;
        for (const IndexEntry& entry : index)
          (entry.key == kSameKey ? others : kept).push_back(entry.value);
        CountedTeam team(threads);
        ASSERT_EQ(marked_last(std::span(index), team), kept.size());
        std::vector<std::uint64_t> values(count);
        std::ranges::transform(index, values.begin(), &IndexEntry::value);
        std::sort(values.begin() + static_cast<std::ptrdiff_t>(kept.size()), values.end());
        kept.insert(kept.end(), others.begin(), others.end());
        ASSERT_EQ(values, kept) << threads;
        EXPECT_EQ(team.took_part(), std::vector<std::size_t>(threads == 1 ? 1 : 3, threads));
      }
    }
  }
}

struct Item {
  std::array<char, 4> name;
  std::uint32_t index;
};

// The first of those with equal keys remains, whatever kind of key it is.
TEST(UniqueRecords, ByStringsAndByTuples) {
  auto random = test_random();
  std::vector<Item> items(20000);
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    for (char& letter : items[i].name) letter = static_cast<char>('a' + random() % 5);
    items[i].index = i;
  }
  auto expected = items;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Item& a, const Item& b) { return a.name < b.name; });
  const auto same = [](const Item& a, const Item& b) { return a.name == b.name; };
  expected.erase(std::unique(expected.begin(), expected.end(), same), expected.end());
  const auto expect_first_of_each = [&](const auto& key) {
    auto unique = items;
    unique.resize(sort_unique(unique, key));
    ASSERT_EQ(unique.size(), expected.size());
    for (std::size_t i = 0; i < unique.size(); ++i) {
      ASSERT_EQ(unique[i].index, expected[i].index);
    }
  };
  expect_first_of_each([](const Item& item) { return item.name; });
  expect_first_of_each([](const Item& item) { return std::string_view(item.name.data(), 4); });
  expect_first_of_each([](const Item& item) {
    return std::tuple(item.name[0], item.name[1], item.name[2], item.name[3]);
  });
  expect_first_of_each([](const Item& item) {
    return std::array<std::int64_t, 4>{item.name[0], item.name[1], item.name[2], item.name[3]};
  });
}

}  // namespace

}  // namespace vortex::test::string_sort_test
