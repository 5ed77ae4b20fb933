// A sort from files to a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "sort/job/sort_files.h"
#include "sort/job/sort_job.h"
#include "vortex/external_sort_options.h"
#include "vortex/record_order.h"
#include "vortex/record_output.h"

namespace vortex::inline v0 {

// external_sort() by any order of records: opens and plans when it is made, and sorts once. The
// options outlive it. Throws as external_sort() does.
class FileSort {
 public:
  FileSort(const ExternalSortOptions& options, std::shared_ptr<const RecordOrder> order);
  FileSort(const FileSort&) = delete;
  FileSort& operator=(const FileSort&) = delete;

  const SortPlan& plan() const noexcept { return plan_; }

  ExternalSortReport run();

 private:
  using Writing = std::function<void(RecordOutput& out)>;

  SortPlan make_plan() const;
  void count_io();

  void write_output(const FileWriterOptions& options, std::uint64_t most_bytes,
                    const Writing& write);

  void form_runs();
  void take_all(std::size_t input);
  void merge_runs_to_output();

  void merge_inputs(std::size_t first, std::size_t last, RecordOutput& out);
  void merge_inputs_to_output();
  void merge_inputs_to_runs();

  const ExternalSortOptions& options_;
  const std::size_t record_bytes_;
  SortFiles files_;
  SortJob job_;
  const SortPlan plan_;
  ExternalSortReport report_;
};

}  // namespace vortex::inline v0
