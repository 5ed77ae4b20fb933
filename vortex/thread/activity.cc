#include "vortex/thread/activity.h"

#include <algorithm>
#include <mutex>

namespace vortex { inline namespace v0 {

namespace {

struct ThreadActivity {
  ActivityLog* log = nullptr;
  std::uint32_t track = 0;
  std::uint32_t waits = 0;  // one within the other
};

// In the initial TLS block: memory for it is never allocated on first touch.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadActivity activity;

std::uint64_t now_if_traced() noexcept {
  return activity.log != nullptr && activity.log->traces() ? steady_now_ns() : 0;
}

void add_span(SpanKind kind, std::uint64_t begin_ns) noexcept {
  if (begin_ns == 0) return;
  activity.log->add({begin_ns, steady_now_ns(), 0, activity.track, kind});
}

}  // namespace

ActivityLog::ActivityLog(std::size_t most_spans)
    : most_spans_(most_spans),
      spans_(most_spans == 0 ? nullptr : std::make_unique_for_overwrite<Span[]>(most_spans)),
      begin_ns_(steady_now_ns()),
      settled_ns_(begin_ns_) {}

void ActivityLog::settle() noexcept {
  const std::uint64_t now = steady_now_ns();
  const std::uint64_t passed = now - settled_ns_;
  settled_ns_ = now;
  Totals& phase = totals_[phase_];
  phase.all_ns += passed;
  if (disks_ > 0) phase.disks_ns += passed;
  if (threads_ > 0) phase.threads_ns += passed;
  if (disks_ > 0 && threads_ > 0) phase.both_ns += passed;
  phase.sum_disks_ns += passed * static_cast<unsigned>(disks_);
  phase.sum_threads_ns += passed * static_cast<unsigned>(threads_);
}

void ActivityLog::change(int& working, int by) noexcept {
  const std::lock_guard lock(mutex_);
  settle();
  working += by;
}

void ActivityLog::begin_phase(unsigned phase) noexcept {
  const std::lock_guard lock(mutex_);
  settle();
  phase_ = phase;
}

ActivityLog::Totals ActivityLog::totals(unsigned phase) const noexcept {
  const std::lock_guard lock(mutex_);
  return totals_[phase];
}

std::uint32_t ActivityLog::add_track(const std::string& name, unsigned number, bool is_disk) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < tracks_.size(); ++i) {
    const Track& track = tracks_[i];
    if (track.name == name && track.number == number && track.is_disk == is_disk) return i;
  }
  tracks_.push_back({name, number, is_disk});
  return static_cast<std::uint32_t>(tracks_.size() - 1);
}

void ActivityLog::add(const Span& span) noexcept {
  const std::uint64_t place = spans_added_.fetch_add(1, std::memory_order_relaxed);
  if (place < most_spans_) spans_[place] = span;
}

std::span<const Span> ActivityLog::spans() const noexcept {
  return {spans_.get(), static_cast<std::size_t>(std::min<std::uint64_t>(
                            most_spans_, spans_added_.load(std::memory_order_relaxed)))};
}

std::uint64_t ActivityLog::spans_lost() const noexcept {
  return spans_added_.load(std::memory_order_relaxed) - spans().size();
}

Working::Working(ActivityLog* log, const char* thread, unsigned number)
    : is_working_(log != nullptr && activity.log == nullptr) {
  if (!is_working_) return;
  const std::uint32_t track = log->add_track(thread, number, false);
  activity = {log, track, 0};
  log->thread_begins();
}

Working::~Working() {
  if (!is_working_) return;
  activity.log->thread_ends();
  activity = {};
}

ActivityLog* Working::log() noexcept { return activity.log; }

Waiting::Waiting() noexcept : begin_ns_(now_if_traced()) {
  if (activity.log != nullptr && activity.waits++ == 0) activity.log->thread_ends();
}

Waiting::~Waiting() {
  if (activity.log == nullptr) return;
  if (--activity.waits == 0) activity.log->thread_begins();
  add_span(SpanKind::kWait, begin_ns_);
}

WorkSpan::WorkSpan(SpanKind kind) noexcept : begin_ns_(now_if_traced()), kind_(kind) {}

WorkSpan::~WorkSpan() { add_span(kind_, begin_ns_); }

}}  // namespace vortex::v0
