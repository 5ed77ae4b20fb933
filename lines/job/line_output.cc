#include "lines/job/line_output.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "lines/memory/line_arena.h"
#include "lines/record/framing.h"
#include "sort/job/output_parts.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

namespace {

// A writer of an output that is written in pieces has room for this many bytes at least.
constexpr std::uint64_t kLeastPieceBytes = std::uint64_t{16} << 20;

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

// What a cursor gives, in pieces: a writer's array has room for a part of the output where address
// space is short. Records that are there many times come some at a time. None come when no more are
// wanted.
template <typename Cursor>
class OutputPieces {
 public:
  OutputPieces(Cursor& cursor, const std::uint64_t& wanted) noexcept
      : cursor_(cursor), wanted_(wanted) {}

  // From here on next() is false once the output has got `limit` bytes.
  void begin_piece(const FramedOutput& out, std::uint64_t limit) noexcept {
    out_ = &out;
    limit_ = limit;
  }
  static constexpr SpanKind kWork = Cursor::kWork;
  bool next() {
    if (out_->bytes() >= limit_) return false;
    if (wanted_ == 0) return more_ = false;
    if (left_ == 0) {
      more_ = cursor_.next();
      if (!more_) return false;
      left_ = cursor_.count();
    }
    count_ = std::min<std::uint64_t>(left_, kBytesAtOnce / (stored().record.size() + 1) + 1);
    left_ -= count_;
    return true;
  }
  const StoredRecord& stored() const noexcept { return cursor_.stored(); }
  std::uint64_t count() const noexcept { return count_; }
  // False behind the last record.
  bool more() const noexcept { return more_; }

 private:
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;

  Cursor& cursor_;
  const std::uint64_t& wanted_;
  const FramedOutput* out_ = nullptr;
  std::uint64_t limit_ = 0;
  std::uint64_t left_ = 0;  // of the record that the cursor stands at
  std::uint64_t count_ = 0;
  bool more_ = true;
};

// With the framing of its records.
template <typename Part>
std::uint64_t bytes_of(const Part& part, const RecordFraming& framing) {
  return part.text_bytes() + part.counted() * framing_bytes(framing);
}
std::uint64_t bytes_of(const InputPart& part, const RecordFraming& /*framing*/) {
  return part.framed_bytes();
}

}  // namespace

// How many records are to be written at most.
std::uint64_t LineOutput::wanted() const noexcept {
  const std::uint64_t first = options_.resources.first_records;
  return first == 0 ? kAll : first;
}

void LineOutput::forget_head() noexcept {
  head_.clear();
  has_mark_ = false;
}

// Appends `wanted` records at most, and leaves how many more would have been.
template <typename Cursor, typename Told>
void LineOutput::append_all(Cursor& cursor, FramedOutput& out, std::uint64_t& wanted,
                            const Told& told) {
  LongLines& apart = job_->long_lines();
  std::uint64_t bytes_apart = 0;
  const auto append_apart = [&] {
    bytes_apart += apart.write_next(out);
    --wanted;
  };
  const auto tell = [&](std::uint64_t bytes) { told(bytes + std::exchange(bytes_apart, 0)); };
  for_each_record(
      cursor,
      [&](const Cursor& at) {
        while (apart.left() && wanted > 0) [[unlikely]] {
            const LongLines::Turn turn = apart.turn(at.stored());
            if (turn == LongLines::Turn::kBehind) break;
            append_apart();
            if (turn == LongLines::Turn::kInstead) return;
          }
        const std::uint64_t count = std::min(at.count(), wanted);
        wanted -= count;
        if (count > 0 && apart.is_stand_in(at.stored().record)) [[unlikely]] {
          bytes_apart += apart.write(at.stored().record, out);
          return;
        }
        for (std::uint64_t i = 0; i < count; ++i) out.append(at.stored().record);
      },
      tell);
  while (apart.left() && wanted > 0) {
    guarded(append_apart).throw_if_failed();
    tell(0);
  }
}

std::uint64_t LineOutput::head_bytes() const noexcept {
  std::uint64_t bytes = has_mark_ ? kByteOrderMark.size() : 0;
  for (const std::string& record : head_) bytes += record.size() + framing_bytes(options_.framing);
  return bytes;
}

FileWriterBase LineOutput::open_writer(std::uint64_t most_bytes, std::uint64_t least_bytes) {
  return files_.open_writer(job_->pool(), job_->plan().writer, most_bytes + head_bytes(),
                            least_bytes + head_bytes());
}

void LineOutput::append_head(FramedOutput& out) {
  guarded([&] {
    if (has_mark_) out.append_framed(kByteOrderMark);
    for (const std::string& record : head_) out.append(record);
  }).throw_if_failed();
}

// Writes what the cursor gives behind the header: `most_bytes` at most. Standard output goes on
// with a writer after the other where the system has less address space than that, but for records
// that are sorted apart, which do not come from the cursor.
template <typename Cursor>
void LineOutput::write_file(std::uint64_t most_bytes, std::uint64_t least_bytes, Cursor& cursor,
                            const std::function<void()>& opened) {
  constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  const bool goes_on = options_.output == "-" && !job_->long_lines().left();
  const bool may_be_more = least_bytes < most_bytes;
  if (goes_on) {
    const std::uint64_t piece = std::max(kLeastPieceBytes, 2 * job_->plan().longest_record);
    least_bytes = std::min(least_bytes, piece);
  }
  std::uint64_t wanted = this->wanted();
  OutputPieces<Cursor> pieces(cursor, wanted);
  for (bool first = true; pieces.more(); first = false) {
    FileWriterBase writer = open_writer(most_bytes, least_bytes);
    if (first && opened) opened();
    begun_ = true;
    const StreamStop stop(writer.stream(), options_.resources.stop);
    FramedOutput out(ByteOutput(writer.bytes(), job_->plan().block_bytes), options_.framing);
    if (first) append_head(out);
    // The last record of a piece may be long.
    const std::uint64_t room = writer.stream().reserved_bytes();
    pieces.begin_piece(out, goes_on && (may_be_more || room < most_bytes) ? room / 2 : kNoLimit);
    append_all(pieces, out, wanted, [&](std::uint64_t bytes) { job_->watch().add(bytes); });
    job_->watch().expect_going();
    report_.output_bytes += out.bytes();
    writer.finish_bytes(out.bytes());
  }
  report_.records_out = this->wanted() - wanted;
}

// All threads merge or copy, each some parts. Where a part begins is known from the lengths of
// those in front of it.
template <typename Cursor>
bool LineOutput::write_parts(const Cursors<Cursor>& sorted,
                             const std::function<bool()>& are_whole) {
  std::vector<std::uint64_t> bytes;
  for (const auto& part : sorted) bytes.push_back(bytes_of(*part, options_.framing));
  bytes.front() += head_bytes();
  OutputParts parts(files_, job_->pool(), job_->plan().writer, bytes, options_.resources.stop);
  if constexpr (std::is_same_v<Cursor, RunMerge>) job_->lend_read_ahead();
  std::vector<std::uint64_t> records(parts.size());
  SortWatch& watch = job_->watch();
  parts.write(job_->team(), watch, [&](std::size_t i, Written told) {
    const OutputParts::Part& part = parts[i];
    FramedOutput out(ByteOutput(part.head, part.behind_head, job_->plan().block_bytes),
                     options_.framing);
    if (i == 0) append_head(out);
    guarded([&] { sorted[i]->start(); }).throw_if_failed();
    std::uint64_t wanted = kAll;
    append_all(*sorted[i], out, wanted, [&](std::uint64_t some) {
      told == Written::kCounts ? watch.add(some) : watch.add_in_part(some);
    });
    records[i] = kAll - wanted;
    return out.bytes();
  });
  if (are_whole && !(parts.complete() && are_whole())) return false;
  report_.records_out = std::accumulate(records.begin(), records.end(), std::uint64_t{0});
  report_.output_bytes = parts.bytes();
  parts.finish();
  return true;
}

void LineOutput::prepare_at_once(std::uint64_t most_bytes) {
  text_bytes_ = static_cast<std::size_t>(most_bytes + head_bytes() + kByteOrderMark.size());
  text_ = std::make_unique_for_overwrite<std::byte[]>(text_bytes_);
}

void LineOutput::write_at_once(const LineArena& sorted) {
  FramedOutput out(ByteOutput(text_.get(), text_bytes_), options_.framing);
  append_head(out);
  ArenaCursor cursor(sorted);
  for (FirstOfCursor<ArenaCursor> first(cursor, wanted()); first.next();) {
    for (std::uint64_t i = 0; i < first.count(); ++i) out.append(first.stored().record);
    report_.records_out += first.count();
  }
  report_.output_bytes = out.bytes();
  report_.merge_parts = 1;
  files_.write_whole(
      {reinterpret_cast<const char*>(text_.get()), static_cast<std::size_t>(out.bytes())});
}

// Where a part begins does not count the records that are kept apart, nor those that are not
// wanted.
bool LineOutput::has_parts() const noexcept {
  return files_.output_has_places() && job_->long_lines().empty() && wanted() >= report_.records_in;
}

// How many equal records are dropped is not known beforehand, and so not where a part begins.
unsigned LineOutput::most_parts_of_merge() const noexcept {
  return has_parts() && !options_.order.unique ? job_->plan().threads : 1;
}

void LineOutput::write_sorted(std::uint64_t most_bytes) {
  const LinePlan& plan = job_->plan();
  if (job_->in_memory()) {
    const auto parts = divide_arena(job_->arena(), has_parts() ? plan.writers_at_once() : 1,
                                    plan.least_part_bytes(), job_->team());
    report_.merge_parts = static_cast<unsigned>(parts.size());
    if (parts.size() > 1) {
      write_parts(parts);
      return;
    }
    return write_file(most_bytes, most_bytes, *parts.front());
  }
  const unsigned most_parts = most_parts_of_merge();
  if (most_parts == 1) {
    report_.merge_parts = 1;
    if (const auto tree = job_->merge_in_order()) return write_one(most_bytes, *tree);
  }
  const auto merges = job_->merge_all(most_parts);
  report_.merge_parts = static_cast<unsigned>(merges.size());
  if (merges.size() > 1) {
    write_parts(merges);
    return;
  }
  write_one(most_bytes, *merges.front());
}

template <typename Merge>
void LineOutput::write_one(std::uint64_t most_bytes, Merge& merge) {
  guarded([&] { merge.start(); }).throw_if_failed();
  // Behind the writer, whose blocks are none to be lent.
  write_file(most_bytes, most_bytes, merge, [&] { job_->lend_read_ahead(); });
}

bool LineOutput::write_merged(const InputParts& inputs) {
  if (!write_parts(inputs.parts(), [&] { return inputs.are_whole(); })) return false;
  report_.merge_parts = static_cast<unsigned>(inputs.parts().size());
  return true;
}

void LineOutput::write_merged(LineMerge<TextCursor>& merge, std::uint64_t least_bytes) {
  write_file(std::max(least_bytes, kUnknownLengthReservation), least_bytes, merge);
}

}}  // namespace vortex::v0
