// The order of a format, as the library compiles it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/record/key.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// A key of 8 bytes that are read at once.
struct WordKey {
  KeyEncoder<std::uint64_t> encoder;
  std::size_t offset = 0;
  bool swapped = false;  // its bytes are in the other order than the processor's

  // Whether the bits are the bytes as the processor reads them.
  bool is_plain() const noexcept { return !swapped && encoder.is_identity(); }

  std::uint64_t bits(const std::byte* record) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, record + offset, sizeof word);
    return encoder.encode(swapped ? __builtin_bswap64(word) : word);
  }
  void put(std::uint64_t bits, std::byte* record) const noexcept {
    const std::uint64_t word = encoder.decode(bits);
    const std::uint64_t bytes = swapped ? __builtin_bswap64(word) : word;
    std::memcpy(record + offset, &bytes, sizeof bytes);
  }
};

// The rules of a format's keys. The usual first keys are read inline: 8 bytes or more, and
// numbers of 4 bytes that are the only key.
class FormatRules {
 public:
  explicit FormatRules(RecordFormat format) : format_(std::move(format)) {
    const RecordKey& first = format_.keys().front();
    const bool is_bytes = first.type.kind == KeyKind::kBytes;
    key_ = {key_encoder(first), first.offset,
            (std::endian::native == std::endian::little) ==
                (is_bytes || first.type.byte_order == ByteOrder::kBigEndian)};
    if (is_bytes ? first.length >= 8 : first.length == 8) {
      shape_ = Shape::kWord;
    } else if (!is_bytes && first.length == 4 && format_.keys().size() == 1) {
      shape_ = key_.swapped ? Shape::kSwappedHalf : Shape::kHalf;
    }
  }

  const RecordFormat& format() const noexcept { return format_; }
  std::size_t record_bytes() const noexcept { return format_.record_bytes(); }

  std::uint64_t leading_bits(const std::byte* record) const noexcept {
    if (shape_ == Shape::kWord) return key_.bits(record);
    std::uint32_t half = 0;
    if (shape_ == Shape::kHalf) {
      std::memcpy(&half, record + key_.offset, sizeof half);
      return key_.encoder.encode(std::uint64_t{half} << 32);
    }
    if (shape_ == Shape::kOther) return format_.leading_bits(record);
    std::memcpy(&half, record + key_.offset, sizeof half);
    return key_.encoder.encode(std::uint64_t{__builtin_bswap32(half)} << 32);
  }
  bool leading_bits_decide() const noexcept { return format_.leading_bits_decide(); }

  // Set where the only key is a word.
  std::optional<WordKey> word_key() const noexcept {
    if (shape_ != Shape::kWord || !leading_bits_decide()) return std::nullopt;
    return key_;
  }

  bool less_of_equal_bits(const std::byte* left, const std::byte* right) const noexcept {
    return format_.compare_behind_leading_bits(left, right) < 0;
  }

 private:
  // How the first key is read: as 8 bytes, as 4 in one order or the other, or by the format.
  enum class Shape : std::uint8_t { kOther, kWord, kHalf, kSwappedHalf };

  RecordFormat format_;
  WordKey key_;
  Shape shape_ = Shape::kOther;
};

extern template class detail::OrderBy<FormatRules>;

// The order by a RecordFormat: order_of_format() makes it.
class FormatOrder final : public detail::OrderBy<FormatRules> {
 public:
  explicit FormatOrder(RecordFormat format);

  const RecordFormat& format() const noexcept { return rules().format(); }

  // A record of a word, or of a word and another, goes to its bucket as the kernels take it, with
  // its key encoded once.
  std::size_t scatter(const std::byte* records, std::size_t count,
                      const detail::BucketSplitters& splitters,
                      OpenBuckets& buckets) const override;
  void count_for_buckets(const std::byte* records, std::size_t count,
                         const detail::BucketSplitters& splitters,
                         std::span<std::uint32_t> counts) const override;
  const std::byte* greatest_in_bucket(const std::byte* records,
                                      std::size_t count) const noexcept override;
  const std::byte* least_in_bucket(const std::byte* records,
                                   std::size_t count) const noexcept override;
  std::uint64_t leading_bits_in_bucket(const std::byte* record) const noexcept override;
  std::size_t divide_bucket(const std::byte* records, std::size_t count, std::uint64_t bits,
                            const std::byte* border, std::byte* low,
                            std::byte* high) const noexcept override;
  void sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                   RecordOutput& out) const override;
  std::optional<std::size_t> scratch_to_sort_in_place(std::size_t count) const noexcept override;
  std::optional<std::size_t> scratch_to_index(std::size_t count) const noexcept override;
  bool sort_large_bucket(std::byte* records, std::size_t count,
                         unsigned threads) const noexcept override;
  std::optional<std::size_t> bytes_to_sort_large_bucket(std::size_t count,
                                                        unsigned threads) const noexcept override;
  std::unique_ptr<RecordMerge> merge(std::span<const MergeInput> inputs,
                                     const MergeRoom& room) const override;
  std::size_t copy_before(const std::byte* bound, const std::byte* records, std::size_t count,
                          std::byte* to) const override;

 private:
  // Which of the kernels' kinds the records are, if they are one.
  enum class Kind : std::uint8_t { kWord, kPair, kOther };

  // use(CodedWord), use(CodedPair), or otherwise().
  template <typename Use, typename Otherwise>
  auto by_kind(const Use& use, const Otherwise& otherwise) const;

  const Kind kind_;
};

}}  // namespace vortex::v0
