// The quotes of CSV (RFC 4180): where they open and close a value, and so where a record ends.
#pragma once

#include <cstddef>
#include <string_view>

namespace vortex { inline namespace v0 {

// Quotes in a record of CSV that RFC 4180 does not allow.
enum class InvalidQuote : unsigned char {
  kNone,
  kInsideValue,  // in a value that does not begin with one
  kTextBehind,   // closed, with text behind it
  kNeverClosed,  // open where the input ends
};

// Returns the place of the quote that closes a value which opened in front of `at`, or text.size().
// A quote that is doubled is a part of the value.
std::size_t closing_quote(std::string_view text, std::size_t at, bool& doubled) noexcept;

// Finds the end of a record, as Python's csv module does: a quote opens a value only where the
// value begins, and elsewhere is a byte like others; behind a quote that closes, the value goes on
// without quotes. No byte is looked at twice while the text grows.
class CsvRecordScan {
 public:
  CsvRecordScan(char delimiter, char separator) noexcept
      : delimiter_(delimiter), separator_(separator) {}

  static constexpr std::size_t kOpen = ~std::size_t{0};

  // Returns the length of the record that begins where the text does, without its delimiter; kOpen
  // where it does not end in this text. Then it may be called again with a text that has more
  // behind the same bytes, wherever they lie. With `ends` nothing follows the text, and kOpen means
  // that a quote is never closed.
  std::size_t find_end(std::string_view text, bool ends) noexcept;

  // The first quote that is invalid so far, and the place in the record that the message about it
  // names.
  InvalidQuote invalid() const noexcept { return invalid_; }
  std::size_t invalid_at() const noexcept { return invalid_at_; }
  // Whether the quote that opened last has not been closed.
  bool in_quotes() const noexcept { return in_quotes_; }

 private:
  bool leave_quotes(std::string_view text, bool ends) noexcept;
  void note(InvalidQuote what, std::size_t at) noexcept {
    if (invalid_ != InvalidQuote::kNone) return;
    invalid_ = what;
    invalid_at_ = at;
  }

  const char delimiter_;
  const char separator_;
  std::size_t at_ = 0;  // the scan has come to this place
  std::size_t opened_at_ = 0;
  bool in_quotes_ = false;
  InvalidQuote invalid_ = InvalidQuote::kNone;
  std::size_t invalid_at_ = 0;
};

}}  // namespace vortex::v0
