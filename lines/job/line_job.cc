#include "lines/job/line_job.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lines/fields/key_bytes.h"
#include "lines/keys/composed_key.h"
#include "lines/record/record_keys.h"
#include "sort/plan/memory_limits.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

LineJob::LineJob(const LineOrder& order, SortContext& context)
    : line_order_(order), order_(order), context_(context) {}

// The task beside ends soon.
LineJob::~LineJob() { context_.end(); }

void LineJob::keep_long_apart(const RecordFraming& framing) noexcept {
  using Kind = RecordFraming::Kind;
  keeps_long_apart_ = true;
  if (framing.kind() == Kind::kDelimited || framing.kind() == Kind::kQuoted) {
    delimiter_ = framing.delimiter();
  }
  if (order_.whole_keys == nullptr || !order_.input_decides) return;
  keys_of_long_lines_.emplace(*order_.whole_keys, long_lines_);
  order_.whole_keys = &*keys_of_long_lines_;
}

void LineJob::start(std::optional<std::uint64_t> bytes) {
  runs_.reset();
  warmer_.reset();
  plan_ = plan_lines(context_, bytes);
  context_.make_pool(plan_.block_bytes, plan_.pool_blocks, Warming::kOnDemand,
                     "memory of the sort");
  runs_.emplace(order_, plan_, pool(), watch(), context_.run_store_options());
  growth_.emplace(order_, plan_, *runs_);
  const auto* const composed = dynamic_cast<const ComposedKey*>(line_order_.keys.get());
  long_lines_.emplace(order_, delimiter_, composed != nullptr ? composed->byte_map() : nullptr,
                      plan_.memory_bytes, context_.folders(), watch());
  // Where the input decides, what is kept apart does not begin to be in the middle of it.
  fits_ = bytes ? *bytes <= plan_.arena_bytes : !order_.input_decides;
  team_.emplace(plan_.threads);
  work_for_log(*team_);
  memory_.emplace(plan_.arena_bytes);
  warmer_.emplace();
  first_.emplace(order_, plan_.first_records);
  // An input that is longer than the arena does not fit in memory; a shorter one may.
  divide(plan_.threads > 1 && bytes && *bytes > plan_.arena_bytes ? 2 : 1);
  begin_texts();
  cold_arenas_ = plan_.threads > 1 ? arenas_.size() : 0;
  fill(0);
}

void LineJob::divide(unsigned parts) {
  arenas_.clear();
  filling_ = 0;
  warmer_->begin({});
  while (arenas_.size() < parts) add_arena(memory_->size() / parts);
}

void LineJob::add_arena(std::size_t bytes) {
  char* const begin = memory_->data() + arenas_.size() * bytes;
  arenas_.push_back(std::make_unique<LineArena>(std::span(begin, bytes), order_));
}

std::span<char> LineJob::assembly_room(std::string_view so_far, std::size_t bytes) {
  if (bytes > plan_.longest_record) return {};
  const std::size_t needed = bytes + 2 * LineArena::kPushRoom;
  while (arenas_[filling_]->free_room().size() < needed) {
    if (!arenas_[filling_]->empty()) {
      make_room(so_far);
    } else if (arenas_.size() > 1) {
      join_arenas();
    } else {
      return {};
    }
  }
  const std::span<char> room = arenas_[filling_]->free_room().subspan(LineArena::kPushRoom, bytes);
  if (room.data() != so_far.data()) std::memmove(room.data(), so_far.data(), so_far.size());
  return room;
}

void LineJob::refuse(std::string_view record) const {
  throw RecordTooLong(static_cast<std::size_t>(records_ - batch_begin_),
                      "of " + format_bytes(record.size()) + " is longer" +
                          (order_.has_keys ? ", with its key," : "") +
                          " than the memory has room for: sort with more than " +
                          format_bytes(plan_.memory_bytes));
}

// The arena has no room for the record, which may lie in what it has free.
void LineJob::make_room_for(std::string_view record) {
  if (!arenas_[filling_]->empty()) return make_room(record);
  if (arenas_.size() == 1) refuse(record);
  join_arenas();
}

// For a record that is longer than a half; it may lie in what the empty arena has free.
void LineJob::join_arenas() {
  background_.finish();
  divide(1);
}

// The arena is full: where many are equal, these are dropped; else records go into runs, and those
// that stay are in the arena that is filled from now on. What comes next stays where it is, which
// may be what the arena has free.
void LineJob::make_room(std::string_view next) {
  LineArena& full = *arenas_[filling_];
  const char* const newest = RunGrowth::newest_of(full);
  sort(full);
  if (recent_ && full.drop_equal(*team_)) return;
  if (first_->cut(full, *team_)) return;
  background_.finish();
  watch().expect_going();
  if (!order_.input_decides) fits_ = false;
  const ArenaShare share = growth_->share_of(full, newest, *team_);
  if (arenas_.size() == 1) {
    growth_->write(full, share, told(false));
    full.keep_beside(full, share, *team_);
    // The records that stay, and their index, would take the place of one in the middle.
    if (plan_.threads > 1 && (full.empty() || !holds(next)) && full.shrink(memory_->size() / 2)) {
      add_arena(memory_->size() / 2);
    }
    return;
  }
  const auto write = [this, &full, share](bool beside) {
    growth_->write(full, share, told(beside));
  };
  if (!background_.start(
          "writing runs", [write] { write(true); }, [] {}))
    write(false);
  fill(1 - filling_);
  arenas_[filling_]->keep_beside(full, share, *team_);
}

void LineJob::fill(std::size_t arena) {
  filling_ = arena;
  arenas_[filling_]->clear();
  if (cold_arenas_ == 0) return warmer_->begin({});
  --cold_arenas_;
  warmer_->begin(arenas_[filling_]->free_room());
}

void LineJob::sort(LineArena& arena) {
  forget_recent();
  const WorkSpan span(SpanKind::kSort);
  arena.sort(*team_);
  first_->note(arena, *team_);
}

// Tells how far writing a run is, beside the caller or not.
RunGrowth::Told LineJob::told(bool beside) {
  return [this, beside](std::uint64_t bytes) {
    if (beside) {
      watch().add_beside(bytes);
    } else {
      watch().expect_going();
    }
  };
}

void LineJob::end_forming() {
  context_.note_user();
  warmer_.reset();
  forget_recent();
  pieces_.clear();
  background_.finish();
  long_lines_->sort();
  if (runs_->empty() && !runs_->is_open()) {
    sort(*arenas_[filling_]);
    give_back_free_room();
    return;
  }
  if (!arenas_[filling_]->empty()) sort(*arenas_[filling_]);
  if (!keep_rest()) growth_->write_rest(*arenas_[filling_], told(false));
  arenas_.clear();
  memory_.reset();  // for the blocks of the merge
  if (!context_.others_wait()) context_.grow(plan_, *runs_);
}

// The records that have come last become a run in memory, beside which there is the arena until
// then. Others who share the memory may want it, and limits of the process may refuse it.
bool LineJob::keep_rest() {
  const LineArena& rest = arena();
  const std::uint64_t most = RunGrowth::most_kept(rest);
  if (rest.empty() || runs_->is_open() || context_.shares_memory() ||
      stack_bytes_of_thread() != 0 ||
      rest.stored_bytes() + rest.records() * sizeof(IndexEntry) + most > plan_.arena_bytes ||
      !runs_->may_keep(most)) {
    return false;
  }
  give_pages_back(rest.free_room());
  if (arenas_.size() > 1) give_pages_back(arenas_[1 - filling_]->memory());
  plan_.kept_bytes = growth_->keep(rest, *team_, told(false));
  return plan_.kept_bytes != 0;
}

// What records in memory, which are sorted, have left.
void LineJob::give_back_free_room() noexcept {
  if (!context_.shares_memory()) return;
  context_.release(give_pages_back(arenas_[filling_]->free_room()));
}

// Records that are kept apart are compared by one thread.
std::unique_ptr<MergeTree> LineJob::merge_in_order() {
  if (!long_lines_->empty()) return nullptr;
  auto branches = runs_->merge_branches(context_.running());
  if (branches.empty()) return nullptr;
  return std::make_unique<MergeTree>(std::move(branches), pool(), order_);
}

void LineJob::lend_read_ahead() {
  context_.lend([this](std::uint64_t) { return context_.give_back_read_ahead(); },
                [this] { context_.give_back_unused(); });
}

std::unique_ptr<RunMerge> LineJob::spilled(const ArenaCursor& rest) {
  growth_->spill(arena(), rest, told(false));
  std::unique_ptr<RunMerge> merge = std::move(merge_all().front());
  context_.running().give_back();
  guarded([&] { merge->start(); }).throw_if_failed();
  return merge;
}

bool LineJob::holds(std::string_view record) const noexcept {
  return record.data() >= memory_->data() && record.data() < memory_->data() + memory_->size();
}

void LineJob::give_arena_back(std::string_view kept) noexcept {
  const std::span<const char> all(memory_->data(), memory_->size());
  std::uint64_t given = 0;
  if (holds(kept)) {
    const auto before = static_cast<std::size_t>(kept.data() - all.data());
    given = give_pages_back(all.first(before));
    given += give_pages_back(all.subspan(before + kept.size()));
  } else {
    given = give_pages_back(all);
  }
  // What has been free before has been given back already.
  const std::span<const char> room = arena().free_room();
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t before = room.size() < 2 * page ? 0 : room.size() - 2 * page;
  context_.release(given - std::min(given, before + 2 * page));
  context_.forget_unused();
  arenas_.clear();
}

void LineJob::forget_arena() noexcept { memory_.reset(); }

}}  // namespace vortex::v0
