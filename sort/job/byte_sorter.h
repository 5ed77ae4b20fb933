// Records in, one by one; one sorted array out.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/open_disk.h"
#include "io/file/file_source.h"
#include "sort/job/faulting_thread.h"
#include "sort/job/sort_room.h"
#include "sort/merge/run_collection.h"
#include "sort/merge/run_merge.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/pointer_output.h"
#include "sort/record/record_order.h"
#include "sort/runs/run_formation.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/memory_limits.h"
#include "vortex/pipeline.h"
#include "vortex/prefetch_kind.h"
#include "vortex/sort_disk.h"
#include "vortex/sort_plan.h"
#include "vortex/sort_progress.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

struct SorterOptions {
  // For everything, see ExternalSortOptions; the buffer of push() included. 0:
  // default_memory_bytes().
  std::uint64_t memory_bytes = 0;
  // Where runs are kept, a disk each, when the records do not fit in memory. Empty: $TMPDIR, or
  // /tmp.
  std::vector<std::string> folders = {};
  std::size_t block_bytes = 0;  // 0: what suits the memory
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  DiskBackend backend = DiskBackend::kBest;
  Caching caching = Caching::kAuto;  // runs go around the page cache unless this is kBuffered
  SortDiskFunction open_disk = {};   // instead of disks of the backend
  std::uint64_t seed = 1;            // which run lies on which disk
  std::stop_token stop = {};         // the sort ends with ECANCELED soon after a request
  // Called about once a megabyte by whoever pushes or calls sort(), and after that by the thread
  // that merges. May throw, which ends the sort.
  SortProgressFunction progress = {};
};

// An external sort without files of its own: records are pushed, sort() is called, and the sorted
// sequence is an array behind a plain pointer. Sorter and RecordSorter (include/vortex/sorter.h)
// are this with types that are convenient; here records are bytes, ordered by any RecordOrder.
//
// push() partitions records in memory; when that is full, they are sorted and written to the
// folders as a run, in files without a name. sort() merges until one merge is left. That one runs
// in a thread of the sorter while the array is read, at most a few blocks ahead of the reader; the
// room of the runs is given back as it goes. What fits in memory is never written. The sort is
// stable. Whatever happens, no file is left behind.
//
// The memory is one budget: the pool of blocks, the scratch, the buffer of push(), and what is kept
// of each block of a run: 72 bytes and a key, which is planned for 32 times the memory. What is
// longer takes that besides.
//
// One thread at a time, but for the reading of the array (see InputStream). Uses the SIGSEGV
// handler. After an exception it can only be destroyed; calls throw Error(ENOTRECOVERABLE).
template <RecordOrder O>
class ByteSorter {
 public:
  // Allocates, and reserves address space; touches no disk. Throws Error: ENOMEM (too little
  // memory, with the least that would do), ENOTDIR and ENOENT for folders, EINVAL for the block
  // size.
  ByteSorter(const SorterOptions& options, O order)
      : order_(std::move(order)),
        watch_(options.stop, options.progress),
        folders_(folders_of(options)),
        batch_(batch_bytes(memory_of(options))),
        plan_(make_plan(options)),
        pool_(make_pool()),
        runs_(order_, plan_, *pool_, watch_, store_options(options), false) {
    buckets_.emplace(*pool_, plan_.bucket_blocks, "buckets");
    make_run_formation(formation_, order_, *buckets_, plan_.formation);
    watch_.begin(SortPhase::kReading, std::nullopt);
  }
  // Ends a merge that is under way. The array must not be in use.
  ~ByteSorter() {
    watch_.stop_now();
    if (pipeline_ && !pool_->inherited()) pipeline_->cancel();
  }
  ByteSorter(const ByteSorter&) = delete;
  ByteSorter& operator=(const ByteSorter&) = delete;

  std::size_t record_bytes() const noexcept { return order_.record_bytes(); }
  const SortPlan& plan() const noexcept { return plan_; }
  // Runs and merges so far; the last merge counts from its beginning.
  const RunCounts& counts() const noexcept { return counts_; }

  // Copies a record. Blocks while a run is written, each time the memory is full. Throws Error:
  // EINVAL after sort(), ECANCELED, and what the disks report (ENOSPC, EIO).
  void push(const std::byte* record) {
    expect(State::kPushing, "push()");
    const std::size_t bytes = order_.record_bytes();
    std::memcpy(batch_.data() + batched_, record, bytes);
    batched_ += bytes;
    if (batched_ == batch_.size()) push_batch();
  }
  // `count` records, one behind the other at any address, the array of a stream too; where that
  // fails, its error is thrown.
  void push(const std::byte* records, std::uint64_t count) {
    expect(State::kPushing, "push()");
    push_batch();
    take(records, count);
  }

  // Records pushed, and records in the array.
  std::uint64_t size() const noexcept { return taken_ + batched_ / order_.record_bytes(); }

  // No more records come. Returns when the array can be read, which is before everything is merged.
  // Blocks; throws as push() does.
  void sort() {
    expect(State::kPushing, "sort()");
    push_batch();
    state_ = State::kFailed;
    if (runs_.empty()) {
      begin_output(most_output_blocks(plan_.pool_blocks - plan_.bucket_blocks),
                   [this](auto& out) { this->emit_to(out); });
    } else {
      if (formation_->records() != 0) form_run();
      formation_.reset();
      buckets_.reset();
      reduce_runs();
      const std::size_t blocks =
          most_output_blocks(plan_.pool_blocks - least_buffers(runs_.size()));
      begin_output(blocks,
                   [this, blocks](auto& out) { runs_.merge_all(out, plan_.pool_blocks - blocks); });
    }
    state_ = State::kSorted;
  }

  // The array: size() records, then zeros to the end of the page. Valid while the sorter lives.
  // Reading waits inside page faults for the merge; a reader may go back one block, and jump
  // forward. What goes wrong then (EIO, ECANCELED, what the progress function throws) is a failure
  // of the stream: read inside guarded() to get it as an Error. Throws Error(EINVAL) before sort().
  const std::byte* bytes() const { return output().bytes(); }
  // The stream behind it: prefault(), failure(), cancel().
  InputStreamBase& stream() const { return output(); }

 private:
  enum class State : std::uint8_t { kPushing, kSorted, kFailed };

  static constexpr std::size_t kMostBatchBytes = std::size_t{64} << 10;
  static constexpr std::size_t kComebackBlocks = 1;  // of who reads the array

  static std::vector<std::string> folders_of(const SorterOptions& options) {
    std::vector<std::string> folders = options.folders;
    if (folders.empty()) folders.push_back(temporary_folder());
    for (const std::string& folder : folders) file_system_of(folder);
    return folders;
  }

  static std::uint64_t memory_of(const SorterOptions& options) {
    return options.memory_bytes != 0 ? options.memory_bytes : default_memory_bytes();
  }

  // What is pushed one by one is gathered first. Little memory gives a sixteenth of itself.
  std::size_t batch_bytes(std::uint64_t memory_bytes) const noexcept {
    const std::size_t record = order_.record_bytes();
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(memory_bytes / 16, kMostBatchBytes));
    return std::max<std::size_t>(wanted / record, 1) * record;
  }

  SortPlan make_plan(const SorterOptions& options) const {
    SortPlanRequest request;
    request.record_bytes = order_.record_bytes();
    request.forecast_bytes = ForecastKeys<O>(order_).bytes();
    request.memory_bytes = memory_of(options) - batch_.size();
    request.disks = static_cast<unsigned>(folders_.size());
    request.block_bytes = options.block_bytes;
    request.prefetch = options.prefetch;
    limit_to_process(request, options.backend, request.disks);
    return plan_sort(request);
  }

  std::shared_ptr<BlockPool> make_pool() const {
    BlockPoolOptions options;
    options.block_bytes = plan_.block_bytes;
    options.pool_bytes = plan_.pool_blocks * plan_.block_bytes;
    options.warming = Warming::kOnDemand;  // nobody knows how much will come
    options.name = "memory of the sorter";
    return std::make_shared<BlockPool>(options);
  }

  RunStoreOptions store_options(const SorterOptions& options) const {
    RunStoreOptions result;
    result.folders = folders_;
    result.seed = options.seed;
    result.direct = options.caching != Caching::kBuffered;
    result.open_disk = [open_disk = options.open_disk, backend = options.backend,
                        folders = folders_](std::size_t index) {
      return open_sort_disk(open_disk, backend, folders[index]);
    };
    return result;
  }

  void expect(State state, const char* call) const {
    if (state_ == state) [[likely]]
      return;
    if (state_ == State::kFailed) {
      throw Error(ENOTRECOVERABLE, std::string(call) + " of a sorter that has failed");
    }
    throw Error(EINVAL,
                std::string(call) + (state_ == State::kSorted ? " of a sorter after its sort()"
                                                              : " of a sorter before its sort()"));
  }

  InputStreamBase& output() const {
    expect(State::kSorted, "reading");
    return reader_->stream();
  }

  void push_batch() {
    const std::size_t bytes = std::exchange(batched_, 0);
    take(batch_.data(), bytes / order_.record_bytes());
  }

  void take(const std::byte* records, std::uint64_t count) {
    state_ = State::kFailed;
    const std::size_t record_bytes = order_.record_bytes();
    const std::uint64_t most = std::max<std::uint64_t>(SortWatch::kNoteBytes / record_bytes, 1);
    while (count > 0) {
      const auto offered = static_cast<std::size_t>(std::min(count, most));
      std::size_t taken = 0;
      guarded([&] { taken = formation_->push(records, offered); }).throw_if_failed();
      records += taken * record_bytes;
      count -= taken;
      taken_ += taken;
      watch_.add(taken * record_bytes);
      if (taken < offered) form_run();
    }
    state_ = State::kPushing;
  }

  template <RecordOutput Output>
  void emit_to(Output& out) {
    guarded([&] { formation_->emit(out); }).throw_if_failed();
  }
  void form_run() {
    runs_.form(formation_->records() * order_.record_bytes(), [this](auto& out) {
      WatchedOutput to(out, order_.record_bytes(), watch_, Written::kIsCounted);
      this->emit_to(to);
    });
    counts_ = runs_.counts();
  }

  // Blocks for reading `runs` runs in the last merge, at least.
  std::size_t least_buffers(std::uint64_t runs) const {
    return least_read_buffers(plan_.request.prefetch, static_cast<std::uint32_t>(runs),
                              plan_.request.disks, plan_.block_bytes, order_.record_bytes());
  }
  // The pipeline from the merge to the reader: both windows, and a few blocks between them.
  std::size_t output_blocks(std::size_t between) const noexcept {
    return plan_.window_blocks + kComebackBlocks + between;
  }
  std::size_t most_output_blocks(std::size_t most) const noexcept {
    return std::min(most, output_blocks(std::clamp<std::size_t>(plan_.pool_blocks / 16, 1, 4)));
  }

  // The pipeline may take more blocks than the writer of a file does, so fewer runs may have to do.
  void reduce_runs() {
    std::uint64_t order = runs_.last_merge_order();
    while (order > 1 && least_buffers(order) + output_blocks(1) > plan_.pool_blocks) --order;
    runs_.reduce_to(order);
    counts_ = runs_.counts();
  }

  // Begins to write to the array what `emit` appends.
  template <typename Emit>
  void begin_output(std::size_t blocks, Emit emit) {
    const std::uint64_t bytes = taken_ * order_.record_bytes();
    watch_.begin(SortPhase::kWriting, bytes);
    PipelineOptions options;
    options.name = "sorted records";
    options.writer_comeback_blocks = plan_.window_blocks - 1;
    options.reader_comeback_blocks = kComebackBlocks;
    options.read_ahead_blocks = blocks - output_blocks(0);
    options.length_bytes = bytes;
    options.pool = pool_;
    pipeline_.emplace(options);
    reader_.emplace(pipeline_->reader());
    writer_.emplace(pipeline_->writer());
    if (!runs_.empty()) {
      ++counts_.merges;
      ++counts_.passes;
    }
    thread_.emplace([this, emit, bytes] { write_output(emit, bytes); });
  }

  // In the sorter's thread.
  template <typename Emit>
  void write_output(const Emit& emit, std::uint64_t bytes) noexcept {
    try {
      PointerOutput pointer(writer_->data(), order_.record_bytes());
      WatchedOutput to(pointer, order_.record_bytes(), watch_);
      emit(to);
      watch_.expect_going();
      writer_->finish(bytes);
    } catch (const std::exception& exception) {
      writer_->fail(errno_of(exception, ECANCELED), message_of(exception));
    } catch (...) {
      writer_->fail(ECANCELED, "the progress function of the sort has thrown");
    }
  }

  const O order_;
  SortWatch watch_;
  const std::vector<std::string> folders_;
  std::vector<std::byte> batch_;
  const SortPlan plan_;
  const std::shared_ptr<BlockPool> pool_;
  RunCollection<O> runs_;
  std::optional<StreamPool> buckets_;
  std::optional<RunFormation<O>> formation_;
  std::size_t batched_ = 0;  // bytes
  std::uint64_t taken_ = 0;  // records
  RunCounts counts_;
  State state_ = State::kPushing;
  std::optional<Pipeline<std::byte>> pipeline_;
  mutable std::optional<PipelineReader<std::byte>> reader_;
  std::optional<PipelineWriter<std::byte>> writer_;
  std::optional<FaultingThread> thread_;  // the first to go
};

}  // namespace vortex::inline v0
