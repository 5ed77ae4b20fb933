#include "lines/record/framing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

FramedRecords split_prefixed(std::string_view text, bool ends,
                             std::span<std::string_view> records) {
  FramedRecords found;
  while (found.records < records.size()) {
    const std::string_view rest = text.substr(found.bytes);
    if (rest.empty()) break;
    std::uint32_t length = 0;
    if (rest.size() >= sizeof length) std::memcpy(&length, rest.data(), sizeof length);
    if (rest.size() < sizeof length || rest.size() - sizeof length < length) {
      found.malformed = ends;
      break;
    }
    records[found.records++] = rest.substr(sizeof length, length);
    found.bytes += sizeof length + length;
  }
  return found;
}

FramedRecords split_by_function(const RecordFraming::LengthFunction& length, std::string_view text,
                                bool ends, std::span<std::string_view> records) {
  FramedRecords found;
  while (found.records < records.size()) {
    const std::string_view rest = text.substr(found.bytes);
    if (rest.empty()) break;
    const std::size_t bytes = length(rest, ends);
    if (bytes == 0 || bytes > rest.size()) {
      found.malformed = ends || bytes != 0;
      break;
    }
    records[found.records++] = rest.substr(0, bytes);
    found.bytes += bytes;
  }
  return found;
}

}  // namespace

FramedRecords split_records(const RecordFraming& framing, std::string_view text, bool ends,
                            std::span<std::string_view> records) {
  switch (framing.kind()) {
    case RecordFraming::Kind::kDelimited:
      return split_delimited(framing.delimiter(), text, ends, records);
    case RecordFraming::Kind::kQuoted:
      return split_quoted(framing, text, ends, records);
    case RecordFraming::Kind::kLengthPrefixed:
      return split_prefixed(text, ends, records);
    case RecordFraming::Kind::kFunction:
      break;
  }
  return split_by_function(framing.length_function(), text, ends, records);
}

std::uint64_t longest_record(const RecordFraming& framing) noexcept {
  return framing.kind() == RecordFraming::Kind::kLengthPrefixed
             ? std::numeric_limits<std::uint32_t>::max()
             : std::numeric_limits<std::uint64_t>::max();
}

}}  // namespace vortex::v0
