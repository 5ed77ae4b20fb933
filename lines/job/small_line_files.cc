#include "lines/job/small_line_files.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "lines/record/byte_output.h"
#include "lines/record/framing.h"
#include "lines/record/record_keys.h"
#include "lines/text/line_inputs.h"
#include "sort/plan/memory_limits.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kBatchRecords = 1024;
constexpr std::size_t kLeastRoom = std::size_t{64} << 10;
// The arena of text that is mostly empty lines: a length and an entry of the index for each byte.
constexpr std::uint64_t kArenaOfText = 18;
// The same with keys, which are longer than their lines in some orders.
constexpr std::uint64_t kArenaOfKeys = 32;
constexpr std::uint64_t kMostArena = std::uint64_t{48} << 20;
// Text and arena take these shares of the memory at most. Where none was named, a smaller arena is
// a small part of whatever there is, and asking takes longer than a sort that small.
constexpr std::uint64_t kShareOfText = 8;
constexpr std::uint64_t kShareOfArena = 2;
constexpr std::uint64_t kArenaToAskFor = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 20;
// Keys of longer records are made where there is room for them.
constexpr std::size_t kLongestWithKey = std::size_t{64} << 10;

}  // namespace

// Text that grows.
class SmallLineFiles::Text {
 public:
  // False: there is no memory. What is behind size() is not initialised.
  bool make_room(std::size_t bytes) {
    if (capacity_ - size_ >= bytes) return true;
    const std::size_t wanted = std::max(size_ + bytes, 2 * size_);
    void* const larger = std::realloc(data_.get(), wanted);
    if (larger == nullptr) return false;
    static_cast<void>(data_.release());
    data_.reset(static_cast<char*>(larger));
    capacity_ = wanted;
    return true;
  }
  std::span<char> room() noexcept { return {data_.get() + size_, capacity_ - size_}; }
  void used(std::size_t bytes) noexcept { size_ += bytes; }

  char* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  std::string_view part(std::size_t begin, std::size_t end) const noexcept {
    return std::string_view(data_.get(), size_).substr(begin, end - begin);
  }

 private:
  std::unique_ptr<char, os::FreeDeleter> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

SmallLineFiles::SmallLineFiles(const LineSortOptions& options)
    : options_(options),
      order_(options.order),
      most_arena_(kMostArena),
      inputs_(options.inputs.size()),
      text_(std::make_unique<Text>()) {
  const std::uint64_t memory = options.resources.memory_bytes;
  if (memory == 0) return;
  most_text_ = static_cast<std::size_t>(std::min<std::uint64_t>(most_text_, memory / kShareOfText));
  most_arena_ = std::min(most_arena_, memory / kShareOfArena);
}

SmallLineFiles::~SmallLineFiles() = default;

// Whoever says how blocks and disks are to be used wants them.
bool SmallLineFiles::may_be_small() const {
  const SortResources& resources = options_.resources;
  return !options_.inputs.empty() && !options_.merge_inputs && resources.budget == nullptr &&
         options_.trace.empty() && !resources.progress && !resources.open_disk &&
         resources.block_bytes == 0 && resources.caching == Caching::kAuto &&
         (resources.memory_bytes == 0 || resources.memory_bytes >= kLeastMemory) &&
         !resources.stop.stop_requested();
}

std::optional<SortReport> SmallLineFiles::sort() {
  expect_limits(options_.resources);
  if (!may_be_small()) return std::nullopt;
  const std::uint64_t begin = steady_now_ns();
  const double cpu_begin = process_cpu_seconds();
  SortReport report;
  try {
    if (!open_output() || !read_inputs() || !take_records()) return std::nullopt;
    report.run_formation_seconds = seconds_since(begin);
    detail::ThreadTeam alone(1);
    arena_->sort(alone);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  if (options_.resources.stop.stop_requested()) return std::nullopt;
  write(report);
  report.cpu_seconds = process_cpu_seconds() - cpu_begin;
  report.seconds = seconds_since(begin);
  report.merge_seconds = report.seconds - report.run_formation_seconds;
  return report;
}

// False: a file of this file system cannot do without a name, which has to be removed after a
// signal; there is a thread for that in the other sort.
bool SmallLineFiles::open_output() {
  try {
    output_.emplace(options_.output, options_.resources, OutputUse::kAtOnce);
  } catch (const NoNamelessFile&) {
    return false;
  }
  return true;
}

bool SmallLineFiles::read_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    BlockFile file = LineInputs::open_file(options_.inputs[i], false);
    const bool again = file.seekable();
    const bool small = read_input(inputs_[i], file);
    if (!again) {
      inputs_[i].begun = true;
      inputs_[i].file = std::move(file);
    }
    if (!small) return false;
  }
  return true;
}

// A file may be longer by now than it said.
bool SmallLineFiles::read_input(Input& input, BlockFile& file) {
  const std::size_t begin = input.end = text_->size();
  if (file.seekable()) {
    if (file.length() > most_text_ - text_->size()) return false;
    // A byte that shows the end, and delimiters that may be missing.
    if (!text_->make_room(static_cast<std::size_t>(file.length()) + 1 + inputs_.size()))
      return false;
  } else if (options_.resources.stop.stop_possible()) {
    return false;
  }
  for (;;) {
    if (text_->room().size() <= inputs_.size() && !text_->make_room(kLeastRoom + inputs_.size()))
      return false;
    const std::span<char> room = text_->room();
    std::size_t bytes = 0;
    try {
      bytes = file.read_some(room.first(room.size() - inputs_.size()), text_->size() - begin);
    } catch (const Error&) {
      return false;  // the other sort says what
    }
    text_->used(bytes);
    input.end = text_->size();
    // What has become shorter is an error, and the other sort says which.
    if (bytes == 0 && !file.seekable()) file.rest_at_end();
    if (bytes == 0) return !file.seekable() || text_->size() - begin >= file.length();
    if (text_->size() > most_text_) return false;
  }
}

bool SmallLineFiles::take_records() {
  const std::uint64_t wanted =
      text_->size() * (order_.has_keys ? kArenaOfKeys : kArenaOfText) + kLeastRoom;
  if (options_.resources.memory_bytes == 0 && wanted > kArenaToAskFor) {
    most_arena_ = std::clamp(default_memory_bytes() / kShareOfArena, kArenaToAskFor, most_arena_);
  }
  try {
    memory_.emplace(static_cast<std::size_t>(std::min(wanted, most_arena_)), PageKind::kSmall);
  } catch (const Error&) {
    return false;
  }
  arena_.emplace(std::span(memory_->data(), memory_->size()), order_);
  batch_.resize(kBatchRecords);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!take_input(i)) return false;
  }
  return true;
}

bool SmallLineFiles::take_input(std::size_t index) {
  std::string_view text = text_->part(index == 0 ? 0 : inputs_[index - 1].end, inputs_[index].end);
  if (options_.framing.kind() == RecordFraming::Kind::kQuoted && text.starts_with(kByteOrderMark)) {
    has_mark_ = true;
    text.remove_prefix(kByteOrderMark.size());
  }
  std::uint64_t header = options_.header_records;
  while (!text.empty()) {
    const FramedRecords found = split_records(options_.framing, text, true, batch_);
    if (found.records == 0) return false;
    if (found.invalid != 0 && options_.framing.invalid_quotes() == InvalidQuotes::kRefused) {
      return false;
    }
    invalid_records_ += found.invalid;
    text.remove_prefix(found.bytes);
    std::span<const std::string_view> records = std::span(batch_).first(found.records);
    for (; header > 0 && !records.empty(); --header) {
      if (index == 0) header_.emplace_back(records.front());
      records = records.subspan(1);
    }
    if (!take(records)) return false;
  }
  return true;
}

bool SmallLineFiles::take(std::span<const std::string_view> records) {
  if (!order_.has_keys) {
    return std::all_of(records.begin(), records.end(),
                       [&](std::string_view record) { return arena_->push({}, record); });
  }
  while (!records.empty()) {
    const auto batch = records.first(std::max<std::size_t>(records_together(records), 1));
    if (batch.front().size() > kLongestWithKey) return false;
    make_keys(*options_.order.keys, batch, keys_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!arena_->push(keys_.key(i), batch[i])) return false;
    }
    records = records.subspan(batch.size());
  }
  return true;
}

// The text lies in the arena: where it was read comes what is written, which is no longer.
void SmallLineFiles::write(SortReport& report) {
  report.input_bytes = text_->size();
  report.records_in = arena_->records();
  report.invalid_records = invalid_records_;
  report.merge_parts = 1;
  const std::size_t most = text_->capacity();
  FramedOutput out(ByteOutput(reinterpret_cast<std::byte*>(text_->data()), most), options_.framing);
  if (has_mark_) out.append_framed(kByteOrderMark);
  for (const std::string& record : header_) out.append(record);
  for (ArenaCursor cursor(*arena_); cursor.next();) {
    const std::uint64_t count = cursor.count();
    for (std::uint64_t i = 0; i < count; ++i) out.append(cursor.stored().record);
    report.records_out += count;
  }
  report.output_bytes = out.bytes();
  report.least_io_bytes = report.input_bytes + report.output_bytes;
  output_->write_whole({text_->data(), static_cast<std::size_t>(out.bytes())},
                       options_.resources.sync);
}

BegunFiles SmallLineFiles::begun() {
  BegunFiles begun;
  if (output_ && !output_->folder()) begun.output.emplace(std::move(*output_));
  output_.reset();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].begun) continue;
    const std::string_view text = text_->part(i == 0 ? 0 : inputs_[i - 1].end, inputs_[i].end);
    inputs_[i].file.give_back({text.begin(), text.end()});
    begun.inputs.emplace(i, std::move(inputs_[i].file));
  }
  // The other sort has the memory from here on.
  arena_.reset();
  memory_.reset();
  text_ = std::make_unique<Text>();
  return begun;
}

}}  // namespace vortex::v0
