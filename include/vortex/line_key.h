// Orders of lines as `sort` of GNU describes them: keys in fields, what they are compared as, and
// where they lie.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

// Throws Error(EINVAL), in GNU sort's words, for a text that is no key of lines.
VORTEX_EXPORT void expect_line_key(std::string_view text);

// One key of an order of lines, as its text tells it.
struct LineKey {
  static constexpr std::size_t kLineEnd = static_cast<std::size_t>(-1);

  std::size_t begin_field = 0;       // fields in front of the key
  std::size_t begin_byte = 0;        // bytes in front of it, in its field
  std::size_t end_field = kLineEnd;  // fields in front of the one that it ends in
  std::size_t end_byte = 0;          // bytes of that field which belong to it; 0: all
  bool skip_start_blanks = false;    // the letter b, for the beginning and for the end
  bool skip_end_blanks = false;
  std::string letters = {};  // its other letters, or those for all keys
};

// Finds the keys of lines, for programs that show them to people. Immutable; any number of threads
// may use it.
class VORTEX_EXPORT LineKeyFinder {
 public:
  // The options are those of an order of lines (FieldRules::kLines, or it throws Error(EINVAL)).
  // Throws Error as line_order() does.
  explicit LineKeyFinder(const LineKeyOptions& options);
  ~LineKeyFinder();
  LineKeyFinder(LineKeyFinder&&) noexcept;
  LineKeyFinder& operator=(LineKeyFinder&&) noexcept;

  // The one that counts most comes first; none where nothing but the bytes of the lines count.
  const std::vector<LineKey>& keys() const noexcept;
  // The part of the line that the key with that number is made from: of a number what is read as
  // one, and of a month its name.
  std::string_view find(std::string_view line, std::size_t key) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}}  // namespace vortex::v0
