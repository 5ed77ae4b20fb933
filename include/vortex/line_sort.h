// Sorting records of any length: lines, records behind their length, framings of one's own; and the
// orders of lines as `sort` of GNU describes them: keys in fields, what they are compared as, and
// where they lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// What becomes of records whose quotes are not as RFC 4180 has them.
enum class InvalidQuotes : std::uint8_t {
  kKept,     // they are sorted as they are, and counted
  kRefused,  // the first is an error, with its file, line and column
};

// Where a record ends.
class VORTEX_EXPORT RecordFraming {
 public:
  enum class Kind : std::uint8_t { kDelimited, kQuoted, kLengthPrefixed, kFunction };

  // Returns the length of the first record of `text`, which is not empty: 1 to text.size(). 0: the
  // record may go on behind the text. With `ends` nothing follows the text, and 0 is an error in
  // the data. The same text behind the same record must give the same length whatever follows. Must
  // not throw; called by one thread at a time.
  using LengthFunction = std::function<std::size_t(std::string_view text, bool ends)>;

  // Each record ends with the delimiter, which is no part of it. One that is missing at the end of
  // an input is added in the output.
  static RecordFraming delimited(char delimiter = '\n');
  // The same, where delimiters between double quotes are part of the record, as the newlines of CSV
  // are (RFC 4180). A quote opens a value only where the value begins: at the beginning of the
  // record or behind the separator. A quote elsewhere in a value without quotes, and text behind
  // the quote that closes one, are invalid, and belong to the value as other bytes do. One that is
  // never closed is invalid, too: the rest of the input is its record, and the quote that is
  // missing is added in the output. All three bytes differ, or it throws Error(EINVAL).
  //
  // A byte-order mark (EF BB BF) at the beginning of an input belongs to no record. The output
  // begins with one if an input does. Elsewhere these bytes belong to their record; where they come
  // first in an output without a mark, who reads it takes them for one.
  static RecordFraming quoted(char delimiter = '\n', char separator = ',',
                              InvalidQuotes invalid = InvalidQuotes::kKept);
  // In front of each record stands its length, without the four bytes of that, as a little-endian
  // number of 32 bits.
  static RecordFraming length_prefixed();
  // Records lie one behind the other and are written as they are.
  static RecordFraming by_function(LengthFunction length);

  Kind kind() const noexcept { return kind_; }
  char delimiter() const noexcept { return delimiter_; }
  char separator() const noexcept { return separator_; }  // of kQuoted
  InvalidQuotes invalid_quotes() const noexcept { return invalid_quotes_; }
  const LengthFunction& length_function() const noexcept { return length_; }

 private:
  RecordFraming(Kind kind, char delimiter, LengthFunction length);

  Kind kind_;
  char delimiter_;
  char separator_ = ',';
  InvalidQuotes invalid_quotes_ = InvalidQuotes::kKept;
  LengthFunction length_;
};

// Takes the keys of a batch of records, in the order of the records.
class VORTEX_EXPORT KeyBatch {
 public:
  KeyBatch() = default;
  // The keys lie in this memory, which outlives them; more than it holds are refused by an Error.
  explicit KeyBatch(std::span<char> memory) noexcept : fixed_(memory), is_fixed_(true) {}

  // At least `bytes` bytes of room for (the next part of) the key in hand. May allocate; pointers
  // of before are void then.
  char* room(std::size_t bytes);
  bool is_fixed() const noexcept { return is_fixed_; }
  // The rest of the memory that was given for the keys; empty where none was.
  std::span<char> fixed_room() const noexcept { return fixed_.subspan(is_fixed_ ? size_ : 0); }
  // The key takes the first `bytes` bytes of the room.
  void used(std::size_t bytes) noexcept { size_ += bytes; }
  // Appends to the key in hand.
  void append(std::string_view part);
  void append(char byte) {
    *room(1) = byte;
    used(1);
  }
  // The key in hand is complete.
  void end_key() { ends_.push_back(size_); }

  void clear() noexcept;
  std::size_t keys() const noexcept { return ends_.size(); }
  std::string_view key(std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {(is_fixed_ ? fixed_.data() : bytes_.data()) + begin, ends_[index] - begin};
  }

 private:
  std::span<char> fixed_;
  bool is_fixed_ = false;
  std::vector<char> bytes_;
  std::size_t size_ = 0;
  std::vector<std::size_t> ends_;
};

// Turns records into byte strings whose order (memcmp, then the shorter first) is the wanted order
// of the records: normalized keys. They are made once for each record and travel with it; of a long
// record again where there was no room for its key yet.
class VORTEX_EXPORT RecordKeys {
 public:
  virtual ~RecordKeys();

  // Appends a key for each record, in their order; their bytes need not be looked at twice, and may
  // be any. Errors are thrown and end the sort; those that `keys` throws may make it look for more
  // room and call again, so they are passed on. One thread at a time calls it, unless any may;
  // sort_thread() (array_calls.h) numbers them.
  virtual void append(std::span<const std::string_view> records, KeyBatch& keys) const = 0;
  // Whether any number of threads at a time may call append(): a sort with several threads does so
  // then, where many records come at once.
  virtual bool appended_by_any_thread() const noexcept;

  // Keys may be the beginnings of longer ones, which are mostly not needed: then this is true, and
  // records whose keys are equal have the order of their whole keys. Those are made whenever such
  // records are compared, and not kept. A record whose key is less must have the lesser whole key.
  virtual bool shortened() const noexcept;
  // Appends the whole key of a record; `key` is empty. Called for records whose keys are equal, by
  // any number of threads at a time, those beside the sort's included, which sort_thread() does not
  // tell apart. The default appends nothing.
  virtual void append_whole(std::string_view record, std::string& key) const;
  // Below 0 where the whole key of `a` is less, above 0 where it is greater, 0 where they are
  // equal. Only for records whose keys are equal; any number of threads at a time. The default
  // makes both keys, whose memory is beside that of the sort. Records of more than 8 KiB are
  // compared by this alone.
  virtual int compare_whole(std::string_view a, std::string_view b) const;
};

// Which of two records with equal keys comes first.
enum class Ties : std::uint8_t {
  kRecordBytes,  // the one whose bytes are less; GNU sort's last resort
  kInputOrder,   // the earlier one: the sort is stable
};

struct LineOrder {
  std::shared_ptr<const RecordKeys> keys = {};  // none: a record is its own key, and is not copied
  bool descending = false;  // keys, and records whose bytes decide; never the order of the input
  Ties ties = Ties::kRecordBytes;
  bool unique = false;  // of records with equal keys only the earliest is kept; ties are moot then
};

struct LineSortOptions {
  std::vector<std::string> inputs = {};  // "-" is standard input
  std::string output = {};               // "-" is standard output
  RecordFraming framing = RecordFraming::delimited();
  LineOrder order = {};
  // The first records of each input, which are not sorted: those of the first input become the
  // head of the output, others are dropped. That head is kept beside the memory of the resources.
  std::uint64_t header_records = 0;
  bool merge_inputs = false;  // every input is sorted already; one that is not gives an output that
                              // is not, and no error. Files whose records are too long for a
                              // merge of them are sorted, if the output is a file as well
  // A file for a trace, as ExternalSortOptions::trace; empty: none.
  std::string trace = {};
  SortResources resources = {};
  // Called once with the resources, whose `stop` and `progress` it may set, by a sort that will
  // start threads. One of some thousand lines, without `progress`, is over before that, and sooner
  // than a program can set up what it does at signals: here is the place for it.
  std::function<void(SortResources& resources)> before_threads = {};
};

// How sort_lines() would divide its memory. How many runs there are, and whether there are any, is
// not known before the lines are read: they lie in memory with their keys and their index.
//
// Looks at the inputs and reads nothing of them; writes nothing, but where it measures a disk
// (SortResources::request_cost_bytes). Throws Error as sort_lines() does.
VORTEX_EXPORT SortPlan plan_line_sort(const LineSortOptions& options);

// Sorts files into a file. Each input is opened when its turn comes and read to the end that it has
// then: it may grow meanwhile. The output appears under its name when it is complete, and may be
// one of the inputs; an error leaves what was there before. All memory lies within
// options.resources.memory_bytes: records, index, keys, buffers. Runs are kept in
// options.resources.folders where the memory does not hold everything. Records of 64 KiB and a
// sixty-fourth part of the memory, or more, are then kept apart there, written and read once,
// unless runs are always compressed; their room is given back when the sort ends. Keys that need
// half of the memory, and such records with the same shortened key, are looked at beside it.
//
// Blocks until the output is complete. Throws Error: what files and disks report; EINVAL for data
// that the framing does not allow, with file, record and offset; ENOMEM where the memory is too
// small for a merge, or EMSGSIZE for a record that is too long for it, with file, number, offset,
// limit and way out; ENODATA when an input became shorter meanwhile; ECANCELED; what keys and the
// progress function throw.
VORTEX_EXPORT SortReport sort_lines(const LineSortOptions& options);

// The first record of a file that is out of order.
struct LineDisorder {
  std::string input;
  std::uint64_t record = 0;  // from 1 on, headers included
  std::uint64_t offset = 0;  // of its first byte in the file
  std::string text;          // the record
};

// Reads the inputs, each by itself, and stops at the first record that must not follow the one in
// front of it; none: they are in order. With `options.order.unique` equal keys must not follow each
// other. The output is not looked at. `report`, if any, gets what has been read: records_in,
// input_bytes, invalid_records, unclosed_records; it is unspecified behind an error. Throws as
// sort_lines() does.
VORTEX_EXPORT std::optional<LineDisorder> check_lines(const LineSortOptions& options,
                                                      SortReport* report = nullptr);

// Sorts views of records in memory, in place. With `order.unique` the first elements are the ones
// kept. Returns how many are kept; what lies behind them is unspecified. Records that are their own
// keys take what sort() of views does (sort.h), others 16 bytes each and their keys besides.
// `threads` as in SortOptions. Throws std::bad_alloc with the views all there, in any order.
VORTEX_EXPORT std::size_t sort_lines_in_memory(std::span<std::string_view> records,
                                               const LineOrder& order = {}, unsigned threads = 0);

// Records pushed one by one, read back in order:
//
//   vortex::LineSorter sorter({}, {.memory_bytes = 256 << 20});
//   while (std::getline(in, line)) sorter.push(line);
//   for (std::string_view record; sorter.next(record);) std::cout << record << '\n';
//
// Memory and runs as for sort_lines(). One thread at a time. Records that are sorted in memory make
// room for those who wait for the budget (MemoryBudget) in the next call of next(), and at once
// only where the thread that waits has called next() last: one that takes over a sorter which is
// being read calls next() before it waits. After an Error it can only be destroyed. Not movable.
class VORTEX_EXPORT LineSorter {
 public:
  // `resources.folders` empty: $TMPDIR or /tmp.
  explicit LineSorter(LineOrder order = {}, SortResources resources = {});
  ~LineSorter();
  LineSorter(const LineSorter&) = delete;
  LineSorter& operator=(const LineSorter&) = delete;

  // Copies the record. Blocks while the memory is full. Throws Error: EMSGSIZE when it is too long
  // for the memory, EINVAL behind a next(), otherwise as sort_lines().
  void push(std::string_view record);
  // The same for several, which costs less for each. Many at once are taken by more threads, 64 KiB
  // each at least, if any may make keys (RecordKeys::appended_by_any_thread()).
  void push(std::span<const std::string_view> records);

  // The next record, which is valid until the following call; false behind the last. The first call
  // sorts. Throws as sort_lines() does.
  bool next(std::string_view& record);
  // Copies the next records to `to`, one behind the other, as many as it has room for and as
  // `lengths` has places; writes their lengths and returns how many there are. 0: none is left, or
  // the next is longer than `to`, and the other next() gives it. Throws as that does, with what
  // `to` holds unspecified.
  std::size_t next(std::span<char> to, std::span<std::size_t> lengths);

  std::uint64_t records() const noexcept;  // pushed
  RunCounts counts() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

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
