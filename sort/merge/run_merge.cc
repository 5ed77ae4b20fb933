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
// So many merge faster than one even where it keeps the disks busier.
constexpr unsigned kManyThreads = 4;

// How many blocks of each run the merge holds: those that a record lies in; and two where several
// threads merge, which go on with the one while the next is entered, if these are a small part of
// all, or, with many threads, half of them, where they are not lent. Striped prefetching goes
// on when a block is given back: with two held it would not read ahead.
std::size_t window_blocks(const RunStore& store, std::size_t record_bytes, std::uint32_t runs,
                          const RunMergeOptions& options) {
  const std::size_t least = blocks_for_records(store.block_bytes(), record_bytes);
  const std::size_t two_each = 2 * std::size_t{runs};
  const bool half = options.threads >= kManyThreads && options.running == nullptr;
  const std::size_t most = options.read_buffers / (half ? 2 : 4);
  const bool pays =
      options.threads > 1 && runs > 1 && two_each <= most && options.kind != PrefetchKind::kStriped;
  if (least >= 2 || !pays) return least;
  const PrefetchOptions with_two = {
      .disks = store.files(), .buffers = options.read_buffers, .held_blocks = two_each};
  return minimum_read_buffers(options.kind, with_two, runs) <= options.read_buffers ? 2 : least;
}

}  // namespace

// What foretells a block is the last whole record of the block before. Where keys do not decide, it
// is read: once for each block, if there is room for one of each run.
std::unique_ptr<OrderOfNeed> order_of_runs(const RecordOrder& order,
                                           std::span<const RunSlice> slices) {
  const ForecastKeys keys(order);
  const std::size_t bytes = order.record_bytes();
  const bool keeps = slices.size() <= kMostKeptBytes / bytes;
  std::vector<std::byte> records(keys.exact() ? 0 : (keeps ? slices.size() : 2) * bytes);
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  // The block of each slice whose record is kept, and the one that is used up.
  std::vector<std::uint64_t> read(slices.size(), kNone);
  std::vector<std::uint64_t> used_up(slices.size());
  std::optional<Error> error;
  const auto record_of = [&](std::uint32_t slice, std::size_t place) {
    const std::span<std::byte> record =
        std::span(records).subspan((keeps ? slice : place) * bytes, bytes);
    if (keeps && std::exchange(read[slice], used_up[slice]) == used_up[slice]) return record.data();
    RunBytes bytes_of_run(*slices[slice].run);
    const int failed =
        bytes_of_run.read_last_record(slices[slice].first_block + used_up[slice], record);
    if (failed != 0 && !error) error = bytes_of_run.failed(failed);
    return record.data();
  };
  const auto key_of = [&](std::uint32_t slice) {
    const std::uint64_t block = slices[slice].first_block + used_up[slice];
    return slices[slice].run->forecast_keys.data() + block * keys.bytes();
  };
  const auto less = [&](std::uint32_t a, std::uint32_t b) {
    if (keys.less(key_of(a), key_of(b))) return true;
    if (keys.exact() || keys.less(key_of(b), key_of(a))) return false;
    return order.less(record_of(a, 0), record_of(b, 1));
  };
  const auto block_of = [&](std::uint32_t slice, std::uint64_t index) {
    const RunSlice& of = slices[slice];
    return NeededBlock{slice, of.run->places.place(of.first_block + index).file, index};
  };
  const auto count = static_cast<std::uint32_t>(slices.size());
  // Where a first record lies in two blocks, the merge touches the first of these before all else.
  std::vector<NeededBlock> first;
  std::vector<std::uint64_t> next(count);
  for (std::uint32_t slice = 0; slice < count; ++slice) {
    if (!slices[slice].begins_in_two(bytes)) continue;
    first.push_back(block_of(slice, 0));
    next[slice] = 1;
  }
  for (std::uint32_t slice = 0; slice < count; ++slice) {
    first.push_back(block_of(slice, next[slice]));
  }
  const auto advance = [&](std::uint32_t slice) -> std::optional<NeededBlock> {
    used_up[slice] = next[slice]++;
    if (next[slice] == slices[slice].blocks()) return std::nullopt;
    return block_of(slice, next[slice]);
  };
  std::unique_ptr<OrderOfNeed> known = foretold_order(std::move(first), count, advance, less);
  if (error) throw *error;
  return known;
}

PartMerge::PartMerge(const RecordOrder& order, RunStore& store,
                     std::shared_ptr<std::vector<Run>> runs, const RecordPart& part,
                     RunMergeOptions options)
    : order_(order), options_(std::move(options)), runs_(std::move(runs)), records_(part.records) {
  const Asking asking(options_.askers);
  const std::size_t record_bytes = order.record_bytes();
  std::vector<RunSlice> slices;
  for (std::size_t i = 0; i < runs_->size(); ++i) {
    const RecordPart::Range& range = part.runs[i];
    if (range.begin == range.end) continue;
    slices.push_back(part.slice((*runs_)[i], i, record_bytes));
    inputs_.push_back({nullptr, range.end - range.begin});
  }
  const auto count = static_cast<std::uint32_t>(slices.size());
  const std::size_t window = window_blocks(store, record_bytes, count, options_);
  const PrefetchOptions prefetch = {
      .disks = store.files(), .buffers = options_.read_buffers, .held_blocks = count * window};
  std::unique_ptr<PrefetchPolicy> policy = make_prefetch_policy(
      options_.kind, order_of_runs(order, slices), prefetch, count, store.block_times());
  prefetcher_.emplace(store, std::move(slices), std::move(policy), options_.punch_holes);
  running_.emplace(options_.running, *prefetcher_,
                   lean_buffers(prefetch.held_blocks, prefetch.disks));
  open_streams(window);
  if (part.in_memory.records != 0) {
    inputs_.push_back(part.in_memory);
    skipped_.push_back(0);
  }
  merge_ = order.merge(
      inputs_, {store.block_bytes(), options_.working_bytes, options_.threads, window, skipped_});
}

void PartMerge::open_streams(std::size_t window) {
  for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
    const RunSlice& slice = prefetcher_->slice(i);
    InputStreamOptions options;
    options.name = "run " + std::to_string(slice.run - runs_->data());  // parts may lack some
    options.comeback_blocks = window - 1;
    streams_.push_back(std::make_unique<InputStream<std::byte>>(
        std::make_unique<RunSource>(*prefetcher_, i, window), options));
    inputs_[i].begin = streams_.back()->data() + slice.skipped;
    skipped_.push_back(slice.skipped);
    if (slice.begins_in_two(order_.record_bytes())) in_two_.push_back(inputs_[i].begin);
  }
}

std::uint64_t PartMerge::merge_to(RecordOutput& out) {
  const Asking asking(options_.askers);
  SortedOutput sorted(order_, options_.unique, options_.most_records, out);
  // How much is merged between two looks at what others want.
  const std::size_t record_bytes = order_.record_bytes();
  const std::uint64_t look_every = std::max<std::uint64_t>(kMaxRoomBytes / record_bytes, 1);
  std::uint64_t merged = 0;
  bool cancelled = false;
  // On every way out, what is left of the runs is not read.
  struct Stop {
    MergePrefetcher& prefetcher;
    ~Stop() { prefetcher.stop(); }
  } const stop{*prefetcher_};

  const Failure failure = guarded([&] {
    prefetcher_->start();
    for (const std::byte* const begin : in_two_) {
      static_cast<void>(*static_cast<const volatile std::byte*>(begin));
    }
    merge_->start();
    while (merged < records_ && !sorted.full()) {
      if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed)) {
        cancelled = true;
        return;
      }
      const std::uint64_t batch = std::min(look_every, records_ - merged);
      {
        const WorkSpan span(SpanKind::kMerge);
        merge_->merge(batch, sorted.to());
      }
      merged += batch;
      if (options_.progress) options_.progress(merged * record_bytes);
    }
  });
  if (options_.statistics != nullptr) *options_.statistics = prefetcher_->statistics();
  failure.throw_if_failed();
  if (cancelled) throw Error(ECANCELED, "the merge was cancelled");
  return sorted.records(merged);
}

std::uint64_t merge_runs(const RecordOrder& order, RunStore& store, std::vector<Run> runs,
                         RecordOutput& out, const RunMergeOptions& options) {
  const RecordPart whole = whole_merge(runs, options.in_memory);
  if (whole.records == 0) return 0;
  const auto shared = std::make_shared<std::vector<Run>>(std::move(runs));
  PartMerge merge(order, store, shared, whole, options);
  for (Run& run : *shared) run.forecast_keys = {};
  return merge.merge_to(out);
}

}}  // namespace vortex::v0
