// Sorts of files that are larger than the memory given.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "bench/scaling/cell.h"
#include "bench/support/disk_speed.h"
#include "bench/support/made_lines.h"
#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "io/sequence/seeded_random.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"
#include "vortex/record_order.h"

namespace vortex::bench {

namespace {

class OpenFile : public Descriptor {
 public:
  using Descriptor::Descriptor;

  std::uint64_t bytes() const {
    struct stat status {};
    if (fstat(*this, &status) != 0) fail("fstat");
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::string piece(std::uint64_t offset, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t got =
          pread(*this, text.data() + at, text.size() - at, static_cast<off_t>(offset + at));
      if (got <= 0) fail("pread");
      at += static_cast<std::size_t>(got);
    }
    return text;
  }
  void write_at(std::uint64_t offset, std::string_view text) const {
    while (!text.empty()) {
      const ssize_t put = pwrite(*this, text.data(), text.size(), static_cast<off_t>(offset));
      if (put <= 0) fail("pwrite");
      offset += static_cast<std::uint64_t>(put);
      text.remove_prefix(static_cast<std::size_t>(put));
    }
  }
};

// What is sorted: fixed records, or lines where record_bytes is 0.
struct FileKind {
  std::string_view name;
  std::size_t record_bytes;
  const char* key;  // of records, for parse_record_key()
  void (*append)(std::uint64_t i, std::string& text);
  // Of two records or lines, whether the first may stand in front of the second.
  bool (*in_order)(std::string_view a, std::string_view b);
};

void append_words(std::uint64_t i, std::size_t bytes, std::string& text) {
  const std::uint64_t words[] = {mix_bits(i), i};
  for (std::size_t at = 0; at < bytes; at += sizeof words) {
    text.append(reinterpret_cast<const char*>(words), std::min(sizeof words, bytes - at));
  }
}

bool numbers_in_order(std::string_view a, std::string_view b) {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  std::memcpy(&left, a.data(), sizeof left);
  std::memcpy(&right, b.data(), sizeof right);
  return left <= right;
}
bool first_ten_in_order(std::string_view a, std::string_view b) {
  return std::memcmp(a.data(), b.data(), 10) <= 0;
}
bool bytes_in_order(std::string_view a, std::string_view b) { return a <= b; }

template <void (*make)(std::uint64_t, std::string&)>
void append_line(std::uint64_t i, std::string& text) {
  make(i, text);
  text += '\n';
}

constexpr FileKind kKinds[] = {
    {"external_u64", 8, "0:8:u64",
     [](std::uint64_t i, std::string& text) { append_words(i, 8, text); }, numbers_in_order},
    {"external_pairs", 16, "0:8:u64",
     [](std::uint64_t i, std::string& text) { append_words(i, 16, text); }, numbers_in_order},
    {"external_records_100", 100, "0:10",
     [](std::uint64_t i, std::string& text) { append_words(i, 100, text); }, first_ten_in_order},
    {"lines_urls", 0, "", append_line<url_line>, bytes_in_order},
    {"lines_random", 0, "", append_line<random_line>, bytes_in_order},
    {"lines_words", 0, "", append_line<word_line>, bytes_in_order},
};

std::string input_of(const Cell& cell) {
  return cell.folder + "/scaling." + cell.kind + "." + std::to_string(cell.bytes);
}

// The cells of all numbers of threads share it, so it is made once; all processors make it.
void make_input(const Cell& cell, const FileKind& kind) {
  const std::string path = input_of(cell);
  if (access(path.c_str(), F_OK) == 0) return;
  const std::string unfinished = path + ".part";
  detail::ThreadTeam team(0);
  {
    const OpenFile file(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
    constexpr std::uint64_t kRecords = 20'000;  // of a piece
    std::vector<std::string> pieces(4 * team.threads());
    std::uint64_t bytes = 0;
    for (std::uint64_t first = 0; bytes < cell.bytes; first += pieces.size() * kRecords) {
      team.run(pieces.size(), [&](std::size_t piece) {
        pieces[piece].clear();
        for (std::uint64_t i = 0; i < kRecords; ++i) {
          kind.append(first + piece * kRecords + i, pieces[piece]);
        }
      });
      for (const std::string& piece : pieces) {
        if (bytes >= cell.bytes) break;
        file.write_at(bytes, piece);
        bytes += piece.size();
      }
    }
  }
  if (rename(unfinished.c_str(), path.c_str()) != 0) fail(path);
}

// The first and the last whole record or line of a piece of a sorted file; nothing where the piece
// holds none. Throws where it is not sorted.
std::optional<std::pair<std::string, std::string>> ends_of(const FileKind& kind,
                                                           std::string_view text, bool from_start) {
  std::size_t at = 0;
  if (kind.record_bytes == 0 && !from_start) at = text.find('\n') + 1;
  std::string_view first;
  std::string_view last;
  bool any = false;
  while (at < text.size()) {
    const std::size_t end = kind.record_bytes == 0 ? text.find('\n', at) : at + kind.record_bytes;
    if (end == std::string_view::npos || end > text.size()) break;
    const std::string_view record = text.substr(at, end - at);
    if (any && !kind.in_order(last, record)) throw std::runtime_error("the output is not sorted");
    if (!any) first = record;
    last = record;
    any = true;
    at = end + (kind.record_bytes == 0 ? 1 : 0);
  }
  if (!any) return std::nullopt;
  return std::pair(std::string(first), std::string(last));
}

// Looks at up to four thousand pieces of the output, each of a mebibyte or so.
void expect_sorted(const Cell& cell, const FileKind& kind, const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  const std::uint64_t bytes = file.bytes();
  if (bytes != OpenFile(input_of(cell), O_RDONLY).bytes()) {
    throw std::runtime_error("the output has another length than the input");
  }
  const std::uint64_t unit = std::max<std::uint64_t>(1, kind.record_bytes);
  const std::uint64_t piece_bytes = kMiB / unit * unit;
  const std::uint64_t all = (bytes + piece_bytes - 1) / piece_bytes;
  const std::uint64_t pieces = std::min<std::uint64_t>(all, 4096);
  std::vector<std::optional<std::pair<std::string, std::string>>> ends(pieces);
  detail::ThreadTeam(0).run(pieces, [&](std::size_t i) {
    const std::uint64_t offset = all * i / pieces * piece_bytes;
    ends[i] = ends_of(kind, file.piece(offset, std::min(piece_bytes, bytes - offset)), offset == 0);
  });
  const std::pair<std::string, std::string>* before = nullptr;
  for (const auto& each : ends) {
    if (!each) continue;
    if (before != nullptr && !kind.in_order(before->second, each->first)) {
      throw std::runtime_error("the output is not sorted");
    }
    before = &*each;
  }
}

void note(const SortReport& report, Result& result) {
  result.items = report.records_out;
  result.counters["runs"] = report.runs;
  result.counters["passes"] = report.passes;
  result.counters["forming_s"] = report.run_formation_seconds;
  result.counters["merging_s"] = report.merge_seconds;
}

// How many threads worked, and how many disks had something to do, on average over a phase.
void note_overlap(const SortReport& report, Result& result) {
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
    const SortOverlap& overlap = report.overlap[static_cast<std::size_t>(phase)];
    if (overlap.seconds <= 0) continue;
    const std::string name(to_string(phase));
    result.counters[name + "_threads"] = overlap.sum_of_threads / overlap.seconds;
    result.counters[name + "_disk"] = overlap.sum_of_disks / overlap.seconds;
  }
}

const FileKind* kind_of(const Cell& cell) {
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const FileKind& one) { return one.name == cell.kind; });
  return kind == std::end(kKinds) ? nullptr : kind;
}

std::string output_of(const Cell& cell) { return cell.folder + "/scaling.out"; }

FileJob job_of(const Cell& cell, const FileKind& kind) {
  FileJob job;
  job.input = input_of(cell);
  job.output = output_of(cell);
  job.bytes = OpenFile(job.input, O_RDONLY).bytes();
  if (kind.record_bytes != 0) {
    job.format.emplace(kind.record_bytes, std::vector{parse_record_key(kind.key)});
  }
  job.resources.memory_bytes = cell.memory_bytes;
  job.resources.folders = {cell.folder};
  job.resources.threads = cell.threads;
  return job;
}

SortReport sort_file(const FileJob& job, const std::string& trace) {
  if (!job.format) {
    return sort_lines({.inputs = {job.input},
                       .output = job.output,
                       .order = line_order(LineKeyOptions{}),
                       .trace = trace,
                       .resources = job.resources});
  }
  return external_sort({.inputs = {job.input},
                        .output = job.output,
                        .format = job.format,
                        .trace = trace,
                        .resources = job.resources});
}

}  // namespace

FileJob job_of(const Cell& cell) {
  const FileKind* const kind = kind_of(cell);
  if (kind == nullptr) throw std::runtime_error("no sort of files is called '" + cell.kind + "'");
  make_input(cell, *kind);
  return job_of(cell, *kind);
}

SortReport sort_of(const FileJob& job, const std::string& trace) {
  const SortReport report = sort_file(job, trace);
  unlink(job.output.c_str());
  return report;
}

bool measure_files(const Cell& cell, Result& result) {
  const FileKind* const kind = kind_of(cell);
  if (kind == nullptr) return false;
  make_input(cell, *kind);
  result.bytes = OpenFile(input_of(cell), O_RDONLY).bytes();
  in_rounds(cell, result, [&] {
    if (cell.place != "tmpfs" && !drop_page_cache()) result.counters["warm"] = 1;
    SortReport report;
    result.time([&] { report = sort_file(job_of(cell, *kind), {}); });
    note(report, result);
    note_overlap(report, result);
    expect_sorted(cell, *kind, output_of(cell));
    unlink(output_of(cell).c_str());
  });
  return true;
}

}  // namespace vortex::bench
