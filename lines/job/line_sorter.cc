#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lines/job/line_job.h"
#include "sort/job/sort_context.h"
#include "sort/job/sort_folders.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {
class LineSorter::Impl {
 public:
  Impl(LineOrder order, const SortResources& resources)
      : context_(resources, folders_of_sorter(resources)),
        job_(order, context_),
        most_(resources.first_records == 0 ? ~std::uint64_t{0} : resources.first_records) {
    job_.start(std::nullopt);
    context_.watch().begin(SortPhase::kReading, std::nullopt);
  }

  ~Impl() { context_.end_lending(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void push(std::span<const std::string_view> records) {
    if (state_ != State::kPushing) refuse("push");
    state_ = State::kFailed;
    job_.take(records);
    std::uint64_t bytes = 0;
    for (const std::string_view record : records) bytes += record.size();
    context_.watch().add(bytes);
    state_ = State::kPushing;
  }

  bool next(std::string_view& record) {
    begin_next();
    if (given_ == most_ || (left_ == 0 && !advance())) {
      state_ = State::kSorted;
      return false;
    }
    --left_;
    ++given_;
    record = record_;
    context_.watch().add(record.size());
    state_ = State::kSorted;
    return true;
  }

  std::size_t next(std::span<char> to, std::span<std::size_t> lengths) {
    begin_next();
    std::size_t count = 0, bytes = 0;
    // Returns whether another one may have room.
    const auto copy = [&] {
      for (; left_ > 0; --left_, ++given_) {
        if (given_ == most_ || count == lengths.size() || record_.size() > to.size() - bytes) {
          return false;
        }
        record_.copy(to.data() + bytes, record_.size());
        bytes += lengths[count++] = record_.size();
      }
      return given_ < most_ && count < lengths.size();
    };
    if (copy()) {
      forget_kept_arena();
      guarded([&] {
        while (step() && copy()) {
        }
      }).throw_if_failed();
    }
    context_.watch().add(bytes);
    state_ = State::kSorted;
    return count;
  }

  std::uint64_t records() const noexcept { return job_.records(); }
  RunCounts counts() noexcept { return counts_; }

 private:
  // Whoever waits in the thread that read before may be about to take what is read: it ends first.
  void note_reader() {
    if (pthread_equal(user_.load(std::memory_order_relaxed), pthread_self()) != 0) return;
    context_.end_lending();
    user_.store(pthread_self(), std::memory_order_relaxed);
    if (!merge_.empty()) {
      job_.lend_read_ahead();
    } else {
      context_.lend([this](std::uint64_t) { return spill_for_another(); });
    }
  }

  // What reading has in common; whoever calls it sets the state when it is over.
  void begin_next() {
    if (state_ == State::kPushing) sort();
    if (state_ == State::kFailed) refuse("next");
    note_reader();
    if (spill_wanted_.load(std::memory_order_relaxed)) spill();
    state_ = State::kFailed;
  }

  // Behind it the record that was handed out last may be gone.
  void forget_kept_arena() {
    if (!merge_.empty() && std::exchange(arena_is_kept_, false)) job_.forget_arena();
  }

  // Goes to the next record, and how many times it is there.
  bool advance() {
    if (merge_.empty()) return step();
    bool more = false;
    forget_kept_arena();
    guarded([&] { more = step(); }).throw_if_failed();
    return more;
  }
  // The same, which faults where there is a merge.
  bool step() {
    if (!merge_.empty()) {
      RunMerge& merge = *merge_.front();
      const bool more = merge.next();
      if (more) note(merge);
      return more;
    }
    const bool more = cursor_->next();
    if (more) note(*cursor_);
    return more;
  }
  template <typename Cursor>
  void note(const Cursor& at) {
    record_ = at.stored().record;
    left_ = at.count();
  }

  enum class State : std::uint8_t { kPushing, kSorted, kFailed };

  [[noreturn]] void refuse(const char* call) const {
    if (state_ == State::kFailed) {
      throw Error(ENOTRECOVERABLE, std::string(call) + "() of a sorter that has failed");
    }
    throw Error(EINVAL, std::string(call) + "() of a sorter behind its first next()");
  }

  void sort() {
    state_ = State::kFailed;
    job_.end_forming();
    if (!job_.in_memory()) job_.reduce_runs(context_.shares_memory(), 1);
    context_.watch().begin(SortPhase::kWriting, std::nullopt);
    user_.store(pthread_self(), std::memory_order_relaxed);
    if (job_.in_memory()) {
      cursor_.emplace(job_.arena());
      context_.lend([this](std::uint64_t) { return spill_for_another(); });
    } else {
      merge_ = job_.merge_all();
      RunMerge& merge = *merge_.front();
      guarded([&] { merge.start(); }).throw_if_failed();
      job_.lend_read_ahead();
    }
    counts_ = job_.runs().counts();
    state_ = State::kSorted;
  }

  // Called by a thread that waits for memory. If that is the one which reads this sorter, it does
  // not read now; otherwise that one is to do it. Nothing more comes by itself.
  bool spill_for_another() noexcept {
    if (pthread_equal(user_.load(std::memory_order_relaxed), pthread_self()) != 0) {
      give_memory();
    } else {
      spill_wanted_.store(true, std::memory_order_relaxed);
    }
    return false;
  }

  // What has not been read, and will be, goes to the disks. Where these refuse it, it stays in
  // memory.
  void give_memory() noexcept {
    if (!cursor_ || spill_failed_ || arena_is_kept_) return;
    if (cursor_->at_end() || given_ == most_) {
      arena_is_kept_ = true;
      return job_.give_arena_back(record_);
    }
    try {
      merge_.push_back(job_.spilled(*cursor_));
    } catch (...) {
      spill_failed_ = true;
      return;
    }
    cursor_.reset();
    job_.give_arena_back(record_);
    arena_is_kept_ = true;
  }

  void spill() {
    spill_wanted_.store(false, std::memory_order_relaxed);
    context_.end_lending();
    give_memory();
    if (!merge_.empty()) job_.lend_read_ahead();
  }

  SortContext context_;
  LineJob job_;
  State state_ = State::kPushing;
  RunCounts counts_;
  std::optional<ArenaCursor> cursor_;
  std::vector<std::unique_ptr<RunMerge>> merge_;  // one, or none
  std::string_view record_;
  std::uint64_t left_ = 0;   // how many times it comes again
  std::uint64_t given_ = 0;  // records, of at most so many
  const std::uint64_t most_;
  std::atomic<pthread_t> user_{};  // the thread that reads
  std::atomic<bool> spill_wanted_{false};
  bool spill_failed_ = false;
  bool arena_is_kept_ = false;  // the page of the record that was handed out last
};

LineSorter::LineSorter(LineOrder order, SortResources resources)
    : impl_(std::make_unique<Impl>(std::move(order), resources)) {}
LineSorter::~LineSorter() = default;

void LineSorter::push(std::string_view record) { impl_->push({&record, 1}); }
void LineSorter::push(std::span<const std::string_view> records) { impl_->push(records); }
bool LineSorter::next(std::string_view& record) { return impl_->next(record); }
std::size_t LineSorter::next(std::span<char> to, std::span<std::size_t> lengths) {
  return impl_->next(to, lengths);
}
std::uint64_t LineSorter::records() const noexcept { return impl_->records(); }
RunCounts LineSorter::counts() const noexcept { return impl_->counts(); }

}}  // namespace vortex::v0
