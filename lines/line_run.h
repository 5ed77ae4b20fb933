// Sorted runs of records of any length: written, and read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/file/file_sink.h"
#include "lines/block_packer.h"
#include "lines/byte_output.h"
#include "lines/packed_run.h"
#include "lines/run_record.h"
#include "lines/stored_record.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/file_reader.h"
#include "vortex/output_stream.h"

namespace vortex::inline v0 {

// A place of a run, between two of its records: how much of the run lies in front of it.
struct RunMark {
  std::uint64_t offset = 0;      // bytes of the run
  std::uint64_t records = 0;     // as they are stored
  std::uint64_t counted = 0;     // the same, each as many times as it is there
  std::uint64_t text_bytes = 0;  // of the records that are counted, without keys
};

// A run on the disks. In front of each record stands how many of the chunks that decide its order
// it has in common with the record before (see first_difference()): a merge compares the rest.
// Where that is a good part of a key, the key is stored without it (front coding): neighbours in a
// long run have most of a URL or a path in common. A record that comes several times is there once,
// with a count.
struct LineRun {
  Run run;
  std::uint64_t longest = 0;  // of the records as they are stored, in bytes
  RunMark end;
  // Some hundred places of a long run, about equally far apart, the first of them its beginning.
  // None of an empty run. The records behind them are stored whole.
  std::vector<RunMark> marks;
  PackedBlocks packed;

  // On the disks.
  std::uint64_t stored_bytes() const noexcept { return run.bytes - packed.saved_bytes(); }
};

// A part of a run.
struct RunPart {
  RunMark begin;
  RunMark end;
  std::string first_key;  // of its first record, unless that is stored whole
};

// Writes a run from its first record to its last. append() may wait in a fault: call it inside
// guarded(). A writer that is destroyed without finish() gives all it has taken back.
class LineRunWriter {
 public:
  // Blocks of the pool that it takes for good.
  static std::size_t blocks_needed(std::size_t write_behind) noexcept { return write_behind + 1; }

  // `most_bytes` is what the run will have at most. Throws Error as RunWriter does. The store and
  // the packing must outlive it.
  LineRunWriter(RunStore& store, const StoredOrder& order, RunPacking& packing,
                std::size_t write_behind, std::uint64_t most_bytes, const std::stop_token& stop);
  LineRunWriter(const LineRunWriter&) = delete;
  LineRunWriter& operator=(const LineRunWriter&) = delete;

  // `in_common`: the chunks that it has in common with the record before; `count`: how many times
  // it is there.
  void append(const StoredRecord& stored, std::uint64_t in_common, std::uint64_t count) noexcept;

  std::uint64_t records() const noexcept { return run_.end.records; }
  std::uint64_t bytes() const noexcept { return out_->bytes(); }

  // Waits until everything is written. Throws Error when something was not.
  LineRun finish();

 private:
  void add_mark() noexcept;
  bool shares(const StoredRecord& stored, std::uint64_t in_common) noexcept;
  char* write_head(char* to, const RunRecordHead& head, const StoredRecord& stored) const noexcept;

  StoredOrder order_;
  RunPacking& packing_;
  std::uint64_t mark_bytes_;     // between two marks
  std::uint64_t next_mark_ = 0;  // where in the run
  // The next record may lack what it shares with the one before.
  bool may_share_ = false;
  LineRun run_;               // outlives the stream, whose sink finds places for its blocks
  FileSink* sink_ = nullptr;  // of the stream
  std::optional<OutputStream<std::byte>> stream_;
  std::optional<StreamStop> stop_;
  std::optional<ByteOutput> out_;
};

// The records of a part of a run, one after the other, through the plain pointer of a reader. The
// blocks that have been read are given back to the store as it goes, but the one that the part
// begins in, which may be another's, too. Not moved. The run outlives it, and so does what unpacks
// its blocks.
class RunCursor {
 public:
  // Blocks of the pool that a cursor takes for good.
  static std::size_t blocks_needed(std::uint64_t longest, std::size_t read_ahead,
                                   std::size_t block_bytes);

  RunCursor(LineRun& run, const RunPart& part, const StoredOrder& order, std::size_t read_ahead,
            bool punch_holes, BlockPacker& packer, const std::stop_token& stop);
  RunCursor(const RunCursor&) = delete;
  RunCursor& operator=(const RunCursor&) = delete;

  // Goes to the next record; false behind the last. Inside guarded().
  bool advance() noexcept {
    if (left_ == 0) return false;
    --left_;
    if (at_ >= free_from_) free_blocks();
    record_.read(at_);
    return true;
  }
  // It is valid until the next advance().
  const StoredRecord& stored() const noexcept { return record_.stored(); }
  // The chunks that it has in common with the one before.
  std::uint64_t in_common() const noexcept { return record_.in_common(); }
  // How many times it is there.
  std::uint64_t count() const noexcept { return record_.count(); }

 private:
  static FileReaderOptions reader_options(std::uint64_t longest, std::size_t read_ahead,
                                          std::size_t block_bytes);
  void free_blocks() noexcept;

  LineRun& run_;
  bool punch_holes_;
  std::uint64_t first_block_;  // of the run, at which the array begins
  FileReaderBase reader_;
  StreamStop stop_;
  std::uint64_t left_;
  const char* begin_;
  const char* at_;
  const char* free_from_;  // behind this the next block is given back
  std::uint64_t freed_;    // blocks below are not this cursor's to give back
  RunRecordReader record_;
};

}  // namespace vortex::inline v0
