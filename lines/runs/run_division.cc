#include "lines/runs/run_division.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lines/runs/block_forecasts.h"
#include "lines/runs/run_record.h"
#include "sort/merge/merge_division.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kScanBytes = std::size_t{256} << 10;

// The most bytes of a record of the run, with what stands in front of it.
std::size_t most_bytes_of_record(const LineRun& run) noexcept {
  return static_cast<std::size_t>(run.longest) + kRunPrefixBytes;
}

// A piece of a run, copied.
class RunPiece {
 public:
  explicit RunPiece(const LineRun& run) : run_(run), reader_(run.run) {}

  // Makes the bytes from `offset` on be there, `bytes` of them or up to the end of the run.
  void load(std::uint64_t offset, std::size_t bytes) {
    make_room(offset, bytes);
    if (copied(offset)) return;
    if (const int error = reader_.read_checked(offset, room())) throw reader_.failed(error);
  }
  // The same of a record, without the rest of its block if that can be.
  void load_record(const RunMark& mark, std::size_t most_bytes) {
    if (mark.bytes == 0) return load(mark.offset, most_bytes);
    make_room(mark.offset, mark.bytes);
    if (copied(mark.offset)) return;
    if (const int error = reader_.read(mark.offset, room())) throw reader_.failed(error);
    if (!mark.is_of({bytes_.data(), bytes_.size()})) throw reader_.failed(EBADMSG);
  }
  // Whether the bytes from there on are there, or all that the run has.
  bool has(std::uint64_t offset, std::size_t bytes) const noexcept {
    const std::uint64_t end = begin_ + bytes_.size();
    return offset >= begin_ && offset <= end && (end - offset >= bytes || end == run_.end.offset);
  }
  const char* at(std::uint64_t offset) const noexcept { return bytes_.data() + (offset - begin_); }
  std::vector<char> bytes() && noexcept { return std::move(bytes_); }

 private:
  void make_room(std::uint64_t offset, std::size_t bytes) {
    begin_ = offset;
    bytes_.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, run_.end.offset - offset)));
  }
  // Of a run in memory.
  bool copied(std::uint64_t offset) noexcept {
    if (run_.kept) copy_text(bytes_.data(), run_.kept_from(offset).substr(0, bytes_.size()));
    return run_.kept != nullptr;
  }
  std::span<std::byte> room() noexcept { return std::as_writable_bytes(std::span(bytes_)); }
  const LineRun& run_;
  RunBytes reader_;
  std::uint64_t begin_ = 0;
  std::vector<char> bytes_;
};

bool precedes(const StoredRecord& a, const StoredRecord& b, const StoredOrder& order) {
  return difference(a, b, order, 0).order < 0;
}

// The end of a part in a run.
struct RunPlace {
  RunMark mark;
  std::string key;  // of the record behind it, unless that is stored whole
};

class Division {
 public:
  Division(const std::vector<LineRun>& runs, const StoredOrder& order)
      : runs_(runs), order_(order) {}

  // The end of a part that has about `wanted` bytes of text from the beginning on.
  std::vector<RunPlace> cut(std::uint64_t wanted, std::uint64_t tolerance);

  // For find_splitter(): samples are the records of marks. A record that outlives what it was read
  // from.
  struct Splitter {
    std::vector<char> bytes;
    StoredRecord stored;
  };

  std::size_t size(std::size_t run) const noexcept { return runs_[run].marks.size(); }
  Splitter at(std::size_t run, std::size_t mark) const;
  std::size_t before(const Splitter& splitter, std::size_t run, std::size_t first,
                     std::size_t last) const;
  std::uint64_t amount(std::size_t run, std::size_t before) const noexcept {
    const LineRun& in = runs_[run];
    return before < in.marks.size() ? in.marks[before].text_bytes : in.end.text_bytes;
  }

 private:
  RunPlace exact_place(const Splitter& splitter, std::size_t run, std::size_t marks_before) const;

  const std::vector<LineRun>& runs_;
  const StoredOrder order_;
};

Division::Splitter Division::at(std::size_t run, std::size_t mark) const {
  RunPiece piece(runs_[run]);
  piece.load_record(runs_[run].marks[mark], most_bytes_of_record(runs_[run]));
  Splitter splitter;
  splitter.bytes = std::move(piece).bytes();
  const char* at = splitter.bytes.data();
  RunRecordReader record(order_.has_keys);
  record.read(at);
  splitter.stored = record.stored();
  return splitter;
}

std::size_t Division::before(const Splitter& splitter, std::size_t run, std::size_t first,
                             std::size_t last) const {
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (precedes(at(run, middle).stored, splitter.stored, order_)) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// The first record that does not precede the splitter lies between the last mark that does and the
// mark behind that.
RunPlace Division::exact_place(const Splitter& splitter, std::size_t run,
                               std::size_t marks_before) const {
  if (marks_before == 0) return {};
  const LineRun& in = runs_[run];
  RunPlace place{in.marks[marks_before - 1], {}};
  RunMark& mark = place.mark;
  const RunMark& end = marks_before < in.marks.size() ? in.marks[marks_before] : in.end;
  RunPiece piece(in);
  RunRecordReader record(order_.has_keys);
  auto joints = in.joints_behind(mark);
  while (mark.records < end.records) {
    const auto left = static_cast<std::size_t>(end.offset - mark.offset);
    if (!piece.has(mark.offset, std::min(most_bytes_of_record(in), left))) {
      record.keep_key();
      piece.load(mark.offset, std::min(kScanBytes, left));
    }
    const char* const begin = piece.at(mark.offset);
    const char* at = begin;
    record.read(at);
    if (!precedes(record.stored(), splitter.stored, order_)) {
      place.key = record.stored().key.substr(0, kMaxSharingKey);
      break;
    }
    mark.offset += static_cast<std::uint64_t>(at - begin);
    ++mark.records;
    mark.counted += record.count();
    mark.text_bytes += record.count() * record.stored().record.size();
    if (!joints.empty() && mark.records == joints.front().begin.records) {
      mark.offset = joints.front().begin.offset;
      joints = joints.subspan(1);
    }
  }
  return place;
}

std::vector<RunPlace> Division::cut(std::uint64_t wanted, std::uint64_t tolerance) {
  const auto best = find_splitter(*this, runs_.size(), wanted, tolerance);
  // Marks that are equal to the splitter may have been left out on either side.
  std::vector<RunPlace> places(runs_.size());
  for (std::size_t run = 0; run < runs_.size() && best; ++run) {
    places[run] = exact_place(*best, run, before(*best, run, 0, size(run)));
  }
  return places;
}

MergePart part_between(const std::vector<RunPlace>& begin, const std::vector<RunPlace>& end) {
  MergePart part;
  for (std::size_t run = 0; run < begin.size(); ++run) {
    const RunMark& from = begin[run].mark;
    const RunMark& to = end[run].mark;
    part.runs.push_back({from, to, begin[run].key});
    part.counted += to.counted - from.counted;
    part.text_bytes += to.text_bytes - from.text_bytes;
  }
  return part;
}

std::vector<RunPlace> ends_of(const std::vector<LineRun>& runs) {
  std::vector<RunPlace> ends;
  for (const LineRun& run : runs) ends.push_back({run.end, {}});
  return ends;
}

// About the text of so many records.
std::uint64_t text_of_first(const MergePart& whole, std::uint64_t wanted) noexcept {
  if (wanted == whole.counted) return whole.text_bytes;
  return static_cast<std::uint64_t>(static_cast<double>(whole.text_bytes) *
                                    static_cast<double>(wanted) /
                                    static_cast<double>(whole.counted));
}

std::vector<MergePart> first_of(std::vector<MergePart> parts, std::uint64_t wanted) noexcept {
  std::size_t count = 0;
  do {
    MergePart& part = parts[count];
    part.counted = std::min(part.counted, wanted);
    wanted -= part.counted;
  } while (++count < parts.size() && wanted > 0);
  parts.resize(count);
  return parts;
}

}  // namespace

MergePart whole_merge(const std::vector<LineRun>& runs) {
  return part_between(std::vector<RunPlace>(runs.size()), ends_of(runs));
}

std::vector<MergePart> divide_runs(const std::vector<LineRun>& runs, const StoredOrder& order,
                                   unsigned parts, std::uint64_t least_bytes,
                                   std::uint64_t most_counted) {
  const MergePart whole = whole_merge(runs);
  const std::uint64_t wanted =
      most_counted == 0 ? whole.counted : std::min(whole.counted, most_counted);
  const bool too_long = std::any_of(
      runs.begin(), runs.end(), [](const LineRun& run) { return run.longest > kMaxDividedRecord; });
  if (too_long || parts < 2) return first_of({whole}, wanted);
  Division division(runs, order);
  std::vector<MergePart> result = cut_into_parts(
      text_of_first(whole, wanted), parts, least_bytes, std::vector<RunPlace>(runs.size()),
      ends_of(runs),
      [&](std::uint64_t text, std::uint64_t tolerance) { return division.cut(text, tolerance); },
      part_between, [](const MergePart& part) { return part.text_bytes; });
  return first_of(std::move(result), wanted);
}

std::vector<RunSlice> slices_of(std::vector<LineRun>& runs, const MergePart& part) {
  std::vector<RunSlice> slices;
  slices.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPart& part_of_run = part.runs[i];
    const bool empty = part_of_run.begin.records == part_of_run.end.records;
    const std::uint64_t begin = runs[i].kept ? 0 : part_of_run.begin.offset;
    slices.push_back(RunSlice::between(runs[i].run, begin,
                                       empty || runs[i].kept ? begin : part_of_run.end.offset));
  }
  return slices;
}

std::unique_ptr<OrderOfNeed> order_of_need(const std::vector<LineRun>& runs, const MergePart& part,
                                           const StoredOrder& order) {
  const StoredOrder of_forecasts = forecast_order(order);
  std::vector<NeededBlock> first;
  std::vector<ForecastCursor> cursors;
  std::vector<std::uint64_t> first_blocks;
  const auto block_of = [&](std::uint32_t run, std::uint64_t block) {
    return NeededBlock{run, runs[run].run.places.place(block).file, block - first_blocks[run]};
  };
  const auto count = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const LineRun& run = runs[i];
    const RunPart::Blocks blocks =
        run.kept ? RunPart::Blocks{} : part.runs[i].blocks(run.run.store->block_bytes());
    first_blocks.push_back(blocks.begin);
    // The blocks that the merge begins with.
    std::uint64_t block = blocks.begin;
    const std::uint64_t begun = std::max(blocks.begin + 1, run.forecasts.first_blocks());
    for (; block < std::min(begun, blocks.end); ++block) first.push_back(block_of(i, block));
    cursors.emplace_back(run.forecasts, of_forecasts, block, blocks.end, run.run.blocks());
  }
  return foretold_order(
      std::move(first), count,
      [&](std::uint32_t run) -> std::optional<NeededBlock> {
        if (!cursors[run].advance()) return std::nullopt;
        return block_of(run, cursors[run].block());
      },
      [&](std::uint32_t a, std::uint32_t b) {
        return difference(cursors[a].stored(), cursors[b].stored(), of_forecasts, 0).order < 0;
      });
}

}}  // namespace vortex::v0
