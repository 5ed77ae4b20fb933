// A sort of files, whatever their records are.
#pragma once

#include <cstdint>
#include <optional>

#include "sort/job/run_set.h"
#include "sort/job/sort_context.h"
#include "sort/job/sort_files.h"
#include "sort/job/trace_file.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// What a sort of files does with records of one kind. FileSort has the files, the phases, the trace
// and the report of a sort, SortContext (sort/job/sort_context.h) its memory and its disks, RunSet
// (sort/job/run_set.h) its runs and the order in which they are merged. What a record is, in memory
// and in a run, only its kind knows. It is called for all records of an input or a phase, never for
// one. Records of one length are RecordFiles (sort/job/external_sort.cc), lines LineFiles
// (lines/job/line_sort.cc).
class RecordKind {
 public:
  virtual ~RecordKind() = default;

  // Whether the kind begins without start(): where there may be so little to sort that opening
  // disks, planning and starting threads takes longer. It calls FileSort::begin() when there is
  // more; until then nothing but form_runs(), end_forming() and write_output() is called.
  virtual bool begins_small() { return false; }

  // The output is open. Plans for the inputs, as far as they are known, and takes the memory for
  // all that follows. Throws Error, where something is too little for the sort, before anything has
  // been read.
  virtual void start() = 0;

  // Called instead of reading the inputs one by one where the options say that they are sorted.
  enum class Merged : std::uint8_t { kNothing, kToRuns, kToOutput };
  virtual Merged merge_inputs() { return Merged::kNothing; }

  // Bytes of all inputs together; none: not known.
  virtual std::optional<std::uint64_t> input_bytes() const = 0;
  // Reads an input. Its records lie in memory then, or in runs.
  virtual void form_runs(std::size_t input) = 0;
  // All inputs have been read: records are sorted in memory, or all of them lie in runs.
  virtual void end_forming() = 0;
  // Merges runs until one merge can take them.
  virtual void reduce_runs() = 0;
  // What write_output() will tell the watch.
  virtual std::uint64_t bytes_to_write() = 0;
  // Writes all records to the output.
  virtual void write_output() = 0;

  virtual RunSet& runs() = 0;
  // Counts of the runs, and of what is kept in the folders beside them.
  virtual RunCounts counts() { return runs().counts(); }
};

// The files, the phases, the trace and the report of a sort, which a RecordKind carries out. Once.
class FileSort {
 public:
  // The options of the places outlive it. Opens the inputs, if their records have a length. Throws
  // Error: EINVAL for wrong resources; as SortFiles does.
  explicit FileSort(const SortPlaces& places, std::size_t record_bytes = 0);
  FileSort(const FileSort&) = delete;
  FileSort& operator=(const FileSort&) = delete;

  SortFiles& files() noexcept { return files_; }
  // The first call takes the sort's share of a budget. Throws Error as SortContext does.
  SortContext& context();

  // Blocks until the output is complete. `report` is the kind's, which counts records and their
  // bytes; everything else comes from here. Throws what the kind, the files and the disks say. Of a
  // sort that fails the trace is written when this is destroyed, behind the kind: until then its
  // threads may work.
  void run(RecordKind& kind, SortReport& report);
  // Opens output and disk, and starts the kind. Throws Error.
  void begin(RecordKind& kind);

 private:
  void sort(RecordKind& kind, SortReport& report);
  void form_runs(RecordKind& kind);
  void write(RecordKind& kind);
  void count_io(RecordKind& kind, SortReport& report) const;
  void count_overlap(SortReport& report);

  const SortPlaces places_;
  ActivityLog activity_;  // outlives the disks, as the trace does
  std::optional<TraceFile> trace_;
  SortFiles files_;
  std::optional<SortContext> context_;
  bool begun_ = false;
};

}}  // namespace vortex::v0
