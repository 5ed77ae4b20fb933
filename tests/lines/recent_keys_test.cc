// Keys that have come lately are found while the records that hold them stay, and no longer.
#include "lines/recent_keys.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>

#include "io/file/seeded_random.h"
#include "lines/stored_record.h"
#include "tests/support/random_seed.h"

namespace vortex::test {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 20;

// Records as an arena stores them.
class Stored {
 public:
  explicit Stored(bool has_keys) : has_keys_(has_keys) {}

  const char* add(std::string_view key) {
    const std::string_view record = has_keys_ ? "a record" : key;
    std::string& text = texts_.emplace_back(stored_bytes(key, record, has_keys_), '\0');
    char* at = text.data();
    if (has_keys_) at = write_length(at, key.size());
    at = write_length(at, record.size());
    if (has_keys_) at = copy_text(at, key);
    copy_text(at, record);
    return text.data();
  }
  // Others take the place of all that was added.
  void replace() {
    for (std::string& text : texts_) text.assign(text.size(), '\0');
  }

 private:
  const bool has_keys_;
  std::deque<std::string> texts_;
};

TEST(RecentKeys, FindsOnlyWhatWasNoted) {
  for (const bool has_keys : {false, true}) {
    const std::uint64_t seed = test_seed();
    RecentKeys recent(kArenaBytes, has_keys);
    Stored stored(has_keys);
    std::set<std::string> noted;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const std::uint64_t bits = mix_bits(seed + i);
      // Long ones begin alike.
      std::string key = bits % 2 == 0 ? "" : "the beginning of many keys ";
      key += std::to_string(mix_bits(bits) % 100);
      if (recent.contains(key)) {
        ++found;
        ASSERT_TRUE(noted.contains(key)) << key;
      } else if (bits % 3 != 0) {
        recent.note(stored.add(key));
        noted.insert(key);
      }
    }
    EXPECT_GT(found, 5000u);
  }
}

TEST(RecentKeys, WhatIsForgottenIsNotLookedAt) {
  for (const bool has_keys : {false, true}) {
    for (const std::string_view key : {"short", "longer than the eight bytes of a chunk"}) {
      RecentKeys recent(kArenaBytes, has_keys);
      Stored stored(has_keys);
      EXPECT_FALSE(recent.contains(key));
      recent.note(stored.add(key));
      EXPECT_TRUE(recent.contains(key));
      EXPECT_FALSE(recent.contains("another"));
      recent.forget();
      recent.note(nullptr);  // of no key
      stored.replace();
      EXPECT_FALSE(recent.contains(key)) << key;
    }
  }
}

// A table is not asked for ever where nothing is equal: it goes on later.
TEST(RecentKeys, PausesWhereFewAreEqual) {
  RecentKeys recent(kArenaBytes, false);
  Stored stored(false);
  const char* const first = stored.add("the first of all the keys");
  EXPECT_FALSE(recent.contains("the first of all the keys"));
  recent.note(first);
  const auto asked_of_10 = [&recent](std::uint64_t from) {
    std::uint64_t known = 0;
    for (std::uint64_t i = 0; i < 10; ++i) known += recent.contains("the first of all the keys");
    for (std::uint64_t i = 0; i < 100000; ++i) {
      EXPECT_FALSE(recent.contains("no key is like " + std::to_string(from + i)));
    }
    return known;
  };
  EXPECT_EQ(asked_of_10(0), 10u);
  std::uint64_t missed = 0;
  std::uint64_t known = 0;
  for (std::uint64_t round = 1; round < 20; ++round) {
    const std::uint64_t now = asked_of_10(round * 1000000);
    known += now;
    missed += 10 - now;
  }
  EXPECT_GT(missed, 0u);
  EXPECT_GT(known, 0u);
}

}  // namespace
}  // namespace vortex::test
