// The engine of argsort() and sort_by_key().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/scratch.h"
#include "sort/kernels/quick_sort.h"
#include "sort/kernels/slice_sort.h"
#include "sort/memory/compiled_sorts.h"
#include "sort/memory/shares.h"
#include "vortex/detail/array/compiled_calls.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts keys with their places and hands them to `sink`:
//   room()                      room for as many words as there are keys, where they are sorted
//   given()                     the keys are in order
//   reversed()                  they are in the opposite order, and no two are equal
//   start_words(form)           words come; only where form.exact() do they hold the keys
//   words(begin, size, words)   a part of the words in order, from any thread; may change these
//   start_pairs()               pairs come
//   pairs(begin, size, pairs)   pairs of the bits of a key and of its place, from any thread
// Records with equal keys keep their order. Pairs take 16 bytes a key; both what sorting them
// takes. What room(), start_words() and start_pairs() throw is thrown.
//
// A word holds as much of a key as fits beside its place. Where that is not all, ties are looked up
// if they are few, and pairs are sorted if they are not.
template <typename Sink>
class PlaceEngine {
 public:
  PlaceEngine(const KeySource& keys, Shares& shares, unsigned threads, Sink& sink)
      : keys_(keys), shares_(shares), threads_(threads), sink_(sink) {}

  // At least one key.
  void run() {
    const std::size_t count = shares_.count();
    if (can_slice(count) && shares_.shares() == 1 && sort_in_slices()) return;
    const KeySample sample(keys_, count);
    KeyWords form(sample.likely_range(), count);
    // What is likely may be more than twice of what is.
    constexpr int kSpared = 2;
    if (!form.exact() && form.dropped() <= kSpared)
      form = KeyWords(range_of(keys_, shares_), count);
    bool doubles = !form.exact() && sample.are_doubles();
    if (doubles) {
      const KeyWords values = sample.words_of_doubles();
      doubles = values.exact() || sample.has_few_ties(values);
      if (doubles) form = values;
    }
    if (!form.exact() && !sample.has_few_ties(form)) return sort_pairs();
    std::uint64_t* const words = sink_.room();
    Filled filled = fill(words, form);
    if (filled == Filled::kBeyond) {
      doubles = false;
      form = KeyWords(range_of(keys_, shares_), count);
      if (!form.exact() && !sample.has_few_ties(form)) return sort_pairs();
      filled = fill(words, form);
    }
    if (filled == Filled::kAscending) return sink_.given();
    if (filled == Filled::kDescending) return sink_.reversed();
    sort_words(words, doubles);
    sink_.start_words(form);
    hand_out(words, form);
  }

 private:
  static constexpr std::size_t kBlock = 512;
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kLine = kLineBytes / sizeof(std::uint64_t);

  enum class Filled { kWords, kAscending, kDescending, kBeyond };

  // As many keys as the caches hold, unless another way is faster.
  bool sort_in_slices() {
    const std::size_t count = shares_.count();
    const std::size_t of_places = count * sizeof(std::uint32_t);
    const std::size_t of_bits = count * sizeof(std::uint64_t);
    const std::size_t before_slices =
        (of_bits + of_places + kLineBytes - 1) / kLineBytes * kLineBytes;
    const KeptMemory memory(before_slices + SliceRoom::bytes<std::uint32_t>(count), true);
    auto* const room = static_cast<std::byte*>(memory.get());
    auto* const bits = reinterpret_cast<std::uint64_t*>(room);
    auto* const places = reinterpret_cast<std::uint32_t*>(room + of_bits);
    OrderWatch watch(keys_, 0);
    for (std::size_t at = 0; at < count; at += kBlock) {
      const std::size_t size = std::min(kBlock, count - at);
      keys_.read(at, size, bits + at);
      watch.add(bits + at, at, size);
    }
    if (watch.ascending() || watch.descending()) {
      watch.ascending() ? sink_.given() : sink_.reversed();
      return true;
    }
    if (!slice_places(bits, count, places, room + before_slices)) return false;
    std::uint64_t* const words = sink_.room();
    // Words that tell places and nothing of the keys.
    const KeyWords form({0, ~std::uint64_t{0}}, count);
    std::copy_n(places, count, words);
    sink_.start_words(form);
    sink_.words(0, count, words);
    return true;
  }

  // Makes the words, unless there is a key beyond what they hold.
  Filled fill(std::uint64_t* words, const KeyWords& form) {
    std::atomic<bool> ascending{true}, descending{true}, beyond{false};
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      OrderWatch watch(keys_, begin);
      for_each_block(keys_, begin, end,
                     [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                       if (beyond.load(std::memory_order_relaxed)) return;
                       watch.add(bits, at, size);
                       bool holds = true;
                       for (std::size_t i = 0; i < size; ++i) {
                         holds &= form.holds(bits[i]);
                         words[at + i] = form.word(bits[i], at + i);
                       }
                       if (!holds) beyond = true;
                     });
      if (!watch.ascending()) ascending = false;
      if (!watch.descending()) descending = false;
    });
    return beyond       ? Filled::kBeyond
           : ascending  ? Filled::kAscending
           : descending ? Filled::kDescending
                        : Filled::kWords;
  }

  // No two are equal, and they are in no order.
  void sort_words(std::uint64_t* words, bool doubles) {
    const std::size_t count = shares_.count();
    const std::size_t most = std::size_t{1} << (doubles ? 17 : 14);
    if (count <= most && quick_sort(words, count)) return;
    sort_in_place(words, count, word_rules<std::uint64_t>(doubles),
                  WordCodec<std::uint64_t>(KeyCode{}), threads_);
  }

  // Words with the same part of the key are never apart. A share looks at no word of the next one,
  // which may be handed out already.
  void hand_out(std::uint64_t* words, const KeyWords& form) {
    const auto behind_ties = [&](std::size_t at, std::size_t end) {
      if (form.exact() || at == 0) return at;
      while (at < end && form.same_part(words[at - 1], words[at])) ++at;
      return at;
    };
    std::vector<std::size_t> begins;
    for (std::size_t share = 0; share <= shares_.shares(); ++share)
      begins.push_back(behind_ties(shares_.begin_of(share), shares_.count()));
    shares_.run([&](std::size_t share, std::size_t, std::size_t) {
      const std::size_t last = begins[share + 1];
      std::vector<Pair64> group;
      for (std::size_t at = begins[share]; at < last;) {
        const std::size_t end = behind_ties(std::min(at + kBlock, last), last);
        // The next block: the processor's own prefetching does not keep up.
        for (std::size_t i = 0; i < kBlock; i += kLine) __builtin_prefetch(words + end + i);
        if (!form.exact() && form.any_same_part(words + at, end - at))
          settle_ties(keys_, words + at, end - at, form, group);
        sink_.words(at, end - at, words + at);
        at = end;
      }
    });
  }

  void sort_pairs() {
    const std::size_t count = shares_.count();
    const Scratch<Pair64> scratch(count);
    Pair64* const pairs = scratch.get();
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for_each_block(keys_, begin, end,
                     [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                       for (std::size_t i = 0; i < size; ++i) pairs[at + i] = {bits[i], at + i};
                     });
    });
    sort_pairs_64(pairs, count, true, threads_);
    sink_.start_pairs();
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t at = begin; at < end; at += kBlock)
        sink_.pairs(at, std::min(kBlock, end - at), pairs + at);
    });
  }

  const KeySource& keys_;
  Shares& shares_;
  const unsigned threads_;
  Sink& sink_;
};

// The calls of compiled_calls.h with shares of the keys that are given: a test counts who works on
// them. At least one key, and two to sort by.
void argsort_64(const KeySource& keys, std::uint64_t* places, Shares& shares, unsigned threads);
void sort_by_key(void* keys, const NumberForm& form, std::span<const Column> columns,
                 Shares& shares, unsigned threads);

}}}  // namespace vortex::v0::detail
