// The files of a sort: inputs to be read, the output to be written.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "io/sequence/single_file.h"
#include "sort/merge/file_merge.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// A view of the options of a sort, which outlive it: those of records and of lines become one.
struct SortPlaces {
  template <typename Options>
  SortPlaces(const Options& options)
      : inputs(options.inputs),
        output(options.output),
        trace(options.trace),
        merge_inputs(options.merge_inputs),
        resources(options.resources) {}

  const std::vector<std::string>& inputs;
  const std::string& output;
  const std::string& trace;
  const bool merge_inputs;
  const SortResources& resources;
};

// A file, device or pipe with records in it, open from construction on. Not copied, not moved.
class SortInput {
 public:
  // "-" is standard input. Throws Error: what open(2) reports; EINVAL when the length is known and
  // no multiple of the record's.
  SortInput(const std::string& path, std::size_t record_bytes);
  SortInput(const SortInput&) = delete;
  SortInput& operator=(const SortInput&) = delete;

  const std::string& name() const noexcept { return name_; }
  // None for pipes.
  std::optional<std::uint64_t> length_bytes() const noexcept { return length_bytes_; }
  const struct stat& identity() const noexcept { return identity_; }

  // A reader of this input: of a pipe one, of others as many as are wanted; and what it reads.
  FileReaderBase open_reader(const FileReaderOptions& options) const {
    return FileReaderBase(open(options.caching, options.disk), options);
  }
  std::unique_ptr<SingleFile> open(Caching caching, Disk* disk) const;

  // Throws Error(EINVAL) that says which length is no multiple of the record's.
  [[noreturn]] void refuse_length(std::uint64_t length_bytes) const;
  // Throws Error(EBUSY) when the file's size or time of modification is not what it was.
  void expect_unchanged() const;

 private:
  std::string name_;
  BlockFile file_;  // which readers borrow
  std::size_t record_bytes_;
  std::optional<std::uint64_t> length_bytes_;
  struct stat identity_ {};
};

// How an output is written: by writers; or by write_whole() alone, or as a run, in a file that
// never has another name than its own.
enum class OutputUse : std::uint8_t { kWriters, kAtOnce, kRun };

// A file, device or pipe to be written, open from construction on.
class SortOutput {
 public:
  // "-" is standard output. The resources say how a file is replaced, and outlive this. Throws
  // NoNamelessFile, if it is to be written at once; Error: what open(2) reports.
  SortOutput(const std::string& path, const SortResources& resources,
             OutputUse use = OutputUse::kWriters);

  const std::string& name() const noexcept { return file_.name(); }
  // The folder of a file that will appear under a name; none for pipes and devices.
  const std::optional<std::string>& folder() const noexcept { return folder_; }
  const struct stat& identity() const noexcept { return identity_; }

  // Throws Error(ENOSPC) when a file system or a device has no room for `bytes`.
  void expect_room(std::uint64_t bytes) const;
  // Reserves room in the file system; in memory the writes take it. Throws Error(ENOSPC).
  void reserve(std::uint64_t bytes) {
    file_.in_memory() ? expect_room(bytes) : file_.allocate(bytes);
  }

  // Writes all of the output with plain calls, and publishes it. No other writer comes before or
  // behind. No signal comes to this thread between the steps that give a file its name.
  // Throws Error.
  void write_whole(std::string_view bytes, bool sync);

  // The writer of this output; its finish_bytes() publishes. Where there is a folder, a writer that
  // was destroyed before that may have a successor.
  FileWriterBase open_writer(const FileWriterOptions& options);
  // A writer of what lies behind the first `begin` bytes, a multiple of the block, beside the first
  // writer, which must outlive it and finish behind it. For a file with a folder only.
  FileWriterBase open_writer_behind(std::uint64_t begin, const FileWriterOptions& options);

 private:
  std::string path_;
  const SortResources& resources_;
  BlockFile file_;
  SingleFile* layout_ = nullptr;  // the first writer's
  std::optional<std::string> folder_;
  struct stat identity_ {};
};

// The inputs, as far as they are opened here, the output, and the folders.
class SortFiles {
 public:
  // Opens all inputs, if their records have a length; else the sort opens them by itself. Throws
  // Error: EINVAL without inputs, and what SortInput says.
  explicit SortFiles(const SortPlaces& places, std::size_t record_bytes = 0);

  std::size_t inputs() const noexcept { return inputs_.size(); }
  SortInput& input(std::size_t index) const noexcept { return *inputs_[index]; }
  // The bytes of all inputs together; none when one of them is a pipe.
  std::optional<std::uint64_t> input_bytes() const;
  void expect_inputs_unchanged() const;
  // Throws Error(EINVAL) that names a pipe.
  void expect_known_lengths() const;

  // For runs.
  const std::vector<std::string>& folders() const noexcept { return folders_; }
  // Throws Error when one of them is none.
  void expect_folders() const;

  // Opens the output and the disk. Throws Error: EINVAL when an input would be overwritten before
  // it has been read, and what SortOutput and disks say.
  void open_output();
  // Opens the output for write_whole(), without a disk; open_output() may follow instead of that.
  // False: a file of this file system cannot do without a name, which has to be removed after a
  // signal. Throws Error as SortOutput does.
  bool open_output_at_once();
  // As SortOutput::write_whole().
  void write_whole(std::string_view bytes) { output_->write_whole(bytes, places_.resources.sync); }
  // For as much output as there is input, whose length the plan knows, and as many runs if there
  // will be any. Throws Error(ENOSPC).
  void expect_room(const SortPlan& plan, bool runs) const;
  // Where no room is given back meanwhile. Throws Error(ENOSPC).
  void reserve_output(std::uint64_t bytes) { output_->reserve(bytes); }

  // The inputs [first, last), whose lengths are known, to be merged; and what is to be added to the
  // options of the plan to read them. They must not outlive this.
  std::vector<SortedFile> open_sorted(std::size_t first, std::size_t last) const;
  FileReaderOptions reader_options(BlockPool& pool, FileReaderOptions options) const;
  // The reader of an input, with options of the plan. The array of a pipe has
  // `unknown_length_bytes` of the options at most, and leaves `space_for_others` bytes of address
  // space to others, as far as what is planned for a pipe stays for it, or half of what is left.
  FileReaderBase open_reader(std::size_t input, BlockPool& pool, FileReaderOptions options,
                             std::uint64_t space_for_others) const;
  // The writer of the output, of `most_bytes` at most; fewer, down to `least_bytes`, where the
  // system refuses the address space.
  FileWriterBase open_writer(BlockPool& pool, FileWriterOptions options, std::uint64_t most_bytes,
                             std::uint64_t least_bytes);
  FileWriterBase open_writer(BlockPool& pool, const FileWriterOptions& options,
                             std::uint64_t most_bytes) {
    return open_writer(pool, options, most_bytes, most_bytes);
  }
  // Whether the output can be written in several places at once, and a further writer of it for
  // `most_bytes`; see SortOutput::open_writer_behind().
  bool output_has_places() const noexcept { return output_->folder().has_value(); }
  const struct stat& output_identity() const noexcept { return output_->identity(); }
  FileWriterBase open_writer_behind(std::uint64_t begin, BlockPool& pool, FileWriterOptions options,
                                    std::uint64_t most_bytes);

  // A file for runs, which have one folder, that can take the place of the output, which is open:
  // none where they are kept elsewhere, or a file would need another name meanwhile.
  std::optional<BlockFile> open_file_for_runs() const;
  // Cuts it to `bytes` and publishes it. Throws Error.
  void publish_run(BlockFile file, std::uint64_t bytes) const;

  // The disk of the inputs and the output, once that is open.
  Disk* disk() const noexcept { return disk_.get(); }
  DiskStatistics disk_statistics() const { return disk_->statistics(); }

 private:
  void open_inputs();
  FileWriterOptions writer_options(BlockPool& pool, FileWriterOptions options,
                                   std::uint64_t most_bytes, std::uint64_t least_bytes) const;
  void expect_no_overwriting() const;
  std::uint64_t room_beside_runs(const SortPlan& plan) const;

  const SortPlaces places_;
  const std::size_t record_bytes_;
  std::vector<std::unique_ptr<SortInput>> inputs_;
  std::vector<std::string> folders_;
  std::unique_ptr<Disk> disk_;  // of the inputs and the output
  std::optional<SortOutput> output_;
};

// Up to where an input can be read; `known` is what was found out before. Touches the block behind
// that, so call it inside guarded(), and only when all before that block has been used. Throws
// Error(EFBIG) for a pipe that is longer than its address space.
std::uint64_t readable_bytes(FileReaderBase& input, std::uint64_t known);

}}  // namespace vortex::v0
