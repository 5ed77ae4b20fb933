// Sorted runs of records of any length: written, and read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lines/memory/line_arena.h"
#include "lines/record/byte_output.h"
#include "lines/record/stored_record.h"
#include "lines/runs/block_forecasts.h"
#include "lines/runs/run_record.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/runs/run_writer.h"
#include "sort/runs/sort_watch.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

// A place of a run, between two of its records: how much of the run lies in front of it, and what
// a disk must return of the record behind it.
struct RunMark {
  std::uint64_t offset = 0;      // bytes of the run
  std::uint64_t records = 0;     // as they are stored
  std::uint64_t counted = 0;     // the same, each as many times as it is there
  std::uint64_t text_bytes = 0;  // of the records that are counted, without keys
  std::uint32_t bytes = 0;       // of the record; 0: that is not known, only its blocks are checked
  std::uint32_t checksum = 0;    // of these

  // The record as it is stored.
  void note_record(std::string_view stored) noexcept;
  bool is_of(std::string_view stored) const noexcept;
};

// Where a part of a run begins, with a block, that was written before the part in front of it; the
// rest of the block in front is not used.
struct RunJoint {
  RunMark begin;
  // The chunks that its first record, which is stored whole, has in common with the one before.
  std::uint64_t in_common = 0;
};

// A run on the disks, or in memory. In front of each record stands how many of the chunks that
// decide its order it has in common with the record before (see first_difference()): a merge
// compares the rest. Where that is a good part of a key, the key is stored without it (front
// coding): neighbours in a long run have most of a URL or a path in common. A record that comes
// several times is there once, with a count.
struct LineRun {
  Run run;                          // without blocks where it is in memory
  std::shared_ptr<RawMemory> kept;  // where its bytes are then
  std::uint64_t longest = 0;        // of the records as they are stored, in bytes
  std::uint64_t shared_bytes = 0;   // of keys that are stored without what they share
  std::uint64_t long_keys = 0;      // behind which none is stored so
  RunMark end;
  // Some hundred places of a long run, about equally far apart, the first of them its beginning.
  // None of an empty run. The records behind them are stored whole.
  std::vector<RunMark> marks;
  std::vector<RunJoint> joints;
  BlockForecasts forecasts;  // until it is merged

  std::span<const RunJoint> joints_behind(const RunMark& place) const noexcept;
  // Its bytes from `offset` on, of a run in memory.
  std::string_view kept_from(std::uint64_t offset) const noexcept {
    return {kept->data() + offset, static_cast<std::size_t>(end.offset - offset)};
  }
};

// One run of several, each of which was finished in front of the next one.
LineRun joined(std::vector<LineRun> parts);

// A part of a run.
struct RunPart {
  // Its blocks: [begin, end) of the run.
  struct Blocks {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  Blocks blocks(std::size_t block_bytes) const noexcept {
    const std::uint64_t first = begin.offset / block_bytes;
    if (begin.records == end.records) return {first, first};
    return {first, (end.offset + block_bytes - 1) / block_bytes};
  }

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

  // `most_bytes` is what the run will have at most, `forecast_bytes` see ForecastWriter. Throws
  // Error as RunStream does. The store and the packing must outlive it.
  LineRunWriter(RunStore& store, const StoredOrder& order, RunPacking& packing,
                std::size_t write_behind, std::size_t forecast_bytes, std::uint64_t most_bytes,
                const std::stop_token& stop);
  // Of a run, or a part of one, that lies in `memory`, which holds it.
  LineRunWriter(RunStore& store, const StoredOrder& order, std::span<char> memory);
  LineRunWriter(const LineRunWriter&) = delete;
  LineRunWriter& operator=(const LineRunWriter&) = delete;

  // `in_common`: the chunks that it has in common with the record before; `count`: how many times
  // it is there.
  void append(const StoredRecord& stored, std::uint64_t in_common, std::uint64_t count) noexcept;

  std::uint64_t records() const noexcept { return end_.records; }
  std::uint64_t bytes() const noexcept { return out_.bytes(); }
  // How many more it may get.
  std::uint64_t room() const noexcept { return stream_->most_bytes() - out_.bytes(); }

  // Waits until everything is written. Throws Error when something was not.
  LineRun finish() { return finish(0); }
  // The same, in front of another run, which is not empty and begins behind `last`, the record that
  // was appended last. The next record has `in_common` with that.
  LineRun finish_before(const LineRun& next, const StoredRecord& last, std::uint64_t in_common);

 private:
  // `unused` bytes of the last block, or of the memory, are not used.
  LineRun finish(std::size_t unused);
  void add_mark() noexcept;
  void begin_blocks(const StoredRecord& stored, std::size_t bytes) noexcept;
  bool shares(const StoredRecord& stored, std::uint64_t in_common) noexcept;

  RunStore& store_;
  StoredOrder order_;
  std::uint64_t mark_bytes_;     // between two marks
  std::uint64_t next_mark_ = 0;  // where in the run
  // The next record may lack what it shares with the one before.
  bool may_share_ = false;
  ForecastWriter forecasts_;
  std::uint64_t blocks_ = 1;  // that have been begun
  // Records that end so near to the end of a block are noted; in the first block all.
  std::size_t near_ = ~std::size_t{0};
  bool noted_ = false;  // the last one is
  std::uint64_t longest_ = 0;
  std::uint64_t shared_bytes_ = 0;
  std::uint64_t long_keys_ = 0;
  RunMark end_;
  std::vector<RunMark> marks_;
  std::optional<RunStream> stream_;  // none: it is in memory
  ByteOutput out_;
};

// The records of a part of a run, one after the other, through the plain pointer of a stream over
// the blocks that a prefetcher of the merge reads, or to the memory where they are. Not moved.
class RunCursor {
 public:
  // Blocks that the cursor holds at once, where the longest record has `longest` bytes.
  static std::size_t window_blocks(std::uint64_t longest, std::size_t block_bytes) noexcept;

  // Reads slice `index` of the prefetcher, a part of the run. Both outlive it.
  RunCursor(MergePrefetcher& prefetcher, std::uint32_t index, const RunPart& part,
            const LineRun& run, const StoredOrder& order, const std::stop_token& stop);
  RunCursor(const RunCursor&) = delete;
  RunCursor& operator=(const RunCursor&) = delete;

  // Goes to the next record; false behind the last. Touches its blocks at once, all of them, for
  // they are foretold for this moment. Inside guarded().
  bool advance() noexcept {
    const RunJoint* joint = nullptr;
    if (left_ == 0 && !(joint = enter_joint())) return false;
    --left_;
    record_.read(at_);
    if (joint != nullptr) record_.set_in_common(joint->in_common);
    if (at_ > next_block_) touch_blocks();
    return true;
  }
  // It is valid until the next advance().
  const StoredRecord& stored() const noexcept { return record_.stored(); }
  // The chunks that it has in common with the one before.
  std::uint64_t in_common() const noexcept { return record_.in_common(); }
  // How many times it is there.
  std::uint64_t count() const noexcept { return record_.count(); }

 private:
  void go_to(const RunMark& place) noexcept;
  const RunJoint* enter_joint() noexcept;
  void touch_blocks() noexcept;

  const std::size_t block_bytes_;
  const std::uint64_t first_byte_;           // of the run, that is read
  std::optional<InputStream<char>> stream_;  // none: the run is in memory
  std::optional<StreamStop> stop_;
  const char* first_ = nullptr;       // where that byte is
  std::span<const RunJoint> joints_;  // behind the place where it is
  const std::uint64_t end_;           // in records of the run
  std::uint64_t left_ = 0;            // in front of the next joint
  const char* at_ = nullptr;
  const char* next_block_;  // the first one that has not been touched
  RunRecordReader record_;
};

}}  // namespace vortex::v0
