// A striped file at the sum of its disks' speeds, also when they are unequal.
//
// By default four disks of 200 MB/s are simulated in real time over files in memory (PacedDisk),
// once all equal and once with the last of them 4 times slower. `share` is the rate over the sum of
// the speeds; `late` counts requests that the simulation served later than its model says, and with
// any of those the machine was measured instead. `cpu_s` includes what the simulation itself takes.
//
// Options before those of Google Benchmark:
//   --folder=PATH                     where the simulated disks keep their bytes (/dev/shm)
//   --folders=PATH,PATH,…             real disks instead of simulated ones, one a folder
//   --read-mbps=N,N,… --write-mbps=…  their speeds: weights, and what the sum is
//   --mib=N                           size of the file (2048)
//   --rounds=N                        times each row runs (1); medians
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/known_disks.h"
#include "bench/support/number_file.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "vortex/disk.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex { namespace {

constexpr std::size_t kUnitBytes = std::size_t{1} << 20;

struct Settings {
  bench::KnownDisks disks;
  std::uint64_t bytes = std::uint64_t{2} << 30;
};
Settings settings;

// The disks of one row: real ones, or simulated at the given speeds.
struct Disks {
  Disks(const std::vector<double>& read_mbps, const std::vector<double>& write_mbps) {
    for (std::size_t i = 0; i < read_mbps.size(); ++i) {
      disks.push_back(settings.disks.open(i, {read_mbps, write_mbps}));
    }
  }
  // Files that are gone with this object.
  ~Disks() {
    for (const StripedFile::Part& part : parts()) std::remove(part.path.c_str());
  }
  Disks(const Disks&) = delete;
  Disks& operator=(const Disks&) = delete;

  std::vector<StripedFile::Part> parts() const {
    std::vector<StripedFile::Part> parts;
    for (std::size_t i = 0; i < disks.size(); ++i) {
      parts.push_back({settings.disks.folder_of(i) + "/vortex-striped-io-" +
                           std::to_string(getpid()) + "-" + std::to_string(i),
                       disks[i].get()});
    }
    return parts;
  }
  std::uint64_t late() const { return settings.disks.late_requests() - late_before; }

  const std::uint64_t late_before = settings.disks.late_requests();
  std::vector<std::unique_ptr<Disk>> disks;
};

// Enough requests for every disk to have its next one waiting, and for the slowest to be asked
// early.
std::size_t requests(const std::vector<double>& weights) {
  const double least = *std::min_element(weights.begin(), weights.end());
  return static_cast<std::size_t>(2 * bench::sum(weights) / least) + 4;
}

void write_file(StripedFile& file, std::size_t behind) {
  FileWriter<std::uint64_t> out(file.writing_layout(), {.block_bytes = kUnitBytes,
                                                        .comeback_blocks = 0,
                                                        .write_behind = behind,
                                                        .caching = Caching::kDirect,
                                                        .sync = true});
  std::uint64_t* const to = out.data();
  for (std::uint64_t i = 0; i < settings.bytes / 8; ++i) to[i] = i;
  out.finish(settings.bytes / 8);
}

std::uint64_t read_file(StripedFile& file, std::size_t ahead) {
  const FileReader<std::uint64_t> in(file.reading_layout(), {.block_bytes = kUnitBytes,
                                                             .comeback_blocks = 0,
                                                             .read_ahead = ahead,
                                                             .caching = Caching::kDirect});
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < in.size(); ++i) total += in.data()[i];
  return total;
}

void run(benchmark::State& state, bool writing, AllocationStrategy strategy,
         const std::vector<double>& read_mbps, const std::vector<double>& write_mbps) {
  const std::vector<double>& mbps = writing ? write_mbps : read_mbps;
  Disks disks(read_mbps, write_mbps);
  StripedFileOptions options;
  options.strategy = strategy;
  options.weights = mbps;
  options.seed = 1;
  options.unit_bytes = kUnitBytes;
  if (settings.disks.simulated()) options.caching = Caching::kBuffered;
  for (auto _ : state) {
    StripedFile file(disks.parts(), options);
    if (!writing) write_file(file, requests(mbps));
    const double cpu = bench::cpu_seconds();
    std::uint64_t sum = bench::sum_of_first(settings.bytes / 8);
    const double seconds = bench::seconds_of([&] {
      if (writing) {
        write_file(file, requests(mbps));
      } else {
        sum = read_file(file, requests(mbps));
      }
    });
    if (sum != bench::sum_of_first(settings.bytes / 8)) state.SkipWithError("a wrong sum");
    state.SetIterationTime(seconds);
    state.counters["cpu_s"] = bench::cpu_seconds() - cpu;
    state.counters["share"] =
        static_cast<double>(settings.bytes) / seconds / (bench::sum(mbps) * bench::kMegabyte);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.bytes));
  state.counters["late"] = static_cast<double>(disks.late());
  state.counters["pool_MiB"] = static_cast<double>((requests(mbps) + 1) * kUnitBytes) / bench::kMiB;
}

void add_rows(const std::string& disks, const bench::DiskSpeeds& speeds) {
  for (const bool writing : {true, false}) {
    for (const AllocationStrategy strategy :
         {AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
          AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom}) {
      const std::string name = std::string(writing ? "write/" : "read/") + disks + "/" +
                               std::string(allocation_strategy_name(strategy));
      bench::add_row(
          name,
          [=](benchmark::State& state) {
            run(state, writing, strategy, speeds.read_mbps, speeds.write_mbps);
          },
          benchmark::kSecond);
    }
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  return settings.disks.run(argc, argv, settings.bytes, {}, &vortex::add_rows);
}
