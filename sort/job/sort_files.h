// The files of a sort: inputs to be read, the output to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "sort/job/sort_input.h"
#include "sort/job/sort_output.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort_options.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/sort_plan.h"

namespace vortex::inline v0 {

// Inputs and folders, open and looked at from construction on. The options outlive it.
class SortFiles {
 public:
  // Throws Error: EINVAL without inputs, and what SortInput and file_system_of() say.
  SortFiles(const ExternalSortOptions& options, std::size_t record_bytes);

  std::size_t inputs() const noexcept { return inputs_.size(); }
  SortInput& input(std::size_t index) const noexcept { return *inputs_[index]; }
  // Of all inputs; none when one of them is a pipe.
  std::optional<std::uint64_t> input_bytes() const;
  void expect_inputs_unchanged() const;
  // Throws Error(EINVAL) that names a pipe.
  void expect_known_lengths() const;

  // For runs.
  const std::vector<std::string>& folders() const noexcept { return folders_; }

  // Opens the output and the disk. Throws Error: EINVAL when an input would be overwritten before
  // it has been read, and what SortOutput and disks say.
  void open_output();
  // For as much output as there is input, whose length the plan knows, and as many runs if there
  // will be any. Throws Error(ENOSPC).
  void expect_room(const SortPlan& plan, bool runs) const;
  // Where no room is given back meanwhile. Throws Error(ENOSPC).
  void reserve_output(std::uint64_t bytes) { output_->reserve(bytes); }

  // With options of the plan. What is read from a pipe leaves so much address space to others.
  FileReaderBase open_reader(std::size_t input, BlockPool& pool, FileReaderOptions options,
                             std::uint64_t space_for_others) const;
  // Of `most_bytes` at most.
  FileWriterBase open_writer(BlockPool& pool, FileWriterOptions options, std::uint64_t most_bytes);

  DiskStatistics disk_statistics() const { return disk_->statistics(); }

 private:
  void expect_no_overwriting() const;
  std::uint64_t room_beside_runs(const SortPlan& plan) const;

  const ExternalSortOptions& options_;
  std::vector<std::unique_ptr<SortInput>> inputs_;
  std::vector<std::string> folders_;
  std::unique_ptr<Disk> disk_;  // of the inputs and the output
  std::optional<SortOutput> output_;
};

}  // namespace vortex::inline v0
