#include "lines/runs/line_run.h"

#include <algorithm>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kMaxMarks = 512;
// A record that ends so near to the end of a block may be the last one in front of another.
constexpr std::uint64_t kNearEnd = std::uint64_t{4} << 10;

// Some hundred marks remain, the first among them.
void leave_every_second(std::vector<RunMark>& marks) noexcept {
  for (std::size_t i = 0; 2 * i < marks.size(); ++i) marks[i] = marks[2 * i];
  marks.resize((marks.size() + 1) / 2);
}

RunMark behind(const RunMark& front, RunMark mark) noexcept {
  mark.offset += front.offset;
  mark.records += front.records;
  mark.counted += front.counted;
  mark.text_bytes += front.text_bytes;
  return mark;
}

std::uint32_t checksum_of(std::string_view text) noexcept {
  return block_checksum(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// The most blocks that a record of `bytes` lies in.
std::size_t blocks_of_record(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>((bytes + block_bytes - 1) / block_bytes) + 1;
}

}  // namespace

void RunMark::note_record(std::string_view stored) noexcept {
  bytes = static_cast<std::uint32_t>(stored.size());
  checksum = checksum_of(stored);
}

bool RunMark::is_of(std::string_view stored) const noexcept {
  return stored.size() == bytes && checksum_of(stored) == checksum;
}

LineRunWriter::LineRunWriter(RunStore& store, const StoredOrder& order, RunPacking& packing,
                             std::size_t write_behind, std::size_t forecast_bytes,
                             std::uint64_t most_bytes, const std::stop_token& stop)
    : store_(store),
      order_(order),
      mark_bytes_(store.block_bytes()),
      forecasts_(order, forecast_bytes, store.blocks_of(most_bytes)),
      stream_(std::in_place, store,
              RunStream::Options{.write_behind = write_behind,
                                 .most_bytes = most_bytes,
                                 .packing = &packing,
                                 .stop = stop}),
      out_(stream_->bytes(), store.block_bytes()) {
  marks_.reserve(std::min(most_bytes / mark_bytes_ + 2, kMaxMarks));  // none later
}

// All of it is one block, which nothing foretells.
LineRunWriter::LineRunWriter(RunStore& store, const StoredOrder& order, std::span<char> memory)
    : store_(store),
      order_(order),
      mark_bytes_(store.block_bytes()),
      forecasts_(order, 0, 0),
      near_(0),
      out_(std::as_writable_bytes(memory).data(), memory.size()) {
  marks_.reserve(std::min<std::uint64_t>(memory.size() / mark_bytes_ + 2, kMaxMarks));
}

// Only where a quarter of the key is saved: whoever reads it has to put it together.
bool LineRunWriter::shares(const StoredRecord& stored, std::uint64_t in_common) noexcept {
  const std::size_t key_bytes = stored.key.size();
  const bool fits = key_bytes <= kMaxSharingKey;
  const bool before_fits = std::exchange(may_share_, fits);
  long_keys_ += fits ? 0 : 1;
  return fits && before_fits && in_common > 0 &&
         4 * shared_bytes(key_bytes, in_common) >= key_bytes;
}

void LineRunWriter::append(const StoredRecord& stored, std::uint64_t in_common,
                           std::uint64_t count) noexcept {
  const bool marked = out_.bytes() >= next_mark_;
  if (marked) [[unlikely]]
    add_mark();
  longest_ = std::max(longest_, stored_bytes(stored.key, stored.record, order_.has_keys));
  ++end_.records;
  end_.counted += count;
  end_.text_bytes += count * stored.record.size();
  const RunRecordHead head{in_common, count, shares(stored, in_common)};
  const std::size_t shared = head.sharing ? shared_bytes(stored.key.size(), in_common) : 0;
  shared_bytes_ += shared;
  const std::string_view key = stored.key.substr(shared);
  const std::size_t bytes =
      head.bytes() + stored_bytes(stored.key, stored.record, order_.has_keys) - shared;
  if (char* const begin = out_.piece(bytes)) [[likely]] {
    char* const to = copy_text(head.write_with_lengths(begin, stored, order_.has_keys), key);
    if (order_.has_keys) copy_text(to, stored.record);
    out_.used(bytes);
    if (marked) [[unlikely]]
      marks_.back().note_record({begin, bytes});
  } else {
    begin_blocks(stored, bytes);
    char room[kRunPrefixBytes + 2 * kMaxLengthBytes];
    const char* const end = head.write_with_lengths(room, stored, order_.has_keys);
    out_.append(room, static_cast<std::size_t>(end - room));
    out_.append(key);
    if (order_.has_keys) out_.append(stored.record);
  }
  noted_ = out_.left_in_block() < near_;
  if (noted_) [[unlikely]]
    forecasts_.note(stored);
}

// The record, which is counted already, reaches into other blocks. Where the one before was not
// expected to be the last in front of them, its own key foretells nearly the same.
void LineRunWriter::begin_blocks(const StoredRecord& stored, std::size_t bytes) noexcept {
  if (!noted_ && end_.records > 1) forecasts_.note(stored);
  const std::uint64_t blocks = store_.blocks_of(out_.bytes() + bytes);
  for (; blocks_ < blocks; ++blocks_) {
    if (end_.records == 1) {
      forecasts_.add_first_block();
    } else {
      forecasts_.add_block();
    }
  }
  near_ = static_cast<std::size_t>(std::max(kNearEnd, 2 * longest_));
}

// A run may become much shorter than was said.
void LineRunWriter::add_mark() noexcept {
  if (marks_.size() == kMaxMarks) {
    leave_every_second(marks_);
    mark_bytes_ *= 2;
  }
  end_.offset = out_.bytes();
  marks_.push_back(end_);
  next_mark_ = end_.offset + mark_bytes_;
  may_share_ = false;  // for whoever begins here
}

LineRun LineRunWriter::finish(std::size_t unused) {
  end_.offset = out_.bytes() + unused;
  return {.run = stream_ ? stream_->finish(end_.offset, end_.records) : Run(store_),
          .kept = nullptr,
          .longest = longest_,
          .shared_bytes = shared_bytes_,
          .long_keys = long_keys_,
          .end = end_,
          .marks = std::move(marks_),
          .joints = {},
          .forecasts = forecasts_.finish()};
}

LineRun LineRunWriter::finish_before(const LineRun& next, const StoredRecord& last,
                                     std::uint64_t in_common) {
  if (!noted_) forecasts_.note(last);
  for (std::uint64_t i = 0; stream_ && i < next.forecasts.first_blocks(); ++i) {
    forecasts_.add_block();
  }
  LineRun run = finish(out_.left_in_block());
  run.joints.push_back({run.end, in_common});
  return run;
}

std::span<const RunJoint> LineRun::joints_behind(const RunMark& place) const noexcept {
  const auto first = std::upper_bound(
      joints.begin(), joints.end(), place.records,
      [](std::uint64_t records, const RunJoint& joint) { return records < joint.begin.records; });
  return std::span(joints).subspan(static_cast<std::size_t>(first - joints.begin()));
}

LineRun joined(std::vector<LineRun> parts) {
  LineRun all = std::move(parts.front());
  std::vector<Run> others;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    LineRun& next = parts[i];
    all.longest = std::max(all.longest, next.longest);
    all.shared_bytes += next.shared_bytes;
    all.long_keys += next.long_keys;
    for (const RunMark& mark : next.marks) all.marks.push_back(behind(all.end, mark));
    for (const RunJoint& joint : next.joints) {
      all.joints.push_back({behind(all.end, joint.begin), joint.in_common});
    }
    all.forecasts.append(next.forecasts);
    all.end = behind(all.end, next.end);
    if (next.run.blocks() != 0) others.push_back(std::move(next.run));
  }
  while (all.marks.size() > kMaxMarks) leave_every_second(all.marks);
  all.run.append(others);
  return all;
}

// What a record shares is copied when the head of the next one has been read.
std::size_t RunCursor::window_blocks(std::uint64_t longest, std::size_t block_bytes) noexcept {
  return blocks_of_record(longest + 2 * (kRunPrefixBytes + kMaxLengthBytes), block_bytes);
}

namespace {

InputStreamOptions stream_options(std::size_t window) {
  InputStreamOptions options;
  options.name = "a run";
  options.comeback_blocks = window - 1;
  return options;
}

}  // namespace

RunCursor::RunCursor(MergePrefetcher& prefetcher, std::uint32_t index, const RunPart& part,
                     const LineRun& run, const StoredOrder& order, const std::stop_token& stop)
    : block_bytes_(prefetcher.store().block_bytes()),
      first_byte_(run.kept ? 0 : part.begin.offset / block_bytes_ * block_bytes_),
      joints_(run.joints_behind(part.begin)),
      end_(part.end.records),
      record_(order.has_keys) {
  if (run.kept) {
    first_ = run.kept->data();
    next_block_ = first_ + run.kept->size();  // there are no blocks to be touched
  } else {
    const std::size_t window = window_blocks(run.longest, block_bytes_);
    stream_.emplace(std::make_unique<RunSource>(prefetcher, index, window), stream_options(window));
    stop_.emplace(*stream_, stop);
    first_ = next_block_ = stream_->data();
  }
  go_to(part.begin);
  record_.set_key_before(part.first_key);
}

void RunCursor::go_to(const RunMark& place) noexcept {
  at_ = first_ + (place.offset - first_byte_);
  left_ = (joints_.empty() ? end_ : std::min(end_, joints_.front().begin.records)) - place.records;
}

// Null where the part of the run ends.
const RunJoint* RunCursor::enter_joint() noexcept {
  if (joints_.empty() || joints_.front().begin.records >= end_) return nullptr;
  const RunJoint& joint = joints_.front();
  joints_ = joints_.subspan(1);
  go_to(joint.begin);
  return &joint;
}

void RunCursor::touch_blocks() noexcept {
  for (; next_block_ < at_; next_block_ += block_bytes_) {
    (void)*static_cast<const volatile char*>(next_block_);
  }
}

}}  // namespace vortex::v0
