// Merges sorted runs from the disks into one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/merge/loser_tree.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/participation_order.h"
#include "sort/merge/prefetch_kind.h"
#include "sort/record/first_of_equal.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/record_order.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/input_stream.h"

namespace vortex::inline v0 {

struct RunMergeOptions {
  PrefetchKind kind = PrefetchKind::kOptimal;
  // Blocks for input in all, those that the merge holds included; see least_read_buffers().
  std::size_t read_buffers = 0;
  bool unique = false;  // of records with equal keys only the first is appended
  // The file system gets the space of the runs back as they are merged. For the last merge; before
  // that the slots are soon used again.
  bool punch_holes = false;
  const std::atomic<bool>* cancelled = nullptr;  // may become true at any time, on any thread
  // Called by the merging thread from time to time, and at the end, with the bytes that have been
  // merged. Must not throw.
  std::function<void(std::uint64_t merged_bytes)> progress = {};
  MergePrefetcherStatistics* statistics = nullptr;  // set at the end
};

// The least RunMergeOptions::read_buffers for a merge of `runs` runs.
inline std::size_t least_read_buffers(PrefetchKind kind, std::uint32_t runs, unsigned disks,
                                      std::size_t block_bytes, std::size_t record_bytes) {
  const PrefetchOptions options = {
      .disks = disks,
      .buffers = 0,
      .held_blocks = runs * blocks_for_records(block_bytes, record_bytes)};
  return minimum_read_buffers(kind, options, runs);
}

// The order in which a merge through plain run pointers needs the blocks of `runs`, computed whole
// and outside faults, where comparators of users may do as they like, and long keys may be read
// from the disks. Throws Error when that fails.
template <RecordOrder O>
std::unique_ptr<OrderOfNeed> order_of_runs(const O& order, std::span<const Run> runs) {
  struct LastKey {
    std::uint32_t run;
    std::uint32_t block;
  };
  const ForecastKeys<O> keys(order);
  std::vector<std::vector<LastKey>> last_keys(runs.size());
  std::vector<std::span<const LastKey>> spans;
  std::vector<BlockAllocation> allocations;
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    last_keys[i].reserve(runs[i].slots.size());
    for (std::uint32_t block = 0; block < runs[i].slots.size(); ++block) {
      last_keys[i].push_back({i, block});
    }
    spans.emplace_back(last_keys[i]);
    allocations.push_back(runs[i].allocation);
  }
  std::vector<std::byte> records(keys.exact() ? 0 : 2 * order.record_bytes());
  int error = 0;
  const auto record_of = [&](const LastKey& key, std::size_t place) {
    std::byte* const record = records.data() + place * order.record_bytes();
    const int failed = runs[key.run].read_last_record(key.block, order.record_bytes(), record);
    if (error == 0) error = failed;
    return record;
  };
  const auto key_of = [&](const LastKey& key) {
    return runs[key.run].forecast_keys.data() + std::size_t{key.block} * keys.bytes();
  };
  const auto less = [&](const LastKey& a, const LastKey& b) {
    if (keys.less(key_of(a), key_of(b))) return true;
    if (keys.exact() || keys.less(key_of(b), key_of(a))) return false;
    return order.less(record_of(a, 0), record_of(b, 1));
  };
  ParticipationOrder<LastKey, decltype(less)> participation(std::move(spans),
                                                            std::move(allocations), less);
  auto known = std::make_unique<KnownOrder>(whole_order(participation));
  if (error != 0) throw Error(error, "read keys of a run");
  return known;
}

// Appends the records of all runs to `out`, in order; equal records come in the order of their
// runs. Every run is an input stream over one prefetcher, the merge a loop over plain pointers;
// the runs' slots are given back as it goes. Returns how many records were appended.
//
// Throws Error: ENOBUFS or ENOMEM when read_buffers or the pool are too small (and how many would
// do), what disks and streams report, ECANCELED; then what `out` got is not whole. Errors of
// streams behind `out` come back in the same way. Not inside a fault. Barve and Vitter,
// section 2.2; SPAA paper, section 2.
template <RecordOrder O, RecordOutput Output>
std::uint64_t merge_runs(const O& order, RunStore& store, std::vector<Run> runs, Output& out,
                         const RunMergeOptions& options) {
  std::erase_if(runs, [](const Run& run) { return run.records == 0; });
  if (runs.empty()) return 0;
  const std::size_t record_bytes = order.record_bytes();
  const std::size_t window = blocks_for_records(store.block_bytes(), record_bytes);
  const auto count = static_cast<std::uint32_t>(runs.size());
  const PrefetchOptions prefetch = {
      .disks = store.disks(), .buffers = options.read_buffers, .held_blocks = count * window};
  MergePrefetcher prefetcher(
      store, runs,
      make_prefetch_policy(options.kind, order_of_runs(order, std::span<const Run>(runs)), prefetch,
                           count, store.block_times()),
      options.punch_holes);
  for (Run& run : runs) run.forecast_keys = {};

  std::vector<std::unique_ptr<InputStream<std::byte>>> streams;
  std::vector<MergeInput> inputs;
  for (std::uint32_t i = 0; i < count; ++i) {
    InputStreamOptions stream_options;
    stream_options.name = "run " + std::to_string(i);
    stream_options.comeback_blocks = window - 1;
    streams.push_back(std::make_unique<InputStream<std::byte>>(
        std::make_unique<RunSource>(prefetcher, i, window), stream_options));
    inputs.push_back({streams.back()->data(), runs[i].records});
  }
  LoserTree<O> tree(order, inputs);
  FirstOfEqual first(order, options.unique, out);

  // How much is merged between two looks at what others want.
  constexpr std::uint64_t kLookEveryBytes = std::uint64_t{256} << 10;
  const std::uint64_t look_every = std::max<std::uint64_t>(kLookEveryBytes / record_bytes, 1);
  std::uint64_t merged = 0;
  bool cancelled = false;
  // On every way out, what is left of the runs is not read.
  struct Stop {
    MergePrefetcher& prefetcher;
    ~Stop() { prefetcher.stop(); }
  } const stop{prefetcher};

  const Failure failure = guarded([&] {
    prefetcher.start();
    tree.start();
    while (!tree.empty()) {
      if (options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed)) {
        cancelled = true;
        return;
      }
      const std::uint64_t batch = std::min(look_every, tree.records_left());
      for (std::uint64_t i = 0; i < batch; ++i) {
        first.append(tree.winner());
        tree.advance();
      }
      merged += batch;
      if (options.progress) options.progress(merged * record_bytes);
    }
  });
  if (options.statistics != nullptr) *options.statistics = prefetcher.statistics();
  failure.throw_if_failed();
  if (cancelled) throw Error(ECANCELED, "the merge was cancelled");
  return first.appended();
}

}  // namespace vortex::inline v0
