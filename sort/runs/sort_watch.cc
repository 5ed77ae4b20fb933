#include "sort/runs/sort_watch.h"

#include <array>
#include <cerrno>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/names.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

std::string_view to_string(SortPhase phase) noexcept {
  constexpr std::array kNames = {Named{SortPhase::kReading, "reading"},
                                 Named{SortPhase::kMerging, "merging"},
                                 Named{SortPhase::kWriting, "writing"}};
  return name_in(kNames, phase);
}

SortWatch::SortWatch(std::stop_token stop, SortProgressFunction progress)
    : stop_(std::move(stop)),
      progress_(std::move(progress)),
      on_stop_(stop_, [this] { stop_now(); }) {}

void SortWatch::begin(SortPhase phase, std::optional<std::uint64_t> phase_bytes) {
  if (ActivityLog* const log = Working::log()) log->begin_phase(static_cast<unsigned>(phase));
  now_ = {.phase = phase, .bytes = 0, .phase_bytes = phase_bytes};
  report();
}

void SortWatch::add(std::uint64_t bytes) {
  now_.bytes += bytes + in_parts_.exchange(0, std::memory_order_relaxed);
  if (now_.bytes - reported_ >= kNoteBytes) report();
}

void SortWatch::expect_going() const {
  if (stopped_.load(std::memory_order_relaxed)) throw Error(ECANCELED, kSortInterrupted);
}

void SortWatch::add_in_part(std::uint64_t bytes) {
  expect_going();
  in_parts_.fetch_add(bytes, std::memory_order_relaxed);
  in_parts_event_.notify();
}

void SortWatch::await_parts(const std::function<bool()>& done) {
  for (;;) {
    const std::uint32_t ticket = in_parts_event_.ticket();
    add(0);
    if (done()) return;
    const Waiting waiting;
    in_parts_event_.await(ticket);
  }
}

void SortWatch::add_beside(std::uint64_t bytes) {
  expect_going();
  beside_.fetch_add(bytes, std::memory_order_relaxed);
}

void SortWatch::look_beside() {
  expect_going();
  const std::uint64_t beside = beside_.load(std::memory_order_relaxed);
  if (beside - reported_beside_ < kNoteBytes) return;
  reported_beside_ = beside;
  report();
}

void SortWatch::report() {
  expect_going();
  reported_ = now_.bytes;
  if (progress_) progress_(now_);
}

void WatchedOutput::written(std::size_t bytes) {
  out_.written(bytes);
  bytes_ += bytes;
  if (bytes_ - noted_ >= SortWatch::kNoteBytes) tell_rest();
}

void WatchedOutput::tell_rest() {
  switch (written_) {
    case Written::kCounts:
      watch_.add(bytes_ - noted_);
      break;
    case Written::kCountsInPart:
      watch_.add_in_part(bytes_ - noted_);
      break;
    case Written::kIsCounted:
      watch_.look();
      break;
    case Written::kBeside:
      watch_.add_beside(bytes_ - noted_);
      break;
  }
  noted_ = bytes_;
}

}}  // namespace vortex::v0
