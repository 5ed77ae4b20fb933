#include "lines/text/input_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "sort/runs/sort_watch.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kLeastFirst = 4;

}  // namespace

void StopSignal::follow(std::stop_token stop) {
  on_stop_.reset();
  event_.reset();
  stop_ = std::move(stop);
}

int StopSignal::descriptor() {
  if (!event_ && stop_.stop_possible()) {
    os::Event event;
    if (!event) throw Error(errno, "eventfd");
    event_ = std::move(event);
    on_stop_.emplace(stop_, [this] { event_->signal(); });
  }
  return event_ ? event_->get() : -1;
}

void StopSignal::expect_going() const {
  if (stop_.stop_requested()) throw Error(ECANCELED, kSortInterrupted);
}

InputText::InputText(BlockFile file, std::size_t buffer_bytes, std::optional<BlockReading> blocks,
                     StopSignal& stop, std::optional<std::uint64_t> part_begin)
    : stop_(stop),
      file_(std::move(file)),
      reading_(std::move(blocks)),
      buffer_bytes_(buffer_bytes),
      is_part_(part_begin.has_value()),
      begin_(part_begin.value_or(0)),
      read_(begin_) {
  if (wants_blocks()) {
    begin_blocks();
  } else if (file_.seekable() && file_.length() > buffer_bytes_) {
    posix_fadvise(file_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }
}

InputText::~InputText() {
  on_stop_.reset();
  while (!held_.empty()) pass_first();
}

// Tells whether the rest is worth blocks.
bool InputText::wants_blocks() const noexcept {
  if (!reading_ || source_) return false;
  return file_.seekable() ? file_.length() - begin_ > kShort : read_ >= kShort;
}

void InputText::begin_blocks() {
  buffer_.reset();
  auto layout = std::make_unique<SingleFile>(std::move(file_), reading_->disk);
  layout_ = layout.get();
  source_ = std::make_unique<FileSource>(*reading_->pool, std::move(layout), reading_->options);
  held_.reserve(source_->blocks_for_stream() + 1);
  if (is_part_) {
    block_ = read_ / reading_->pool->block_bytes();
    skipped_ = static_cast<std::size_t>(read_ % reading_->pool->block_bytes());
    read_ -= skipped_;
  }
  on_stop_.emplace(stop_.token(), [source = source_.get()] { source->cancel(); });
}

std::string_view InputText::next() {
  if (std::exchange(read_first_, false)) return piece_;
  if (wants_blocks()) begin_blocks();
  while (!held_.empty()) pass_first();
  if (source_ && !blocks_ended_ && next_block()) return piece_;
  // An input that has offsets may have grown behind the end that it had.
  if (source_ && layout_->sequential()) return {};
  return fill();
}

std::string_view InputText::next_beside() {
  const bool has_room = source_ && held_.size() < source_->blocks_for_stream();
  return has_room && !blocks_ended_ && next_block() ? piece_ : std::string_view();
}

void InputText::pass_first() noexcept {
  if (held_.empty()) return;
  source_->release(block_ - held_.size(), held_.front());
  held_.erase(held_.begin());
}

// Returns false at the end.
bool InputText::next_block() {
  const Source::Taken taken = source_->take(block_, block_);
  if (taken.status.error == ECANCELED) throw Error(ECANCELED, kSortInterrupted);
  if (taken.status.error != 0) throw Error(taken.status.error, taken.status.cause);
  blocks_ended_ = !taken.block;
  if (blocks_ended_) return false;
  held_.push_back(taken.block);
  ++block_;
  read_ += taken.bytes;
  piece_ = {reinterpret_cast<const char*>(source_->pool().home(taken.block)), taken.bytes};
  piece_.remove_prefix(std::min(std::exchange(skipped_, 0), taken.bytes));
  return true;
}

void InputText::read_first() {
  if (source_) return;
  fill();
  read_first_ = true;
}

std::string_view InputText::fill() {
  if (ended_) return {};
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(buffer_bytes_);
  std::size_t filled = 0;
  // The other end of a pipe may be waiting for what becomes of the bytes that are there. The first
  // ones tell what text it is.
  const std::size_t least = file().seekable() ? buffer_bytes_ : read_ == 0 ? kLeastFirst : 1;
  while (filled < least) {
    const std::size_t bytes = read_some(buffer_.get() + filled, buffer_bytes_ - filled);
    filled += bytes;
    read_ += bytes;
    ended_ = bytes == 0;
    if (ended_) break;
  }
  if (ended_) {
    expect_whole();
    file_ = {};
  }
  piece_ = {buffer_.get(), filled};
  return piece_;
}

std::size_t InputText::read_some(char* to, std::size_t bytes) {
  const int descriptor = file().descriptor();
  if (is_part_)
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, file().length() - read_));
  for (;;) {
    stop_.expect_going();
    if (!file().seekable()) wait_until_readable();
    const ssize_t done =
        file().seekable() ? pread(descriptor, to, bytes, static_cast<off_t>(file().begin() + read_))
                          : read(descriptor, to, bytes);
    if (done >= 0) return static_cast<std::size_t>(done);
    if (errno == EINTR || (errno == EAGAIN && !file().seekable())) continue;
    throw Error(errno, "reading '" + file().name() + "' at byte " + std::to_string(read_));
  }
}

// Waits for a pipe, or until the sort is to stop.
void InputText::wait_until_readable() {
  const Waiting waiting;
  std::array<pollfd, 2> both{{{file().descriptor(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
  while (poll(both.data(), both.size(), -1) < 0) {
    if (errno != EINTR) throw Error(errno, "wait for '" + file().name() + "'");
    stop_.expect_going();
  }
  stop_.expect_going();
}

// Files made up on the fly, as in /sys, may say that they are longer than they are.
void InputText::expect_whole() const {
  if (!file().seekable() || read_ >= file().length()) return;
  struct stat now {};
  if (fstat(file().descriptor(), &now) != 0) throw Error(errno, "stat '" + file().name() + "'");
  const std::uint64_t before = file().begin() + file().length();
  if (!S_ISREG(now.st_mode) || static_cast<std::uint64_t>(now.st_size) >= before) return;
  throw Error(ENODATA, "'" + file().name() + "' ends at byte " + std::to_string(read_) +
                           " and was " + std::to_string(file().length()) +
                           " long when it was opened");
}

}}  // namespace vortex::v0
