// A sort from files to a file.
#pragma once

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sort/job/file_plan.h"
#include "sort/job/sort_files.h"
#include "sort/merge/loser_tree.h"
#include "sort/merge/run_collection.h"
#include "sort/record/first_of_equal.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/pointer_output.h"
#include "sort/record/record_order.h"
#include "sort/runs/run_formation.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/external_sort_options.h"
#include "vortex/guarded.h"
#include "vortex/memory_limits.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

// external_sort() by any order of records: opens and plans when it is made, and sorts once. The
// options outlive it. Throws as external_sort() does.
template <RecordOrder O>
class FileSort {
 public:
  FileSort(const ExternalSortOptions& options, O order)
      : options_(options),
        order_(std::move(order)),
        record_bytes_(order_.record_bytes()),
        watch_(options.stop, options.progress),
        files_(options, record_bytes_),
        plan_(make_plan()) {}
  FileSort(const FileSort&) = delete;
  FileSort& operator=(const FileSort&) = delete;

  const SortPlan& plan() const noexcept { return plan_; }

  ExternalSortReport run() {
    const auto begin = Clock::now();
    const double cpu_begin = thread_cpu_seconds();
    files_.open_output();
    const bool direct_merge = options_.merge_inputs && plan_.runs <= 1;
    const bool needs_runs = !plan_.in_memory() && !direct_merge;
    // How much is left of what need not be unique is known.
    if (plan_.request.bytes && !options_.unique) {
      files_.expect_room(plan_, needs_runs);
      if (!needs_runs) files_.reserve_output(*plan_.request.bytes);
    }

    BlockPoolOptions for_pool;
    for_pool.block_bytes = plan_.block_bytes;
    for_pool.pool_bytes = plan_.pool_blocks * plan_.block_bytes;
    for_pool.warming = plan_.in_memory() ? Warming::kOnDemand : Warming::kBackground;
    for_pool.name = "memory of the sort";
    pool_.emplace(for_pool);
    runs_.emplace(order_, plan_, *pool_, watch_, store_options(), options_.unique);
    // What is wrong with the folders shows now. But a pipe may hold so little that no run is
    // written.
    if (needs_runs && plan_.request.bytes) runs_->open();
    report_.plan = plan_;
    report_.record_bytes = record_bytes_;

    if (direct_merge) {
      merge_inputs_to_output();
    } else {
      options_.merge_inputs ? merge_inputs_to_runs() : form_runs();
      report_.run_formation_seconds = seconds_since(begin);
      if (!runs_->empty()) merge_runs_to_output();
    }
    report_.runs = runs_->counts().runs;
    report_.merges = runs_->counts().merges;
    report_.passes = runs_->counts().passes;
    report_.run_bytes = runs_->counts().bytes;
    count_io();
    report_.cpu_seconds = thread_cpu_seconds() - cpu_begin;
    report_.seconds = seconds_since(begin);
    report_.merge_seconds = report_.seconds - report_.run_formation_seconds;
    return report_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  static double thread_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  SortPlan make_plan() const {
    SortPlanRequest request;
    request.bytes = files_.input_bytes();
    request.record_bytes = record_bytes_;
    request.forecast_bytes = ForecastKeys<O>(order_).bytes();
    request.memory_bytes = options_.memory_bytes;
    request.disks = static_cast<unsigned>(files_.folders().size());
    request.block_bytes = options_.block_bytes;
    request.prefetch = options_.prefetch;
    // Inputs and output have a disk of their own.
    limit_to_process(request, options_.backend, request.disks + 1);
    if (!options_.merge_inputs) return plan_thriftily(request);
    files_.expect_known_lengths();
    return plan_input_merge(request, files_.inputs());
  }

  RunStoreOptions store_options() const {
    RunStoreOptions result;
    result.folders = files_.folders();
    result.seed = options_.seed;
    result.direct = options_.caching != Caching::kBuffered;
    result.open_disk = [this](std::size_t index) {
      return open_sort_disk(options_.open_disk, options_.backend, files_.folders()[index]);
    };
    return result;
  }

  void count_io() {
    const auto count = [this](const DiskStatistics& disk) {
      report_.read_bytes += disk.read_bytes;
      report_.written_bytes += disk.written_bytes;
    };
    count(files_.disk_statistics());
    for (const RunStoreDiskStatistics& part : runs_->disks()) count(part.disk);
    const std::uint64_t in_runs = report_.runs == 0 ? 0 : report_.records_out;
    report_.least_io_bytes =
        (report_.records_in + report_.records_out + 2 * in_runs) * report_.record_bytes;
  }

  // `write` is called with a RecordOutput that writes to the output, `most_bytes` at most; what it
  // wrote appears.
  template <typename Write>
  void write_output(const FileWriterOptions& options, std::uint64_t most_bytes, Write write) {
    FileWriterBase writer = files_.open_writer(*pool_, options, most_bytes);
    const StreamStop stop(writer.stream(), watch_.stop());
    PointerOutput pointer(writer.bytes(), record_bytes_);
    WatchedOutput to(pointer, record_bytes_, watch_);
    write(to);
    watch_.expect_going();
    files_.expect_inputs_unchanged();
    report_.records_out = to.bytes() / record_bytes_;
    writer.finish_bytes(to.bytes());
  }

  void form_runs() {
    watch_.begin(SortPhase::kReading, plan_.request.bytes);
    StreamPool buckets(*pool_, plan_.bucket_blocks, "buckets");
    std::optional<RunFormation<O>> made;
    make_run_formation(made, order_, buckets, plan_.formation);
    RunFormation<O>& formation = *made;
    const auto emit_to = [&](auto& out) {
      FirstOfEqual first(order_, options_.unique, out);
      guarded([&] { formation.emit(first); }).throw_if_failed();
    };
    const auto emit_run = [&] {
      runs_->form(formation.records() * record_bytes_, [&](auto& out) {
        WatchedOutput to(out, record_bytes_, watch_, Written::kIsCounted);
        emit_to(to);
      });
    };
    for (std::size_t i = 0; i < files_.inputs(); ++i) push_all(i, formation, emit_run);
    if (runs_->empty()) {
      watch_.begin(SortPhase::kWriting, report_.records_in * record_bytes_);
      write_output(plan_.writer, report_.records_in * record_bytes_, emit_to);
    } else if (formation.records() != 0) {
      emit_run();
    }
  }

  template <typename EmitRun>
  void push_all(std::size_t index, RunFormation<O>& formation, const EmitRun& emit_run) {
    FileReaderBase reader =
        files_.open_reader(index, *pool_, plan_.reader, plan_.space_beside_input_bytes());
    const StreamStop stop(reader.stream(), watch_.stop());
    const std::uint64_t batch = std::max<std::uint64_t>(SortWatch::kNoteBytes / record_bytes_, 1);
    std::uint64_t done = 0;
    std::uint64_t readable = 0;
    for (;;) {
      std::uint64_t offered = 0;
      std::size_t taken = 0;
      guarded([&] {
        if (readable - done < record_bytes_) readable = readable_bytes(reader, readable);
        offered = std::min(batch, (readable - done) / record_bytes_);
        taken = formation.push(reader.bytes() + done, offered);
      }).throw_if_failed();
      done += taken * record_bytes_;
      report_.records_in += taken;
      watch_.add(taken * record_bytes_);
      const auto length = reader.length_bytes();
      if (taken == offered && length && *length - done < record_bytes_) break;
      if (taken < offered) emit_run();
    }
    if (*reader.length_bytes() != done) files_.input(index).refuse_length(*reader.length_bytes());
  }

  // Up to where an input can be read, more than `done` unless it has ended; `known` is what was
  // found out before. A pipe tells its length at its end: until then, each block that begins is
  // whole. Touches the block behind `known`, so call it inside guarded(), and only when all before
  // that block has been used.
  static std::uint64_t readable_bytes(FileReaderBase& input, std::uint64_t known) {
    if (const auto length = input.length_bytes()) return *length;
    const std::uint64_t reserved = input.stream().reserved_bytes();
    if (reserved - known < input.block_bytes()) refuse_length_of_pipe(input, reserved);
    static_cast<void>(*static_cast<const volatile std::byte*>(input.bytes() + known));
    return input.length_bytes().value_or(known + input.block_bytes());
  }

  [[noreturn]] static void refuse_length_of_pipe(FileReaderBase& input, std::uint64_t reserved) {
    throw Error(EFBIG, "'" + input.stream().name() + "' is longer than the " +
                           format_bytes(reserved) +
                           " of address space that there are for what does not tell its length: "
                           "sort a file");
  }

  // Merges the inputs [first, last), which are sorted files, through their plain pointers.
  template <RecordOutput Output>
  void merge_inputs(std::size_t first, std::size_t last, Output& out) {
    std::vector<std::unique_ptr<FileReaderBase>> readers;
    std::vector<std::unique_ptr<StreamStop>> stops;
    std::vector<MergeInput> sequences;
    std::vector<std::size_t> names;  // of the sequences
    for (std::size_t i = first; i < last; ++i) {
      const SortInput& input = files_.input(i);
      const std::uint64_t records = *input.length_bytes() / record_bytes_;
      if (records == 0) continue;
      readers.push_back(
          std::make_unique<FileReaderBase>(files_.open_reader(i, *pool_, plan_.reader, 0)));
      stops.push_back(std::make_unique<StreamStop>(readers.back()->stream(), watch_.stop()));
      sequences.push_back({readers.back()->bytes(), records});
      names.push_back(i);
      report_.records_in += records;
    }
    LoserTree<O> tree(order_, sequences);
    FirstOfEqual unique(order_, options_.unique, out);
    // A record that comes before the one that was appended last was no head then, or it would have
    // won: it follows that one in the same input. So what is not sorted shows here, and nowhere
    // else.
    std::vector<std::byte> previous(record_bytes_);
    std::size_t previous_input = sequences.size();
    std::optional<std::pair<std::size_t, const std::byte*>> out_of_order;
    guarded([&] {
      for (tree.start(); !tree.empty(); tree.advance()) {
        const std::byte* const record = tree.winner();
        const std::size_t input = tree.winner_input();
        if (input == previous_input && order_.less(record, previous.data())) {
          out_of_order = {input, record};
          return;
        }
        std::memcpy(previous.data(), record, record_bytes_);
        previous_input = input;
        unique.append(record);
      }
    }).throw_if_failed();
    if (out_of_order) {
      const auto& [input, record] = *out_of_order;
      const auto offset = static_cast<std::uint64_t>(record - sequences[input].begin);
      throw Error(EINVAL, "'" + files_.input(names[input]).name() + "' is not sorted: record " +
                              std::to_string(offset / record_bytes_) + ", at offset " +
                              std::to_string(offset) +
                              ", comes before the one in front of it; only sorted inputs can be "
                              "merged");
    }
  }

  void merge_inputs_to_output() {
    watch_.begin(SortPhase::kWriting, plan_.request.bytes);
    write_output(plan_.writer, plan_.request.bytes.value_or(0),
                 [&](auto& out) { merge_inputs(0, files_.inputs(), out); });
    runs_->count_merge_of_inputs(1);
  }

  void merge_inputs_to_runs() {
    watch_.begin(SortPhase::kMerging, plan_.request.bytes);
    const std::uint64_t order = plan_.plain_merge_order();
    unsigned merges = 0;
    for (std::size_t first = 0; first < files_.inputs(); first += order) {
      const std::size_t last = std::min<std::size_t>(first + order, files_.inputs());
      std::uint64_t bytes = 0;
      for (std::size_t i = first; i < last; ++i)
        bytes += files_.input(i).length_bytes().value_or(0);
      runs_->form(bytes, [&](auto& out) {
        WatchedOutput watched(out, record_bytes_, watch_);
        merge_inputs(first, last, watched);
      });
      ++merges;
    }
    runs_->count_merge_of_inputs(merges);
  }

  void merge_runs_to_output() {
    runs_->reduce_to(runs_->last_merge_order());
    watch_.begin(SortPhase::kWriting, runs_->bytes());
    const MergeBuffers buffers = plan_.merge_buffers(runs_->size());
    write_output(buffers.writer, runs_->bytes(),
                 [&](auto& out) { runs_->merge_all(out, buffers.read_buffers); });
  }

  const ExternalSortOptions& options_;
  const O order_;
  const std::size_t record_bytes_;
  SortWatch watch_;
  SortFiles files_;
  const SortPlan plan_;
  std::optional<BlockPool> pool_;
  std::optional<RunCollection<O>> runs_;
  ExternalSortReport report_;
};

}  // namespace vortex::inline v0
