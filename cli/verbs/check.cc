// vortex check: are the records of files in order?
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/common/byte_size.h"
#include "cli/common/interrupt.h"
#include "cli/common/process.h"
#include "cli/common/progress_line.h"
#include "cli/records/order_check.h"
#include "cli/records/order_summary_json.h"
#include "cli/records/record_options.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"

namespace vortex::cli {

namespace {

FileReader<std::byte> open_input(const std::string& path, const RecordFormat& format) {
  FileReaderOptions for_reader;
  // A step of the check and a record fit in a block, so that a window of two holds either.
  if (2 * format.record_bytes() > kMinBlockBytes) for_reader.block_bytes = kDefaultBlockBytes;
  if (path != "-") return FileReader<std::byte>(path, for_reader);
  for_reader.name = "standard input";
  return FileReader<std::byte>(STDIN_FILENO, for_reader);
}

[[noreturn]] void refuse_length(const std::string& path, std::uint64_t length,
                                std::size_t record_bytes) {
  throw Error(EINVAL, fmt::format("'{}' has {} bytes, which is no multiple of the record's {}",
                                  path, length, record_bytes));
}

// The bytes of all inputs; none where one of them does not tell.
std::optional<std::uint64_t> bytes_of(const std::vector<std::string>& inputs) {
  std::uint64_t bytes = 0;
  for (const std::string& path : inputs) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
    bytes += std::filesystem::file_size(path, error);
    if (error) return std::nullopt;
  }
  return bytes;
}

// How far a check of several files is.
struct CheckProgress {
  ProgressLine line;
  std::optional<std::uint64_t> all;
  std::uint64_t before = 0;  // bytes of the files in front

  void show(std::uint64_t bytes) {
    if (line.wanted()) line.show("checking", before + bytes, all);
  }
};

OrderSummary check_file(const std::string& path, const RecordFormat& format,
                        const std::stop_token& stop, CheckProgress& progress) {
  const std::size_t record_bytes = format.record_bytes();
  FileReader<std::byte> input = open_input(path, format);
  const std::stop_callback stop_of_input(
      stop, [&] { input.stream().cancel(ECANCELED, "the check was interrupted"); });
  if (const auto length = input.length_bytes(); length && *length % record_bytes != 0) {
    refuse_length(path, *length, record_bytes);
  }
  OrderCheck order(format);
  std::uint64_t done = 0;
  std::uint64_t readable = 0;
  guarded([&] {
    for (;;) {
      readable = input.readable_bytes(readable);
      const std::uint64_t records = (readable - done) / record_bytes;
      order.add(input.data() + done, records);
      done += records * record_bytes;
      progress.show(done);
      if (const auto length = input.length_bytes(); length && *length - done < record_bytes) break;
    }
  }).throw_if_failed();
  if (*input.length_bytes() != done) refuse_length(path, *input.length_bytes(), record_bytes);
  progress.before += done;
  return order.summary();
}

OrderReport check_files(const CheckOptions& options, const std::stop_token& stop) {
  OrderReport report{
      .format = parse_record_options(options.records, "records"), .files = {}, .summary = {}};
  const auto started = std::chrono::steady_clock::now();
  CheckProgress progress{.line = {"vortex check", options.progress},
                         .all = bytes_of(options.inputs)};
  for (const std::string& path : options.inputs) {
    const OrderSummary summary = check_file(path, report.format, stop, progress);
    report.files.push_back({path, summary.records});
    report.summary = join(report.format, report.summary, summary);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  report.seconds = took.count();
  return report;
}

std::string text_of(const std::string& path) {
  try {
    if (path == "-") return rest_of_standard_input();
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad()) throw Error(errno, "read the summary '" + path + "'");
    return text;
  } catch (const std::system_error& error) {  // a folder, for one
    throw Error(error.code().value(), "read the summary '" + path + "'");
  }
}

OrderReport combine_summaries(const CheckOptions& options) {
  if (!options.records.empty() || options.records.reverse) {
    throw Error(EINVAL,
                "--combine takes the format from the summaries; leave out --form, --record, "
                "--key and --reverse");
  }
  std::optional<OrderReport> whole;
  for (const std::string& path : options.inputs) {
    OrderReport part = order_report_from_json(text_of(path), fmt::format("'{}'", printable(path)));
    if (!whole) {
      whole = std::move(part);
      whole->seconds = 0;
      continue;
    }
    if (!(part.format == whole->format)) {
      throw Error(EINVAL,
                  fmt::format("'{}' is about {}, '{}' about {}", path, to_string(part.format),
                              options.inputs.front(), to_string(whole->format)));
    }
    whole->summary = join(whole->format, whole->summary, part.summary);
    whole->files.insert(whole->files.end(), part.files.begin(), part.files.end());
  }
  return std::move(*whole);
}

// Where the first record lies that belongs before its predecessor.
std::string describe_descent(const OrderReport& report) {
  std::uint64_t record = *report.summary.first_descent;
  std::string path;
  for (const OrderReport::File& file : report.files) {
    path = file.path;
    if (record < file.records) break;
    record -= file.records;
  }
  return fmt::format("record {} of '{}' (byte {}) belongs before the record before it", record + 1,
                     printable(path), record * report.format.record_bytes());
}

void print(const OrderReport& report) {
  const OrderSummary& summary = report.summary;
  const std::uint64_t bytes = summary.records * report.format.record_bytes();
  fmt::print("format     {}\nrecords    {}\nbytes      {} ({})\nchecksum   {}\nduplicates {}\n",
             to_string(report.format), summary.records, bytes, format_bytes(bytes),
             checksum_text(summary.checksum), summary.duplicates);
  if (report.seconds > 0) {
    fmt::print("time       {:.3f} s, {:.2f} GB/s\n", report.seconds,
               static_cast<double>(bytes) / std::max(report.seconds, 1e-9) / 1e9);
  }
  if (summary.sorted()) {
    fmt::print("sorted     yes\n");
  } else {
    fmt::print("sorted     no, {} {}\n", summary.descents,
               summary.descents == 1 ? "place" : "places");
  }
}

}  // namespace

int check(const CheckOptions& options) {
  if (options.lines.wanted()) return check_lines(options);
  expect_no_line_options(options.lines);
  Interrupt interrupt;
  const OrderReport report = interrupt.end_process_or([&] {
    return options.combine ? combine_summaries(options) : check_files(options, interrupt.start());
  });
  if (options.json) {
    fmt::print("{}", to_json(report));
  } else {
    print(report);
  }
  if (!report.summary.sorted()) {
    fmt::print(stderr, "vortex check: not sorted: {}\n", describe_descent(report));
    return kExitNotSorted;
  }
  if (options.unique && report.summary.duplicates != 0) {
    fmt::print(stderr, "vortex check: not unique: {} records have the key of the record before\n",
               report.summary.duplicates);
    return kExitNotSorted;
  }
  return kExitGood;
}

}  // namespace vortex::cli
