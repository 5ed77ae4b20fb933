// Records that stay in an arena when others go: which ones, where they lie, and what each thread
// does for it, by any number of threads.
#include "lines/memory/staying_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lines/memory/line_arena.h"
#include "tests/lines/line_cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/line_sort.h"

namespace vortex::test::staying_records_test { namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::vector<unsigned> teams() {
  return kShadowMemory ? std::vector{7U, 64U} : std::vector{1U, 2U, 7U, 16U, 64U, 128U};
}

// A record that was pushed, and for how many more it stands.
struct Pushed {
  std::string line;
  std::uint64_t repeats = 0;
};

enum class Arrival { kRandom, kSorted, kTeeth };

// Many lines, of which many are equal if there are few texts, and a few that are long.
std::vector<Pushed> make_pushed(std::size_t count, std::size_t texts, Arrival arrival, bool counted,
                                std::mt19937_64& random) {
  std::vector<Pushed> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t text = texts == 0 ? i : random() % texts;
    std::string& line = all[i].line;
    line = std::to_string(text * 7919 % 99'991) + "," + std::to_string(text * 31 % 1009);
    line += std::string(text % 17, 'x');
    if (counted && random() % 8 == 0) all[i].repeats = random() % (kMaxRepeats + 1);
  }
  for (int i = 0; i < 4; ++i) {
    all[random() % count].line =
        std::to_string(random()) + "," + std::string(random() % 90'000, 'y');
  }
  const std::size_t sorted = arrival == Arrival::kTeeth ? count / 3 : count;
  for (std::size_t i = 0; arrival != Arrival::kRandom && i < count; i += sorted) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
    std::sort(begin, begin + static_cast<std::ptrdiff_t>(std::min(sorted, count - i)),
              [](const Pushed& a, const Pushed& b) { return a.line < b.line; });
  }
  return all;
}

// Below 0 where the first comes first, by what the order looks at.
int compared(std::string_view left, std::string_view right, const StoredOrder& stored) {
  int order =
      stored.has_keys ? behind_comma(left).compare(behind_comma(right)) : left.compare(right);
  if (order == 0 && stored.record_decides) order = left.compare(right);
  return stored.flip == 0 ? order : -order;
}

// The places of what was pushed, in the order.
std::vector<std::size_t> order_of(const std::vector<Pushed>& pushed, const StoredOrder& stored) {
  std::vector<std::size_t> places(pushed.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return compared(pushed[a].line, pushed[b].line, stored) < 0;
  });
  return places;
}

// A sorted arena, which can be had again, and what is to be in it.
class SortedArena {
 public:
  SortedArena(const std::vector<Pushed>& pushed, const std::vector<std::size_t>& places,
              const StoredOrder& stored, std::span<char> memory, detail::ThreadTeam& team)
      : pushed_(pushed), stored_(stored), memory_(memory), arena_(memory, stored), places_(places) {
    for (const Pushed& one : pushed) {
      if (!arena_.push(key_of(one.line), one.line)) throw std::bad_alloc();
      add_repeats(arena_.newest(), one.repeats);
    }
    arena_.sort(team);
    saved_.assign(memory.begin(), memory.end());
  }

  LineArena again() const {
    std::copy(saved_.begin(), saved_.end(), memory_.begin());
    return arena_;
  }
  std::string_view key_of(std::string_view line) const {
    return stored_.has_keys ? behind_comma(line) : std::string_view();
  }
  bool has_same(std::size_t sorted) const {
    if (sorted == 0 || sorted >= places_.size()) return false;
    return compared(at(sorted - 1).line, at(sorted).line, stored_) == 0;
  }
  // Of a place in the order.
  const Pushed& at(std::size_t sorted) const { return pushed_[places_[sorted]]; }
  std::size_t size() const { return places_.size(); }
  const StoredOrder& stored() const { return stored_; }
  std::uint64_t bytes_of(const Pushed& one) const {
    return stored_bytes(key_of(one.line), one.line, stored_.has_keys);
  }

  // The records of an arena lie one behind the other, as if they had been pushed, and are those of
  // `kept`, places in the order: themselves, where equal ones are not the same.
  void expect(const LineArena& arena, std::vector<std::size_t> kept) const {
    const std::vector<Pushed> found = read(arena);
    std::map<std::string_view, std::uint64_t> counts;
    for (const Pushed& one : found) counts[one.line] += 1 + one.repeats;
    for (const std::size_t i : kept) counts[at(i).line] -= 1 + at(i).repeats;
    EXPECT_TRUE(
        std::all_of(counts.begin(), counts.end(), [](const auto& c) { return c.second == 0; }));
    expect_in_order(found);
    if (stored_.counted || (stored_.unique && !stored_.has_keys)) return;
    for (std::size_t& i : kept) i = places_[i];
    std::sort(kept.begin(), kept.end());
    ASSERT_EQ(found.size(), kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(found[i].line, pushed_[kept[i]].line) << i;
    }
  }
  std::vector<Pushed> read(const LineArena& arena) const {
    std::vector<Pushed> found;
    const char* at = arena.memory().data();
    for (std::size_t i = arena.records(); i-- > 0;) {
      const IndexEntry& entry = arena.index()[i];
      EXPECT_EQ(stored_at(entry), at);
      const StoredRecord record = stored_record(at, stored_.has_keys);
      EXPECT_EQ(record.key, stored_.has_keys ? behind_comma(record.record) : record.record);
      EXPECT_EQ(entry.key, chunk_at(record.key, 0) ^ stored_.flip);
      found.push_back({std::string(record.record), repeats_of(entry)});
      if (::testing::Test::HasFailure()) return {};
    }
    EXPECT_EQ(arena.stored_bytes(), static_cast<std::uint64_t>(at - arena.memory().data()));
    return found;
  }
  // They come in the order in which they were pushed.
  void expect_in_order(const std::vector<Pushed>& found) const {
    auto next = pushed_.begin();
    for (const Pushed& one : found) {
      while (next != pushed_.end() && next->line != one.line) ++next;
      ASSERT_NE(next, pushed_.end());
      ++next;
    }
  }

 private:
  const std::vector<Pushed>& pushed_;
  const StoredOrder stored_;
  const std::span<char> memory_;
  LineArena arena_;
  std::vector<char> saved_;
  const std::vector<std::size_t>& places_;  // in the order
};

void expect_keeps_beside(const SortedArena& sorted, std::span<char> other, detail::ThreadTeam& team,
                         std::mt19937_64& random) {
  const std::size_t size = sorted.size();
  ArenaShare share{.begin = random() % size, .entries = random() % size};
  if (random() % 3 == 0) share.begin = 0;
  while (sorted.has_same(share.begin)) ++share.begin;
  share.begin %= size;
  while (sorted.has_same((share.begin + share.entries) % size)) ++share.entries;
  if (share.entries > size) share.entries = size;
  std::vector<std::size_t> kept;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const bool goes = (i + size - share.begin) % size < share.entries;
    if (!goes) bytes += sorted.bytes_of(sorted.at(i));
    if (!goes && !(sorted.stored().unique && sorted.has_same(i))) kept.push_back(i);
  }
  LineArena arena = sorted.again();
  EXPECT_EQ(arena.bytes_beside(share, team), bytes);
  LineArena to(other, sorted.stored());
  to.keep_beside(arena, share, team);
  sorted.expect(to, kept);
  arena.keep_beside(arena, share, team);
  sorted.expect(arena, kept);
}

// Counts where it keeps them: it need not where that would free little.
void expect_keeps_first(const SortedArena& sorted, std::uint64_t all, detail::ThreadTeam& team,
                        std::mt19937_64& random, unsigned& times) {
  const std::uint64_t most = 1 + random() % (all / 3);
  std::vector<std::size_t> kept;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < sorted.size() && count < most; ++i) {
    if (sorted.stored().unique && sorted.has_same(i)) continue;
    kept.push_back(i);
    count += 1 + (sorted.stored().unique ? 0 : sorted.at(i).repeats);
  }
  LineArena arena = sorted.again();
  const IndexEntry* const last = arena.last_of_first(most, team);
  ASSERT_NE(last, nullptr);
  const char* at = stored_at(*last);
  EXPECT_EQ(stored_record(at, sorted.stored().has_keys).record, sorted.at(kept.back()).line);
  EXPECT_EQ(arena.last_of_first(all + 1, team), nullptr);
  if (!arena.keep_first(most, team)) return;
  ++times;
  if (!sorted.stored().counted) return sorted.expect(arena, kept);
  // It is not said which of the last ones, that are the same, come first.
  const std::vector<Pushed> found = sorted.read(arena);
  sorted.expect_in_order(found);
  std::map<std::string_view, std::uint64_t> counts;
  std::uint64_t kept_counts = 0, more = 0;
  for (const Pushed& one : found) {
    counts[one.line] += 1 + one.repeats;
    kept_counts += 1 + one.repeats;
    if (one.line == sorted.at(kept.back()).line) more = std::max(more, 1 + one.repeats);
  }
  EXPECT_GE(kept_counts, most);
  EXPECT_LT(kept_counts - more, most);
  for (const std::size_t i : kept) {
    if (sorted.at(i).line != sorted.at(kept.back()).line)
      counts[sorted.at(i).line] -= 1 + sorted.at(i).repeats;
  }
  counts.erase(sorted.at(kept.back()).line);
  EXPECT_TRUE(
      std::all_of(counts.begin(), counts.end(), [](const auto& c) { return c.second == 0; }));
}

void expect_drops_equal(const SortedArena& sorted, detail::ThreadTeam& team) {
  std::vector<std::size_t> kept;
  std::size_t groups = 0, counted = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (!sorted.has_same(i)) ++groups;
    if (!sorted.stored().unique || !sorted.has_same(i)) kept.push_back(i);
    counted += 1 + sorted.at(i).repeats;
  }
  LineArena arena = sorted.again();
  ASSERT_TRUE(arena.drop_equal(team));
  sorted.expect(arena, kept);
  // One of each, some for counts that are too large for it, and some where shares meet.
  const std::size_t for_counts = sorted.stored().unique ? 0 : 2 * counted / kMaxRepeats;
  const std::size_t for_shares =
      sorted.stored().unique || team.threads() == 1 ? 0 : 8 * team.threads();
  EXPECT_LE(arena.records(), groups + for_counts + for_shares);
}

TEST(StayingRecords, AreThoseThatStay) {
  auto random = test_random();
  constexpr std::size_t kCount = 150'000, kRoom = 10 * kMiB;
  std::vector<char> memory(2 * kRoom);
  const std::span<char> halves[] = {std::span(memory).first(kRoom), std::span(memory).last(kRoom)};
  unsigned times = 0, turns = 0;
  for (int variant = 0; variant < 5; ++variant) {
    LineOrder order{.descending = random() % 2 == 0, .unique = variant >= 3};
    if (variant != 0 && variant != 3) order.keys = std::make_shared<KeysBehindComma>();
    order.ties = variant == 1 ? Ties::kRecordBytes : Ties::kInputOrder;
    const StoredOrder stored(order);
    // A sanitizer sees many texts, or few.
    for (const std::size_t texts : {0, 3000}) {
      if (kShadowMemory && (texts == 0) != (variant == 2)) continue;
      const auto arrival = static_cast<Arrival>(random() % 3);
      const auto pushed = make_pushed(kCount, texts, arrival, stored.counted, random);
      const std::vector<std::size_t> places = order_of(pushed, stored);
      for (const unsigned threads : teams()) {
        SCOPED_TRACE("variant " + std::to_string(variant) + ", texts " + std::to_string(texts) +
                     ", arrival " + std::to_string(static_cast<int>(arrival)) + ", threads " +
                     std::to_string(threads));
        detail::ThreadTeam team(threads);
        const std::size_t half = random() % 2;
        const SortedArena sorted(pushed, places, stored, halves[half], team);
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < sorted.size(); ++i) {
          if (stored.unique ? !sorted.has_same(i) : true) ++all;
          if (!stored.unique) all += sorted.at(i).repeats;
        }
        expect_keeps_beside(sorted, halves[1 - half], team, random);
        expect_keeps_first(sorted, all, team, random, times);
        ++turns;
        if (texts != 0 && (stored.unique || stored.counted)) expect_drops_equal(sorted, team);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(times, turns / 2);
}

// Entries in the order of their places, of the records of one memory, of which each stays with a
// probability of `stay` in 16.
std::vector<IndexEntry> some_of(std::vector<char>& memory, std::uint64_t stay,
                                std::mt19937_64& random) {
  std::vector<IndexEntry> entries;
  for (char* at = memory.data(); memory.data() + memory.size() - at > 300;) {
    const auto place = reinterpret_cast<std::uint64_t>(at);
    const std::size_t bytes = random() % 200;
    at = write_length(at, bytes);
    std::memset(at, static_cast<char>(place * 0x9E3779B97F4A7C15u >> 56), bytes);
    at += bytes;
    if (random() % 16 < stay) entries.push_back({place, place});
  }
  return entries;
}

// Whoever is free takes the next: none moves more than its share and the longest move.
TEST(StayingRecords, AllThreadsMoveThem) {
  auto random = test_random();
  std::vector<char> memory(24 * kMiB), expected;
  for (const unsigned threads : teams()) {
    for (const std::uint64_t stay : {4, 8, 12}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(stay) + " of 16 stay");
      std::vector<IndexEntry> entries = some_of(memory, stay, random);
      CountedTeam team(threads);
      const StayingRecords<CountedTeam> records(false, 0, team);
      expected.clear();
      for (const IndexEntry& entry : entries) {
        expected.insert(expected.end(), stored_at(entry),
                        stored_at(entry) + records.bytes_of(entry));
      }
      const auto moves = records.moves_of(entries, memory.data());
      const std::size_t least = threads == 1 ? 1 : std::min<std::size_t>(8 * threads, 300);
      EXPECT_GE(moves.size(), least);
      for (const auto& move : moves) {
        EXPECT_LE(move.items, 2 * expected.size() / least);
      }
      const std::size_t before = team.took_part().size();
      const char* const end = records.move(entries, memory.data());
      ASSERT_EQ(end - memory.data(), static_cast<std::ptrdiff_t>(expected.size()));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory.begin()));
      // They are measured by all, and then waves of the moves have parts for all threads.
      for (const std::size_t took_part : team.took_part()) EXPECT_EQ(took_part, threads);
      EXPECT_GE(team.took_part().size() - before, threads == 1 ? 0u : 2u);
    }
  }
}

// One thread that notes how many would do how much.
struct NotedTeam {
  unsigned threads() const noexcept { return of; }
  template <typename Part>
  void run(std::size_t parts, const Part& part) {
    for (std::size_t i = 0; i < parts; ++i) part(i);
    rounds += (parts + of - 1) / of;
    ++runs;
  }
  unsigned of;
  std::size_t rounds = 0;  // of parts side by side
  std::size_t runs = 0;
};

// Waves grow: with half of the records gone there are few more than the logarithm of the moves.
TEST(StayingRecords, WavesAreFew) {
  auto random = test_random();
  std::vector<char> memory((kShadowMemory ? 16 : 64) * kMiB);
  for (const unsigned threads : {2U, 7U, 16U, 64U}) {
    std::vector<IndexEntry> entries = some_of(memory, 8, random);
    NotedTeam team{threads};
    const StayingRecords<NotedTeam> records(false, 0, team);
    const std::size_t moves = records.moves_of(entries, memory.data()).size();
    team = {threads};
    records.move(entries, memory.data());
    EXPECT_LE(team.runs, 3 + 2 * std::bit_width(moves)) << threads;
    EXPECT_LE(team.rounds, 2 * (moves / threads + 1) + 2 * std::bit_width(moves)) << threads;
  }
}

TEST(StayingRecords, SumsAreReachedWhereOneThreadFindsThem) {
  auto random = test_random();
  std::vector<std::uint64_t> weights(400'000);
  for (std::uint64_t& weight : weights) weight = random() % 4 == 0 ? random() % 5 : 0;
  const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  for (const unsigned threads : teams()) {
    CountedTeam team(threads);
    for (const std::uint64_t wanted :
         {std::uint64_t{1}, 1 + random() % 20, 1 + random() % all, all, all + 1}) {
      std::uint64_t sum = 0;
      std::size_t expected = 0;
      while (expected < weights.size() && (sum += weights[expected]) < wanted) ++expected;
      EXPECT_EQ(sum_reaches(
                    weights.size(), wanted, [&](std::size_t i) { return weights[i]; }, team),
                expected)
          << wanted << " of " << all << ", " << threads << " threads";
    }
  }
}

}}  // namespace vortex::test::staying_records_test
