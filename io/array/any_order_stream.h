// A file as an array that may be touched in any order, and changed if that is wanted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/array/cursor_set.h"
#include "io/array/held_blocks.h"
#include "io/array/held_transfers.h"
#include "io/file/block_file.h"
#include "io/sequence/file_layout.h"
#include "io/sequence/request_units.h"
#include "vortex/block_pool.h"
#include "vortex/file_reader.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// For a stream whose file may be changed.
struct ChangeOptions {
  std::size_t write_behind = 4;     // requests to write that have memory
  std::uint64_t reserve_bytes = 0;  // the most that the file can grow to
};

// The fault of a block reads it, unless it has been read ahead, and drops another one for it; a
// block that was dropped is read again. The memory is blocks_needed() blocks of the pool, for good,
// or those of the file where it has fewer and cannot grow.
//
// Let W be M + 1, and at least 4: an instruction may touch two places, each over the border of two
// blocks. Memory for a block is taken from
//
//   1. what is free;
//   2. what was read ahead for a walk that is over, and then the block touched longest ago; not the
//      last W that were touched, not the block at the head of a cursor, and not the one that
//      the cursor leaves with this touch;
//   3. what is read ahead: the farthest block of the cursor that has most, an idle one first. For
//      another cursor's read-ahead that is done only where it has more than its share;
//   4. these blocks of cursors, the one touched longest ago first; not for reading ahead.
//
// A block that was changed is written before it is taken: in 2 those that were not changed come
// first. So that there are some, writes behind begin with the blocks touched longest ago, as many
// as write_behind requests have, unit by unit, when neither the last W nor a cursor is in the unit.
//
// So touches alone take at most the memory of two blocks from a cursor's read-ahead.
//
// Touches count when they fault: those of a block that is there are not seen. Any thread may read;
// a block that is dropped under a thread only faults again.
class VORTEX_EXPORT AnyOrderStream final : public Stream {
 public:
  static bool can_read(const FileLayout& layout) noexcept {
    return !layout.sequential() && layout.length().has_value();
  }
  // For a file of that length, where it is known and cannot grow: never more than it has.
  static std::size_t blocks_needed(const FileReaderOptions& options, std::size_t block_bytes,
                                   std::size_t unit_bytes = 0, std::size_t write_behind = 0,
                                   std::optional<std::uint64_t> length = {});

  // `changes`: the file may be changed; its layout is that of one file. Throws Error: ENOMEM when
  // the system refuses address space, and what RequestUnits and its quota() throw.
  AnyOrderStream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                 const FileReaderOptions& options, bool register_pool,
                 const std::optional<ChangeOptions>& changes = {});
  // Writes what was changed. What cannot be written is lost, and a line on stderr says so.
  ~AnyOrderStream() override;

  const std::byte* bytes() const noexcept { return base(); }
  std::uint64_t length_bytes() const noexcept { return transfers_.length(); }
  const FileLayout& layout() const noexcept { return units_.layout(); }

  // As those of FileReaderBase and FileArrayBase.
  void prefault(std::uint64_t offset, std::size_t bytes, Access access = Access::kRead);
  const std::byte* home_of(const void* at) noexcept;
  // Memory is what is free, and what was touched longest ago except for the last W and the heads of
  // cursors; where that ends, the rest of the range is left out.
  void will_need(std::uint64_t offset, std::uint64_t bytes);

  // As FileArrayBase::flush_bytes() without a sync. Throws Error, of the first block that failed,
  // when the others are written.
  void write_changes(std::uint64_t offset, std::uint64_t bytes);
  // The file gets another length. Throws Error, with nothing changed.
  void resize(std::uint64_t length, BlockFile& file);

  TransferStatistics read_statistics() const noexcept { return transfers_.read_statistics(); }
  TransferStatistics write_statistics() const noexcept { return transfers_.write_statistics(); }
  AnyOrderStatistics order_statistics() const noexcept;

 protected:
  bool handle_fault(Access access, std::uint64_t offset) noexcept override;
  bool handle_overrun(std::uint64_t offset) noexcept override {
    return serve_end(Access::kUnknown, offset);
  }
  void take_from_sight(std::uint64_t offset) noexcept override;
  bool clear_refused(std::uint64_t offset) noexcept override;
  bool is_vacant(std::uint64_t index) const noexcept override;
  void wake() noexcept override { units_.cancel(); }
  Window window() const noexcept override { return {0, transfers_.blocks()}; }
  std::size_t block_bytes() const noexcept override { return block_bytes_; }

 private:
  static constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

  bool refuse_write(std::uint64_t offset) noexcept;
  bool serve_placed(HeldBlock& held, Access access, std::uint64_t offset) noexcept;
  bool serve_end(Access access, std::uint64_t offset) noexcept;
  // Throws Error: ERANGE.
  void expect_within(std::uint64_t offset, std::size_t bytes) const;
  bool serve_block(Access access, std::uint64_t index, std::uint64_t offset) noexcept;
  Cursor* notice(std::uint64_t index) noexcept;
  void move(Cursor& cursor, std::uint64_t index) noexcept;
  Cursor& begin_cursor(std::uint64_t index, bool forward, std::size_t depth) noexcept;

  void read_ahead(Cursor& cursor) noexcept;
  std::size_t read_run(Cursor* cursor, std::uint64_t index, std::size_t most,
                       bool demanded) noexcept;
  std::size_t most_told() const noexcept;
  std::size_t blocks_to_border(const Cursor& cursor, std::uint64_t index) const noexcept;
  std::size_t share() const noexcept;

  HeldBlock* hold(std::uint64_t index) noexcept;
  bool free_one_for_touch() noexcept;
  bool free_one_ahead(const Cursor* cursor) noexcept;
  bool drop_touched(std::size_t keep, bool heads, bool dirty) noexcept;
  bool drop_ahead(const Cursor* keeper, std::size_t allowed, bool wait) noexcept;
  bool drop_farthest(Cursor& cursor, bool wait) noexcept;
  void forget_ahead(Cursor& cursor, std::int64_t from, std::int64_t to) noexcept;
  bool drop(HeldBlock& held) noexcept;
  void let_go(HeldBlock& held) noexcept;
  int place(HeldBlock& held, bool to_change) noexcept;
  int take_away(HeldBlock& held) noexcept;
  void reclaim_page_tables(std::uint64_t index) noexcept;

  void write_behind() noexcept;
  bool unit_in_use(std::uint64_t index) noexcept;
  bool write_now(HeldBlock& held) noexcept;
  std::vector<std::uint64_t> dirty_blocks(std::uint64_t begin, std::uint64_t end);
  void start_changed(std::uint64_t index, std::uint64_t since);
  void await_changed(std::uint64_t index, std::uint64_t since);
  void write_last_changes() noexcept;
  void take_away_from(std::uint64_t index);
  void cut_off(std::uint64_t length) noexcept;

  RequestUnits units_;
  const std::size_t block_bytes_;
  const std::size_t max_depth_;
  const std::size_t announced_;  // walks that the options announce
  const std::size_t kept_;       // W: touched blocks that stay
  BlockQuota quota_;
  HeldBlocks held_;
  CursorSet cursors_;
  HeldTransfers transfers_;
  const std::unique_ptr<WriteBack> changes_;  // null: the file is only read
  const std::size_t written_behind_;          // blocks with memory for writing
  bool filler_placed_ = false;  // the page after the end, where the last block has no room for it
  // The head that a cursor leaves with the touch that is served: an instruction over the border
  // uses both, and it may have been touched long ago.
  std::uint64_t just_left_ = kNoBlock;
  int refusal_ = 0;       // why the kernel would not move a block, or give memory for one
  Status write_failure_;  // the write that failed, so that no block could be freed

  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> drops_{0};
  std::atomic<std::uint64_t> unused_{0};
};

}}  // namespace vortex::v0
