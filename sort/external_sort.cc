#include "sort/external_sort.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "io/file_reader.h"
#include "io/file_writer.h"
#include "sort/forecast_keys.h"
#include "sort/loser_tree.h"
#include "sort/merge_buffers.h"
#include "sort/record_order.h"
#include "sort/run_formation.h"
#include "sort/run_merge.h"
#include "sort/run_store.h"
#include "sort/run_writer.h"
#include "sort/sort_input.h"
#include "sort/sort_output.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/stream_pool.h"

namespace vortex {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kNoteBytes = std::uint64_t{1} << 20;  // between two progress reports

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Tells how far the sort is, and ends it when that is asked for.
class Watch {
 public:
  explicit Watch(const ExternalSortOptions& options)
      : stop_(options.stop),
        progress_(options.progress),
        stopped_(options.stop, [this] { flag_.store(true, std::memory_order_relaxed); }) {}

  void begin(SortPhase phase, std::optional<std::uint64_t> phase_bytes) {
    now_ = {.phase = phase, .bytes = 0, .phase_bytes = phase_bytes};
    reported_ = 0;
    report();
  }
  void add(std::uint64_t bytes) {
    now_.bytes += bytes;
    if (now_.bytes - reported_ >= kNoteBytes) report();
  }
  void expect_going() const {
    if (flag_.load(std::memory_order_relaxed)) throw Error(ECANCELED, "the sort was interrupted");
  }

  const std::stop_token& stop() const noexcept { return stop_; }
  const std::atomic<bool>& flag() const noexcept { return flag_; }

 private:
  void report() {
    expect_going();
    reported_ = now_.bytes;
    if (progress_) progress_(now_);
  }

  std::stop_token stop_;
  const std::function<void(const SortProgress&)>& progress_;
  std::atomic<bool> flag_{false};
  SortProgress now_;
  std::uint64_t reported_ = 0;

  std::stop_callback<std::function<void()>> stopped_;
};

// A stream that a request to stop wakes.
class Stoppable {
 public:
  Stoppable(Stream& stream, const std::stop_token& stop)
      : stopped_(stop, [&stream] { stream.cancel(ECANCELED, "the sort was interrupted"); }) {}

 private:
  std::stop_callback<std::function<void()>> stopped_;
};

// Copies records to where a stream's plain pointer points.
class StreamOutput {
 public:
  StreamOutput(std::byte* to, std::size_t record_bytes) noexcept
      : to_(to), record_bytes_(record_bytes) {}

  void append(const std::byte* record) noexcept {
    std::memcpy(to_, record, record_bytes_);
    to_ += record_bytes_;
  }

 private:
  std::byte* to_;
  std::size_t record_bytes_;
};

// Passes records on and tells the watch.
template <RecordOutput Output>
class WatchedOutput {
 public:
  WatchedOutput(Output& out, std::size_t record_bytes, Watch& watch) noexcept
      : out_(out), record_bytes_(record_bytes), watch_(watch) {}

  void append(const std::byte* record) {
    out_.append(record);
    bytes_ += record_bytes_;
    if (bytes_ - noted_ < kNoteBytes) return;
    watch_.add(bytes_ - noted_);
    noted_ = bytes_;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  Output& out_;
  std::size_t record_bytes_;
  Watch& watch_;
  std::uint64_t bytes_ = 0;
  std::uint64_t noted_ = 0;
};

// Appends of records with equal keys, one behind the other, only the first; or all.
template <RecordOrder O, RecordOutput Output>
class FirstOfEqual {
 public:
  FirstOfEqual(const O& order, bool unique, Output& out)
      : order_(order), out_(out), last_(unique ? order.record_bytes() : 0) {}

  void append(const std::byte* record) {
    if (!last_.empty()) {
      if (appended_ != 0 && !order_.less(last_.data(), record)) return;
      std::memcpy(last_.data(), record, last_.size());
    }
    out_.append(record);
    ++appended_;
  }
  std::uint64_t appended() const noexcept { return appended_; }

 private:
  const O& order_;
  Output& out_;
  std::vector<std::byte> last_;  // empty: all are appended
  std::uint64_t appended_ = 0;
};

// What of an input can be read beyond `done` bytes. A pipe tells its length at its end: until then,
// each block that begins is whole. Touches the input, so call it inside guarded().
std::uint64_t readable_bytes(FileReaderBase& input, std::uint64_t done) {
  if (const auto length = input.length_bytes()) return *length;
  const std::uint64_t block_bytes = input.block_bytes();
  const std::uint64_t begin = (done + block_bytes - 1) / block_bytes * block_bytes;
  static_cast<void>(*static_cast<const volatile std::byte*>(input.bytes() + begin));
  return input.length_bytes().value_or(begin + block_bytes);
}

std::uint64_t free_bytes_in(const std::string& folder) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) throw Error(errno, "look at '" + folder + "'");
  return std::uint64_t{room.f_bavail} * room.f_frsize;
}

dev_t file_system_of(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) throw Error(errno, "look at '" + folder + "'");
  if (!S_ISDIR(status.st_mode)) throw Error(ENOTDIR, "keep runs in '" + folder + "'");
  return status.st_dev;
}

// A sort from the opened inputs to the opened output.
template <RecordOrder O>
class ExternalSort {
 public:
  ExternalSort(const ExternalSortOptions& options, O order)
      : options_(options), order_(std::move(order)), watch_(options) {
    if (options.inputs.empty()) throw Error(EINVAL, "a sort needs an input");
    for (const std::string& path : options.inputs) {
      inputs_.push_back(std::make_unique<SortInput>(path, order_.record_bytes()));
    }
    folders_ = options.folders;
    if (folders_.empty()) folders_.push_back(default_folder());
    for (const std::string& folder : folders_) file_system_of(folder);
    plan_ = make_plan();
  }

  const SortPlan& plan() const noexcept { return plan_; }

  ExternalSortReport run() {
    const auto begin = Clock::now();
    const double cpu_begin = thread_cpu_seconds();
    SortOutput output(options_.output);
    expect_no_overwriting(output);
    const bool in_memory = plan_.in_memory() && !options_.merge_inputs;
    if (in_memory && !options_.unique) output.reserve(*plan_.request.bytes);
    const bool direct_merge = options_.merge_inputs && inputs_.size() <= plan_.plain_merge_order();
    if (!in_memory && !direct_merge) expect_room(output);

    BlockPoolOptions for_pool;
    for_pool.block_bytes = plan_.block_bytes;
    for_pool.pool_bytes = plan_.pool_blocks * plan_.block_bytes;
    for_pool.warming = plan_.in_memory() ? Warming::kOnDemand : Warming::kBackground;
    for_pool.name = "memory of the sort";
    pool_.emplace(for_pool);
    disk_ = open_disk(options_.backend);
    if (!in_memory && !direct_merge) open_store();
    report_.plan = plan_;
    report_.record_bytes = order_.record_bytes();

    if (direct_merge) {
      merge_inputs_to(output);
    } else {
      options_.merge_inputs ? merge_inputs_to_runs() : form_runs(output);
      report_.run_formation_seconds = seconds_since(begin);
      if (report_.runs != 0) merge_runs_to(output);
    }
    count_io();
    report_.cpu_seconds = thread_cpu_seconds() - cpu_begin;
    report_.seconds = seconds_since(begin);
    report_.merge_seconds = report_.seconds - report_.run_formation_seconds;
    return report_;
  }

 private:
  void count_io() {
    const auto count = [this](const DiskStatistics& disk) {
      report_.read_bytes += disk.read_bytes;
      report_.written_bytes += disk.written_bytes;
    };
    count(disk_->statistics());
    if (store_) {
      for (const RunStoreDiskStatistics& part : store_->statistics()) count(part.disk);
    }
    const std::uint64_t in_runs = report_.runs == 0 ? 0 : report_.records_out;
    report_.least_io_bytes =
        (report_.records_in + report_.records_out + 2 * in_runs) * report_.record_bytes;
  }

  std::optional<std::uint64_t> input_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& input : inputs_) {
      if (!input->length_bytes()) return std::nullopt;
      bytes += *input->length_bytes();
    }
    return bytes;
  }

  std::string default_folder() const {
    struct stat target {};
    if (options_.output == "-") return ".";
    if (stat(options_.output.c_str(), &target) == 0 && !S_ISREG(target.st_mode)) return ".";
    return folder_of(followed_links(options_.output));
  }

  SortPlan make_plan() const {
    SortPlanRequest request;
    request.bytes = input_bytes();
    request.record_bytes = order_.record_bytes();
    request.forecast_bytes = ForecastKeys<O>(order_).bytes();
    request.memory_bytes = options_.memory_bytes;
    request.disks = static_cast<unsigned>(folders_.size());
    request.block_bytes = options_.block_bytes;
    request.prefetch = options_.prefetch;
    // Small inputs take little memory, however much they may take.
    constexpr std::uint64_t kLittle = std::uint64_t{16} << 20;
    if (request.bytes && *request.bytes < request.memory_bytes / 8) {
      SortPlanRequest smaller = request;
      smaller.memory_bytes = std::min(request.memory_bytes, std::max(4 * *request.bytes, kLittle));
      try {
        const SortPlan plan = plan_sort(smaller);
        if (plan.in_memory()) return plan;
      } catch (const Error&) {
        // Long records: the whole memory will do.
      }
    }
    return plan_sort(request);
  }

  // What is written in place must not be read from there, too.
  void expect_no_overwriting(const SortOutput& output) const {
    if (output.folder()) return;
    const struct stat& to = output.identity();
    for (const auto& input : inputs_) {
      const struct stat& from = input->identity();
      const bool block_device = S_ISBLK(to.st_mode) && S_ISBLK(from.st_mode);
      const bool same_file = S_ISREG(to.st_mode) && S_ISREG(from.st_mode) &&
                             to.st_dev == from.st_dev && to.st_ino == from.st_ino;
      if ((block_device && to.st_rdev == from.st_rdev) || same_file) {
        throw Error(EINVAL, "'" + input->name() + "' is an input and would be overwritten as '" +
                                output.name() + "'");
      }
    }
  }

  void expect_room(const SortOutput& output) const {
    if (!plan_.request.bytes) return;
    const std::uint64_t bytes = *plan_.request.bytes;
    struct Need {
      std::string folder;
      std::uint64_t bytes = 0;
    };
    std::map<dev_t, Need> needs;
    for (const std::string& folder : folders_) {
      Need& need = needs[file_system_of(folder)];
      need.folder = folder;
      need.bytes += bytes / folders_.size() + plan_.block_bytes;
    }
    // The last merge gives the room of the runs back as it takes it for the output.
    if (output.folder() && !options_.unique) {
      const dev_t file_system = file_system_of(*output.folder());
      if (!needs.contains(file_system)) needs[file_system] = {*output.folder(), bytes};
    }
    for (const auto& [file_system, need] : needs) {
      const std::uint64_t room = free_bytes_in(need.folder);
      if (room >= need.bytes) continue;
      throw Error(ENOSPC, "the file system of '" + need.folder + "' has " + format_bytes(room) +
                              " left, and the sort needs at least " + format_bytes(need.bytes) +
                              " there");
    }
  }

  static std::unique_ptr<Disk> open_disk(DiskBackend backend) {
    OpenDiskOptions for_disk;
    for_disk.backend = backend;
    return vortex::open_disk(for_disk);
  }

  void open_store() {
    RunStoreOptions for_store;
    for_store.folders = folders_;
    for_store.seed = options_.seed;
    for_store.open_disk = [backend = options_.backend](std::size_t) { return open_disk(backend); };
    store_.emplace(*pool_, std::move(for_store));
  }
  RunStore& store() {
    if (!store_) open_store();
    return *store_;
  }

  FileReaderBase open_reader(SortInput& input, std::size_t read_ahead, std::size_t request_bytes) {
    FileReaderOptions for_reader;
    for_reader.comeback_blocks = plan_.window_blocks - 1;
    for_reader.read_ahead = read_ahead;
    for_reader.request_bytes = request_bytes;
    for_reader.disk = disk_.get();
    for_reader.pool = &*pool_;
    return input.open_reader(for_reader);
  }

  FileWriterBase open_writer(SortOutput& output, std::size_t write_behind,
                             std::size_t request_bytes) {
    FileWriterOptions for_writer;
    for_writer.comeback_blocks = plan_.window_blocks - 1;
    for_writer.write_behind = write_behind;
    for_writer.request_bytes = request_bytes;
    for_writer.sync = true;
    for_writer.disk = disk_.get();
    for_writer.pool = &*pool_;
    return output.open_writer(for_writer);
  }

  std::size_t blocks_of(std::size_t requests, std::size_t request_bytes) const noexcept {
    return requests * std::max<std::size_t>(request_bytes / plan_.block_bytes, 1);
  }

  // `write` is called with a RecordOutput that writes to the output; what it wrote appears.
  template <typename Write>
  void write_output(SortOutput& output, std::size_t write_behind, std::size_t request_bytes,
                    Write write) {
    FileWriterBase writer = open_writer(output, write_behind, request_bytes);
    const Stoppable stoppable(writer.stream(), watch_.stop());
    StreamOutput stream(writer.bytes(), order_.record_bytes());
    WatchedOutput to(stream, order_.record_bytes(), watch_);
    write(to);
    watch_.expect_going();
    for (const auto& input : inputs_) input->expect_unchanged();
    report_.records_out = to.bytes() / order_.record_bytes();
    writer.finish_bytes(to.bytes());
  }

  // `write` is called with a RecordOutput that writes to a new run.
  template <typename Write>
  void write_run(std::size_t write_behind_blocks, Write write) {
    RunWriter<O> writer(order_, store(), write_behind_blocks);
    write(writer);
    Run run = writer.finish();
    report_.run_bytes += run.bytes;
    runs_.push_back(std::move(run));
  }

  void form_runs(SortOutput& output) {
    watch_.begin(SortPhase::kReading, plan_.request.bytes);
    StreamPool buckets(*pool_, plan_.bucket_blocks, "buckets");
    RunFormation<O> formation(order_, buckets,
                              {.buckets = plan_.buckets, .scratch_bytes = plan_.scratch_bytes});
    const auto emit_to = [&](auto& out) {
      FirstOfEqual first(order_, options_.unique, out);
      guarded([&] { formation.emit(first); }).throw_if_failed();
    };
    const auto emit_run = [&] {
      write_run(blocks_of(plan_.write_behind, plan_.request_bytes), emit_to);
      ++report_.runs;
    };
    for (const auto& input : inputs_) push_all(*input, formation, emit_run);
    if (runs_.empty()) {
      watch_.begin(SortPhase::kWriting, report_.records_in * order_.record_bytes());
      write_output(output, plan_.write_behind, plan_.request_bytes, emit_to);
    } else if (formation.records() != 0) {
      emit_run();
    }
  }

  template <typename EmitRun>
  void push_all(SortInput& input, RunFormation<O>& formation, const EmitRun& emit_run) {
    FileReaderBase reader = open_reader(input, plan_.read_ahead, plan_.request_bytes);
    const Stoppable stoppable(reader.stream(), watch_.stop());
    const std::size_t record_bytes = order_.record_bytes();
    const std::uint64_t batch = std::max<std::uint64_t>(kNoteBytes / record_bytes, 1);
    std::uint64_t done = 0;
    for (;;) {
      std::uint64_t offered = 0;
      std::size_t taken = 0;
      guarded([&] {
        offered = std::min(batch, (readable_bytes(reader, done) - done) / record_bytes);
        taken = formation.push(reader.bytes() + done, offered);
      }).throw_if_failed();
      done += taken * record_bytes;
      report_.records_in += taken;
      watch_.add(taken * record_bytes);
      const auto length = reader.length_bytes();
      if (taken == offered && length && *length - done < record_bytes) break;
      if (taken < offered) emit_run();
    }
    if (*reader.length_bytes() != done) input.refuse_length(*reader.length_bytes());
  }

  // Merges the inputs [first, last), which are sorted files, through their plain pointers.
  template <RecordOutput Output>
  void merge_inputs(std::size_t first, std::size_t last, Output& out) {
    std::vector<std::unique_ptr<FileReaderBase>> readers;
    std::vector<std::unique_ptr<Stoppable>> stoppables;
    std::vector<MergeInput> sequences;
    for (std::size_t i = first; i < last; ++i) {
      SortInput& input = *inputs_[i];
      if (!input.length_bytes()) {
        throw Error(EINVAL, "'" + input.name() +
                                "' is no file, and merging (-m) needs to know how long its inputs "
                                "are");
      }
      const std::uint64_t records = *input.length_bytes() / order_.record_bytes();
      if (records == 0) continue;
      readers.push_back(std::make_unique<FileReaderBase>(
          open_reader(input, SortPlan::kPlainReadAhead, plan_.block_bytes)));
      stoppables.push_back(std::make_unique<Stoppable>(readers.back()->stream(), watch_.stop()));
      sequences.push_back({readers.back()->bytes(), records});
      report_.records_in += records;
    }
    LoserTree<O> tree(order_, sequences);
    FirstOfEqual unique(order_, options_.unique, out);
    guarded([&] {
      for (tree.start(); !tree.empty(); tree.advance()) unique.append(tree.winner());
    }).throw_if_failed();
    ++report_.merges;
  }

  void merge_inputs_to(SortOutput& output) {
    watch_.begin(SortPhase::kWriting, plan_.request.bytes);
    report_.passes = 1;
    write_output(output, 2, plan_.block_bytes,
                 [&](auto& out) { merge_inputs(0, inputs_.size(), out); });
  }

  void merge_inputs_to_runs() {
    watch_.begin(SortPhase::kMerging, plan_.request.bytes);
    const std::uint64_t order = plan_.plain_merge_order();
    if (order < 2) {
      throw Error(ENOMEM, "merging with " + format_bytes(options_.memory_bytes) +
                              " of memory: no two inputs fit; raise it");
    }
    for (std::size_t first = 0; first < inputs_.size(); first += order) {
      const std::size_t last = std::min<std::size_t>(first + order, inputs_.size());
      write_run(2, [&](auto& out) {
        WatchedOutput watched(out, order_.record_bytes(), watch_);
        merge_inputs(first, last, watched);
      });
      ++report_.runs;
    }
    report_.passes = 1;
  }

  template <RecordOutput Output>
  void merge(std::vector<Run> runs, Output& out, std::size_t read_buffers, bool last) {
    RunMergeOptions for_merge;
    for_merge.kind = options_.prefetch;
    for_merge.read_buffers = read_buffers;
    for_merge.unique = options_.unique;
    for_merge.punch_holes = last;
    for_merge.cancelled = &watch_.flag();
    vortex::merge_runs(order_, store(), std::move(runs), out, for_merge);
    ++report_.merges;
  }

  // Neighbouring runs only, so that equal records stay in the order of the inputs.
  void merge_runs_to(SortOutput& output) {
    const std::uint64_t largest = plan_.largest_merge_order();
    if (largest < 2 && runs_.size() > 1) {
      throw Error(ENOMEM, "merging with " + format_bytes(options_.memory_bytes) +
                              " of memory: no two runs fit; raise it");
    }
    const std::uint64_t order = runs_.size() > 1 ? smallest_merge_order(runs_.size(), largest) : 1;
    while (runs_.size() > order) {
      watch_.begin(SortPhase::kMerging, total_run_bytes());
      merge_once(order);
      ++report_.passes;
    }
    watch_.begin(SortPhase::kWriting, total_run_bytes());
    const MergeBuffers buffers = plan_.merge_buffers(runs_.size());
    write_output(output, buffers.write_behind, buffers.request_bytes,
                 [&](auto& out) { merge(std::move(runs_), out, buffers.read_buffers, true); });
    ++report_.passes;
  }

  void merge_once(std::uint64_t order) {
    std::vector<Run> before = std::move(runs_);
    runs_.clear();
    for (std::size_t first = 0; first < before.size(); first += order) {
      watch_.expect_going();
      std::vector<Run> group;
      const std::size_t last = std::min<std::size_t>(first + order, before.size());
      for (std::size_t i = first; i < last; ++i) group.push_back(std::move(before[i]));
      if (group.size() == 1) {
        runs_.push_back(std::move(group.front()));
        continue;
      }
      const MergeBuffers buffers = plan_.merge_buffers(group.size());
      write_run(blocks_of(buffers.write_behind, buffers.request_bytes), [&](auto& out) {
        WatchedOutput watched(out, order_.record_bytes(), watch_);
        merge(std::move(group), watched, buffers.read_buffers, false);
      });
    }
  }

  std::uint64_t total_run_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const Run& run : runs_) bytes += run.bytes;
    return bytes;
  }

  const ExternalSortOptions& options_;
  const O order_;
  Watch watch_;
  std::vector<std::unique_ptr<SortInput>> inputs_;
  std::vector<std::string> folders_;
  SortPlan plan_;
  std::optional<BlockPool> pool_;
  std::unique_ptr<Disk> disk_;  // of the inputs and the output
  std::optional<RunStore> store_;
  std::vector<Run> runs_;
  ExternalSortReport report_;
};

}  // namespace

std::string_view to_string(SortPhase phase) noexcept {
  switch (phase) {
    case SortPhase::kReading:
      return "reading";
    case SortPhase::kMerging:
      return "merging";
    case SortPhase::kWriting:
      return "writing";
  }
  return "";
}

SortPlan plan_external_sort(const ExternalSortOptions& options) {
  return ExternalSort(options, FormatOrder(options.format)).plan();
}

ExternalSortReport external_sort(const ExternalSortOptions& options) {
  return ExternalSort(options, FormatOrder(options.format)).run();
}

}  // namespace vortex
