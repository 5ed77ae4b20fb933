#include "lines/fields/csv_quotes.h"

#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vortex { inline namespace v0 {

namespace {

// Returns the place of either byte at or behind `at`, or the end. The bytes lie close to each
// other: a call of memchr() takes longer than most values.
std::size_t find_either(std::string_view text, char a, char b, std::size_t at) noexcept {
#if defined(__SSE2__)
  const __m128i wanted_a = _mm_set1_epi8(a);
  const __m128i wanted_b = _mm_set1_epi8(b);
  constexpr std::size_t kStep = sizeof(__m128i);
  for (; text.size() - at >= kStep; at += kStep) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const __m128i found =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, wanted_a), _mm_cmpeq_epi8(bytes, wanted_b));
    const auto places = static_cast<unsigned>(_mm_movemask_epi8(found));
    if (places != 0) return at + static_cast<std::size_t>(std::countr_zero(places));
  }
#endif
  while (at < text.size() && text[at] != a && text[at] != b) ++at;
  return at;
}

}  // namespace

std::size_t closing_quote(std::string_view text, std::size_t at, bool& doubled) noexcept {
  for (;;) {
    at = find_either(text, '"', '"', at);
    if (at + 1 >= text.size() || text[at + 1] != '"') return at;
    doubled = true;
    at += 2;
  }
}

// Goes from inside quotes to behind them. Returns false where they do not close in this text, or
// where only what follows tells whether they do.
bool CsvRecordScan::leave_quotes(std::string_view text, bool ends) noexcept {
  bool doubled = false;
  const std::size_t closing = closing_quote(text, at_, doubled);
  const std::size_t behind = closing + 1;
  at_ = closing;
  if (closing >= text.size()) return false;
  if (behind == text.size() && !ends) return false;
  const bool at_return = behind < text.size() && text[behind] == '\r' && delimiter_ != '\r';
  if (at_return && behind + 1 == text.size() && !ends) return false;
  const std::size_t end = at_return ? behind + 1 : behind;  // of the record, if it ends here
  const bool valid = (behind < text.size() && text[behind] == separator_) || end == text.size() ||
                     text[end] == delimiter_;
  if (!valid) note(InvalidQuote::kTextBehind, behind);
  in_quotes_ = false;
  at_ = behind;
  return true;
}

std::size_t CsvRecordScan::find_end(std::string_view text, bool ends) noexcept {
  for (;;) {
    if (in_quotes_ && !leave_quotes(text, ends)) {
      if (ends) note(InvalidQuote::kNeverClosed, opened_at_);
      return kOpen;
    }
    at_ = find_either(text, '"', delimiter_, at_);
    if (at_ >= text.size()) return ends ? text.size() : kOpen;
    if (text[at_] != '"') return at_;
    if (at_ == 0 || text[at_ - 1] == separator_) {
      in_quotes_ = true;
      opened_at_ = at_;
    } else {
      note(InvalidQuote::kInsideValue, at_);
    }
    ++at_;
  }
}

}}  // namespace vortex::v0
