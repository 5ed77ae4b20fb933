// Keys that have come lately are found while the records that hold them stay, and no longer.
#include "lines/memory/recent_keys.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/sequence/seeded_random.h"
#include "lines/memory/line_arena.h"
#include "lines/memory/record_piece.h"
#include "lines/record/stored_record.h"
#include "tests/support/random_seed.h"

namespace vortex::test::recent_keys_test { namespace {

constexpr std::size_t kTableBytes = std::size_t{16} << 10;

// Records as an arena stores them.
class Stored {
 public:
  explicit Stored(bool has_keys) : has_keys_(has_keys) {}

  IndexEntry& add(std::string_view key, std::string_view keyed = "a record") {
    const std::string_view record = has_keys_ ? keyed : key;
    std::string& text = texts_.emplace_back(stored_bytes(key, record, has_keys_), '\0');
    char* at = text.data();
    if (has_keys_) at = write_length(at, key.size());
    at = write_length(at, record.size());
    if (has_keys_) at = copy_text(at, key);
    copy_text(at, record);
    entries_.push_back({0, reinterpret_cast<std::uint64_t>(text.data())});
    return entries_.back();
  }
  // Others take the place of all that was added.
  void replace() {
    for (std::string& text : texts_) text.assign(text.size(), '\0');
  }

 private:
  const bool has_keys_;
  std::deque<std::string> texts_;
  std::deque<IndexEntry> entries_;
};

// Orders that keep one record of each key.
StoredOrder unique_order(bool has_keys) {
  LineOrder order;
  order.unique = true;
  StoredOrder stored(order);
  stored.has_keys = has_keys;
  return stored;
}

// Orders that count records whose bytes are the same.
StoredOrder counted_order(bool has_keys) {
  StoredOrder stored{LineOrder{}};
  stored.has_keys = stored.record_decides = has_keys;
  return stored;
}

TEST(RecentKeys, FindsOnlyWhatWasNoted) {
  for (const bool has_keys : {false, true}) {
    const std::uint64_t seed = test_seed();
    RecentKeys recent(kTableBytes, unique_order(has_keys));
    Stored stored(has_keys);
    std::set<std::string> noted;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const std::uint64_t bits = mix_bits(seed + i);
      // Long ones begin alike.
      std::string key = bits % 2 == 0 ? "" : "the beginning of many keys ";
      key += std::to_string(mix_bits(bits) % 100);
      if (recent.contains(key, key)) {
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
      RecentKeys recent(kTableBytes, unique_order(has_keys));
      Stored stored(has_keys);
      EXPECT_FALSE(recent.contains(key, key));
      recent.note(stored.add(key));
      EXPECT_TRUE(recent.contains(key, key));
      EXPECT_FALSE(recent.contains("another", "another"));
      recent.forget();
      recent.note(stored.add("another"));  // of no key
      stored.replace();
      EXPECT_FALSE(recent.contains(key, key)) << key;
    }
  }
}

// Every record is either there by itself or counted by an entry, however many there are.
TEST(RecentKeys, CountsRecordsWhoseBytesAreTheSame) {
  for (const bool has_keys : {false, true}) {
    const std::uint64_t seed = test_seed();
    RecentKeys recent(kTableBytes, counted_order(has_keys));
    Stored stored(has_keys);
    std::map<std::string, std::uint64_t> expected;
    std::vector<std::pair<std::string, IndexEntry*>> entries;
    for (std::uint64_t i = 0; i < 400000; ++i) {
      const std::uint64_t bits = mix_bits(seed + i);
      // Half of all are one record, more than one entry counts. Equal keys have other records too.
      const std::string number = std::to_string(bits % 2 == 0 ? 0 : mix_bits(bits) % 50);
      const std::string record = bits % 8 < 4 ? number : number + " is a record of many bytes";
      const std::string key = has_keys ? number : record;
      ++expected[record];
      if (recent.contains(key, record)) continue;
      IndexEntry& entry = stored.add(key, record);
      recent.note(entry);
      entries.emplace_back(record, &entry);
    }
    recent.forget();
    EXPECT_LT(entries.size(), 100000u);
    std::map<std::string, std::uint64_t> found;
    for (const auto& [record, entry] : entries) found[record] += 1 + repeats_of(*entry);
    EXPECT_EQ(found, expected);
  }
}

// Rare keys do not drive out one that is found again and again.
TEST(RecentKeys, WhatIsFoundKeepsItsPlace) {
  RecentKeys recent(1, unique_order(false));  // two places
  Stored stored(false);
  EXPECT_FALSE(recent.contains("often", "often"));
  recent.note(stored.add("often"));
  const auto note_other = [&](int number) {
    const std::string other = "rare " + std::to_string(number);
    if (!recent.contains(other, other)) recent.note(stored.add(other));
  };
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(recent.contains("often", "often")) << i;
    note_other(i);
  }
  for (int i = 100; i < 200; ++i) note_other(i);
  EXPECT_FALSE(recent.contains("often", "often"));
}

// Records that threads take piece by piece: each piece knows those that it has put.
TEST(RecordPieces, LeaveOutWhatTheyHavePut) {
  constexpr std::size_t kPieces = 3, kRecords = 1000;
  for (const bool counted : {false, true}) {
    const std::uint64_t seed = test_seed();
    const StoredOrder order = counted ? counted_order(false) : unique_order(false);
    std::vector<char> memory(std::size_t{16} << 20);
    LineArena arena(memory, order);
    std::vector<std::unique_ptr<RecordPiece>> pieces;
    for (std::size_t i = 0; i < kPieces; ++i) {
      pieces.push_back(std::make_unique<RecordPiece>(std::size_t{64} << 10, nullptr));
      pieces.back()->make_table(order, std::size_t{64} << 10);
    }
    std::map<std::string_view, std::uint64_t> expected;
    std::deque<std::string> made;
    std::size_t put = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
      std::vector<std::string_view> records;
      while (records.size() < kRecords) {
        const std::uint64_t bits = mix_bits(seed + made.size());
        made.push_back((bits % 2 == 0 ? "" : "words that are long ") + std::to_string(bits % 90));
        records.push_back(made.back());
        ++expected[records.back()];
      }
      RecordPiece& piece = *pieces[i % kPieces];
      piece.take(records);
      piece.leave_out_known();
      EXPECT_EQ(piece.found(), kRecords);
      for (std::size_t at = 0; at < piece.records(); ++at)
        ASSERT_EQ(piece.record(at).data(), records[piece.place(at)].data());
      const auto place = arena.reserve(piece.records(), piece.stored_bytes());
      ASSERT_TRUE(place);
      piece.put(arena, *place);
      put += piece.records();
    }
    // Few but those of the first piece of each, and those that others drive out.
    EXPECT_LT(put, kPieces * kRecords + 60 * kRecords / 10);
    for (const auto& piece : pieces) piece->forget();
    std::map<std::string_view, std::uint64_t> found;
    for (const IndexEntry& entry : arena.index())
      found[stored_record_at(stored_at(entry), false).record] += 1 + repeats_of(entry);
    EXPECT_EQ(arena.records(), put);
    EXPECT_EQ(found.size(), expected.size());
    if (counted) {
      EXPECT_EQ(found, expected);
    }
  }
}

// A table is not asked for ever where nothing is equal: it goes on later.
TEST(RecentKeys, PausesWhereFewAreEqual) {
  RecentKeys recent(kTableBytes, unique_order(false));
  Stored stored(false);
  IndexEntry& first = stored.add("the first of all the keys");
  const auto contains = [&recent](std::string_view key) { return recent.contains(key, key); };
  EXPECT_FALSE(contains("the first of all the keys"));
  recent.note(first);
  const auto asked_of_10 = [&contains](std::uint64_t from) {
    std::uint64_t known = 0;
    for (std::uint64_t i = 0; i < 10; ++i) known += contains("the first of all the keys");
    for (std::uint64_t i = 0; i < 100000; ++i) {
      EXPECT_FALSE(contains("no key is like " + std::to_string(from + i)));
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

}  // namespace vortex::test::recent_keys_test
