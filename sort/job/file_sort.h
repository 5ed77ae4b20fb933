// A sort of files, whatever their records are.
#pragma once

#include <optional>

#include "sort/job/run_set.h"
#include "sort/job/sort_files.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// What a sort of files does with records of one kind. FileSort has the files, the trace and the
// report of a sort, SortContext (sort/job/sort_context.h) its memory and its disks, RunSet
// (sort/job/run_set.h) its runs and the order in which they are merged. What a record is, in memory
// and in a run, only its kind knows. It is called for all records of a phase, never for one.
// Records of one length are RecordFiles (sort/job/external_sort.cc), lines LineFiles
// (lines/job/line_sort.cc).
class RecordKind {
 public:
  virtual ~RecordKind() = default;

  // The output is open. Plans for the inputs, as far as they are known, and takes the memory for
  // all that follows. Throws Error, where something is too little for the sort, before anything has
  // been read.
  virtual void start() = 0;
  // Reads all inputs. Their records lie sorted in memory then, or in runs; false: they were sorted
  // already, and went to the output at once.
  virtual bool take_inputs() = 0;
  // Merges the runs until one merge can take them, and writes all records to the output.
  virtual void write_output() = 0;

  virtual RunSet& runs() = 0;
  // Those of the runs, and of what is kept in the folders beside them.
  virtual RunCounts counts() { return runs().counts(); }
};

// The files, the trace and the report of a sort, which a RecordKind carries out. Once.
class FileSort {
 public:
  // The options of the places outlive it. The output may have been opened before.
  explicit FileSort(const SortPlaces& places, std::optional<SortOutput> output = std::nullopt);
  FileSort(const FileSort&) = delete;
  FileSort& operator=(const FileSort&) = delete;

  SortFiles& files() noexcept { return files_; }

  // Blocks until the output is complete. `report` is the kind's, which counts records and their
  // bytes; everything else comes from here. A sort that fails leaves a trace, too. Throws what the
  // kind, the files and the disks say.
  void run(RecordKind& kind, SortReport& report);

 private:
  void sort(RecordKind& kind, SortReport& report);
  void count_io(RecordKind& kind, SortReport& report) const;
  void count_overlap(SortReport& report);

  const SortPlaces places_;
  ActivityLog activity_;  // outlives the disks
  SortFiles files_;
};

}}  // namespace vortex::v0
