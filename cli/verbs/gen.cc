// vortex gen: files of records.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>

#include "cli/common/byte_size.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress_line.h"
#include "cli/records/record_checksum.h"
#include "cli/records/record_generator.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/file_writer.h"

namespace vortex::cli {

namespace {

// Records are made and added to the checksum while they are in the fastest cache.
constexpr std::size_t kStepBytes = std::size_t{16} << 10;
// Between two looks at the clock, whether to tell how far it is.
constexpr std::uint64_t kShowBytes = std::uint64_t{1} << 20;

struct Part {
  std::uint64_t first = 0;
  std::uint64_t records = 0;
};

std::uint64_t total_records(const GenOptions& options, std::size_t record_bytes) {
  if (options.records.empty() == options.bytes.empty()) {
    throw Error(EINVAL, "gen needs either --records or --bytes");
  }
  const std::uint64_t records = options.bytes.empty()
                                    ? parse_size(options.records, "--records")
                                    : parse_size(options.bytes, "--bytes") / record_bytes;
  if (records > std::numeric_limits<std::uint64_t>::max() / record_bytes) {
    throw Error(EINVAL, fmt::format("{} records of {} bytes are more than 2^64 bytes", records,
                                    record_bytes));
  }
  return records;
}

// K/N: the K-th of N parts whose lengths differ by one record at most.
Part part_of(std::uint64_t total, const std::string& text) {
  if (text.empty()) return {0, total};
  std::uint64_t k = 0;
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto slash = std::from_chars(text.data(), end, k);
  const bool whole = slash.ec == std::errc{} && slash.ptr != end && *slash.ptr == '/';
  const auto last = whole ? std::from_chars(slash.ptr + 1, end, n) : slash;
  if (!whole || last.ec != std::errc{} || last.ptr != end || k < 1 || k > n) {
    throw Error(EINVAL, "--part '" + text + "' is no K/N with 1 <= K <= N");
  }
  __extension__ using Wide = unsigned __int128;
  const auto begin = static_cast<std::uint64_t>(static_cast<Wide>(total) * (k - 1) / n);
  return {begin, static_cast<std::uint64_t>(static_cast<Wide>(total) * k / n) - begin};
}

FileWriter<std::byte> open_output(const GenOptions& options, std::uint64_t bytes) {
  FileWriterOptions for_writer;
  for_writer.gaps = Gaps::kUnspecified;  // every byte is written
  for_writer.expected_bytes = bytes;
  for_writer.reserve_bytes = bytes + std::min(~bytes, std::uint64_t{kDefaultBlockBytes});
  for_writer.least_reserve_bytes = for_writer.reserve_bytes;
  for_writer.sync = options.sync;
  if (options.output != "-") return FileWriter<std::byte>(options.output, for_writer);
  if (isatty(STDOUT_FILENO) != 0) {
    throw Error(EINVAL, "standard output is a terminal, which is no place for records");
  }
  for_writer.name = "standard output";
  return FileWriter<std::byte>(STDOUT_FILENO, for_writer);
}

// Returns the checksum.
std::uint64_t write(const GenOptions& options, const RecordGenerator& generator, const Part& part,
                    const std::stop_token& stop) {
  const std::size_t record_bytes = generator.record_bytes();
  const std::uint64_t bytes = part.records * record_bytes;
  ProgressLine line("vortex gen", options.progress);
  FileWriter<std::byte> output = open_output(options, part.records * record_bytes);
  const std::stop_callback stop_of_output(
      stop, [&] { output.stream().cancel(ECANCELED, "making the records was interrupted"); });
  RecordChecksum checksum(record_bytes);
  const std::size_t step = kStepBytes / record_bytes;
  guarded([&] {
    std::byte* to = output.data();
    std::uint64_t to_show = 0;
    for (std::uint64_t done = 0; done < part.records;) {
      if (line.wanted() && done * record_bytes >= to_show) {
        line.show("writing", done * record_bytes, bytes);
        to_show = done * record_bytes + kShowBytes;
      }
      const std::size_t now = std::min<std::uint64_t>(step, part.records - done);
      generator.write(part.first + done, now, to);
      checksum.add(to, now);
      to += now * record_bytes;
      done += now;
    }
  }).throw_if_failed();
  output.finish(part.records * record_bytes);
  return checksum.value();
}

void print(const GenOptions& options, const RecordGenerator& generator,
           const RecordGeneratorOptions& what, const Part& part, std::uint64_t checksum,
           double seconds) {
  std::FILE* const out = options.output == "-" ? stderr : stdout;
  const std::uint64_t bytes = part.records * generator.record_bytes();
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"kind", "vortex gen"},
        {"form", to_string(what.form)},
        {"distribution", to_string(what.distribution)},
        {"seed", what.seed},
        {"first_record", part.first},
        {"records", part.records},
        {"record_bytes", generator.record_bytes()},
        {"bytes", bytes},
        {"checksum", checksum_text(checksum)},
        {"seconds", seconds},
    };
    fmt::print(out, "{}\n", json.dump(2));
    return;
  }
  fmt::print(out, "records  {}\nbytes    {} ({})\nchecksum {}\n", part.records, bytes,
             format_bytes(bytes), checksum_text(checksum));
  fmt::print(out, "time     {:.3f} s, {:.2f} GB/s\n", seconds,
             static_cast<double>(bytes) / std::max(seconds, 1e-9) / 1e9);
}

}  // namespace

int gen(const GenOptions& options) {
  RecordGeneratorOptions what;
  what.form = parse_record_form(options.form);
  what.distribution = parse_distribution(options.distribution);
  what.seed = options.seed;
  if (!options.distinct.empty()) {
    what.distinct = parse_size(options.distinct, "--distinct");
    if (what.distinct == 0) throw Error(EINVAL, "--distinct is 0; there must be a value to choose");
  }
  const std::size_t record_bytes = record_format(what.form).record_bytes();
  what.records = total_records(options, record_bytes);
  const Part part = part_of(what.records, options.part);
  const RecordGenerator generator(what);

  const auto started = std::chrono::steady_clock::now();
  Interrupt interrupt;
  const std::uint64_t checksum =
      interrupt.end_process_or([&] { return write(options, generator, part, interrupt.start()); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  print(options, generator, what, part, checksum, took.count());
  return kExitGood;
}

}  // namespace vortex::cli
