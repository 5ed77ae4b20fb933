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
  explicit RunPiece(const LineRun& run) : run_(run.run), reader_(run.run) {}

  // Makes the bytes from `offset` on be there, `bytes` of them or up to the end of the run.
  void load(std::uint64_t offset, std::size_t bytes) {
    make_room(offset, bytes);
    if (const int error = reader_.read_checked(offset, room())) throw reader_.failed(error);
  }
  // The same of a record, without the rest of its block if that can be.
  void load_record(const RunMark& mark, std::size_t most_bytes) {
    if (mark.bytes == 0) return load(mark.offset, most_bytes);
    make_room(mark.offset, mark.bytes);
    if (const int error = reader_.read(mark.offset, room())) throw reader_.failed(error);
    if (!mark.is_of({bytes_.data(), bytes_.size()})) throw reader_.failed(EBADMSG);
  }
  // Whether the bytes from there on are there, or all that the run has.
  bool has(std::uint64_t offset, std::size_t bytes) const noexcept {
    const std::uint64_t end = begin_ + bytes_.size();
    return offset >= begin_ && offset <= end && (end - offset >= bytes || end == run_.bytes);
  }
  const char* at(std::uint64_t offset) const noexcept { return bytes_.data() + (offset - begin_); }
  std::vector<char> bytes() && noexcept { return std::move(bytes_); }

 private:
  void make_room(std::uint64_t offset, std::size_t bytes) {
    begin_ = offset;
    bytes_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, run_.bytes - offset)));
  }
  std::span<std::byte> room() noexcept { return std::as_writable_bytes(std::span(bytes_)); }
  const Run& run_;
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

 private:
  // A record that outlives what it was read from.
  struct Splitter {
    std::vector<char> bytes;
    StoredRecord stored;
  };

  Splitter read_mark(std::size_t run, std::size_t mark) const;
  // How many of the marks [first, last) of a run precede it; those in front of them do.
  std::size_t marks_before(const Splitter& splitter, std::size_t run, std::size_t first,
                           std::size_t last) const;
  RunPlace exact_place(const Splitter& splitter, std::size_t run, std::size_t marks_before) const;

  const std::vector<LineRun>& runs_;
  const StoredOrder order_;
};

Division::Splitter Division::read_mark(std::size_t run, std::size_t mark) const {
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

std::size_t Division::marks_before(const Splitter& splitter, std::size_t run, std::size_t first,
                                   std::size_t last) const {
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (precedes(read_mark(run, middle).stored, splitter.stored, order_)) {
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
    if (!piece.has(mark.offset, most_bytes_of_record(in))) {
      record.keep_key();
      piece.load(mark.offset, kScanBytes);
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
  std::vector<std::size_t> first(runs_.size(), 0);
  std::vector<std::size_t> last;
  for (const LineRun& run : runs_) last.push_back(run.marks.size());
  Splitter best;
  std::uint64_t best_distance = ~std::uint64_t{0};
  for (;;) {
    std::size_t widest = 0;
    for (std::size_t run = 1; run < runs_.size(); ++run) {
      if (last[run] - first[run] > last[widest] - first[widest]) widest = run;
    }
    if (first[widest] == last[widest]) break;
    const std::size_t middle = first[widest] + (last[widest] - first[widest]) / 2;
    Splitter splitter = read_mark(widest, middle);
    std::vector<std::size_t> before;
    std::uint64_t bytes = 0;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      before.push_back(marks_before(splitter, run, first[run], last[run]));
      const LineRun& in = runs_[run];
      bytes += before[run] < in.marks.size() ? in.marks[before[run]].text_bytes : in.end.text_bytes;
    }
    const bool too_few = bytes < wanted;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      (too_few ? first : last)[run] = before[run];
    }
    if (too_few) first[widest] = std::max(first[widest], middle + 1);
    if (!too_few) last[widest] = std::min(last[widest], middle);
    const std::uint64_t distance = too_few ? wanted - bytes : bytes - wanted;
    if (distance < best_distance) {
      best_distance = distance;
      best = std::move(splitter);
    }
    if (best_distance <= tolerance) break;
  }
  // Marks that are equal to the splitter may have been left out on either side.
  std::vector<RunPlace> places(runs_.size());
  for (std::size_t run = 0; run < runs_.size() && !best.bytes.empty(); ++run) {
    places[run] = exact_place(best, run, marks_before(best, run, 0, runs_[run].marks.size()));
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

}  // namespace

MergePart whole_merge(const std::vector<LineRun>& runs) {
  return part_between(std::vector<RunPlace>(runs.size()), ends_of(runs));
}

std::vector<MergePart> divide_runs(const std::vector<LineRun>& runs, const StoredOrder& order,
                                   unsigned parts, std::uint64_t least_bytes) {
  const MergePart whole = whole_merge(runs);
  const bool too_long = std::any_of(
      runs.begin(), runs.end(), [](const LineRun& run) { return run.longest > kMaxDividedRecord; });
  if (too_long || parts < 2) return {whole};
  // Parts that differ by a sixteenth are equal enough.
  const std::uint64_t tolerance = whole.text_bytes / parts / 32;
  Division division(runs, order);
  std::vector<MergePart> result;
  std::vector<RunPlace> begin(runs.size());
  std::uint64_t left = whole.text_bytes;
  for (unsigned i = 1; i < parts; ++i) {
    const std::vector<RunPlace> end = division.cut(whole.text_bytes / parts * i, tolerance);
    MergePart part = part_between(begin, end);
    // A cut in front of the one before gives numbers that wrap around.
    if (part.text_bytes > left || part.text_bytes < least_bytes ||
        left - part.text_bytes < least_bytes) {
      continue;
    }
    left -= part.text_bytes;
    result.push_back(std::move(part));
    begin = end;
  }
  result.push_back(part_between(begin, ends_of(runs)));
  return result;
}

std::vector<RunSlice> slices_of(std::vector<LineRun>& runs, const MergePart& part) {
  std::vector<RunSlice> slices;
  slices.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    LineRun& run = runs[i];
    const RunPart& of_run = part.runs[i];
    const std::size_t block_bytes = run.run.store->block_bytes();
    const RunPart::Blocks blocks = of_run.blocks(block_bytes);
    const bool empty = blocks.begin == blocks.end;
    slices.push_back({
        .run = &run.run,
        .first_block = blocks.begin,
        .bytes = empty ? 0 : of_run.end.offset - blocks.begin * block_bytes,
        .freed_begin = blocks.begin + (of_run.begin.offset % block_bytes != 0 ? 1 : 0),
        .freed_end =
            of_run.end.offset == run.end.offset ? blocks.end : of_run.end.offset / block_bytes,
    });
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
    const RunPart::Blocks blocks = part.runs[i].blocks(run.run.store->block_bytes());
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
