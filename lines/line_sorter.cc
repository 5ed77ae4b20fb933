#include <cerrno>
#include <optional>
#include <utility>

#include "lines/line_job.h"
#include "sort/job/sort_folders.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/line_sort.h"

namespace vortex::inline v0 {
namespace {

std::vector<std::string> folders_of(const SortResources& resources) {
  std::vector<std::string> folders = resources.folders;
  if (folders.empty()) folders.push_back(temporary_folder());
  for (const std::string& folder : folders) file_system_of(folder);
  return folders;
}

}  // namespace

class LineSorter::Impl {
 public:
  Impl(LineOrder order, const SortResources& resources)
      : job_(order, resources, folders_of(resources)) {
    job_.start(std::nullopt);
    job_.watch().begin(SortPhase::kReading, std::nullopt);
  }

  void push(std::string_view record) {
    if (state_ != State::kPushing) refuse("push");
    state_ = State::kFailed;
    job_.take({&record, 1});
    job_.watch().add(record.size());
    state_ = State::kPushing;
  }

  bool next(std::string_view& record) {
    if (state_ == State::kPushing) sort();
    if (state_ == State::kFailed) refuse("next");
    state_ = State::kFailed;
    if (left_ == 0 && !advance()) {
      state_ = State::kSorted;
      return false;
    }
    --left_;
    record = record_;
    job_.watch().add(record.size());
    state_ = State::kSorted;
    return true;
  }

  std::uint64_t records() const noexcept { return job_.records(); }
  RunCounts counts() noexcept { return counts_; }

 private:
  // Goes to the next record, and how many times it is there.
  bool advance() {
    bool more = false;
    if (merge_) {
      guarded([&] { more = merge_->next(); }).throw_if_failed();
      if (more) note(*merge_);
    } else {
      more = cursor_->next();
      if (more) note(*cursor_);
    }
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
    job_.watch().begin(SortPhase::kWriting, std::nullopt);
    if (job_.in_memory()) {
      cursor_.emplace(job_.arena());
    } else {
      merge_ = std::move(job_.runs().merge_all().front());
      guarded([&] { merge_->start(); }).throw_if_failed();
    }
    counts_ = job_.runs().counts();
    state_ = State::kSorted;
  }

  LineJob job_;
  State state_ = State::kPushing;
  RunCounts counts_;
  std::optional<ArenaCursor> cursor_;
  std::unique_ptr<RunMerge> merge_;
  std::string_view record_;
  std::uint64_t left_ = 0;  // so many times it comes again
};

LineSorter::LineSorter(LineOrder order, SortResources resources)
    : impl_(std::make_unique<Impl>(std::move(order), resources)) {}
LineSorter::~LineSorter() = default;

void LineSorter::push(std::string_view record) { impl_->push(record); }
bool LineSorter::next(std::string_view& record) { return impl_->next(record); }
std::uint64_t LineSorter::records() const noexcept { return impl_->records(); }
RunCounts LineSorter::counts() const noexcept { return impl_->counts(); }

}  // namespace vortex::inline v0
