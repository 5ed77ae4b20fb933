#include "vortex/external_sort.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/name/path_names.h"
#include "io/sequence/seeded_random.h"
#include "sort/job/sort_context.h"
#include "sort/job/sort_files.h"
#include "sort/job/sort_folders.h"
#include "sort/plan/memory_limits.h"
#include "sort/split/part_files.h"
#include "sort/split/partition_plan.h"
#include "sort/split/sample.h"
#include "sort/split/splitters.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kRecordsAtOnce = 1024;
// Room is reserved for so many blocks of a part at a time.
constexpr std::size_t kBlocksOfExtent = 8;

// The inputs, all open.
std::vector<std::unique_ptr<SortInput>> open_inputs(const std::vector<std::string>& paths,
                                                    std::size_t record_bytes) {
  if (paths.empty()) throw Error(EINVAL, "a partition needs an input");
  std::vector<std::unique_ptr<SortInput>> inputs;
  for (const std::string& path : paths) {
    inputs.push_back(std::make_unique<SortInput>(path, record_bytes));
  }
  return inputs;
}

std::size_t parts_of(const ExternalPartitionOptions& options, std::size_t record_bytes) {
  std::size_t parts = options.parts;
  if (const std::size_t bytes = options.splitters.size(); bytes != 0) {
    if (bytes % record_bytes != 0) {
      throw Error(EINVAL, "splitters of " + std::to_string(bytes) +
                              " bytes: they are whole records of " + std::to_string(record_bytes));
    }
    parts = bytes / record_bytes + 1;
    if (options.parts != 0 && options.parts != parts) {
      throw Error(EINVAL, std::to_string(parts - 1) + " splitters make " + std::to_string(parts) +
                              " parts, not " + std::to_string(options.parts));
    }
  }
  if (parts == 0 || parts > kMostParts) {
    throw Error(EINVAL, "a partition into " + std::to_string(parts) + " parts: from 1 to " +
                            std::to_string(kMostParts) + " there can be");
  }
  return parts;
}

std::vector<std::string> folders_of(const ExternalPartitionOptions& options) {
  if (options.prefix.empty() || options.prefix.back() == '/') {
    throw Error(EINVAL, "a partition needs a name that those of the parts begin with");
  }
  const std::vector<std::string>& folders = options.resources.folders;
  if (folders.empty()) return {folder_of(options.prefix)};
  if (options.prefix.find('/') == std::string::npos) return folders;
  throw Error(EINVAL, "the name '" + options.prefix +
                          "' of the parts has a folder, and folders are given, too");
}

// One partition. The options outlive it. What is wrong with them is told before it waits for memory
// or opens anything.
class Partition {
 public:
  Partition(const ExternalPartitionOptions& options, std::size_t record_bytes)
      : options_(options),
        record_bytes_(record_bytes),
        parts_(parts_of(options, record_bytes)),
        context_(options.resources, folders_of(options)),
        inputs_(open_inputs(options.inputs, record_bytes)),
        input_bytes_(length_of_inputs()) {
    for (const std::string& folder : context_.folders()) file_system_of(folder);
  }

  ExternalPartitionReport run_by(const RecordOrder& order);
  ExternalPartitionReport run_by(PartFunction& function);

 private:
  std::optional<std::uint64_t> length_of_inputs() const;
  void begin();
  PartFileOptions part_options() const;
  std::uint64_t extent_bytes() const;
  void open_parts();
  void open_disks();
  Splitters choose_splitters(const RecordOrder& order);
  ExternalPartitionReport divide(PartFunction& function);
  void read(std::size_t input, PartFunction& function);
  std::uint64_t append(const std::byte* records, std::uint64_t offset, std::uint64_t count,
                       PartFunction& function);
  void find(const std::byte* records, std::uint64_t offset, std::uint64_t count,
            PartFunction& function);
  std::size_t first_without_part() const noexcept;
  [[noreturn]] void refuse_part(std::uint64_t offset) const;
  void tell();

  const ExternalPartitionOptions& options_;
  const std::size_t record_bytes_;
  const std::size_t parts_;
  const std::uint64_t begin_ns_ = steady_now_ns();
  const double begin_cpu_ = process_cpu_seconds();
  SortContext context_;
  std::vector<std::unique_ptr<SortInput>> inputs_;
  const std::optional<std::uint64_t> input_bytes_;
  std::vector<std::unique_ptr<Disk>> disks_;  // of the inputs, and of each folder
  PartitionPlan plan_;
  std::optional<PartFiles> files_;
  const std::string* input_name_ = nullptr;  // that is being read
  std::array<std::uint32_t, kRecordsAtOnce> found_{};
  std::size_t next_ = 0;  // of the records whose parts are found, and how many these are
  std::size_t batch_ = 0;
  ExternalPartitionReport report_;
};

std::optional<std::uint64_t> Partition::length_of_inputs() const {
  std::uint64_t bytes = 0;
  for (const auto& input : inputs_) {
    if (!input->length_bytes()) return std::nullopt;
    bytes = detail::saturating_sum(bytes, *input->length_bytes());
  }
  return bytes;
}

void Partition::open_disks() {
  const SortResources& resources = context_.resources();
  const auto open = [&](const std::string& folder) {
    disks_.push_back(open_sort_disk(resources.open_disk, resources.backend, folder));
  };
  open("");
  for (const std::string& folder : resources.folders) open(folder);
}

void Partition::begin() {
  plan_ = plan_partition({.parts = parts_,
                          .record_bytes = record_bytes_,
                          .disks = context_.folders().size(),
                          .memory_bytes = context_.resources().memory_bytes,
                          .input_bytes = input_bytes_,
                          .block_bytes = options_.resources.block_bytes,
                          .request_cost_bytes = context_.request_cost(input_bytes_)});
  open_disks();
}

// Where the parts can take what the inputs have, and what is reserved beyond their ends, too.
std::uint64_t Partition::extent_bytes() const {
  const std::uint64_t extent = kBlocksOfExtent * plan_.block_bytes;
  if (!input_bytes_ || *input_bytes_ / parts_ < extent) return 0;
  for (const std::string& folder : context_.folders()) {
    const std::optional<std::uint64_t> room = free_bytes_in(folder);
    if (room && *room < *input_bytes_ + 2 * extent * parts_) return 0;
  }
  return extent;
}

PartFileOptions Partition::part_options() const {
  constexpr std::uint64_t kLeastBlocks = 4;
  // A new one waits for what is on its way of the part, and few systems refuse as much.
  constexpr std::uint64_t kMostSegmentBytes = std::uint64_t{1} << 30;
  const std::uint64_t block = plan_.block_bytes;
  const std::uint64_t share = std::min(address_space_left() / 4 / parts_, kMostSegmentBytes);
  std::uint64_t blocks = std::max(share / block, kLeastBlocks);
  if (input_bytes_) {
    blocks = std::min(blocks, detail::units_for(*input_bytes_, block) + 1);
  }
  PartFileOptions result;
  result.writer.comeback_blocks = 0;
  result.writer.write_behind = plan_.write_behind;
  result.writer.request_bytes = plan_.block_bytes;
  result.writer.caching = options_.resources.caching;
  result.writer.gaps = Gaps::kUnspecified;
  result.writer.pool = context_.pool().get();
  // The last block is handed over by a touch of the next.
  result.writer.reserve_bytes = (blocks + 1) * block;
  result.writer.least_reserve_bytes = result.writer.reserve_bytes;
  result.segment_bytes = blocks * block;
  result.extent_bytes = extent_bytes();
  result.stop = options_.resources.stop;
  return result;
}

void Partition::open_parts() {
  context_.keep(plan_.memory_bytes);
  context_.make_pool(plan_.block_bytes, plan_.pool_blocks, Warming::kBackground,
                     "memory of the partition");
  files_.emplace(record_bytes_, plan_.block_bytes, part_options());
  const std::vector<std::string>& folders = options_.resources.folders;
  const std::uint64_t first = mix_bits(options_.resources.seed);
  for (std::size_t i = 0; i < parts_; ++i) {
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), ".%05zu", i);
    std::string path = options_.prefix + number.data();
    std::size_t disk = 0;
    if (!folders.empty()) {
      const std::size_t folder = (first % folders.size() + i) % folders.size();
      path = folders[folder] + "/" + path;
      disk = 1 + folder;
    }
    files_->add(path, *disks_[disk], options_.resources.caching);
    report_.parts.push_back({.path = path});
  }
  files_->begin();
}

Splitters Partition::choose_splitters(const RecordOrder& order) {
  if (!options_.splitters.empty()) return {order, options_.splitters};
  for (const auto& input : inputs_) {
    if (input->length_bytes()) continue;
    throw Error(EINVAL, "'" + input->name() +
                            "' is no file, and splitters are found by a sample of files: give "
                            "splitters, or a file");
  }
  SampledSplitters sampled = sample_splitters({.inputs = inputs_,
                                               .order = order,
                                               .parts = options_.parts,
                                               .divide_equal_keys = options_.divide_equal_keys,
                                               .memory_bytes = context_.resources().memory_bytes,
                                               .resources = options_.resources,
                                               .disk = disks_.front().get()});
  report_.sampled_records = sampled.sampled;
  return {order, std::move(sampled.records), std::move(sampled.divided)};
}

ExternalPartitionReport Partition::run_by(const RecordOrder& order) {
  begin();
  context_.watch().begin(SortPhase::kReading, input_bytes_);
  Splitters splitters = choose_splitters(order);
  return divide(splitters);
}

ExternalPartitionReport Partition::run_by(PartFunction& function) {
  begin();
  context_.watch().begin(SortPhase::kReading, input_bytes_);
  return divide(function);
}

ExternalPartitionReport Partition::divide(PartFunction& function) {
  open_parts();
  for (std::size_t i = 0; i < inputs_.size(); ++i) read(i, function);
  context_.watch().expect_going();
  for (const auto& input : inputs_) input->expect_unchanged();
  files_->publish(options_.resources.sync);
  tell();
  return std::move(report_);
}

void Partition::read(std::size_t index, PartFunction& function) {
  SortInput& input = *inputs_[index];
  input_name_ = &input.name();
  FileReaderOptions options;
  options.order = ReadOrder::kForward;
  options.comeback_blocks = plan_.comeback_blocks;
  options.read_ahead = plan_.read_ahead;
  options.request_bytes = plan_.block_bytes;
  options.caching = options_.resources.caching;
  options.disk = disks_.front().get();
  options.pool = context_.pool().get();
  options.unknown_length_bytes = std::min(options_.most_pipe_bytes, address_space_left() / 2);
  FileReaderBase reader = input.open_reader(options);
  const StreamStop stop(reader.stream(), options_.resources.stop);
  std::uint64_t done = 0;
  std::uint64_t readable = 0;
  for (;;) {
    guarded([&] { readable = readable_bytes(reader, readable); }).throw_if_failed();
    while (readable - done >= record_bytes_) {
      const std::uint64_t records = (readable - done) / record_bytes_;
      done += append(reader.bytes() + done, done, records, function) * record_bytes_;
    }
    const auto length = reader.length_bytes();
    if (length && *length - done < record_bytes_) break;
  }
  if (*reader.length_bytes() != done) input.refuse_length(*reader.length_bytes());
  report_.bytes += done;
  report_.faults += reader.stream().statistics().faults;
}

// The parts of the next records, which lie in one block of the input, or of one that lies in
// several: what is touched stays in its window until all of them have been appended.
void Partition::find(const std::byte* records, std::uint64_t offset, std::uint64_t count,
                     PartFunction& function) {
  const std::uint64_t in_block = (plan_.block_bytes - offset % plan_.block_bytes) / record_bytes_;
  const auto few = static_cast<std::size_t>(
      std::min<std::uint64_t>(std::clamp<std::uint64_t>(in_block, 1, kRecordsAtOnce), count));
  function.find(records, few, found_.data());
  next_ = 0;
  batch_ = few;
}

// Of `count` records, from byte `offset` of the input on, some for a report of progress. Each is
// given to the function once.
std::uint64_t Partition::append(const std::byte* records, std::uint64_t offset, std::uint64_t count,
                                PartFunction& function) {
  const std::uint64_t most =
      std::min(count, std::max<std::uint64_t>(SortWatch::kNoteBytes / record_bytes_, 1));
  std::uint64_t done = 0;
  std::size_t wrong = kRecordsAtOnce;
  guarded([&] {
    while (done < most) {
      const std::byte* const from = records + done * record_bytes_;
      if (next_ == batch_) {
        find(from, offset + done * record_bytes_, most - done, function);
        wrong = first_without_part();
        if (wrong != kRecordsAtOnce) break;
      }
      const std::size_t appended = files_->append(from, batch_ - next_, found_.data() + next_);
      next_ += appended;
      done += appended;
      if (next_ != batch_) break;
    }
  }).throw_if_failed();
  if (wrong != kRecordsAtOnce) refuse_part(offset + (done + wrong) * record_bytes_);
  if (next_ != batch_) files_->extend();
  context_.watch().add(done * record_bytes_);
  return done;
}

std::size_t Partition::first_without_part() const noexcept {
  const auto end = found_.begin() + static_cast<std::ptrdiff_t>(batch_);
  if (*std::max_element(found_.begin(), end) < files_->size()) return kRecordsAtOnce;
  const auto wrong = std::find_if(found_.begin(), end,
                                  [this](std::uint32_t part) { return part >= files_->size(); });
  return static_cast<std::size_t>(wrong - found_.begin());
}

void Partition::refuse_part(std::uint64_t offset) const {
  throw Error(EINVAL, "the record at offset " + std::to_string(offset) + " of '" + *input_name_ +
                          "' belongs to none of the " + std::to_string(files_->size()) +
                          " parts, as the function says");
}

void Partition::tell() {
  for (std::size_t i = 0; i < files_->size(); ++i) {
    report_.parts[i].bytes = files_->bytes(i);
    report_.parts[i].records = files_->bytes(i) / record_bytes_;
  }
  report_.records = report_.bytes / record_bytes_;
  report_.block_bytes = plan_.block_bytes;
  report_.pool_blocks = plan_.pool_blocks;
  report_.faults += files_->faults();
  for (const auto& disk : disks_) {
    const DiskStatistics statistics = disk->statistics();
    report_.read_bytes += statistics.read_bytes;
    report_.written_bytes += statistics.written_bytes;
  }
  report_.cpu_seconds = process_cpu_seconds() - begin_cpu_;
  report_.seconds = seconds_since(begin_ns_);
}

std::shared_ptr<const RecordOrder> order_of(const ExternalPartitionOptions& options,
                                            std::shared_ptr<const RecordOrder> order) {
  if ((order != nullptr) == options.format.has_value()) {
    throw Error(EINVAL, "a partition by keys needs a record format or an order, and not both");
  }
  return order ? order : order_of_format(*options.format);
}

}  // namespace

ExternalPartitionReport external_partition(const ExternalPartitionOptions& options,
                                           std::shared_ptr<const RecordOrder> order) {
  const std::shared_ptr<const RecordOrder> by = order_of(options, std::move(order));
  if (options.divide_equal_keys && !options.splitters.empty()) {
    throw Error(EINVAL, "equal keys are divided by a sample, and splitters are given");
  }
  return Partition(options, by->record_bytes()).run_by(*by);
}

ExternalPartitionReport external_partition_by(const ExternalPartitionOptions& options,
                                              std::size_t record_bytes, PartFunction& function) {
  if (options.format) {
    throw Error(EINVAL, "a partition by a function has a record format, too: which counts?");
  }
  if (!options.splitters.empty() || options.divide_equal_keys) {
    throw Error(EINVAL, "a partition by a function has neither splitters nor keys to divide");
  }
  if (record_bytes == 0) throw Error(EINVAL, "a partition needs records of at least one byte");
  return Partition(options, record_bytes).run_by(function);
}

}}  // namespace vortex::v0
