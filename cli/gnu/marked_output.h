// The output of a sort with its keys underlined, as `sort --debug` writes it.
#pragma once

#include <locale.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

#include "vortex/line_sort.h"

namespace vortex::cli {

// Shows which bytes of a line are its keys. One thread at a time.
class KeyMarks {
 public:
  // The locale, that of the options, must outlive this. Throws Error(EINVAL) for keys that
  // line_order() refuses.
  KeyMarks(const LineKeyOptions& options, ::locale_t locale);

  // Appends the line, with > for each tab and a newline, and below it a line for each key: blanks,
  // and underscores where the key is.
  void append(std::string_view line, std::string& text) const;

 private:
  std::size_t width(std::string_view text) const;
  void mark(std::size_t offset, std::size_t width, std::string& text) const;

  ::locale_t locale_;
  LineKeyFinder finder_;
  bool lines_decide_;
};

// While it is there, what is written to standard output, lines of whatever length, goes through the
// marks.
class MarkedOutput {
 public:
  // Throws std::system_error.
  MarkedOutput(KeyMarks marks, char delimiter);
  // Ends as finish() does, and tells no error.
  ~MarkedOutput();
  MarkedOutput(const MarkedOutput&) = delete;
  MarkedOutput& operator=(const MarkedOutput&) = delete;

  // To be called when no more comes. Standard output is what it was before. Throws
  // std::system_error when something could not be written.
  void finish();

 private:
  [[noreturn]] void fail(int error, const char* what) const;
  void collect();
  void pass_on() noexcept;
  void mark(std::string_view lines) noexcept;
  void end() noexcept;

  const KeyMarks marks_;
  const char delimiter_;
  int output_ = -1;   // where standard output led
  int pipe_ = -1;     // its end to read from, or the memory where there is no thread
  int error_ = 0;     // of reading, of writing, or of memory
  std::string line_;  // that has begun
  std::string text_;  // that is to be written
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace vortex::cli
