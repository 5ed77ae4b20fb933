#include "sort/merge/run_merge.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "sort/merge/prefetch_policy.h"
#include "sort/record/forecast_keys.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/record_order.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// Records that are read to compare forecasts, beside the memory that is planned.
constexpr std::size_t kMostKeptBytes = std::size_t{1} << 20;

// How many blocks of each run the merge holds: those that a record lies in; and two where several
// threads merge, which go on with the one while the next is entered, if these are a small part of
// all. Striped prefetching goes on when a block is given back: with two held it would not read
// ahead.
std::size_t window_blocks(const RunStore& store, std::size_t record_bytes, std::uint32_t runs,
                          const RunMergeOptions& options) {
  const std::size_t least = blocks_for_records(store.block_bytes(), record_bytes);
  const std::size_t two_each = 2 * std::size_t{runs};
  const bool pays = options.threads > 1 && runs > 1 && two_each <= options.read_buffers / 4 &&
                    options.kind != PrefetchKind::kStriped;
  if (least >= 2 || !pays) return least;
  const PrefetchOptions with_two = {
      .disks = store.files(), .buffers = options.read_buffers, .held_blocks = two_each};
  return minimum_read_buffers(options.kind, with_two, runs) <= options.read_buffers ? 2 : least;
}

}  // namespace

// What foretells a block is the last whole record of the block before. Where keys do not decide, it
// is read: once for each block, if there is room for one of each run.
std::unique_ptr<OrderOfNeed> order_of_runs(const RecordOrder& order, std::span<const Run> runs) {
  const ForecastKeys keys(order);
  const std::size_t bytes = order.record_bytes();
  const bool keeps = runs.size() <= kMostKeptBytes / bytes;
  std::vector<std::byte> records(keys.exact() ? 0 : (keeps ? runs.size() : 2) * bytes);
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> read(runs.size(),
                                  kNone);           // the block of each run whose record is kept
  std::vector<std::uint64_t> used_up(runs.size());  // the block of each run
  std::optional<Error> error;
  const auto record_of = [&](std::uint32_t run, std::size_t place) {
    const std::span<std::byte> record =
        std::span(records).subspan((keeps ? run : place) * bytes, bytes);
    if (keeps && std::exchange(read[run], used_up[run]) == used_up[run]) return record.data();
    RunBytes bytes_of_run(runs[run]);
    const int failed = bytes_of_run.read_last_record(used_up[run], record);
    if (failed != 0 && !error) error = bytes_of_run.failed(failed);
    return record.data();
  };
  const auto key_of = [&](std::uint32_t run) {
    return runs[run].forecast_keys.data() + used_up[run] * keys.bytes();
  };
  const auto less = [&](std::uint32_t a, std::uint32_t b) {
    if (keys.less(key_of(a), key_of(b))) return true;
    if (keys.exact() || keys.less(key_of(b), key_of(a))) return false;
    return order.less(record_of(a, 0), record_of(b, 1));
  };
  const auto block_of = [&](std::uint32_t run, std::uint64_t index) {
    return NeededBlock{run, runs[run].places.place(index).file, index};
  };
  const auto count = static_cast<std::uint32_t>(runs.size());
  // Where a first record lies in two blocks, the merge touches the first of these before all else.
  std::vector<NeededBlock> first;
  std::vector<std::uint64_t> next(count);
  for (std::uint32_t run = 0; run < count; ++run) {
    if (!runs[run].begins_in_two(bytes)) continue;
    first.push_back(block_of(run, 0));
    next[run] = 1;
  }
  for (std::uint32_t run = 0; run < count; ++run) first.push_back(block_of(run, next[run]));
  const auto advance = [&](std::uint32_t run) -> std::optional<NeededBlock> {
    used_up[run] = next[run]++;
    if (next[run] == runs[run].blocks()) return std::nullopt;
    return block_of(run, next[run]);
  };
  std::unique_ptr<OrderOfNeed> known = foretold_order(std::move(first), count, advance, less);
  if (error) throw *error;
  return known;
}

namespace {

// A stream from each run, as a pointer to its records, and what is in memory.
class RunStreams {
 public:
  RunStreams(MergePrefetcher& prefetcher, std::span<const Run> runs, std::size_t window,
             std::size_t record_bytes, const MergeInput& in_memory) {
    for (std::uint32_t i = 0; i < runs.size(); ++i) {
      InputStreamOptions options;
      options.name = "run " + std::to_string(i);
      options.comeback_blocks = window - 1;
      streams_.push_back(std::make_unique<InputStream<std::byte>>(
          std::make_unique<RunSource>(prefetcher, i, window), options));
      inputs_.push_back({streams_.back()->data() + runs[i].skipped, runs[i].records});
      skipped_.push_back(runs[i].skipped);
      if (runs[i].begins_in_two(record_bytes)) in_two_.push_back(inputs_.back().begin);
    }
    if (in_memory.records == 0) return;
    inputs_.push_back(in_memory);
    skipped_.push_back(0);
  }
  // Of first records that lie in two blocks, which a merge may touch at their end first.
  void touch_beginnings() const noexcept {
    for (const std::byte* const begin : in_two_) {
      static_cast<void>(*static_cast<const volatile std::byte*>(begin));
    }
  }
  const std::vector<MergeInput>& inputs() const noexcept { return inputs_; }
  std::span<const std::size_t> skipped() const noexcept { return skipped_; }

 private:
  std::vector<std::unique_ptr<InputStream<std::byte>>> streams_;
  std::vector<MergeInput> inputs_;
  std::vector<std::size_t> skipped_;
  std::vector<const std::byte*> in_two_;
};

}  // namespace

std::uint64_t merge_runs(const RecordOrder& order, RunStore& store, std::vector<Run> runs,
                         RecordOutput& out, const RunMergeOptions& options) {
  std::erase_if(runs, [](const Run& run) { return run.records == 0; });
  if (runs.empty() && options.in_memory.records == 0) return 0;
  const std::size_t record_bytes = order.record_bytes();
  const auto count = static_cast<std::uint32_t>(runs.size());
  const std::size_t window = window_blocks(store, record_bytes, count, options);
  const PrefetchOptions prefetch = {
      .disks = store.files(), .buffers = options.read_buffers, .held_blocks = count * window};
  std::vector<RunSlice> slices;
  for (Run& run : runs) slices.push_back(RunSlice::all_of(run));
  MergePrefetcher prefetcher(
      store, std::move(slices),
      make_prefetch_policy(options.kind, order_of_runs(order, std::span<const Run>(runs)), prefetch,
                           count, store.block_times()),
      options.punch_holes);
  for (Run& run : runs) run.forecast_keys = {};
  const RunningMerges::Scope running(options.running, prefetcher,
                                     lean_buffers(prefetch.held_blocks, prefetch.disks));

  const RunStreams streams(prefetcher, runs, window, record_bytes, options.in_memory);
  const std::unique_ptr<RecordMerge> merge = order.merge(
      streams.inputs(),
      {store.block_bytes(), options.working_bytes, options.threads, window, streams.skipped()});
  SortedOutput sorted(order, options.unique, options.most_records, out);

  // How much is merged between two looks at what others want.
  const std::uint64_t look_every = std::max<std::uint64_t>(kMaxRoomBytes / record_bytes, 1);
  std::uint64_t merged = 0;
  bool cancelled = false;
  // On every way out, what is left of the runs is not read.
  struct Stop {
    MergePrefetcher& prefetcher;
    ~Stop() { prefetcher.stop(); }
  } const stop{prefetcher};

  const Failure failure = guarded([&] {
    prefetcher.start();
    streams.touch_beginnings();
    merge->start();
    while (merge->records_left() != 0 && !sorted.full()) {
      if (options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed)) {
        cancelled = true;
        return;
      }
      const std::uint64_t batch = std::min(look_every, merge->records_left());
      {
        const WorkSpan span(SpanKind::kMerge);
        merge->merge(batch, sorted.to());
      }
      merged += batch;
      if (options.progress) options.progress(merged * record_bytes);
    }
  });
  if (options.statistics != nullptr) *options.statistics = prefetcher.statistics();
  failure.throw_if_failed();
  if (cancelled) throw Error(ECANCELED, "the merge was cancelled");
  return sorted.records(merged);
}

}}  // namespace vortex::v0
