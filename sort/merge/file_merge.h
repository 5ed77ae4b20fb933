// Merges sorted files, whole or in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "io/sequence/single_file.h"
#include "sort/merge/record_division.h"
#include "sort/runs/sort_watch.h"
#include "vortex/file_reader.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// A file of known length whose records are said to be sorted. However many read it, it takes the
// descriptors of one reader.
struct SortedFile {
  std::unique_ptr<SingleFile> file;
  std::uint64_t records = 0;
};

// Cuts the files as divide_runs() cuts runs. Throws Error: what the system reports, ENODATA where a
// file has become shorter.
std::vector<RecordPart> divide_files(const RecordOrder& order, std::span<const SortedFile> files,
                                     std::size_t block_bytes, unsigned parts,
                                     std::uint64_t most_records);

// Of one FileMerge.
struct FileMergeOptions {
  FileReaderOptions reader;        // of each file, with a pool and a disk
  std::stop_token stop = {};       // ends it with ECANCELED
  bool unique = false;             // of records with equal keys only the first is kept
  std::uint64_t most_records = 0;  // that are appended: the first; 0: all
};

// The merge of a part of some sorted files through their plain pointers: the reader of a file
// begins at the border of a block in front of its part. Several, one for each part, may go on side
// by side, each in a thread.
//
// That a file is sorted is checked wherever it is merged: by what the merge takes, and each first
// record of a part by the one in front of it.
class FileMerge {
 public:
  // The heap that it takes for each file at most, with readers as plans of merges have them.
  static constexpr std::size_t kBytesOfFile = 12 << 10;

  // The order and the files outlive it. Throws Error as FileReaderBase does.
  FileMerge(const RecordOrder& order, std::span<const SortedFile> files, const RecordPart& part,
            const FileMergeOptions& options);
  FileMerge(const FileMerge&) = delete;
  FileMerge& operator=(const FileMerge&) = delete;

  // That the part has, those with equal keys included.
  std::uint64_t records() const noexcept { return records_; }

  // Appends the records to `out`, in order; equal records come in the order of their files. To be
  // called once. Throws Error: EINVAL that names the file, the record and its offset where one is
  // not sorted, what disks and streams report, and what `out` throws.
  void merge_to(RecordOutput& out);
  // How many records that took of the files.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  struct Source {
    const SingleFile& file;
    std::uint64_t first;  // of its records
  };

  std::optional<OutOfOrder> find_at_border();
  [[noreturn]] void refuse(const OutOfOrder& found) const;

  const RecordOrder& order_;
  const FileMergeOptions options_;
  const std::uint64_t records_;
  std::uint64_t taken_ = 0;
  std::vector<std::unique_ptr<FileReaderBase>> readers_;
  std::vector<std::unique_ptr<StreamStop>> stops_;
  std::vector<Source> sources_;
  std::vector<MergeInput> inputs_;
  std::vector<std::byte> previous_;
  std::unique_ptr<CheckedRecordMerge> merge_;
};

}}  // namespace vortex::v0
