// One sort of lines, whichever way they come in and go out.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/job/line_runs.h"
#include "lines/job/merge_tree.h"
#include "lines/job/run_growth.h"
#include "lines/memory/arena_warmer.h"
#include "lines/memory/first_lines.h"
#include "lines/memory/line_arena.h"
#include "lines/memory/recent_keys.h"
#include "lines/memory/record_piece.h"
#include "lines/record/stored_record.h"
#include "lines/runs/long_lines.h"
#include "sort/job/sort_context.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/thread/background_task.h"

namespace vortex { inline namespace v0 {

// A record that the memory has no room for. The message says no more about where it came from.
class RecordTooLong : public Error {
 public:
  RecordTooLong(std::size_t index, const std::string& complaint)
      : Error(EMSGSIZE, "a record " + complaint), index_(index), complaint_(complaint) {}

  std::size_t index() const noexcept { return index_; }  // among those that were to be taken
  const std::string& complaint() const noexcept { return complaint_; }

 private:
  std::size_t index_;
  std::string complaint_;
};

// Keys, arenas, runs and the watch of a sort. Sorts of files and sorters are two pairs of ends to
// it.
//
//   LineJob job(order, context);
//   job.start(bytes);
//   while (...) job.take(records);
//   job.end_forming();
//   if (!job.in_memory()) job.reduce_runs(false, 1);
//
// With one thread the memory is one arena: it is filled, sorted, written, filled again. With more
// it is two, unless all may fit in memory: an arena is sorted by all threads, and written by one
// beside the caller, who fills the other. Either way some records may stay, see RunGrowth. One
// thread at a time; after an exception it can only be destroyed.
//
// Others that share a budget with it may want its memory when it has ended forming runs: see
// lend_read_ahead().
class LineJob final {
 public:
  // The context outlives it.
  LineJob(const LineOrder& order, SortContext& context);
  ~LineJob();
  LineJob(const LineJob&) = delete;
  LineJob& operator=(const LineJob&) = delete;

  // `bytes` of records will come, if it is known. May be called again instead of take(), and gives
  // back the runs that there are. Throws Error as plan_lines() and BlockPool do.
  void start(std::optional<std::uint64_t> bytes);
  // Before start(): the caller writes long records itself, which are kept apart then.
  void keep_long_apart(const RecordFraming& framing) noexcept;
  // end_forming() may enlarge it for merging, when the sort has a share of a budget.
  const LinePlan& plan() const noexcept { return plan_; }
  const StoredOrder& order() const noexcept { return order_; }
  BlockPool& pool() noexcept { return *context_.pool(); }
  LineRuns& runs() noexcept { return *runs_; }
  // How many records come out; 0: all.
  std::uint64_t first_records() const noexcept { return plan_.first_records; }
  SortWatch& watch() noexcept { return context_.watch(); }
  // The threads are idle outside take() and end_forming().
  detail::ThreadTeam& team() noexcept { return *team_; }

  // Where a record that is to be taken next may be put together; see AssemblyRoom.
  std::span<char> assembly_room(std::string_view so_far, std::size_t bytes);

  // Copies records: by all threads, where they are many and short. Throws RecordTooLong where one
  // does not fit with its key; Error: ECANCELED; what the disks report, and what keys throw.
  void take(std::span<const std::string_view> records);

  // Whether texts may be taken now: how many at a time, of about how many bytes. Behind a record
  // that all threads leave to one, this takes the next ones alone.
  std::size_t texts_at_once() const noexcept { return batches_alone_ > 0 ? 0 : pieces_.size(); }
  std::size_t text_bytes() const noexcept { return text_bytes_; }
  struct TakenTexts {
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
  };
  // The same by all threads, which look for the records of a text each. Takes the first bytes of
  // the texts only where one has a record that is long, or has a long key, or more than expected.
  TakenTexts take(std::span<const ScatteredText> texts, const RecordFraming& framing);
  std::uint64_t records() const noexcept { return records_; }

  // No more come: either all are sorted in memory, or all are in runs.
  void end_forming();
  bool in_memory() const noexcept { return runs_->empty(); }
  const LineArena& arena() const noexcept { return *arenas_[filling_]; }
  // After end_forming(): records that are neither in the arena nor in runs, in order.
  LongLines& long_lines() noexcept { return *long_lines_; }

  // See LineRuns::reduce_to_one_merge(). By one thread where some records are kept apart, which are
  // read into memory to be compared.
  void reduce_runs(bool in_half, unsigned most_parts) {
    runs_->reduce_to_one_merge(in_half, most_parts, long_lines_->empty() ? &*team_ : nullptr);
  }
  // The last merge, see LineRuns::merge_all().
  std::vector<std::unique_ptr<RunMerge>> merge_all(unsigned most_parts = 1) {
    return runs_->merge_all(context_.running(), most_parts);
  }
  // The same by several threads, whose records come one behind the other; null: merge_all() is as
  // good, and nothing has been done.
  std::unique_ptr<MergeTree> merge_in_order();
  // The memory for what it has read ahead goes to sorts that wait for memory of the budget. What no
  // merge or writer has been promised goes at once.
  void lend_read_ahead();

  // The records of the arena that the cursor has not been at, as a merge, which reads ahead little.
  // The arena is still there; see give_arena_back().
  std::unique_ptr<RunMerge> spilled(const ArenaCursor& rest);
  // All of it but the pages of `kept`, which stay until forget_arena().
  void give_arena_back(std::string_view kept) noexcept;
  void forget_arena() noexcept;

 private:
  void give_back_free_room() noexcept;
  bool keep_rest();
  void begin_texts();
  void take_batch(std::span<const std::string_view> records);
  bool take_together(std::span<const std::string_view> records);
  void put_pieces(std::size_t count);
  std::size_t put_together(std::size_t first, std::size_t end);
  void push_all(const RecordPiece& piece);
  void forget_recent() noexcept;
  void note_filled();
  void divide(unsigned parts);
  void join_arenas();
  void add_arena(std::size_t bytes);
  void take_with_key(std::string_view key, std::string_view record);
  void take_long(std::string_view record);
  LongLines::Way way_of(std::size_t key_bytes, std::size_t record_bytes);
  void expect_room_for(std::string_view key, std::string_view record) const;
  template <typename Store>
  bool stored_apart(const Store& store);
  bool take_apart(std::string_view key, std::string_view record);
  bool push_long(std::string_view& record);
  bool take_beside(std::string_view record);
  [[noreturn]] void refuse(std::string_view record) const;
  void make_room_for(std::string_view record);
  void make_room(std::string_view next);
  bool holds(std::string_view record) const noexcept;
  void fill(std::size_t arena);
  void sort(LineArena& arena);
  RunGrowth::Told told(bool beside);

  const LineOrder line_order_;
  StoredOrder order_;
  SortContext& context_;
  LinePlan plan_;
  std::optional<LineRuns> runs_;
  std::optional<RunGrowth> growth_;
  std::optional<LongLines> long_lines_;
  std::optional<KeysOfLongLines> keys_of_long_lines_;
  bool keeps_long_apart_ = false;
  std::optional<char> delimiter_;  // no record that is kept apart begins with it
  bool fits_ = true;               // for all that is known
  std::optional<RawMemory> memory_;
  std::vector<std::unique_ptr<LineArena>> arenas_;
  std::size_t filling_ = 0;
  std::size_t cold_arenas_ = 0;  // that have not been filled yet, since there was memory
  std::optional<ArenaWarmer> warmer_;
  // Keys in the arena being filled, where equal records are dropped or counted; of those that one
  // thread took.
  std::optional<RecentKeys> recent_;
  std::optional<FirstLines> first_;
  std::optional<detail::ThreadTeam> team_;
  KeyBatch keys_;
  std::vector<std::unique_ptr<RecordPiece>> pieces_;  // of texts, or of what is pushed
  std::vector<LineArena::Place> places_;              // for them
  std::size_t text_bytes_ = 0;
  std::size_t piece_bytes_ = 0;  // of what is pushed
  unsigned batches_alone_ = 0;   // that one thread takes before all try again
  std::uint64_t records_ = 0;
  std::uint64_t batch_begin_ = 0;  // those that had been taken before take() was called

  BackgroundTask background_;  // writes a run; destroyed first
};

}}  // namespace vortex::v0
