// Orders of lines as `sort` of GNU describes them: keys in fields, and what they are compared as.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "vortex/detail/stream/export.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// What separates the fields of a line.
enum class FieldRules : std::uint8_t {
  kLines,  // the separator; without one, blanks, which belong to the field behind them
  kCsv,    // the separator (a comma without one) outside of quotes, which are no part of the value
};

struct LineKeyOptions {
  // F[.C][OPTS][,F[.C][OPTS]] each, the first counting most: from byte C of field F (both from 1
  // on) to the end of such a place, or of the line. OPTS are letters of "bdfghiMnRrV". Without keys
  // the whole line is one. With FieldRules::kCsv a key is one column, F[OPTS].
  std::vector<std::string> keys = {};
  std::string letters = {};  // for all keys that have none of their own
  std::optional<char> separator = {};
  FieldRules fields = FieldRules::kLines;
  bool stable = false;  // lines whose keys are equal keep their order; else the lines decide
  bool unique = false;  // of lines whose keys are equal only the first is kept
  // As setlocale() takes it, "" for what the environment says. "C" and "POSIX" order text by bytes;
  // others by their collation, decimal points, separators of thousands and names of months.
  std::string locale = "C";
  std::array<char, 16> random_seed = {};  // of the order R; the same one gives the same order
};

// The order that GNU sort 9 has with these options, byte for byte, R with the first 16 bytes of
// `--random-source`. Throws Error: EINVAL for what is no key and for letters that contradict each
// other, in GNU sort's words; ENOENT for a locale that is not there.
//
// The keys that it makes take memory beside the lines: half a byte for each digit of a number, two
// to eight bytes for each of a text in a locale; none where the whole line is compared by its
// bytes. Two lines of a locale whose keys tell them apart only in full are compared without more
// memory, but for three things, which are beside that of the sort for that while: texts up to a NUL
// with characters that a neighbour changes, as are all beyond ASCII and "ch" in Czech, take some
// seven times their length each (fourteen for both); keys of numbers, versions or R that stand
// behind a text in a locale, what they are made from; and columns of CSV with quotes doubled in
// them, their length.
VORTEX_EXPORT LineOrder line_order(const LineKeyOptions& options);

}}  // namespace vortex::v0
