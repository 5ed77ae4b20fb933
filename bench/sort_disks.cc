// A whole external sort whose runs lie on disks of known speed.
//
// By default four disks of 200 MB/s are simulated in real time over files in memory, once all equal
// and once with the last of them 4 times slower, which the sort is told. Input and output lie in a
// folder of their own, on a disk that must be faster than the others together. Rows: u64 keys, and
// records of 100 bytes with a key of 10, uniform.
//
// Counters: times_bound is the time over the bound, in which all disks write the runs and then read
// them, at full speed all the time; passes of the merge, which should be one; cpu_s processor
// seconds, those of the simulation included; `late` requests that the simulation served later than
// its model says: with more than a few, the machine was measured instead. The page cache is dropped
// before every row where the system permits.
//
// Options before those of Google Benchmark:
//   --files=PATH                      where input and output lie (.)
//   --folder=PATH                     where the simulated disks keep their bytes (/dev/shm)
//   --folders=PATH,PATH,…             real disks instead of simulated ones, one a folder
//   --read-mbps=N,N,… --write-mbps=…  their speeds: weights, and what the bound is
//   --seek-ms=N                       of simulated disks, before a request elsewhere (0)
//   --request-cost=BYTES              what the sort is told of that (it measures from 4 GiB on)
//   --mib=N                           of the input (1024)
//   --memory-mib=N                    (128)
//   --rounds=N                        times each row runs (1); medians
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/disk_speed.h"
#include "bench/support/known_disks.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "io/sequence/seeded_random.h"
#include "vortex/disk.h"
#include "vortex/external_sort.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/record_order.h"

namespace vortex { namespace {

struct Settings {
  bench::KnownDisks disks;
  std::string files = ".";
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::uint64_t memory_bytes = std::uint64_t{128} << 20;
  std::optional<std::uint64_t> request_cost_bytes;
};
Settings settings;

struct Key64 {
  static constexpr const char* kName = "u64";
  static RecordFormat format() { return RecordFormat(8, {parse_record_key("0:8:u64")}); }

  std::uint64_t key;
};

struct Record100 {
  static constexpr const char* kName = "records_100";
  static RecordFormat format() { return RecordFormat(100, {parse_record_key("0:10")}); }

  char bytes[100];
};

// A file that goes with the row.
class RowFile {
 public:
  explicit RowFile(const std::string& name) : path_(settings.files + "/sort_disks." + name) {}
  ~RowFile() { unlink(path_.c_str()); }
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
};

template <typename Record>
std::uint64_t records() {
  return settings.bytes / sizeof(Record);
}

template <typename Record>
void write_input(const std::string& path) {
  FileWriter<Record> file(path, FileWriterOptions{.sync = true});
  for (std::uint64_t i = 0; i < records<Record>(); ++i) {
    Record record{};
    const std::uint64_t words[] = {mix_bits(2 * i + 1), mix_bits(2 * i + 2)};
    std::memcpy(&record, words, std::min(sizeof words, sizeof record));
    file.data()[i] = record;
  }
  file.finish(records<Record>());
}

// A row that does not sort is not worth a time.
template <typename Record>
bool is_sorted(const std::string& path) {
  const auto order = order_of_format(Record::format());
  const auto bytes_of = [](const Record& record) {
    return reinterpret_cast<const std::byte*>(&record);
  };
  FileReader<Record> file(path);
  if (file.size() != records<Record>()) return false;
  for (std::uint64_t i = 1; i < file.size(); ++i) {
    if (order->less(bytes_of(file.data()[i]), bytes_of(file.data()[i - 1]))) return false;
  }
  return true;
}

// Names of one folder that differ: simulated disks share it.
std::string folder_name(std::size_t disk) {
  std::string name = settings.disks.folder_of(disk);
  for (std::size_t i = 0; i < disk; ++i) name += "/.";
  return name;
}

SortResources resources_of(const bench::DiskSpeeds& speeds) {
  SortResources resources;
  resources.memory_bytes = settings.memory_bytes;
  resources.request_cost_bytes = settings.request_cost_bytes;
  std::map<std::string, std::size_t> disk_of;
  for (std::size_t i = 0; i < speeds.read_mbps.size(); ++i) {
    disk_of[folder_name(i)] = i;
    resources.folders.push_back(folder_name(i));
    resources.folder_speeds.push_back(speeds.read_mbps[i]);
  }
  resources.open_disk = [disk_of, speeds](const std::string& folder) -> std::unique_ptr<Disk> {
    const auto disk = disk_of.find(folder);
    return disk == disk_of.end() ? open_disk() : settings.disks.open(disk->second, speeds);
  };
  return resources;
}

template <typename Record>
void run(benchmark::State& state, const bench::DiskSpeeds& speeds) {
  const RowFile input("in"), output("out");
  write_input<Record>(input.path());
  const std::uint64_t late_before = settings.disks.late_requests();
  for (auto _ : state) {
    bench::drop_page_cache();
    const double cpu = bench::cpu_seconds();
    const SortReport report = external_sort({.inputs = {input.path()},
                                             .output = output.path(),
                                             .format = Record::format(),
                                             .resources = resources_of(speeds)});
    state.SetIterationTime(report.seconds);
    state.counters["cpu_s"] = bench::cpu_seconds() - cpu;
    const auto bytes = static_cast<double>(settings.bytes);
    const double bound =
        (bytes / bench::sum(speeds.write_mbps) + bytes / bench::sum(speeds.read_mbps)) /
        bench::kMegabyte;
    state.counters["times_bound"] = report.seconds / bound;
    state.counters["forming_s"] = report.run_formation_seconds;
    if (report.runs == 0) state.SkipWithError("it fits in memory");
    state.counters["passes"] = report.passes;
    state.counters["block_KiB"] = static_cast<double>(report.plan.block_bytes) / 1024;
  }
  state.counters["late"] = static_cast<double>(settings.disks.late_requests() - late_before);
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.bytes));
  if (!is_sorted<Record>(output.path())) state.SkipWithError("the output is not the input sorted");
}

template <typename Record>
void add_row(const std::string& disks, const bench::DiskSpeeds& speeds) {
  const std::string name = std::string(Record::kName) + "/" + disks;
  bench::add_row(
      name, [=](benchmark::State& state) { run<Record>(state, speeds); }, benchmark::kSecond);
}

void add_rows(const std::string& disks, const bench::DiskSpeeds& speeds) {
  add_row<Key64>(disks, speeds);
  add_row<Record100>(disks, speeds);
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  vortex::bench::OwnOptions options = {
      {"--files=", vortex::bench::text(settings.files)},
      {"--request-cost=",
       [](const std::string& value) { settings.request_cost_bytes = std::stoull(value); }},
      {"--memory-mib=", vortex::bench::number(settings.memory_bytes, vortex::bench::kMiB)}};
  return settings.disks.run(argc, argv, settings.bytes, std::move(options), &vortex::add_rows);
}
