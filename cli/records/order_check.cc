#include "cli/records/order_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vortex::cli {

namespace {

std::uint64_t load_native(const std::byte* bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

constexpr bool kLittleEndianMachine = std::endian::native == std::endian::little;

}  // namespace

OrderSummary join(const RecordFormat& format, const OrderSummary& left, const OrderSummary& right) {
  if (left.records == 0) return right;
  if (right.records == 0) return left;
  OrderSummary whole = left;
  whole.records += right.records;
  whole.checksum += right.checksum;
  whole.duplicates += right.duplicates;
  whole.descents += right.descents;
  whole.last = right.last;
  const int order = format.compare(left.last.data(), right.first.data());
  if (order == 0) ++whole.duplicates;
  if (order > 0) ++whole.descents;
  if (!whole.first_descent) {
    if (order > 0) {
      whole.first_descent = left.records;
    } else if (right.first_descent) {
      whole.first_descent = left.records + *right.first_descent;
    }
  }
  return whole;
}

OrderCheck::OrderCheck(const RecordFormat& format)
    : format_(format), checksum_(format.record_bytes()) {
  found_.first.resize(format.record_bytes());
  found_.last.resize(format.record_bytes());
}

void OrderCheck::add(const std::byte* records, std::uint64_t count) noexcept {
  const std::size_t record_bytes = format_.record_bytes();
  const std::size_t step = std::max<std::size_t>(kStepBytes / record_bytes, 1);
  while (count > 0) {
    const std::size_t now = std::min<std::uint64_t>(count, step);
    // Hashing first brings the step into the cache, in order.
    checksum_.add(records, now);
    if (found_.records == 0) {
      std::memcpy(found_.first.data(), records, record_bytes);
      std::memcpy(found_.last.data(), records, record_bytes);
      found_.records = 1;
      compare_step(records + record_bytes, now - 1);
    } else {
      compare_step(records, now);
    }
    records += now * record_bytes;
    count -= now;
  }
}

OrderSummary OrderCheck::summary() const {
  OrderSummary result = found_;
  result.checksum = checksum_.value();
  if (result.records == 0) {
    result.first.clear();
    result.last.clear();
  }
  return result;
}

void OrderCheck::compare_step(const std::byte* records, std::size_t count) noexcept {
  if (count == 0) return;
  const RecordKey& key = format_.keys().front();
  const bool unsigned_key = key.type.kind == KeyKind::kUnsigned && key.length == 8;
  const bool by_bytes = (key.type.kind == KeyKind::kBytes && key.length >= 8) ||
                        (unsigned_key && key.type.byte_order == ByteOrder::kBigEndian);
  if (kLittleEndianMachine && !key.descending && by_bytes) {
    compare(records, count, [offset = key.offset](const std::byte* record) {
      return __builtin_bswap64(load_native(record + offset));
    });
  } else if (kLittleEndianMachine && !key.descending && unsigned_key) {
    compare(records, count, [offset = key.offset](const std::byte* record) {
      return load_native(record + offset);
    });
  } else {
    compare(records, count,
            [this](const std::byte* record) { return format_.leading_bits(record); });
  }
}

// Compares each record with the one before, the first with found_.last.
template <typename LeadingBits>
void OrderCheck::compare(const std::byte* records, std::size_t count,
                         LeadingBits leading_bits) noexcept {
  const std::size_t record_bytes = format_.record_bytes();
  const bool decided = format_.leading_bits_decide();
  const std::byte* before = found_.last.data();
  std::uint64_t bits_before = leading_bits(before);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const record = records + i * record_bytes;
    const std::uint64_t bits = leading_bits(record);
    if (bits <= bits_before) [[unlikely]] {
      const int order = bits < bits_before ? 1
                        : decided          ? 0
                                           : format_.compare_behind_leading_bits(before, record);
      if (order == 0) ++found_.duplicates;
      if (order > 0) {
        ++found_.descents;
        if (!found_.first_descent) found_.first_descent = found_.records + i;
      }
    }
    before = record;
    bits_before = bits;
  }
  found_.records += count;
  std::memcpy(found_.last.data(), before, record_bytes);
}

}  // namespace vortex::cli
