// Measures what a partition and a merge sort ask of the same disks, on virtual time: simulated
// disks serve the parts and the runs, and input, output and processor take no time. So the rows are
// exact, and come out the same on every machine.
//
//   partition   the parts are written
//   read_back   and read, as many at a time as there are disks, as by a distribution sort
//   merge       the runs of external_sort() are written and read
//
// The sizes are a sixteenth of what the rows stand for, and so is the seek: 4 GiB in 256 MiB on
// disks of 200 MB/s that seek for 8 ms. A part is to fit in four fifths of the memory.
//
// Counters: times_bound is the time over the least, in which all disks move all bytes at full speed
// all the time; block_KiB.
//
// Options before those of Google Benchmark:
//   --folder=PATH     where all bytes are kept (/dev/shm)
//   --mib=N           of the input (256)
//   --memory-mib=N    (16)
//   --seek-us=N       (500)
//   --parts=N         instead of as many as fit
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/own_options.h"
#include "bench/support/ratios.h"
#include "io/sequence/seeded_random.h"
#include "study/simulated_disk.h"
#include "study/virtual_clock.h"
#include "vortex/external_sort.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex { namespace {

constexpr std::uint64_t kBytesPerSecond = 200'000'000;

struct Settings {
  std::string folder = "/dev/shm";
  std::uint64_t bytes = std::uint64_t{256} << 20;
  std::uint64_t memory_bytes = std::uint64_t{16} << 20;
  std::uint64_t seek_us = 500;
  std::size_t parts = 0;
};
Settings settings;

// A folder for each disk, the input, and the clock, while a row runs.
class Row {
 public:
  explicit Row(unsigned disks) : folder_(settings.folder + "/split_disks.XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    for (unsigned i = 0; i < disks; ++i) {
      folders_.push_back(folder_ + "/" + std::to_string(i));
      std::filesystem::create_directory(folders_.back());
    }
    FileWriter<std::uint64_t> file(input());
    for (std::uint64_t i = 0; i < settings.bytes / 8; ++i) file.data()[i] = mix_bits(i);
    file.finish(settings.bytes / 8);
  }
  ~Row() { std::filesystem::remove_all(folder_); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  std::string input() const { return folder_ + "/in"; }
  std::string output() const { return folder_ + "/out"; }
  double seconds() const { return static_cast<double>(clock_.now_ns()) * 1e-9; }
  std::unique_ptr<Disk> disk() {
    return std::make_unique<SimulatedDisk>(
        clock_, ServiceModel{kBytesPerSecond, kBytesPerSecond, settings.seek_us * 1000});
  }
  SortResources resources() {
    SortResources resources;
    resources.memory_bytes = settings.memory_bytes;
    resources.folders = folders_;
    resources.request_cost_bytes = settings.seek_us * kBytesPerSecond / 1'000'000;
    resources.compression = RunCompression::kNever;
    resources.threads = 1;
    resources.open_disk = [this](const std::string& folder) -> std::unique_ptr<Disk> {
      if (!folder.empty()) return disk();
      return std::make_unique<SimulatedDisk>(clock_, ServiceModel{});
    };
    return resources;
  }

 private:
  std::string folder_;
  std::vector<std::string> folders_;
  VirtualClock clock_;
};

ExternalPartitionReport divide(Row& row) {
  const std::uint64_t in_memory = settings.memory_bytes / 5 * 4;
  const std::size_t parts =
      settings.parts != 0 ? settings.parts : (settings.bytes + in_memory - 1) / in_memory;
  return external_partition({.inputs = {row.input()},
                             .prefix = "part",
                             .format = RecordFormat(8, {parse_record_key("0:8:u64")}),
                             .parts = parts,
                             .resources = row.resources()});
}

void tell(benchmark::State& state, unsigned disks, double seconds, double passes,
          std::size_t block_bytes) {
  state.SetIterationTime(seconds);
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.bytes));
  state.counters["times_bound"] = seconds * disks * static_cast<double>(kBytesPerSecond) /
                                  (static_cast<double>(settings.bytes) * passes);
  state.counters["block_KiB"] = static_cast<double>(block_bytes) / 1024;
}

void partition(benchmark::State& state, unsigned disks) {
  for (auto _ : state) {
    Row row(disks);
    const auto report = divide(row);
    state.counters["parts"] = static_cast<double>(report.parts.size());
    tell(state, disks, row.seconds(), 1, report.block_bytes);
  }
}

void read_back(benchmark::State& state, unsigned disks) {
  for (auto _ : state) {
    Row row(disks);
    const auto report = divide(row);
    const double before = row.seconds();
    std::vector<std::unique_ptr<Disk>> queues;
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < disks; ++i) queues.push_back(row.disk());
    for (std::size_t first = 0; first < report.parts.size(); first += disks) {
      std::vector<std::unique_ptr<FileReader<std::uint64_t>>> readers;
      std::uint64_t most = 0;
      for (std::size_t i = first; i < std::min(first + disks, report.parts.size()); ++i) {
        FileReaderOptions options;
        options.order = ReadOrder::kForward;
        options.block_bytes = report.block_bytes;
        options.caching = Caching::kDirect;  // else what the cache holds takes no time
        options.disk = queues[i % disks].get();
        readers.push_back(
            std::make_unique<FileReader<std::uint64_t>>(report.parts[i].path, options));
        most = std::max(most, readers.back()->size());
      }
      for (std::uint64_t at = 0; at < most; at += report.block_bytes / 8) {
        for (const auto& reader : readers) {
          if (at >= reader->size()) continue;
          const std::uint64_t touched = reader->data()[at];
          sum += touched;
        }
      }
    }
    benchmark::DoNotOptimize(sum);
    tell(state, disks, row.seconds() - before, 1, report.block_bytes);
  }
}

void merge(benchmark::State& state, unsigned disks) {
  for (auto _ : state) {
    Row row(disks);
    const auto report = external_sort({.inputs = {row.input()},
                                       .output = row.output(),
                                       .format = RecordFormat(8, {parse_record_key("0:8:u64")}),
                                       .resources = row.resources()});
    state.counters["runs"] = static_cast<double>(report.runs);
    tell(state, disks, row.seconds(), 2, report.plan.block_bytes);
  }
}

void add_rows() {
  for (const unsigned disks : {1U, 2U, 4U}) {
    const std::string name = "/disks:" + std::to_string(disks);
    const auto add = [&](const std::string& what, void (*run)(benchmark::State&, unsigned)) {
      bench::add_row(
          what + name, [=](benchmark::State& state) { run(state, disks); }, benchmark::kSecond);
    };
    add("partition", partition);
    add("read_back", read_back);
    add("merge", merge);
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  using vortex::bench::kMiB;
  using vortex::bench::number;
  const vortex::bench::OwnOptions options = {{"--folder=", vortex::bench::text(settings.folder)},
                                             {"--mib=", number(settings.bytes, kMiB)},
                                             {"--memory-mib=", number(settings.memory_bytes, kMiB)},
                                             {"--seek-us=", number(settings.seek_us)},
                                             {"--parts=", number(settings.parts)}};
  vortex::add_rows();
  return vortex::bench::run_with_ratios(
      vortex::bench::benchmark_arguments(argc, argv, options, "1"), {});
}
