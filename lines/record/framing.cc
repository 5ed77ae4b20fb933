#include "lines/record/framing.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// Calls `use` for each place of the byte in [begin, end), from the first on, until it returns
// false. Delimiters lie close to each other: a call of memchr() for each takes longer than a short
// line.
template <typename Use>
void for_each_place(const char* begin, const char* end, char byte, const Use& use) {
  const char* at = begin;
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(byte);
  for (; end - at >= 64; at += 64) {
    std::uint64_t places = 0;
    for (unsigned part = 0; part < 4; ++part) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * part));
      const auto mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)));
      places |= std::uint64_t{mask} << (16 * part);
    }
    for (; places != 0; places &= places - 1) {
      if (!use(at + std::countr_zero(places))) return;
    }
  }
#endif
  while (at < end) {
    const void* const place = std::memchr(at, byte, static_cast<std::size_t>(end - at));
    if (place == nullptr || !use(static_cast<const char*>(place))) return;
    at = static_cast<const char*>(place) + 1;
  }
}

FramedRecords split_delimited(char delimiter, std::string_view text, bool ends,
                              std::span<std::string_view> records) {
  FramedRecords found;
  const char* const end = text.data() + text.size();
  const char* record = text.data();
  const auto append = [&](const char* stop) {
    records[found.records++] = {record, static_cast<std::size_t>(stop - record)};
  };
  if (records.empty()) return found;
  for_each_place(record, end, delimiter, [&](const char* stop) {
    append(stop);
    record = stop + 1;
    return found.records < records.size();
  });
  if (ends && record < end && found.records < records.size()) {
    append(end);
    record = end;
  }
  found.bytes = static_cast<std::size_t>(record - text.data());
  return found;
}

FramedRecords split_quoted(const RecordFraming& framing, std::string_view text, bool ends,
                           std::span<std::string_view> records) {
  FramedRecords found;
  while (found.records < records.size() && found.bytes < text.size()) {
    const std::string_view rest = text.substr(found.bytes);
    CsvRecordScan scan(framing.delimiter(), framing.separator());
    const std::size_t length = scan.find_end(rest, ends);
    if (length == CsvRecordScan::kOpen) break;
    if (scan.invalid() != InvalidQuote::kNone && found.invalid++ == 0) {
      found.first_invalid = scan.invalid();
      found.first_invalid_at = found.bytes + scan.invalid_at();
    }
    records[found.records++] = rest.substr(0, length);
    found.bytes += std::min(length + 1, rest.size());
  }
  return found;
}

// Each record takes `length(rest)` bytes, of which the first `head_bytes` are not its own; 0 where
// it may go on behind the text.
template <typename Length>
FramedRecords split_by_length(std::string_view text, bool ends, std::size_t head_bytes,
                              std::span<std::string_view> records, const Length& length) {
  FramedRecords found;
  while (found.records < records.size() && found.bytes < text.size()) {
    const std::string_view rest = text.substr(found.bytes);
    const std::size_t bytes = length(rest);
    if (bytes == 0 || bytes > rest.size()) {
      found.malformed = ends || bytes != 0;
      break;
    }
    records[found.records++] = rest.substr(head_bytes, bytes - head_bytes);
    found.bytes += bytes;
  }
  return found;
}

std::size_t prefixed_length(std::string_view text) noexcept {
  std::uint32_t length = 0;
  if (text.size() < sizeof length) return 0;
  std::memcpy(&length, text.data(), sizeof length);
  return text.size() - sizeof length < length ? 0 : sizeof length + length;
}

}  // namespace

RecordFraming::RecordFraming(Kind kind, char delimiter, LengthFunction length)
    : kind_(kind), delimiter_(delimiter), length_(std::move(length)) {}

RecordFraming RecordFraming::delimited(char delimiter) { return {Kind::kDelimited, delimiter, {}}; }

RecordFraming RecordFraming::quoted(char delimiter, char separator, InvalidQuotes invalid) {
  if (delimiter == separator || delimiter == '"' || separator == '"') {
    throw Error(EINVAL, "what ends a record, what separates its values and a quote must differ");
  }
  RecordFraming framing(Kind::kQuoted, delimiter, {});
  framing.separator_ = separator;
  framing.invalid_quotes_ = invalid;
  return framing;
}

RecordFraming RecordFraming::length_prefixed() { return {Kind::kLengthPrefixed, '\0', {}}; }

RecordFraming RecordFraming::by_function(LengthFunction length) {
  return {Kind::kFunction, '\0', std::move(length)};
}

FramedRecords split_records(const RecordFraming& framing, std::string_view text, bool ends,
                            std::span<std::string_view> records) {
  switch (framing.kind()) {
    case RecordFraming::Kind::kDelimited:
      return split_delimited(framing.delimiter(), text, ends, records);
    case RecordFraming::Kind::kQuoted:
      return split_quoted(framing, text, ends, records);
    case RecordFraming::Kind::kLengthPrefixed:
      return split_by_length(text, ends, framing_bytes(framing), records, prefixed_length);
    case RecordFraming::Kind::kFunction:
      break;
  }
  return split_by_length(text, ends, 0, records, [&](std::string_view rest) {
    return framing.length_function()(rest, ends);
  });
}

std::uint64_t longest_record(const RecordFraming& framing) noexcept {
  return framing.kind() == RecordFraming::Kind::kLengthPrefixed
             ? std::numeric_limits<std::uint32_t>::max()
             : std::numeric_limits<std::uint64_t>::max();
}

}}  // namespace vortex::v0
