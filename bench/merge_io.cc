// Measures the prefetch policies on simulated disks, as the papers measured theirs. A policy says
// which block each disk reads next.
//
// Everything runs on virtual time, so a row takes the time it would take on such disks, is exact,
// and comes out the same on every machine; one iteration says all. GB/s are bytes merged (tables:
// sorted) a second of virtual time.
//
//   table_1, table_2   Barve and Vitter: SRM against disk-striped mergesort (DSM), D = 6, blocks of
//                      2520 records of 104 bytes, run counts and DSM's orders as printed there;
//                      `_least` with no more than 2R + D buffers for input
//   figure_09 ... 14   SPAA paper, section 5, D = 8: what prefetch, overlap and write buffers do
//   irregular          its section 2.3: k identical runs, where overlap buffers matter
//   theorem_4          its section 2.3, in its own model: time over the bound it promises
//   policies           all policies in the same memory: keys random, sorted, in step; runs of very
//                      different lengths; one slow disk
//   allocation         where the blocks lie: the strategies under runs that are merged in step
//
// bench/merge_io_plots draws the JSON.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/support/merge_workloads.h"
#include "bench/support/own_options.h"
#include "bench/support/ratios.h"
#include "io/sequence/block_allocation.h"
#include "sort/merge/in_order_prefetch.h"
#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_policy.h"
#include "study/merge_simulation.h"
#include "study/merge_trace.h"
#include "study/overlap_model.h"
#include "study/srm_tables.h"

namespace vortex { namespace {

using bench::Keys;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kSeed = 2003;

// One result of virtual time.
struct Outcome {
  double seconds = 0;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::string, double>> counters = {};
  std::string error = {};
};

void add_row(const std::string& name, std::function<Outcome()> simulate) {
  const auto run = [simulate = std::move(simulate)](benchmark::State& state) {
    Outcome outcome;
    for (auto _ : state) {
      outcome = simulate();
      state.SetIterationTime(outcome.seconds);
    }
    if (!outcome.error.empty()) return state.SkipWithError(outcome.error.c_str());
    state.SetBytesProcessed(static_cast<std::int64_t>(outcome.bytes));
    for (const auto& [counter, value] : outcome.counters) state.counters[counter] = value;
  };
  bench::add_row(name, run, benchmark::kSecond);
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

ServiceModel disk_of(double mb_per_s, double seek_ms) {
  const auto bytes_per_s = static_cast<std::uint64_t>(mb_per_s * 1e6);
  return {.read_bytes_per_s = bytes_per_s,
          .write_bytes_per_s = bytes_per_s,
          .seek_ns = static_cast<std::uint64_t>(seek_ms * 1e6)};
}

// ---------------------------------------------------------------------------------------------
// Barve and Vitter, section 5.

// A disk of theirs (Seagate ST34501W): 7.7 ms of seek and 3 ms of half a turn, about 15 MB/s.
const ServiceModel kCheetah = disk_of(15, 10.7);
constexpr unsigned kTableDisks = 6;
constexpr std::uint64_t kTableRecordBytes = 104;
constexpr std::uint64_t kTableBlockRecords = 2520;

// How many buffers for input: all that the table's memory holds, or as few as will do. The text
// sets 2R + D as what a merge of order R needs and calls it an advantage of a low order that more
// memory is left for each run (section 5.3.2).
enum class Buffers { kOfTheTable, kMin };

// The merging phase of one column.
Outcome merging_phase(const SrmTable& table, const SrmColumn& column, PrefetchKind kind,
                      Buffers buffers) {
  const std::uint64_t records = column.millions * 1'000'000;
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t at = 0; at < records; at += table.run_records) {
    sizes.push_back(std::min(table.run_records, records - at));
  }
  if (sizes.size() != column.runs) return {.error = "not the printed number of runs"};
  SeededRandom random(kSeed + column.millions);
  const auto run_of = bench::random_interleaving(sizes, random);
  std::vector<std::uint16_t> run_now(sizes.size());
  for (std::size_t run = 0; run < run_now.size(); ++run) {
    run_now[run] = static_cast<std::uint16_t>(run);
  }

  const bool striped = kind == PrefetchKind::kStriped;
  constexpr std::uint64_t kLargestOrder = 19;  // section 5.3.2
  const std::uint64_t order =
      striped ? table.dsm_order : smallest_merge_order(sizes.size(), kLargestOrder);
  MergeSimulationOptions simulation;
  simulation.disks.assign(kTableDisks, kCheetah);
  simulation.block_bytes = kTableBlockRecords * kTableRecordBytes;
  simulation.records_per_block = kTableBlockRecords;
  simulation.write_buffers = 2 * kTableDisks;
  simulation.write_batch = kTableDisks;

  Outcome outcome = {.bytes = records * kTableRecordBytes};
  std::uint64_t passes = 0, parallel_reads = 0, reads = 0, records_merged = 0, drops = 0;
  for (std::uint64_t runs = sizes.size(); runs > 1; runs = (runs + order - 1) / order) {
    ++passes;
    const auto merges = bench::merge_pass(run_of, run_now, order, kTableBlockRecords);
    for (std::size_t merge = 0; merge < merges.size(); ++merge) {
      const BlockEnds& ends = merges[merge].ends;
      if (ends.size() == 1) continue;  // left over alone: it goes to the next pass as it is
      MergeTrace trace = plain_merge_trace(ends);
      assign_disks(
          trace.order,
          bench::allocate_runs(
              striped ? AllocationStrategy::kStriping : AllocationStrategy::kSimpleRandomized,
              std::vector<double>(kTableDisks, 1.0), ends.size(), kSeed + 1000 * passes + merge));
      PrefetchOptions options = {
          .disks = kTableDisks, .buffers = 0, .held_blocks = trace.held_blocks};
      if (buffers == Buffers::kOfTheTable && !striped) {
        options.buffers = table.buffers;
      } else {
        options.buffers = minimum_read_buffers(striped ? kind : PrefetchKind::kForecastAndFlush,
                                               options, trace.runs);
      }
      std::unique_ptr<PrefetchPolicy> policy;
      if (kind == PrefetchKind::kOptimal) {
        auto optimal = std::make_unique<OptimalPrefetch>(
            std::make_unique<KnownOrder>(trace.order), options,
            OptimalPrefetch::Split{.prefetch_blocks = options.buffers - options.held_blocks + 1});
        parallel_reads += optimal->parallel_steps();
        policy = std::move(optimal);
      } else {
        policy = make_prefetch_policy(kind, std::make_unique<KnownOrder>(trace.order), options,
                                      trace.runs, {}, 1);
      }
      const MergeSimulationResult result = simulate_merge(trace, *policy, simulation);
      if (result.stuck) return {.error = "stuck"};
      outcome.seconds += seconds(result.time_ns);
      parallel_reads += result.prefetch.parallel_reads;
      reads += result.prefetch.fetches;
      drops += result.prefetch.drops;
      records_merged += trace.records;
    }
  }
  // Definition 2: parallel reads over the N / (D B) that every pass takes at least; for the optimal
  // policy the steps of its schedule. The asynchronous form of SRM has no parallel reads; there it
  // is blocks read over blocks needed.
  const double least_blocks =
      static_cast<double>(records_merged) / static_cast<double>(kTableBlockRecords);
  const double nu = kind == PrefetchKind::kAsynchronousForecastAndFlush
                        ? static_cast<double>(reads) / least_blocks
                        : static_cast<double>(parallel_reads) * kTableDisks / least_blocks;
  outcome.counters = {{"runs", static_cast<double>(sizes.size())},
                      {"order", static_cast<double>(order)},
                      {"passes", static_cast<double>(passes)},
                      {"nu", nu},
                      {"flushed", static_cast<double>(drops)}};
  if (kind == PrefetchKind::kForecastAndFlush) {
    outcome.counters.push_back({"order_printed", static_cast<double>(column.srm_order)});
    outcome.counters.push_back({"passes_printed", column.srm_passes});
    outcome.counters.push_back({"nu_printed", column.nu});
    outcome.counters.push_back({"seconds_printed", column.srm_seconds});
  } else if (striped) {
    outcome.counters.push_back({"passes_printed", column.dsm_passes});
    outcome.counters.push_back({"seconds_printed", column.dsm_seconds});
  }
  return outcome;
}

std::string row_name(const std::string& family,
                     const std::vector<std::pair<const char*, std::uint64_t>>& arguments) {
  std::string name = family;
  for (const auto& [argument, value] : arguments) {
    name += '/';
    name += argument;
    name += ':';
    name += std::to_string(value);
  }
  return name;
}

void add_tables() {
  for (const SrmTable& table : kSrmTables) {
    constexpr auto kSrm = PrefetchKind::kForecastAndFlush;
    constexpr auto kSrmAsync = PrefetchKind::kAsynchronousForecastAndFlush;
    for (const auto& [suffix, kind, buffers] :
         {std::tuple{"_srm", kSrm, Buffers::kOfTheTable},
          std::tuple{"_srm_async", kSrmAsync, Buffers::kOfTheTable},
          std::tuple{"_optimal", PrefetchKind::kOptimal, Buffers::kOfTheTable},
          std::tuple{"_srm_least", kSrm, Buffers::kMin},
          std::tuple{"_srm_async_least", kSrmAsync, Buffers::kMin},
          std::tuple{"_optimal_least", PrefetchKind::kOptimal, Buffers::kMin},
          std::tuple{"_dsm", PrefetchKind::kStriped, Buffers::kMin}}) {
      for (const SrmColumn& column : table.columns) {
        add_row(row_name(table.name + std::string(suffix), {{"millions", column.millions}}),
                [&table, &column, kind = kind, buffers = buffers] {
                  return merging_phase(table, column, kind, buffers);
                });
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------
// The SPAA paper's machine, section 4 and 5.

constexpr unsigned kDisks = 8;
// An IBM 120GXP: 8.5 ms of seek and 4.2 ms of half a turn, 48 MB/s in the outer zone.
const ServiceModel kIbmDisk = disk_of(48, 12.7);
constexpr std::uint64_t kMemory = 512 * kMiB;
constexpr std::uint64_t kRunBytes = 256 * kMiB;
constexpr std::uint64_t kRecordBytes = 64;
// With 2 MiB blocks processor and disks then take about the same time, where overlapping counts.
constexpr double kNsPerRecord = 350;

struct Merge {
  std::uint64_t runs = 64;
  std::uint64_t block_bytes = 2 * kMiB;
  Keys keys = Keys::kUniform;
  PrefetchKind kind = PrefetchKind::kOptimal;
  std::size_t read_buffers = 0;     // beside one block a run
  std::size_t prefetch_blocks = 0;  // of those; 0: the paper's split
  std::size_t write_buffers = 0;    // 0: reading alone, in no processor time
};

std::uint64_t blocks_of_a_run(const Merge& merge) { return kRunBytes / merge.block_bytes; }

Outcome simulate(const Merge& merge) {
  const std::uint64_t records_per_block = merge.block_bytes / kRecordBytes;
  SeededRandom random(kSeed);
  MergeTrace trace = plain_merge_trace(
      bench::drawn_block_ends(std::vector<std::uint64_t>(merge.runs, blocks_of_a_run(merge)),
                              records_per_block, merge.keys, random));
  assign_disks(trace.order,
               bench::allocate_runs(AllocationStrategy::kRandomCyclic,
                                    std::vector<double>(kDisks, 1.0), merge.runs, kSeed));
  const PrefetchOptions options = {.disks = kDisks,
                                   .buffers = merge.runs + merge.read_buffers,
                                   .held_blocks = trace.held_blocks};
  auto order = std::make_unique<KnownOrder>(trace.order);
  std::unique_ptr<PrefetchPolicy> policy;
  if (merge.prefetch_blocks != 0) {
    policy = std::make_unique<OptimalPrefetch>(
        std::move(order), options,
        OptimalPrefetch::Split{.prefetch_blocks = merge.prefetch_blocks});
  } else {
    policy = make_prefetch_policy(merge.kind, std::move(order), options, trace.runs);
  }
  MergeSimulationOptions simulation;
  simulation.disks.assign(kDisks, kIbmDisk);
  simulation.block_bytes = merge.block_bytes;
  simulation.records_per_block = records_per_block;
  if (merge.write_buffers != 0) {
    simulation.ns_per_record = kNsPerRecord;
    simulation.write_buffers = merge.write_buffers;
    // All but D of them gather, which makes writes long (section 5).
    simulation.write_batch = std::max<std::size_t>(merge.write_buffers - kDisks, 1);
  }
  const MergeSimulationResult result = simulate_merge(trace, *policy, simulation);
  if (result.stuck) return {.error = "stuck"};
  const std::uint64_t bytes = trace.order.size() * merge.block_bytes;
  // No merge is faster than the transfers without any seek, or than the processor's time.
  const double directions = merge.write_buffers != 0 ? 2 : 1;
  const double bound =
      std::max(directions * static_cast<double>(bytes) /
                   (kDisks * static_cast<double>(kIbmDisk.read_bytes_per_s)),
               static_cast<double>(trace.records) * simulation.ns_per_record * 1e-9);
  return {.seconds = seconds(result.time_ns),
          .bytes = bytes,
          .counters = {{"of_bound", bound / seconds(result.time_ns)},
                       {"input_wait_s", seconds(result.input_wait_ns)},
                       {"output_wait_s", seconds(result.output_wait_ns)},
                       {"seeks", static_cast<double>(result.seeks)}}};
}

constexpr std::uint64_t kReadBuffers[] = {8, 16, 32, 64, 156};

std::size_t share_of(std::uint64_t read_buffers, std::uint64_t percent) {
  return std::max<std::size_t>(read_buffers * percent / 100, 1);
}

void add_figures_9_to_11() {
  constexpr std::size_t kWriteBuffers = 4 * kDisks;
  for (const std::uint64_t buffers : kReadBuffers) {
    for (std::uint64_t share = 0; share <= 100; share += 10) {
      for (const auto& [figure, write_buffers] :
           {std::pair{"figure_09", std::size_t{0}}, std::pair{"figure_10", kWriteBuffers}}) {
        const Merge naive = {
            .kind = PrefetchKind::kNaive, .read_buffers = buffers, .write_buffers = write_buffers};
        Merge optimal = naive;
        optimal.kind = PrefetchKind::kOptimal;
        optimal.prefetch_blocks = share_of(buffers, share);
        // A prefetch buffer of one block is the naive order; its share is the whole axis.
        add_row(
            row_name(std::string(figure) + "_naive", {{"share", share}, {"read_buffers", buffers}}),
            [naive] { return simulate(naive); });
        add_row(row_name(std::string(figure) + "_optimal",
                         {{"share", share}, {"read_buffers", buffers}}),
                [optimal] { return simulate(optimal); });
      }
    }
  }
  for (const std::uint64_t buffers : {8, 12, 16, 24, 32, 48, 64, 96, 128, 156}) {
    for (const PrefetchKind kind : {PrefetchKind::kNaive, PrefetchKind::kOptimal}) {
      const Merge merge = {.kind = kind, .read_buffers = buffers, .write_buffers = kWriteBuffers};
      add_row(row_name("figure_11_" + std::string(prefetch_kind_name(kind)),
                       {{"read_buffers", buffers}}),
              [merge] { return simulate(merge); });
    }
  }
}

void add_figure_12() {
  constexpr std::uint64_t kBuffers = 188;
  for (const std::uint64_t write_buffers : {9, 12, 16, 24, 32, 48, 64, 96, 128, 160, 172, 180}) {
    const Merge merge = {.read_buffers = kBuffers - write_buffers, .write_buffers = write_buffers};
    add_row(row_name("figure_12_optimal", {{"write_buffers", write_buffers}}),
            [merge] { return simulate(merge); });
  }
}

// Sorting: forming the runs, which reads and writes everything once without seeks or at the
// processor's speed, and merging them.
Outcome sort_with_blocks(std::uint64_t input_bytes, std::uint64_t block_bytes) {
  Merge merge = {.runs = input_bytes / kRunBytes, .block_bytes = block_bytes};
  const std::size_t buffers = kMemory / block_bytes - merge.runs;
  merge.write_buffers = default_write_blocks(buffers, kDisks);
  merge.read_buffers = buffers - merge.write_buffers;
  Outcome outcome = simulate(merge);
  const double formation =
      std::max(2 * static_cast<double>(input_bytes) /
                   (kDisks * static_cast<double>(kIbmDisk.read_bytes_per_s)),
               static_cast<double>(input_bytes) / kRecordBytes * kNsPerRecord * 1e-9);
  const double gib = static_cast<double>(input_bytes) / kGiB;
  outcome.counters = {{"merge_seconds", outcome.seconds},
                      {"block_KiB", static_cast<double>(block_bytes) / kKiB},
                      {"seconds_per_GiB", (outcome.seconds + formation) / gib}};
  outcome.seconds += formation;
  return outcome;
}

void add_figures_13_and_14() {
  for (const std::uint64_t gib : {16, 64, 128}) {
    for (std::uint64_t kib = 128; kib <= 8 * 1024; kib *= 2) {
      const std::uint64_t runs = gib * kGiB / kRunBytes;
      if (kMemory / (kib * kKiB) < runs + 4 * kDisks) continue;  // not enough buffers
      add_row(row_name("figure_13_optimal", {{"block_KiB", kib}, {"input_GiB", gib}}),
              [=] { return sort_with_blocks(gib * kGiB, kib * kKiB); });
    }
  }
  for (std::uint64_t gib = 2; gib <= 128; gib *= 2) {
    add_row(row_name("figure_14_optimal", {{"input_GiB", gib}}), [=] {
      const std::uint64_t block_bytes =
          default_merge_block_bytes(kMemory, gib * kGiB / kRunBytes, kDisks);
      return sort_with_blocks(gib * kGiB, std::min(block_bytes, 8 * kMiB));
    });
  }
}

void add_irregular() {
  for (const std::uint64_t buffers : {32, 64, 96, 128, 156}) {
    for (std::uint64_t share = 0; share <= 100; share += 10) {
      const Merge merge = {.keys = Keys::kInStep,
                           .read_buffers = buffers,
                           .prefetch_blocks = share_of(buffers, share),
                           .write_buffers = 4 * kDisks};
      add_row(row_name("irregular_optimal", {{"share", share}, {"read_buffers", buffers}}),
              [merge] { return simulate(merge); });
    }
  }
}

// Time over what Theorem 4 promises, and with the overlap buffer cut down to D blocks.
Outcome theorem_4(std::uint64_t runs, std::uint64_t disk_percent, bool overlap_buffer) {
  constexpr std::uint64_t kRecordsPerBlock = 1000;
  SeededRandom random(kSeed);
  const MergeTrace trace = plain_merge_trace(bench::drawn_block_ends(
      std::vector<std::uint64_t>(runs, 20), kRecordsPerBlock, Keys::kInStep, random));
  OverlapModelOptions options = {
      .disks = kDisks, .records_per_block = kRecordsPerBlock, .record_time = 100};
  // At 100 % reading and writing take as long as merging: 2 L = D B l.
  options.step_time = kDisks * kRecordsPerBlock * options.record_time * disk_percent / 200;
  options.overlap_blocks = overlap_buffer ? runs + 3 * kDisks : kDisks;
  options.write_records = 2 * kDisks * kRecordsPerBlock;
  const OverlapModelResult result = run_overlap_model(trace, options);
  if (result.stuck) return {.error = "stuck"};
  return {.seconds = static_cast<double>(result.time) * 1e-9,
          .bytes = trace.records * kRecordBytes,
          .counters = {{"of_theorem", static_cast<double>(result.time) /
                                          static_cast<double>(overlap_model_bound(trace, options))},
                       {"merge_wait_of_time", static_cast<double>(result.merge_wait) /
                                                  static_cast<double>(result.time)}}};
}

void add_theorem_4() {
  for (const std::uint64_t runs : {8, 64, 256}) {
    for (const std::uint64_t percent : {50, 80, 90, 100, 110, 125, 200}) {
      for (const bool overlap_buffer : {true, false}) {
        add_row(row_name(overlap_buffer ? "theorem_4_overlap_buffer" : "theorem_4_without",
                         {{"disk_percent", percent}, {"runs", runs}}),
                [=] { return theorem_4(runs, percent, overlap_buffer); });
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------
// All policies in the same memory.

struct Workload {
  const char* name;
  Keys keys;
  std::vector<std::uint64_t> run_mib;
  std::vector<ServiceModel> disks;
};

// Weights by speed: a disk four times slower gets a quarter of the blocks.
std::vector<double> weights_of(const std::vector<ServiceModel>& disks) {
  std::vector<double> weights;
  for (const ServiceModel& disk : disks) {
    weights.push_back(static_cast<double>(disk.read_bytes_per_s));
  }
  return weights;
}

Outcome run_policy(const Workload& workload, PrefetchKind kind, AllocationStrategy strategy,
                   bool weighted) {
  const auto disks = static_cast<unsigned>(workload.disks.size());
  // Striping makes the block of a run D times as large; in the same memory its parts are D times
  // smaller.
  const std::uint64_t block_bytes = kind == PrefetchKind::kStriped ? 2 * kMiB / disks : 2 * kMiB;
  const std::uint64_t records_per_block = block_bytes / kRecordBytes;
  const std::size_t runs = workload.run_mib.size();
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t mib : workload.run_mib) blocks.push_back(mib * kMiB / block_bytes);
  SeededRandom random(kSeed);
  MergeTrace trace =
      plain_merge_trace(bench::drawn_block_ends(blocks, records_per_block, workload.keys, random));
  const std::vector<double> weights =
      weighted ? weights_of(workload.disks) : std::vector<double>(disks, 1.0);
  assign_disks(trace.order, bench::allocate_runs(strategy, weights, runs, kSeed));

  // Two blocks of 2 MiB a run and two a disk; for striping that is two stripes a run.
  const std::uint64_t memory = (2 * runs + 2 * disks) * 2 * kMiB;
  const PrefetchOptions options = {
      .disks = disks, .buffers = memory / block_bytes, .held_blocks = trace.held_blocks};
  const std::vector<double> speeds = weights_of(workload.disks);
  const double fastest = *std::max_element(speeds.begin(), speeds.end());
  std::vector<unsigned> block_times;
  for (const double speed : speeds) {
    block_times.push_back(static_cast<unsigned>(std::lround(fastest / speed)));
  }
  auto policy = make_prefetch_policy(kind, std::make_unique<KnownOrder>(trace.order), options,
                                     trace.runs, block_times, 1);
  MergeSimulationOptions simulation;
  simulation.disks = workload.disks;
  simulation.block_bytes = block_bytes;
  simulation.records_per_block = records_per_block;
  simulation.ns_per_record = kNsPerRecord;
  simulation.write_buffers = 4 * disks * (2 * kMiB / block_bytes);
  simulation.write_batch = 3 * disks * (2 * kMiB / block_bytes);
  const MergeSimulationResult result = simulate_merge(trace, *policy, simulation);
  if (result.stuck) return {.error = "stuck"};
  const std::uint64_t bytes = trace.order.size() * block_bytes;
  double bandwidth = 0;
  for (const double speed : speeds) bandwidth += speed;
  const double bound = std::max(2 * static_cast<double>(bytes) / bandwidth,
                                static_cast<double>(trace.records) * kNsPerRecord * 1e-9);
  return {.seconds = seconds(result.time_ns),
          .bytes = bytes,
          .counters = {{"of_bound", bound / seconds(result.time_ns)},
                       {"input_wait_s", seconds(result.input_wait_ns)},
                       {"flushed", static_cast<double>(result.prefetch.drops)},
                       {"seeks", static_cast<double>(result.seeks)}}};
}

std::vector<Workload> workloads() {
  const std::vector<ServiceModel> equal(kDisks, kIbmDisk);
  std::vector<ServiceModel> one_slow = equal;
  one_slow.back() = disk_of(12, 12.7);
  const std::vector<std::uint64_t> runs(32, 256);
  std::vector<std::uint64_t> uneven;
  for (std::uint64_t mib = 2048; uneven.size() < 32;
       mib = std::max<std::uint64_t>(mib * 3 / 4, 8)) {
    uneven.push_back(mib - mib % 8);
  }
  return {{"random", Keys::kUniform, runs, equal},
          {"sorted", Keys::kDisjoint, runs, equal},
          {"in_step", Keys::kInStep, runs, equal},
          {"uneven_runs", Keys::kUniform, uneven, equal},
          {"one_slow_disk", Keys::kUniform, runs, one_slow}};
}

void add_policies() {
  for (const Workload& workload : workloads()) {
    for (const PrefetchKind kind : kAllPrefetchKinds) {
      std::string name = "policies/" + std::string(workload.name) + "/";
      name += prefetch_kind_name(kind);
      add_row(name,
              [=] { return run_policy(workload, kind, AllocationStrategy::kRandomCyclic, true); });
    }
  }
  const Workload in_step = workloads()[2];
  for (const AllocationStrategy strategy :
       {AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
        AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom}) {
    for (const PrefetchKind kind :
         {PrefetchKind::kOptimal, PrefetchKind::kForecastAndFlush, PrefetchKind::kNaive}) {
      std::string name = "allocation/" + std::string(allocation_strategy_name(strategy)) + "/";
      name += prefetch_kind_name(kind);
      add_row(name, [=] { return run_policy(in_step, kind, strategy, true); });
    }
  }
  const Workload one_slow = workloads()[4];
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    std::string name = "slow_disk_not_weighted/";
    name += prefetch_kind_name(kind);
    add_row(name,
            [=] { return run_policy(one_slow, kind, AllocationStrategy::kRandomCyclic, false); });
  }
}

std::vector<bench::Ratio> ratios() {
  std::vector<bench::Ratio> list;
  const auto row = [](const std::string& name) { return bench::shown(name); };
  for (const SrmTable& table : kSrmTables) {
    for (const SrmColumn& column : table.columns) {
      const std::string argument = "/millions:" + std::to_string(column.millions);
      const auto named = [&](const char* suffix) { return row(table.name + (suffix + argument)); };
      std::string what = "DSM's time over SRM's, ";
      what += table.name;
      what += argument;
      what += "; printed: ";
      what += std::to_string(column.dsm_seconds / column.srm_seconds).substr(0, 4);
      list.push_back({what, named("_srm"), named("_dsm")});
      list.push_back({"   asynchronous / synchronous SRM", named("_srm_async"), named("_srm")});
    }
  }
  for (const Workload& workload : workloads()) {
    const std::string name = "policies/" + std::string(workload.name) + "/";
    for (const char* other : {"srm", "srm-async", "naive", "striped"}) {
      list.push_back({"optimal / " + std::string(other) + ", " + workload.name,
                      row(name + "optimal"), row(name + other)});
    }
  }
  return list;
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  vortex::add_tables();
  vortex::add_figures_9_to_11();
  vortex::add_figure_12();
  vortex::add_figures_13_and_14();
  vortex::add_irregular();
  vortex::add_theorem_4();
  vortex::add_policies();
  return vortex::bench::run_with_ratios(vortex::bench::benchmark_arguments(argc, argv, {}, "1"),
                                        vortex::ratios());
}
