// What soak.py kills of the library.
//
//   soak_library array FILE SEED [forgetful-buffered | forgetful-direct]
//     changes numbers of a file for ever. Operation n writes n to a number that the seed chooses.
//     Behind a flush() the last operation goes to standard output, as a number of 64 bits, and the
//     highest of them says that the disk has it, which is a lie of the forgetful.
//   soak_library records|lines|sorter|line_sorter|copy IN OUT MEMORY THREADS RUNS...
//     sorts a file of numbers or of lines, or copies it.
//   soak_library stripes IN OUT MEMORY THREADS RUNS...
//     copies a file to OUT.00000, OUT.00001 and so on, one more than threads, and reads it there.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
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

int change_for_ever(const char* path, std::uint64_t state, const std::string& defect) {
  const bool forgetful = !defect.empty();
  const bool buffered = forgetful ? defect == "forgetful-buffered" : state % 2 != 0;
  FileArray<std::uint64_t> array(path, {.memory_bytes = std::size_t{1} << 18,
                                        .block_bytes = std::size_t{16} << 10,
                                        .caching = buffered ? Caching::kBuffered : Caching::kAuto});
  for (std::uint64_t operation = 1;; ++operation) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's, as in soak.py
    array.data()[(state >> 33) % array.size()] = operation;
    if ((state >> 20) % 64 != 0) continue;
    const bool synced = (state >> 26) % 2 != 0;
    array.flush(synced && !forgetful ? Flush::kSynced : Flush::kWritten);
    const std::uint64_t told = operation | std::uint64_t{synced} << 63;
    if (write(STDOUT_FILENO, &told, sizeof told) != sizeof told) return 0;
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
