#include "sort/job/sort_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "sort/job/sort_room.h"
#include "sort/runs/run_store.h"
#include "vortex/error.h"
#include "vortex/memory_limits.h"
#include "vortex/sort_disk.h"

namespace vortex::inline v0 {

SortFiles::SortFiles(const ExternalSortOptions& options, std::size_t record_bytes)
    : options_(options), folders_(options.resources.folders) {
  if (options.inputs.empty()) throw Error(EINVAL, "a sort needs an input");
  for (const std::string& path : options.inputs) {
    try {
      inputs_.push_back(std::make_unique<SortInput>(path, record_bytes));
    } catch (const Error& error) {
      if (error.code().value() != EMFILE) throw;
      throw Error(EMFILE, "'" + path + "' is input " + std::to_string(inputs_.size() + 1) + " of " +
                              std::to_string(options.inputs.size()) +
                              ", all of which are open at once: raise the limit (ulimit -n)");
    }
  }
  if (folders_.empty()) folders_.push_back(default_run_folder(options.output));
  for (const std::string& folder : folders_) file_system_of(folder);
}

std::optional<std::uint64_t> SortFiles::input_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& input : inputs_) {
    if (!input->length_bytes()) return std::nullopt;
    bytes += *input->length_bytes();
  }
  return bytes;
}

void SortFiles::expect_inputs_unchanged() const {
  for (const auto& input : inputs_) input->expect_unchanged();
}

void SortFiles::expect_known_lengths() const {
  for (const auto& input : inputs_) {
    if (input->length_bytes()) continue;
    throw Error(EINVAL,
                "'" + input->name() +
                    "' is no file, and merging sorted inputs needs to know how long they are");
  }
}

void SortFiles::open_output() {
  output_.emplace(options_.output);
  expect_no_overwriting();
  disk_ = open_sort_disk(options_.resources.open_disk, options_.resources.backend, "");
}

// What is written in place must not be read from there, too.
void SortFiles::expect_no_overwriting() const {
  if (output_->folder()) return;
  const struct stat& to = output_->identity();
  for (const auto& input : inputs_) {
    const struct stat& from = input->identity();
    const bool block_device = S_ISBLK(to.st_mode) && S_ISBLK(from.st_mode);
    const bool same_file = S_ISREG(to.st_mode) && S_ISREG(from.st_mode) &&
                           to.st_dev == from.st_dev && to.st_ino == from.st_ino;
    if ((block_device && to.st_rdev == from.st_rdev) || same_file) {
      throw Error(EINVAL, "'" + input->name() + "' is an input and would be overwritten as '" +
                              output_->name() + "'");
    }
  }
}

void SortFiles::expect_room(const SortPlan& plan, bool runs) const {
  const std::uint64_t bytes = *plan.request.bytes;
  if (runs) expect_room_for_runs(folders_, bytes + room_beside_runs(plan));
  output_->expect_room(bytes);
}

// What the output takes of the folders' room while the last merge gives that of the runs back.
std::uint64_t SortFiles::room_beside_runs(const SortPlan& plan) const {
  if (!output_->folder()) return 0;
  const dev_t of_output = file_system_of(*output_->folder());
  const auto elsewhere = [&](const std::string& folder) {
    return file_system_of(folder) != of_output;
  };
  if (std::any_of(folders_.begin(), folders_.end(), elsewhere)) return 0;
  if (!punches_holes(folders_.front())) return *plan.request.bytes;
  // The last block of a run is not full, and of each folder's slots one more is free.
  return *plan.request.bytes / RunStore::kPartFreedAtOnce +
         (plan.runs + folders_.size()) * plan.block_bytes;
}

FileReaderBase SortFiles::open_reader(std::size_t input, BlockPool& pool, FileReaderOptions options,
                                      std::uint64_t space_for_others) const {
  const std::uint64_t left = address_space_left();
  options.caching = options_.resources.caching;
  options.disk = disk_.get();
  options.pool = &pool;
  options.unknown_length_bytes =
      std::min(options_.most_pipe_bytes, left - std::min(left / 2, space_for_others));
  return inputs_[input]->open_reader(options);
}

FileWriterBase SortFiles::open_writer(BlockPool& pool, FileWriterOptions options,
                                      std::uint64_t most_bytes) {
  options.gaps = Gaps::kUnspecified;  // a sort writes every byte
  options.caching = options_.resources.caching;
  options.sync = true;
  options.reserve_bytes = (most_bytes / pool.block_bytes() + 1) * pool.block_bytes();
  options.least_reserve_bytes = options.reserve_bytes;
  options.disk = disk_.get();
  options.pool = &pool;
  return output_->open_writer(options);
}

}  // namespace vortex::inline v0
