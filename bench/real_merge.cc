// The merge of an external sort (run store, prefetch policy, merge_runs) on disks of known speed.
//
// By default four disks of 200 MB/s are simulated in real time over files in memory, once all equal
// and once with the last of them 4 times slower. Runs of 128-byte records are written first, and
// then merged
//   read/…    to an output that takes no time; the bound is bytes / sum of the speeds
//   merge/…   to a run on the same disks; the bound is the sum of the bounds for reading and for
//             writing, or with --full-duplex the larger one. Simulated disks serve one request at
//             a time.
// Keys are `uniform`, or the runs are `identical` (SPAA, section 2.3: all want their next blocks at
// the same time). All policies have as many read buffers, 2R + 2D, but for `striped`, which has the
// 2RD that it needs; its runs are striped, those of the others in random cycles.
//
// Counters: `share` is the bound over the time; `buffers` in blocks; `drops` blocks that were read
// once more; `late` requests that the simulation served later than its model says: with more than a
// few, the machine was measured instead.
//
// Options before those of Google Benchmark:
//   --folder=PATH                     where the simulated disks keep their bytes (/dev/shm)
//   --folders=PATH,PATH,…             real disks instead of simulated ones, one a folder
//   --read-mbps=N,N,… --write-mbps=…  their speeds: weights, and what the bound is
//   --full-duplex                     they read and write at the same time
//   --mib=N                           of all runs (1024)
//   --runs=N                          (16)
//   --rounds=N                        times each row runs (1); medians
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/known_disks.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "io/sequence/seeded_random.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/merge/run_merge.h"
#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"

namespace vortex { namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kRecordBytes = 128;

struct Settings {
  bench::KnownDisks disks;
  bool full_duplex = false;
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::uint32_t runs = 16;
};
Settings settings;

enum class Keys { kUniform, kIdentical };

// Discards what is written, but not before it has looked whether it is in order.
class OrderedOutput final : public RecordOutput {
 public:
  std::span<std::byte> room(std::size_t most_bytes) override {
    return std::span(room_).first(std::min(most_bytes, room_.size()));
  }
  void written(std::size_t bytes) override {
    for (std::size_t at = 0; at < bytes; at += kRecordBytes) {
      std::uint64_t key = 0;
      std::memcpy(&key, room_.data() + at, sizeof key);
      ordered_ = ordered_ && last_ <= key;
      last_ = key;
      ++records_;
    }
  }
  bool ordered() const noexcept { return ordered_; }
  std::uint64_t records() const noexcept { return records_; }

 private:
  std::vector<std::byte> room_ = std::vector<std::byte>(1024 * kRecordBytes);
  bool ordered_ = true;
  std::uint64_t last_ = 0;
  std::uint64_t records_ = 0;
};

FormatOrder record_order() {
  return FormatOrder(RecordFormat(kRecordBytes, {parse_record_key("0:8:u64")}));
}

std::uint64_t records_of_run() { return settings.bytes / settings.runs / kRecordBytes; }

Run write_run(const RecordOrder& order, RunStore& store, std::size_t write_behind, Keys keys,
              std::uint64_t number) {
  RunWriter writer(order, store, write_behind, records_of_run() * kRecordBytes);
  guarded([&] {
    alignas(8) std::byte record[kRecordBytes] = {};
    std::uint64_t key = 0;
    for (std::uint64_t i = 0; i < records_of_run(); ++i) {
      const std::uint64_t seed = keys == Keys::kUniform ? number << 40 | i : i;
      key += mix_bits(seed) >> 32;
      std::memcpy(record, &key, sizeof key);
      append_records(writer, record, 1, kRecordBytes);
    }
  }).throw_if_failed();
  return writer.finish();
}

// Everything of one row.
class Row {
 public:
  Row(PrefetchKind kind, Keys keys, const bench::DiskSpeeds& speeds)
      : kind_(kind),
        speeds_(speeds),
        order_(record_order()),
        disks_(static_cast<unsigned>(speeds.read_mbps.size())),
        buffers_(std::max<std::size_t>(
            2 * settings.runs + 2 * disks_,
            minimum_read_buffers(
                kind,
                {.disks = disks_,
                 .held_blocks = settings.runs * blocks_for_records(kBlockBytes, kRecordBytes)},
                settings.runs))),
        write_behind_(static_cast<std::size_t>(
                          bench::sum(speeds.write_mbps) /
                          *std::min_element(speeds.write_mbps.begin(), speeds.write_mbps.end()) *
                          2) +
                      2),
        pool_({.pool_bytes = (buffers_ + 1 + write_behind_) * kBlockBytes,
               .block_bytes = kBlockBytes}),
        store_(pool_, store_options()) {
    for (std::uint64_t i = 0; i < settings.runs; ++i) {
      runs_.push_back(write_run(order_, store_, write_behind_, keys, i));
    }
    pool_.wait_until_warm();
    late_before_ = settings.disks.late_requests();
  }

  // Seconds.
  double merge(bool to_disk) {
    return bench::seconds_of([&] {
      if (to_disk) {
        RunWriter writer(order_, store_, write_behind_, bytes());
        merge_to(writer);
        const Run merged = writer.finish();
        if (merged.bytes != bytes()) throw Error(EILSEQ, "the merge lost records");
      } else {
        OrderedOutput out;
        merge_to(out);
        if (!out.ordered() || out.records() * kRecordBytes != bytes()) {
          throw Error(EILSEQ, "the merge is out of order");
        }
      }
    });
  }

  double bound(bool to_disk) const {
    const double reading =
        static_cast<double>(bytes()) / (bench::sum(speeds_.read_mbps) * bench::kMegabyte);
    const double writing =
        static_cast<double>(bytes()) / (bench::sum(speeds_.write_mbps) * bench::kMegabyte);
    if (!to_disk) return reading;
    return settings.full_duplex ? std::max(reading, writing) : reading + writing;
  }

  static std::uint64_t bytes() { return records_of_run() * settings.runs * kRecordBytes; }
  std::size_t buffers() const { return buffers_; }
  const MergePrefetcherStatistics& statistics() const { return statistics_; }
  std::uint64_t late_requests() const { return settings.disks.late_requests() - late_before_; }

 private:
  RunStoreOptions store_options() {
    RunStoreOptions options;
    for (unsigned i = 0; i < disks_; ++i) options.folders.push_back(settings.disks.folder_of(i));
    options.strategy = kind_ == PrefetchKind::kStriped ? AllocationStrategy::kStriping
                                                       : AllocationStrategy::kRandomCyclic;
    options.weights = speeds_.read_mbps;
    options.seed = 1;
    options.direct = !settings.disks.simulated();
    options.open_disk = [this](std::size_t index) { return settings.disks.open(index, speeds_); };
    return options;
  }

  void merge_to(RecordOutput& out) {
    RunMergeOptions options;
    options.kind = kind_;
    options.read_buffers = buffers_;
    options.statistics = &statistics_;
    merge_runs(order_, store_, std::move(runs_), out, options);
  }

  PrefetchKind kind_;
  bench::DiskSpeeds speeds_;
  FormatOrder order_;
  unsigned disks_;
  std::size_t buffers_;
  std::size_t write_behind_;
  BlockPool pool_;
  RunStore store_;
  std::vector<Run> runs_;
  MergePrefetcherStatistics statistics_;
  std::uint64_t late_before_ = 0;
};

void run(benchmark::State& state, bool to_disk, PrefetchKind kind, Keys keys,
         const bench::DiskSpeeds& speeds) {
  for (auto _ : state) {
    Row row(kind, keys, speeds);
    const double cpu = bench::cpu_seconds();
    const double seconds = row.merge(to_disk);
    state.SetIterationTime(seconds);
    state.counters["cpu_s"] = bench::cpu_seconds() - cpu;
    state.counters["share"] = row.bound(to_disk) / seconds;
    state.counters["buffers"] = static_cast<double>(row.buffers());
    state.counters["drops"] = static_cast<double>(row.statistics().policy.drops);
    state.counters["late"] = static_cast<double>(row.late_requests());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(Row::bytes()));
}

void add_rows(const std::string& disks, const bench::DiskSpeeds& speeds) {
  for (const bool to_disk : {false, true}) {
    for (const Keys keys : {Keys::kUniform, Keys::kIdentical}) {
      for (const PrefetchKind kind : kAllPrefetchKinds) {
        const std::string name = std::string(to_disk ? "merge/" : "read/") + disks + "/" +
                                 (keys == Keys::kUniform ? "uniform/" : "identical/") +
                                 std::string(prefetch_kind_name(kind));
        bench::add_row(
            name, [=](benchmark::State& state) { run(state, to_disk, kind, keys, speeds); },
            benchmark::kSecond);
      }
    }
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  vortex::bench::OwnOptions options = {
      {"--full-duplex", [](const std::string&) { settings.full_duplex = true; }},
      {"--runs=", vortex::bench::number(settings.runs)},
  };
  return settings.disks.run(argc, argv, settings.bytes, std::move(options), &vortex::add_rows);
}
