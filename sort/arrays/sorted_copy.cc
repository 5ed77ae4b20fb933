// Records sorted into another array: keys are sorted with their places, and each record moves once.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "sort/arrays/place_engine.h"
#include "sort/arrays/rows.h"
#include "sort/arrays/scratch.h"
#include "sort/memory/shares.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

class KeysOfRecords {
 public:
  KeysOfRecords(const void* records, std::size_t bytes, const SortKey& key) noexcept
      : records_(static_cast<const std::byte*>(records)), bytes_(bytes), key_(key) {}
  KeySource source() const noexcept { return {this, &read}; }

 private:
  static void read(const void* context, std::size_t begin, std::size_t count,
                   std::uint64_t* bits) noexcept {
    const auto& keys = *static_cast<const KeysOfRecords*>(context);
    const SortKey& key = keys.key_;
    const std::byte* const first = keys.records_ + begin * keys.bytes_;
    if (key.take_bits != nullptr) return key.take_bits(key.function, first, count, bits);
    const int width = 8 * key.place.bytes, beside = 64 - width;
    const KeyEncoder<std::uint64_t> encoder(key.code, width);
    const std::byte* at = first + key.place.offset;
    with_constant<4, 8>(static_cast<std::size_t>(key.place.bytes), [&](auto size) {
      for (std::size_t i = 0; i < count; ++i, at += keys.bytes_) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, size);
        if (std::endian::native == std::endian::little) word <<= beside;
        bits[i] = encoder.encode(word) >> beside;
      }
    });
  }

  const std::byte* const records_;
  const std::size_t bytes_;
  const SortKey& key_;
};

class CopySink {
 public:
  CopySink(const Rows& rows, std::byte* out, Shares& shares) noexcept
      : rows_(rows), out_(out), shares_(shares) {}

  std::uint64_t* room() {
    if (!words_) words_.emplace(shares_.count());
    return words_->get();
  }
  void given() {
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      std::memcpy(at(begin), rows_.at(begin), (end - begin) * rows_.bytes());
    });
  }
  void reversed() {
    shares_.run([&](std::size_t, std::size_t begin, std::size_t end) {
      const std::size_t last = shares_.count() - 1 - begin;
      rows_.gather(
          end - begin, [last](std::size_t i) { return last - i; }, at(begin));
    });
  }
  void start_words(const KeyWords& form) { form_ = &form; }
  void words(std::size_t begin, std::size_t size, const std::uint64_t* words) {
    rows_.gather(
        size, [=, this](std::size_t i) { return form_->place(words[i]); }, at(begin));
  }
  void start_pairs() { words_.reset(); }
  void pairs(std::size_t begin, std::size_t size, const Pair64* pairs) {
    rows_.gather(
        size, [=](std::size_t i) { return pairs[i].value; }, at(begin));
  }

 private:
  std::byte* at(std::size_t place) const noexcept { return out_ + place * rows_.bytes(); }

  const Rows rows_;
  std::byte* const out_;
  Shares& shares_;
  const KeyWords* form_ = nullptr;
  std::optional<Scratch<std::uint64_t>> words_;
};

// Whether a copy that is sorted where it is, is so as fast: small records are carried faster than
// they are visited, and the caches hold few.
bool sorts_copy(std::size_t count, std::size_t bytes) noexcept {
  constexpr std::size_t kLeastMovedOnce = 40;
  const bool compiled =
      std::find(kCompiledSizes.begin(), kCompiledSizes.end(), bytes) != kCompiledSizes.end();
  return compiled && (bytes < kLeastMovedOnce || count * bytes <= kMaxCachedBytes);
}

}  // namespace

void expect_room(std::size_t room, std::size_t count) {
  if (room < count) {
    throw std::invalid_argument("sort_into() has room for " + std::to_string(room) + " of " +
                                std::to_string(count) + " records");
  }
}

void sort_records_into(const void* records, std::size_t count, std::size_t bytes,
                       const SortKey& key, void* out, unsigned threads) {
  if (count == 0) return;
  // A thread for so many bytes.
  constexpr std::size_t kShareBytes = std::size_t{4} << 20;
  Shares shares(count, threads, kShareBytes / bytes + 1);
  // Nothing of the records is changed.
  CopySink sink(Rows(const_cast<void*>(records), bytes), static_cast<std::byte*>(out), shares);
  if (count == 1 || sorts_copy(count, bytes)) {
    sink.given();
    if (count > 1) sort_records(out, count, bytes, key, threads);
    return;
  }
  const KeysOfRecords keys(records, bytes, key);
  const KeySource source = keys.source();
  PlaceEngine(source, shares, threads, sink).run();
}

}}}  // namespace vortex::v0::detail
