// Keys that are more than a number: strings of bytes, by which records are sorted eight bytes at a
// time, and several numbers, which are made one number or such a string.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/array/large_groups.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename T>
concept ByteLike = std::same_as<T, char> || std::same_as<T, unsigned char> ||
    std::same_as<T, signed char> || std::same_as<T, char8_t> || std::same_as<T, std::byte>;

// std::string_view, std::array<unsigned char, 10>, std::span<const std::byte> and the like.
template <typename Key>
concept ByteStringKey =
    std::ranges::contiguous_range<const Key> && std::ranges::sized_range<const Key> &&
    ByteLike<std::remove_cv_t<std::ranges::range_value_t<const Key>>>;

// Orders keys as std::memcmp() does, and one that is the beginning of another before it. Each level
// sorts records by eight bytes of their keys, as numbers; those whose eight bytes are equal are
// sorted by the next ones, few of them by comparing. Threads share the records of a level when it
// looks for those that are equal, and each sorts what it has found there.
template <typename T, typename KeyFunction>
class ByteKeySort {
 public:
  // `sort_by_number(records, number, threads)` sorts stably, in the order that is asked for, by
  // number(record), a std::uint64_t, with so many threads at most.
  // With threads for them it is given one for each `by_thread` records; a test asks for fewer.
  ByteKeySort(KeyFunction key, Order order, std::size_t by_thread = kByThread)
      : key_(std::move(key)), order_(order), by_thread_(by_thread) {}

  // Throws what sort_by_number does and std::bad_alloc; the records are all there then, in any
  // order.
  template <typename SortByNumber>
  void run(std::span<T> records, unsigned threads, const SortByNumber& sort_by_number) {
    if (threads == 1 || records.size() < 2 * kMinShare) {
      return sort_alone({records, 0}, sort_by_number);
    }
    const unsigned most = threads_for(records.size(), ThreadTeam::resolve(threads));
    const std::size_t parts = kPartsOfThread * most, task = records.size() / parts;
    // The sort by the next word may be all there is to do.
    const auto time_for_all = [&](std::size_t size) {
      return std::min(size, std::max(size / most, by_thread_));
    };
    const auto open = [&](Group& group) {
      ++group.word;
      if (!any_beyond(group, threads_for(group.size(), most), parts)) group.word = kLengths;
      return sort(group, sort_by_number, threads);
    };
    const Group all{records, 0};
    sort(all, sort_by_number, threads);
    // Large groups, too, are sorted by the word in which they are equal.
    const auto shared = share_out_groups(
        all, 2 * task, task, most, most,
        [this](const Group& group, std::size_t i) { return word_of(group.records[i], group.word); },
        time_for_all, open);
    const std::size_t alone = shared.alone.size();
    // Sorts by a number have threads of their own: these begin behind them.
    ThreadTeam team(most);
    team.run(alone + shared.tasks.size(), [&](std::size_t i) {
      const auto go_on = [&](const Group& group) { sort_alone(known(group), sort_by_number); };
      if (i >= alone) return for_each_equal(shared.tasks[i - alone], go_on);
      go_on({shared.alone[i].records, shared.alone[i].word + 1});
    });
  }

 private:
  static constexpr std::size_t kFew = 24;
  static constexpr std::size_t kWord = sizeof(std::uint64_t);
  // Views of bytes are larger than a word, and so are arrays that hold one.
  static constexpr bool kMayHaveWords =
      sizeof(std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>) >= kWord;
  // The fewest records for each of several threads.
  static constexpr std::size_t kMinShare =
      std::min(std::size_t{1} << 16, (std::size_t{4} << 20) / sizeof(T) + 1);
  // What the sorts by a number give a thread.
  static constexpr std::size_t kByThread =
      sizeof(T) <= kMaxCarriedBytes ? kSortedByThread * (sizeof(T) <= 8 ? 2 : 1) : kMinShare;
  static constexpr std::size_t kPartsOfThread = 8;
  static unsigned threads_for(std::size_t count, unsigned most) {
    return static_cast<unsigned>(std::clamp<std::size_t>(count / kMinShare, 1, most));
  }

  struct Group {
    std::span<T> records;
    std::size_t word;  // the first that they may differ in; kLengths: they differ in length only
    std::size_t size() const noexcept { return records.size(); }
    Group part(std::size_t begin, std::size_t end) const {
      return {records.subspan(begin, end - begin), word};
    }
  };
  static constexpr std::size_t kLengths = static_cast<std::size_t>(-1);

  // Returns whether there may be equal ones to be sorted further.
  template <typename SortByNumber>
  bool sort(const Group& group, const SortByNumber& sort_by_number, unsigned threads) const {
    if (group.word == kLengths) {
      sort_by_number(
          group.records, [this](const T& record) { return bytes_of(record).size(); }, threads);
      return false;
    }
    sort_by_number(
        group.records, [&](const T& record) { return word_of(record, group.word); }, threads);
    return true;
  }

  template <typename SortByNumber>
  void sort_alone(const Group& all, const SortByNumber& sort_by_number) const {
    std::vector<Group> groups;
    const auto sort_or_wait = [&](const Group& group) {
      if (group.records.size() <= kFew) {
        sort_few(group.records, group.word);
      } else {
        groups.push_back(group);
      }
    };
    sort_or_wait(all);
    while (!groups.empty()) {
      const Group group = groups.back();
      groups.pop_back();
      if (!sort(group, sort_by_number, 1)) continue;
      for_each_equal(group, [&](const Group& equal) { sort_or_wait(known(equal)); });
    }
  }

  // Calls body(group) for those whose word is equal, several each. They are sorted by it. Whether
  // they go beyond that word is not known of the group then.
  template <typename Body>
  void for_each_equal(const Group& group, const Body& body) const {
    const std::span<T> records = group.records;
    if (records.empty()) return;
    std::uint64_t here = word_of(records.front(), group.word), next = here;
    for (std::size_t begin = 0, end; begin < records.size(); begin = end, here = next) {
      end = begin + 1;
      while (end < records.size() && (next = word_of(records[end], group.word)) == here) {
        // Where many are equal most of them need not be read.
        const std::size_t step = end - begin < kFew ? 1 : end - begin;
        const auto last = std::min(end + step, records.size()) - 1;
        const bool all = step == 1 || word_of(records[last], group.word) == here;
        end = all ? last + 1 : end_of_equal(records, {end, last}, group.word, here);
      }
      if (end - begin > 1) body(Group{records.subspan(begin, end - begin), group.word + 1});
    }
  }
  // The first whose word is another, between one with this word and one without it.
  std::size_t end_of_equal(std::span<T> records, std::pair<std::size_t, std::size_t> between,
                           std::size_t word, std::uint64_t value) const {
    auto [equal, other] = between;
    while (other - equal > 1) {
      const std::size_t middle = equal + (other - equal) / 2;
      (word_of(records[middle], word) == value ? equal : other) = middle;
    }
    return other;
  }

  // The group of for_each_equal(), and whether its records differ in their lengths only: bytes that
  // are not there count as 0 until here. Few are compared, whatever they differ in.
  Group known(const Group& group) const {
    const bool more = group.records.size() <= kFew || any_beyond(group.records, group.word);
    return {group.records, more ? group.word : kLengths};
  }
  bool any_beyond(const Group& group, unsigned threads, std::size_t parts) const {
    std::atomic<bool> found = false;
    ThreadTeam team(threads);
    team.run(parts, [&](std::size_t part) {
      const std::size_t begin = group.records.size() * part / parts;
      const std::size_t end = group.records.size() * (part + 1) / parts;
      if (!found && any_beyond(group.records.subspan(begin, end - begin), group.word)) found = true;
    });
    return found;
  }

  // A key, which may be a temporary object, as long as this is.
  class Bytes {
   public:
    explicit Bytes(const KeyFunction& key, const T& record) : key_(std::invoke(key, record)) {}
    const unsigned char* data() const {
      return reinterpret_cast<const unsigned char*>(std::ranges::data(std::as_const(key_)));
    }
    std::uint64_t size() const { return std::ranges::size(std::as_const(key_)); }

   private:
    std::invoke_result_t<const KeyFunction&, const T&> key_;
  };

  Bytes bytes_of(const T& record) const { return Bytes(key_, record); }

  std::uint64_t word_of(const T& record, std::size_t word) const {
    const Bytes bytes = bytes_of(record);
    const std::size_t at = word * kWord;
    std::uint64_t number = 0;
    // Compilers that know a short key would take the copy of a whole word for one beyond it.
    if constexpr (kMayHaveWords) {
      if (at + kWord <= bytes.size()) [[likely]] {
        std::memcpy(&number, bytes.data() + at, kWord);
        return first_highest(number);
      }
    }
    if (at < bytes.size()) {
      std::memcpy(&number, bytes.data() + at, std::min<std::size_t>(kWord, bytes.size() - at));
    }
    return first_highest(number);
  }
  static std::uint64_t first_highest(std::uint64_t bytes) {
    return std::endian::native == std::endian::little ? __builtin_bswap64(bytes) : bytes;
  }

  bool any_beyond(std::span<T> records, std::size_t word) const {
    return std::any_of(records.begin(), records.end(),
                       [&](const T& record) { return bytes_of(record).size() > word * kWord; });
  }

  bool before(const T& left, const T& right, std::size_t word) const {
    const Bytes a = bytes_of(left), b = bytes_of(right);
    const std::size_t common = std::min<std::size_t>(a.size(), b.size());
    const std::size_t at = std::min(word * kWord, common);
    const int order = common == at ? 0 : std::memcmp(a.data() + at, b.data() + at, common - at);
    return order != 0 ? order < 0 : a.size() < b.size();
  }

  // By insertion, which is stable. The words before `word` are equal.
  void sort_few(std::span<T> records, std::size_t word) const {
    const auto belongs_before = [&](const T& left, const T& right) {
      return order_ == Order::kAscending ? before(left, right, word) : before(right, left, word);
    };
    for (std::size_t i = 1; i < records.size(); ++i) {
      const T record = records[i];
      std::size_t to = i;
      for (; to > 0 && belongs_before(record, records[to - 1]); --to) records[to] = records[to - 1];
      records[to] = record;
    }
  }

  const KeyFunction key_;
  const Order order_;
  const std::size_t by_thread_;
};

template <typename Key, typename Places>
struct NumbersOfTuple;
template <typename Key, std::size_t... places>
struct NumbersOfTuple<Key, std::index_sequence<places...>> {
  template <std::size_t place>
  using Number = std::remove_cvref_t<std::tuple_element_t<place, Key>>;
  static constexpr bool kAllKeys = (RadixKey<Number<places>> && ...);
  static constexpr std::size_t kBytes = (sizeof(Number<places>) + ... + 0);
};
template <typename Key>
using NumbersOf = NumbersOfTuple<Key, std::make_index_sequence<std::tuple_size<Key>::value>>;

// std::tuple, std::pair and std::array of numbers; std::array of bytes is a string of bytes.
template <typename Key>
concept TupleKey = !ByteStringKey<Key> && requires {
  std::tuple_size<Key>::value;
}
&&(std::tuple_size<Key>::value > 0) && NumbersOf<Key>::kAllKeys;

// The bits of a number in its order, as many as it has, at the bottom of a word.
template <RadixKey K>
constexpr std::uint64_t narrow_bits(K key) noexcept {
  constexpr int kAbove = 64 - 8 * static_cast<int>(sizeof(K));
  constexpr KeyEncoder<std::uint64_t> kEncoder(key_code<K>(Order::kAscending), 64 - kAbove);
  std::uint64_t word = 0;
  if constexpr (std::floating_point<K>) {
    word = std::bit_cast<KeyBits<K>>(key);
  } else {
    word = static_cast<std::uint64_t>(key);
  }
  return kEncoder.encode(word << kAbove) >> kAbove;
}

// A key of several numbers as one: a number where 8 bytes hold them, or a std::array of bytes.
template <typename T, typename KeyFunction>
class PackedKey {
  using Tuple = std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>;
  static constexpr std::size_t kBytes = NumbersOf<Tuple>::kBytes;

 public:
  explicit PackedKey(KeyFunction key) : key_(std::move(key)) {}

  auto operator()(const T& record) const noexcept {
    return std::apply([](const auto&... numbers) { return pack(numbers...); },
                      Tuple(std::invoke(key_, record)));
  }

 private:
  template <typename... Numbers>
  static auto pack(const Numbers&... numbers) noexcept {
    if constexpr (kBytes <= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      // One number of 8 bytes is shifted by nothing, and all others by less.
      ((word = (kBytes == sizeof(Numbers) ? 0 : word << 8 * (sizeof(Numbers) % 8)) |
               narrow_bits(numbers)),
       ...);
      return word;
    } else {
      std::array<unsigned char, kBytes> bytes;
      std::size_t at = 0;
      const auto append = [&](std::uint64_t bits, std::size_t count) {
        for (std::size_t i = count; i-- > 0;)
          bytes[at++] = static_cast<unsigned char>(bits >> 8 * i);
      };
      (append(narrow_bits(numbers), sizeof(Numbers)), ...);
      return bytes;
    }
  }

  [[no_unique_address]] KeyFunction key_;
};

}}}  // namespace vortex::v0::detail
