#include "cli/gnu/marked_output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <cwchar>
#include <exception>
#include <system_error>
#include <utility>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr std::size_t kBatch = std::size_t{64} << 10;

// Returns an errno value, or 0.
int write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// The locale of the calling thread.
class ThreadLocale {
 public:
  explicit ThreadLocale(::locale_t locale) : before_(uselocale(locale)) {}
  ~ThreadLocale() { uselocale(before_); }
  ThreadLocale(const ThreadLocale&) = delete;
  ThreadLocale& operator=(const ThreadLocale&) = delete;

 private:
  const ::locale_t before_;
};

}  // namespace

KeyMarks::KeyMarks(const LineKeyOptions& options, ::locale_t locale)
    : locale_(locale), finder_(options), lines_decide_(!options.stable && !options.unique) {}

void KeyMarks::append(std::string_view line, std::string& text) const {
  const ThreadLocale locale(locale_);
  const std::size_t begin = text.size();
  text += line;
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), '\t', '>');
  text += '\n';
  for (std::size_t i = 0; i < finder_.keys().size(); ++i) {
    const std::string_view part = finder_.find(line, i);
    mark(width(line.substr(0, static_cast<std::size_t>(part.data() - line.data()))), width(part),
         text);
  }
  if (finder_.keys().empty() || lines_decide_) mark(0, width(line), text);
}

// Columns of a terminal, one for a tab.
std::size_t KeyMarks::width(std::string_view text) const {
  std::size_t width = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\t'));
  std::mbstate_t state{};
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    if (c >= 0x20 && c < 0x7f && std::mbsinit(&state)) {
      ++width;
      text.remove_prefix(1);
      continue;
    }
    wchar_t wide = 0;
    std::size_t bytes = std::mbrtowc(&wide, text.data(), text.size(), &state);
    if (bytes == static_cast<std::size_t>(-1)) {
      state = {};
      ++width;
      bytes = 1;
    } else if (bytes == static_cast<std::size_t>(-2)) {
      return width + 1;
    } else {
      bytes = std::max<std::size_t>(bytes, 1);
      const int columns = wcwidth(wide);
      width += columns >= 0 ? static_cast<std::size_t>(columns)
                            : (iswcntrl(static_cast<wint_t>(wide)) != 0 ? 0 : 1);
    }
    text.remove_prefix(bytes);
  }
  return width;
}

void KeyMarks::mark(std::size_t offset, std::size_t width, std::string& text) const {
  text.append(offset, ' ');
  if (width == 0) {
    text += "^ no match for key";
  } else {
    text.append(width, '_');
  }
  text += '\n';
}

MarkedOutput::MarkedOutput(KeyMarks marks, char delimiter)
    : marks_(std::move(marks)), delimiter_(delimiter) {
  std::array<int, 2> ends{};
  output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (output_ < 0) throw std::system_error(errno, std::generic_category(), "standard output");
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    close(output_);
    throw std::system_error(error, std::generic_category(), "a pipe");
  }
  pipe_ = ends[0];
  const int error = dup2(ends[1], STDOUT_FILENO) < 0 ? errno : 0;
  close(ends[1]);
  if (error != 0) fail(error, "standard output");
  try {
    thread_ = std::thread([this] { pass_on(); });
  } catch (const std::system_error&) {
    collect();
  }
}

// What is there of a constructor that fails.
void MarkedOutput::fail(int error, const char* what) const {
  close(output_);
  close(pipe_);
  throw std::system_error(error, std::generic_category(), what);
}

// Without a thread the lines are kept in memory, and the marks are made when all is there.
void MarkedOutput::collect() {
  const int kept = memfd_create("vortex-marks", MFD_CLOEXEC);
  int error = kept < 0 ? errno : 0;
  if (dup2(kept >= 0 ? kept : output_, STDOUT_FILENO) < 0 && error == 0) error = errno;
  close(pipe_);
  pipe_ = kept;
  if (error != 0) fail(error, "memory for marked lines");
}

MarkedOutput::~MarkedOutput() { end(); }

// Reads the pipe to its end even if nothing can be written: the sort must not wait, or be killed
// for a pipe that nobody reads. Where it cannot be read either, the sort fails to write to it.
void MarkedOutput::pass_on() noexcept {
  std::array<char, kBatch> batch;
  for (;;) {
    const ssize_t count = read(pipe_, batch.data(), batch.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (error_ == 0) error_ = errno;
      close(std::exchange(pipe_, -1));
    }
    if (count <= 0) break;
    mark({batch.data(), static_cast<std::size_t>(count)});
  }
  if (error_ == 0) error_ = write_all(output_, text_);
}

// Takes the next bytes of the lines, which may end within one.
void MarkedOutput::mark(std::string_view lines) noexcept {
  try {
    while (error_ == 0 && !lines.empty()) {
      const std::size_t end = lines.find(delimiter_);
      line_ += lines.substr(0, end);
      if (end == lines.npos) return;
      marks_.append(line_, text_);
      line_.clear();
      lines.remove_prefix(end + 1);
      if (text_.size() < kBatch) continue;
      error_ = write_all(output_, text_);
      text_.clear();
    }
  } catch (const std::exception& exception) {  // a line is long, and there is one more for each key
    error_ = errno_of(exception, ENOMEM);
  }
}

void MarkedOutput::end() noexcept {
  if (ended_) return;
  ended_ = true;
  int error = 0;
  // The pipe has no other end, and ends.
  if (dup2(output_, STDOUT_FILENO) < 0) {
    error = errno;
    close(STDOUT_FILENO);
  }
  if (thread_.joinable()) {
    thread_.join();
  } else {
    if (lseek(pipe_, 0, SEEK_SET) < 0) error = errno;
    pass_on();
  }
  if (error_ == 0) error_ = error;
  close(output_);
  close(pipe_);
}

void MarkedOutput::finish() {
  end();
  if (error_ != 0) throw std::system_error(error_, std::generic_category(), "write failed");
}

}  // namespace vortex::cli
