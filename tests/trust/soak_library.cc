// What soak.py kills of the library.
//
//   soak_library array FILE SEED [forgetful-buffered | forgetful-direct | unresized | other-range]
//     changes numbers of a file for ever. Operation n writes n to a number that the seed chooses,
//     in an even place, and may resize the file. A thread beside does as many for odd places of the
//     first half. Behind a flush() of all or of a part, which the seed says, too, the operation and
//     the last one of the other thread before it go to standard output, as two numbers of 64 bits;
//     the highest bit says that the disk has them, which is a lie of the forgetful. The others do
//     not resize, or flush another part. soak_state.py knows the same.
//   soak_library records|lines|sorter|line_sorter|copy IN OUT MEMORY THREADS RUNS...
//     sorts a file of numbers or of lines, or copies it.
//   soak_library stripes IN OUT MEMORY THREADS RUNS...
//     copies a file to OUT.00000, OUT.00001 and so on, one more than threads, and reads it there.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/line_sort.h"
#include "vortex/sorter.h"

namespace {

using namespace vortex;

// Numbers of the file at first; never fewer than half of them later.
constexpr std::uint64_t kNumbers = std::uint64_t{1} << 16;

std::uint64_t next_state(std::uint64_t state) noexcept {
  return state * 6364136223846793005U + 1442695040888963407U;  // Knuth's
}

// Writes to odd places, as many times as `allowed` says, and leaves in `done` how many it has.
void change_beside(std::uint64_t* numbers, std::uint64_t state, const std::stop_token& stop,
                   std::atomic<std::uint64_t>& allowed, std::atomic<std::uint64_t>& done) {
  const std::stop_callback wake(stop, [&] {
    allowed.store(~std::uint64_t{0});
    allowed.notify_one();
  });
  for (std::uint64_t operation = 1; !stop.stop_requested(); ++operation) {
    state = next_state(state);
    for (std::uint64_t now; (now = allowed.load()) < operation;) allowed.wait(now);
    numbers[(state >> 33) % (kNumbers / 4) * 2 + 1] = operation;
    done.store(operation);
  }
}

void flush_as(FileArray<std::uint64_t>& array, std::uint64_t state, const std::string& defect) {
  const bool forgetful = defect.starts_with("forgetful");
  const Flush how = (state >> 26) % 2 != 0 && !forgetful ? Flush::kSynced : Flush::kWritten;
  if ((state >> 27) % 2 == 0) return array.flush(how);
  const std::uint64_t first = (state >> 33) % array.size();
  const std::uint64_t count = 1 + (state >> 40) % (array.size() - first);
  array.flush(first, defect == "other-range" ? 1 : count, how);
}

int change_for_ever(const char* path, std::uint64_t state, const std::string& defect) {
  const bool buffered =
      defect.starts_with("forgetful") ? defect == "forgetful-buffered" : state % 2 != 0;
  FileArray<std::uint64_t> array(path, {.memory_bytes = std::size_t{1} << 18,
                                        .block_bytes = std::size_t{16} << 10,
                                        .caching = buffered ? Caching::kBuffered : Caching::kAuto});
  std::atomic<std::uint64_t> allowed{0}, done{0};
  const std::jthread beside([&, other = ~state](const std::stop_token& stop) {
    change_beside(array.data(), other, stop, allowed, done);
  });
  for (std::uint64_t operation = 1;; ++operation) {
    state = next_state(state);
    array.data()[(state >> 33) % (array.size() / 2) * 2] = operation;
    allowed.store(operation);
    allowed.notify_one();
    const std::uint64_t kind = (state >> 20) % 64;
    if (kind == 1 && (state >> 26) % 8 == 0 && defect != "unresized") {
      array.resize(kNumbers / 2 + (state >> 33) % (kNumbers / 2 + 1));
    }
    if (kind != 0) continue;
    const std::uint64_t synced = (state >> 26) % 2;
    const std::uint64_t told[2] = {operation | synced << 63, done.load()};
    flush_as(array, state, defect);
    if (write(STDOUT_FILENO, told, sizeof told) != sizeof told) _exit(0);
  }
}

template <typename Options>
Options options_of(const std::vector<std::string>& words) {
  Options options;
  options.inputs = {words[1]};
  options.output = words[2];
  options.resources.memory_bytes = std::strtoull(words[3].c_str(), nullptr, 10);
  options.resources.threads = static_cast<unsigned>(std::atoi(words[4].c_str()));
  options.resources.folders.assign(words.begin() + 5, words.end());
  return options;
}

void sort_by_sorter(const ExternalSortOptions& options) {
  FileReader<std::uint64_t> in(options.inputs[0]);
  Sorter<std::uint64_t> sorter(options.resources);
  sorter.push(in.span());
  sorter.sort();
  FileWriter<std::uint64_t> out(options.output, {.sync = true});
  for (std::uint64_t i = 0; i < sorter.size(); ++i) out.data()[i] = sorter.data()[i];
  out.finish(sorter.size());
}

void sort_by_line_sorter(const LineSortOptions& options) {
  FileReader<char> in(options.inputs[0]);
  LineSorter sorter({}, options.resources);
  std::string line;
  for (const char byte : in.span()) {
    if (byte != '\n') {
      line += byte;
    } else {
      sorter.push(line);
      line.clear();
    }
  }
  FileWriter<char> out(options.output, {.sync = true});
  std::uint64_t at = 0;
  for (std::string_view record; sorter.next(record);) {
    for (const char byte : record) out.data()[at++] = byte;
    out.data()[at++] = '\n';
  }
  out.finish(at);
}

void copy(const ExternalSortOptions& options) {
  FileReader<char> in(options.inputs[0]);
  FileWriter<char> out(options.output, {.sync = true});
  for (std::uint64_t i = 0; i < in.size(); ++i) out.data()[i] = in.data()[i];
  out.finish(in.size());
}

void stripe(const ExternalSortOptions& options) {
  std::vector<StripedFile::Part> parts;
  for (unsigned i = 0; i <= options.resources.threads; ++i) {
    parts.push_back({options.output + ".0000" + std::to_string(i)});
  }
  const StripedFileOptions units{.unit_bytes = std::size_t{1} << 16};  // as in random_job.py
  FileReader<char> in(options.inputs[0]);
  {
    StripedFile file(parts, units);
    FileWriter<char> out(file.writing_layout(), {.block_bytes = units.unit_bytes, .sync = true});
    for (std::uint64_t i = 0; i < in.size(); ++i) out.data()[i] = in.data()[i];
    out.finish(in.size());
  }
  StripedFile file(parts, units, in.size());
  FileReader<char> striped(file.reading_layout(), {.block_bytes = units.unit_bytes});
  if (!std::equal(in.span().begin(), in.span().end(), striped.span().begin())) {
    throw Error(EIO, "what the stripes have is not what was written");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) return 2;
  try {
    if (words[0] == "array") {
      return change_for_ever(words[1].c_str(), std::strtoull(words[2].c_str(), nullptr, 10),
                             words.size() > 3 ? words[3] : "");
    }
    if (words.size() < 6) return 2;
    if (words[0] == "lines") sort_lines(options_of<LineSortOptions>(words));
    if (words[0] == "line_sorter") sort_by_line_sorter(options_of<LineSortOptions>(words));
    const auto records = options_of<ExternalSortOptions>(words);
    if (words[0] == "records") external_sort<std::uint64_t>(records);
    if (words[0] == "sorter") sort_by_sorter(records);
    if (words[0] == "copy") copy(records);
    if (words[0] == "stripes") stripe(records);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
