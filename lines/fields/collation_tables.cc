#include "lines/fields/collation_tables.h"

#include <langinfo.h>

#include <algorithm>
#include <cstring>

namespace vortex { inline namespace v0 {

namespace {

template <typename T>
const T* item(::locale_t locale, ::nl_item which) noexcept {
  return reinterpret_cast<const T*>(nl_langinfo_l(which, locale));
}

std::int32_t load(const unsigned char* from) noexcept {
  std::int32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A number of at least 2 so that greater ones have greater bytes, behind which no other begins.
void append_number(std::uint64_t number, KeyBytes& bytes) {
  std::size_t length = 1;
  while (length < sizeof number && number >> 8 * length != 0) ++length;
  bytes += static_cast<char>(length);
  while (length-- > 0) bytes += static_cast<char>(number >> 8 * length);
}

}  // namespace

std::size_t collation_rules(::locale_t locale) noexcept {
  // The number lies where a pointer does for other items.
  return static_cast<std::uint32_t>(
      reinterpret_cast<std::uintptr_t>(nl_langinfo_l(_NL_COLLATE_NRULES, locale)));
}

CollationTables::CollationTables(::locale_t locale)
    : rules_(collation_rules(locale)),
      kinds_(item<unsigned char>(locale, _NL_COLLATE_RULESETS)),
      table_(item<std::int32_t>(locale, _NL_COLLATE_TABLEMB)),
      lists_(item<unsigned char>(locale, _NL_COLLATE_EXTRAMB)),
      ranges_(item<std::int32_t>(locale, _NL_COLLATE_INDIRECTMB)),
      weights_(item<unsigned char>(locale, _NL_COLLATE_WEIGHTMB)) {}

// The place of the weights and, in the highest byte, the script.
CollationTables::Element CollationTables::element(std::int32_t found) noexcept {
  return {static_cast<std::uint32_t>(found) & 0xffffff, static_cast<std::uint8_t>(found >> 24)};
}

CollationTables::Element CollationTables::next(const char*& at, const char* end) const noexcept {
  const std::int32_t found = table_[static_cast<unsigned char>(*at++)];
  return found < 0 ? next_of_several(found, at, end) : element(found);
}

// Entries are an element and the bytes behind the first one, or ranges of characters of the same
// length, the first and the last of them; each is padded to words. The last entry has no bytes.
CollationTables::Entry CollationTables::read_entry(const unsigned char* from) noexcept {
  const std::int32_t found = load(from);
  const std::size_t length = from[sizeof found];
  const std::size_t bytes = sizeof found + 1 + (found < 0 ? 2 : 1) * length;
  return {found, length, from + sizeof found + 1, from + (bytes + 3) / 4 * 4};
}

bool CollationTables::stands_alone(char c) const noexcept {
  const std::int32_t list = table_[static_cast<unsigned char>(c)];
  if (list >= 0) return true;
  for (Entry entry = read_entry(lists_ - list); entry.length > 0;
       entry = read_entry(entry.behind)) {
    const auto is_ascii = [](unsigned char byte) { return byte < 128; };
    if (std::all_of(entry.first, entry.first + entry.length, is_ascii)) return false;
  }
  return true;
}

CollationTables::Element CollationTables::next_of_several(std::int32_t list, const char*& at,
                                                          const char* end) const noexcept {
  const auto left = static_cast<std::size_t>(end - at);
  for (Entry entry = read_entry(lists_ - list);; entry = read_entry(entry.behind)) {
    const auto [found, length, first, behind] = entry;
    if (length > left) continue;
    const int compared = std::memcmp(at, first, length);
    const bool range = found < 0;
    if (compared < 0 || (compared > 0 && !range)) continue;
    if (range && std::memcmp(at, first + length, length) > 0) continue;
    std::ptrdiff_t offset = 0;  // in the range
    for (std::size_t i = 0; i < length; ++i) {
      offset = offset * 256 + (static_cast<unsigned char>(at[i]) - first[i]);
    }
    at += length;
    return element(range ? ranges_[offset - found] : found);
  }
}

std::string_view CollationTables::weight(Element element, std::size_t rule) const noexcept {
  const unsigned char* at = weights_ + element.at;
  while (rule-- > 0) at += 1 + *at;
  return {reinterpret_cast<const char*>(at + 1), *at};
}

void CollationTables::append(std::size_t rule, std::string_view text, KeyBytes& bytes) const {
  if (has_positions(rule)) {
    append_with_positions(rule, text, bytes);
  } else {
    append_in_order(rule, text, bytes);
  }
}

void CollationTables::append_with_positions(std::size_t rule, std::string_view text,
                                            KeyBytes& bytes) const {
  constexpr char kSomeIgnored = '\xff';  // no weight begins with it
  const char* at = text.data();
  const char* const end = at + text.size();
  std::uint64_t ignored = 0;
  while (at != end) {
    const std::string_view own = weight(next(at, end), rule);
    if (own.empty()) {
      ++ignored;
      continue;
    }
    bytes += kEndOfRule;
    if (ignored > 0) {
      bytes += kSomeIgnored;
      append_number(ignored, bytes);
      ignored = 0;
    }
    bytes += own;
  }
}

// Where an ignored character and a run stand between two weights, strcoll() takes the elements of
// the run but for its last one from where the first of the two ended.
void CollationTables::append_in_order(std::size_t rule, std::string_view text,
                                      KeyBytes& bytes) const {
  const char* at = text.data();
  const char* const end = at + text.size();
  const char* counted_from = at;
  std::size_t run = 0;
  Element last;  // of the run
  while (at != end) {
    const Element element = next(at, end);
    if (is_backward(element, rule)) {
      last = element;
      ++run;
      continue;
    }
    if (run > 0) {
      bytes += weight(last, rule);
      append_run(rule, counted_from, run < 2 ? 0 : run - 2, end, bytes);
      run = 0;
      counted_from = at;
    }
    const std::string_view own = weight(element, rule);
    bytes += own;
    if (!own.empty()) counted_from = at;
  }
  if (run == 0) return;
  bytes += weight(last, rule);
  append_run(rule, counted_from, run - 1, end, bytes);
}

// The weights of so many elements, the last one first.
void CollationTables::append_run(std::size_t rule, const char* begin, std::size_t elements,
                                 const char* end, KeyBytes& bytes) const {
  std::size_t length = 0;
  const char* at = begin;
  for (std::size_t i = 0; i < elements; ++i) length += weight(next(at, end), rule).size();
  char* to = bytes.more(length) + length;
  at = begin;
  for (std::size_t i = 0; i < elements; ++i) {
    const std::string_view own = weight(next(at, end), rule);
    to -= own.size();
    std::copy(own.begin(), own.end(), to);
  }
}

}}  // namespace vortex::v0
