#include "vortex/array_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "sort/arrays/numbers.h"
#include "sort/arrays/place_engine.h"
#include "sort/arrays/rows.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Where the places of an argsort go. 64 bits hold the words that are sorted, too.
template <typename Place>
class PlacesSink {
 public:
  PlacesSink(Place* places, Shares& shares) : places_(places), shares_(shares) {}

  void given() {
    fill([](std::size_t i) { return i; });
  }
  void reversed() {
    fill([last = shares_.count() - 1](std::size_t i) { return last - i; });
  }
  std::uint64_t* room() {
    if constexpr (sizeof(Place) == sizeof(std::uint64_t)) {
      return places_;
    } else {
      return scratch_.emplace(shares_.count()).get();
    }
  }
  void start_words(const KeyWords& form) { form_ = &form; }
  void words(std::size_t begin, std::size_t size, std::uint64_t* words) {
    for (std::size_t i = 0; i < size; ++i)
      places_[begin + i] = static_cast<Place>(form_->place(words[i]));
  }
  void start_pairs() {}
  void pairs(std::size_t begin, std::size_t size, const Pair64* pairs) {
    for (std::size_t i = 0; i < size; ++i) places_[begin + i] = static_cast<Place>(pairs[i].value);
  }

 private:
  template <typename PlaceAt>
  void fill(const PlaceAt& place_at) {
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) places_[i] = static_cast<Place>(place_at(i));
    });
  }

  Place* const places_;
  Shares& shares_;
  const KeyWords* form_ = nullptr;
  std::optional<Scratch<std::uint64_t>> scratch_;
};

template <typename Place>
void argsort(const KeySource& keys, Place* places, Shares& shares, unsigned threads) {
  PlacesSink<Place> sink(places, shares);
  PlaceEngine(keys, shares, threads, sink).run();
}
template <typename Place>
void argsort(const KeySource& keys, std::size_t count, Place* places, unsigned threads) {
  if (count == 0) return;
  Shares shares(count, threads);
  argsort(keys, places, shares, threads);
}

}  // namespace

void expect_places(std::size_t room, std::size_t count, std::uint64_t most) {
  if (room < count) {
    throw std::invalid_argument("argsort_into() has room for " + std::to_string(room) +
                                " places, and " + std::to_string(count) + " keys");
  }
  if (count > 0 && count - 1 > most)
    throw std::invalid_argument("argsort_into() cannot tell so many places in this type");
}

void argsort_32(const KeySource& keys, std::size_t count, void* places, unsigned threads) {
  argsort(keys, count, static_cast<std::uint32_t*>(places), threads);
}
void argsort_64(const KeySource& keys, std::size_t count, void* places, unsigned threads) {
  argsort(keys, count, static_cast<std::uint64_t*>(places), threads);
}
void argsort_64(const KeySource& keys, std::uint64_t* places, Shares& shares, unsigned threads) {
  argsort(keys, places, shares, threads);
}

namespace {

constexpr std::size_t kBlock = 512;

// The arrays of one sort.
struct Table {
  void* keys;
  const NumberForm& form;
  std::span<const Column> columns;
  Shares& shares;
  unsigned threads;
};

// ---- Values that fit beside a key.

bool can_be_carried(std::span<const Column> columns) noexcept {
  std::size_t bytes = 0;
  for (const Column& column : columns) {
    if (column.bytes == 0 || column.bytes > 8 || (column.bytes & (column.bytes - 1)) != 0)
      return false;
    if (reinterpret_cast<std::uintptr_t>(column.values) % column.bytes != 0) return false;
    bytes += column.bytes;
  }
  return bytes <= 8;
}

// Calls use() for each column with its values, as unsigned numbers, and where they lie in a word.
template <typename Use>
void for_each_carried(std::span<const Column> columns, const Use& use) {
  int shift = 0;
  for (const Column& column : columns) {
    switch (column.bytes) {
      case 1:
        use(static_cast<std::uint8_t*>(column.values), shift);
        break;
      case 2:
        use(static_cast<std::uint16_t*>(column.values), shift);
        break;
      case 4:
        use(static_cast<std::uint32_t*>(column.values), shift);
        break;
      default:
        use(static_cast<std::uint64_t*>(column.values), shift);
    }
    shift += static_cast<int>(8 * column.bytes);
  }
}

void sort_carried(const Table& table) {
  const std::size_t count = table.shares.count();
  const Scratch<Pair64> scratch(count);
  Pair64* const pairs = scratch.get();
  const KeySource keys = keys_of_numbers(table.keys, table.form);
  table.shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    for_each_block(keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                     for (std::size_t i = 0; i < size; ++i) pairs[at + i] = {bits[i], 0};
                     for_each_carried(table.columns, [&](const auto* values, int shift) {
                       for (std::size_t i = at; i < at + size; ++i)
                         pairs[i].value |= std::uint64_t{values[i]} << shift;
                     });
                   });
  });
  sort_pairs_64(pairs, count, true, table.threads);
  table.shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    std::array<std::uint64_t, kBlock> bits;
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t size = std::min(kBlock, end - at);
      for (std::size_t i = 0; i < size; ++i) bits[i] = pairs[at + i].key;
      write_numbers(table.keys, table.form, at, size, bits.data());
      for_each_carried(table.columns, [&](auto* values, int shift) {
        for (std::size_t i = at; i < at + size; ++i) {
          values[i] =
              static_cast<std::remove_reference_t<decltype(*values)>>(pairs[i].value >> shift);
        }
      });
    }
  });
}

// ---- Values that are fetched when the places of the keys are known.

// Takes all memory before anything moves.
class ColumnsSink {
 public:
  explicit ColumnsSink(const Table& table) : table_(table) {
    for (const Column& column : table.columns) widest_ = std::max(widest_, column.bytes);
  }

  std::uint64_t* room() {
    if (!moved_) moved_.emplace(saturating_product(count(), widest_));
    if (!places_) places_.emplace(count());
    return places_->get();
  }

  void given() {}
  void reversed() {
    Rows(table_.keys, table_.form.bytes).reverse(table_.shares);
    for (const Column& column : table_.columns)
      Rows(column.values, column.bytes).reverse(table_.shares);
  }

  void start_words(const KeyWords& form) {
    form_ = &form;
    if (!form.exact()) sort_numbers_later_ = true;
    fetch_ = true;
  }
  // Words become places.
  void words(std::size_t begin, std::size_t size, std::uint64_t* words) {
    if (form_->exact())
      write_keys(begin, size, [&](std::size_t i) { return form_->key(words[i]); });
    for (std::size_t i = 0; i < size; ++i) words[i] = form_->place(words[i]);
  }
  void start_pairs() {
    room();
    fetch_ = true;
  }
  void pairs(std::size_t begin, std::size_t size, const Pair64* pairs) {
    write_keys(begin, size, [&](std::size_t i) { return pairs[i].key; });
    for (std::size_t i = 0; i < size; ++i) places_->get()[begin + i] = pairs[i].value;
  }

  // When the engine has ended: keys that words do not hold are sorted, values are fetched.
  void finish() {
    if (sort_numbers_later_) sort_numbers(table_.keys, table_.form, count(), table_.threads);
    if (!fetch_) return;
    for (const Column& column : table_.columns) move(Rows(column.values, column.bytes));
  }

 private:
  std::size_t count() const noexcept { return table_.shares.count(); }

  template <typename KeyAt>
  void write_keys(std::size_t begin, std::size_t size, const KeyAt& key_at) const noexcept {
    std::array<std::uint64_t, kBlock> bits;
    for (std::size_t at = 0; at < size; at += kBlock) {
      const std::size_t some = std::min(kBlock, size - at);
      for (std::size_t i = 0; i < some; ++i) bits[i] = key_at(at + i);
      write_numbers(table_.keys, table_.form, begin + at, some, bits.data());
    }
  }

  void move(const Rows& rows) const {
    std::byte* const room = moved_->get();
    const std::uint64_t* const places = places_->get();
    table_.shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      rows.gather(
          end - begin, [=](std::size_t i) { return places[begin + i]; },
          room + begin * rows.bytes());
    });
    table_.shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      std::memcpy(rows.at(begin), room + begin * rows.bytes(), (end - begin) * rows.bytes());
    });
  }

  const Table& table_;
  std::size_t widest_ = 0;
  std::optional<Scratch<std::byte>> moved_;
  std::optional<Scratch<std::uint64_t>> places_;
  const KeyWords* form_ = nullptr;
  bool sort_numbers_later_ = false;
  bool fetch_ = false;
};

}  // namespace

void expect_lengths(std::span<const std::size_t> lengths, std::size_t count) {
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == count) continue;
    throw std::invalid_argument("sort_by_key() has " + std::to_string(count) + " keys, and " +
                                std::to_string(lengths[i]) + " values in array " +
                                std::to_string(i + 1));
  }
}

void sort_by_key(void* keys, const NumberForm& form, std::span<const Column> columns,
                 Shares& shares, unsigned threads) {
  const Table table{keys, form, columns, shares, threads};
  if (can_be_carried(columns)) return sort_carried(table);
  ColumnsSink sink(table);
  const KeySource source = keys_of_numbers(keys, form);
  PlaceEngine(source, shares, threads, sink).run();
  sink.finish();
}

void sort_by_key(void* keys, const NumberForm& form, std::size_t count,
                 std::span<const Column> columns, unsigned threads) {
  if (count < 2) return;
  Shares shares(count, threads);
  sort_by_key(keys, form, columns, shares, threads);
}

}}}  // namespace vortex::v0::detail
