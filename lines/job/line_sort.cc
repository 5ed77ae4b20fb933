#include "vortex/line_sort.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lines/job/input_merge.h"
#include "lines/job/line_job.h"
#include "lines/job/small_line_files.h"
#include "lines/memory/line_arena.h"
#include "lines/record/byte_output.h"
#include "lines/record/framing.h"
#include "lines/runs/line_merge.h"
#include "lines/runs/output_pieces.h"
#include "lines/text/framed_input.h"
#include "lines/text/line_inputs.h"
#include "lines/text/text_cursor.h"
#include "sort/job/file_sort.h"
#include "sort/job/sort_files.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

namespace {

// A record with its key and lengths takes so many times the bytes of its text at most, but for a
// few; runs of inputs that are merged reserve address space for it.
constexpr std::uint64_t kMaxStored = 16;
constexpr std::uint64_t kMinRunBytes = std::uint64_t{64} << 20;
// A part of the output of a sort in memory that has less text is not worth a thread.
constexpr std::uint64_t kMinBlocksOfPart = 8;
// Of an output that is written in pieces, a writer has room for so many bytes at least.
constexpr std::uint64_t kLeastPieceBytes = std::uint64_t{16} << 20;
// The bytes of a run of inputs of unknown length, in multiples of the memory.
constexpr std::uint64_t kRunOfUnknown = 16;
// What an input may lack at its end, and the output has: a quote and a delimiter.
constexpr std::uint64_t kMostMissing = 2;

// A sort or a merge of files, once.
class LineFiles final : public RecordKind {
 public:
  LineFiles(const LineSortOptions& options, BegunFiles begun)
      : options_(options),
        inputs_(options, std::move(begun.inputs)),
        machine_(options, std::move(begun.output)),
        files_(machine_.files()),
        job_(options.order, options.resources, files_.folders()) {}

  LineSortReport sort() {
    machine_.run(*this, report_);
    return report_;
  }

 private:
  void start() override;
  bool take_inputs() override;
  void write_output() override;
  RunSet& runs() override { return job_.runs(); }
  RunCounts counts() override;

  bool will_form_runs() const;
  void form_runs();
  void take_all(std::size_t index);
  void note_header(std::size_t input, std::string_view record);
  void note_input(const FramedInput& input);
  // A part of the output: what lies in the block that the part in front ends in, and the rest.
  struct OutputPart {
    std::vector<char> head;
    std::uint64_t bytes = 0;  // both
    std::optional<FileWriterBase> writer;
    std::optional<FramedOutput> out;
  };
  // In the order of the output. The first writer is destroyed last: the others write to its file.
  struct OutputParts {
    OutputParts() = default;
    ~OutputParts() {
      while (!all.empty()) all.pop_back();
    }
    OutputParts(const OutputParts&) = delete;
    OutputParts& operator=(const OutputParts&) = delete;

    std::vector<OutputPart> all;
  };

  template <typename Cursor>
  void write_file(std::uint64_t most_bytes, std::uint64_t least_bytes, Cursor& cursor,
                  const std::function<void()>& opened = {});
  // A Part is a RunMerge or an ArenaPart.
  template <typename Part>
  void write_parts(const std::vector<std::unique_ptr<Part>>& sorted, std::uint64_t most_bytes);
  template <typename Part>
  void open_parts(const std::vector<std::unique_ptr<Part>>& sorted, std::uint64_t most_bytes,
                  std::vector<OutputPart>& parts);
  FileWriterBase open_writer(std::uint64_t most_bytes, std::uint64_t least_bytes);
  void append_header(FramedOutput& out);
  template <typename Cursor, typename Told>
  std::uint64_t append_all(Cursor& cursor, FramedOutput& out, const Told& told);
  template <typename Cursor>
  void append_all(Cursor& cursor, FramedOutput& out) {
    report_.records_out +=
        append_all(cursor, out, [&](std::uint64_t bytes) { job_.watch().add(bytes); });
  }

  std::optional<bool> merge_if_room();
  bool merge_inputs();
  void write_merged(InputMerge& inputs);
  void write_runs_of(InputMerge& inputs);

  const LineSortOptions& options_;
  LineInputs inputs_;
  FileSort machine_;
  SortFiles& files_;
  LineJob job_;
  std::vector<std::string> header_;
  bool has_mark_ = false;  // an input begins with a byte-order mark, and so the output does
  bool wrote_ = false;     // some of the output
  LineSortReport report_;
};

// As far as that is known before the inputs are read.
bool LineFiles::will_form_runs() const {
  return !options_.merge_inputs && !options_.order.unique &&
         inputs_.bytes().value_or(0) > job_.plan().arena_bytes;
}

void LineFiles::start() {
  job_.keep_long_apart(options_.framing);
  job_.start(inputs_.bytes());
  // Scripts may name a folder that is not there, as long as it is not needed. Where it will be,
  // that is better known before all is read.
  if (will_form_runs()) files_.expect_folders();
}

bool LineFiles::take_inputs() {
  if (options_.merge_inputs) {
    if (const std::optional<bool> left = merge_if_room()) return *left;
  }
  form_runs();
  return true;
}

RunCounts LineFiles::counts() {
  RunCounts counts = job_.runs().counts();
  counts.runs += job_.long_lines().empty() ? 0 : 1;
  counts.bytes += job_.long_lines().file_bytes();
  return counts;
}

void LineFiles::note_header(std::size_t input, std::string_view record) {
  if (input == 0) header_.emplace_back(record);
}

// Which has ended.
void LineFiles::note_input(const FramedInput& input) {
  report_.input_bytes += input.bytes();
  report_.invalid_records += input.invalid_records();
  report_.unclosed_records += input.ends_in_quotes() ? 1 : 0;
  has_mark_ |= input.has_mark();
}

void LineFiles::form_runs() {
  job_.watch().begin(SortPhase::kReading, inputs_.bytes());
  for (std::size_t i = 0; i < inputs_.size(); ++i) take_all(i);
  report_.records_in = job_.records();
  job_.end_forming();
}

void LineFiles::take_all(std::size_t index) {
  FramedInput input(inputs_.open(index, job_.pool(), files_.disk(), job_.plan().reader),
                    inputs_.name(index), options_.framing, job_.longest_record(),
                    [this](std::string_view so_far, std::size_t bytes) {
                      return job_.assembly_room(so_far, bytes);
                    });
  std::uint64_t told = 0;
  std::uint64_t header = options_.header_records;
  for (auto batch = input.next(); !batch.empty(); batch = input.next()) {
    const std::size_t all = batch.size();
    for (; header > 0 && !batch.empty(); --header) {
      note_header(index, batch.front());
      batch = batch.subspan(1);
    }
    try {
      job_.take(batch);
    } catch (const RecordTooLong& error) {
      input.refuse_long(all - batch.size() + error.index(), error.complaint());
    }
    job_.watch().add(input.bytes() - std::exchange(told, input.bytes()));
  }
  note_input(input);
}

// Returns how many.
template <typename Cursor, typename Told>
std::uint64_t LineFiles::append_all(Cursor& cursor, FramedOutput& out, const Told& told) {
  std::uint64_t records = 0;
  LongLines& apart = job_.long_lines();
  std::uint64_t bytes_apart = 0;
  const auto append_apart = [&] {
    bytes_apart += apart.write_next(out);
    ++records;
  };
  const auto tell = [&](std::uint64_t bytes) { told(bytes + std::exchange(bytes_apart, 0)); };
  for_each_record(
      cursor,
      [&](const Cursor& at) {
        while (apart.left()) [[unlikely]] {
            const LongLines::Turn turn = apart.turn(at.stored());
            if (turn == LongLines::Turn::kBehind) break;
            append_apart();
            if (turn == LongLines::Turn::kInstead) return;
          }
        if (apart.is_stand_in(at.stored().record)) [[unlikely]] {
          bytes_apart += apart.write(at.stored().record, out);
          ++records;
          return;
        }
        const std::uint64_t count = at.count();
        for (std::uint64_t i = 0; i < count; ++i) out.append(at.stored().record);
        records += count;
      },
      tell);
  while (apart.left()) {
    guarded(append_apart).throw_if_failed();
    tell(0);
  }
  return records;
}

void LineFiles::write_output() {
  job_.watch().begin(SortPhase::kWriting, report_.input_bytes);
  const std::uint64_t most_bytes = report_.input_bytes + kMostMissing * inputs_.size();
  const LinePlan& plan = job_.plan();
  // Where a part begins does not count the records that are kept apart.
  const bool in_parts = files_.output_has_places() && job_.long_lines().empty();
  if (job_.in_memory()) {
    const auto parts = divide_arena(job_.arena(), in_parts ? plan.writers_at_once() : 1,
                                    kMinBlocksOfPart * plan.block_bytes, job_.team());
    report_.merge_parts = static_cast<unsigned>(parts.size());
    if (parts.size() > 1) return write_parts(parts, most_bytes);
    return write_file(most_bytes, most_bytes, *parts.front());
  }
  // How many equal records are dropped is not known beforehand, and so not where a part begins.
  const auto merges = job_.runs().merge_all(in_parts && !options_.order.unique ? plan.threads : 1);
  report_.merge_parts = static_cast<unsigned>(merges.size());
  if (merges.size() > 1) return write_parts(merges, most_bytes);
  guarded([&] { merges.front()->start(); }).throw_if_failed();
  // Behind the writer, whose blocks are none to be lent.
  std::optional<LineLending> lending;
  write_file(most_bytes, most_bytes, *merges.front(), [&] { lending.emplace(job_, merges); });
}

FileWriterBase LineFiles::open_writer(std::uint64_t most_bytes, std::uint64_t least_bytes) {
  std::uint64_t header_bytes = kByteOrderMark.size();
  for (const std::string& record : header_) header_bytes += record.size() + sizeof(std::uint32_t);
  return files_.open_writer(job_.pool(), job_.plan().writer, most_bytes + header_bytes,
                            least_bytes + header_bytes);
}

void LineFiles::append_header(FramedOutput& out) {
  guarded([&] {
    if (has_mark_) out.append_framed(kByteOrderMark);
    for (const std::string& record : header_) out.append(record);
  }).throw_if_failed();
}

// Writes what the cursor gives behind the header: so many bytes at most. Standard output goes on
// with a writer after the other where the system has less address space than that, but for records
// that are sorted apart, which do not come from the cursor.
template <typename Cursor>
void LineFiles::write_file(std::uint64_t most_bytes, std::uint64_t least_bytes, Cursor& cursor,
                           const std::function<void()>& opened) {
  constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  const bool goes_on = options_.output == "-" && !job_.long_lines().left();
  const bool may_be_more = least_bytes < most_bytes;
  if (goes_on) {
    const std::uint64_t piece = std::max(kLeastPieceBytes, 2 * job_.plan().longest_record);
    least_bytes = std::min(least_bytes, piece);
  }
  OutputPieces<Cursor> pieces(cursor);
  for (bool first = true; pieces.more(); first = false) {
    FileWriterBase writer = open_writer(most_bytes, least_bytes);
    if (first && opened) opened();
    wrote_ = true;
    const StreamStop stop(writer.stream(), options_.resources.stop);
    FramedOutput out(ByteOutput(writer.bytes(), job_.plan().block_bytes), options_.framing);
    if (first) append_header(out);
    // The last record of a piece may be long.
    const std::uint64_t room = writer.stream().reserved_bytes();
    pieces.begin_piece(out, goes_on && (may_be_more || room < most_bytes) ? room / 2 : kNoLimit);
    append_all(pieces, out);
    job_.watch().expect_going();
    report_.output_bytes += out.bytes();
    writer.finish_bytes(out.bytes());
  }
}

// Where a part begins is known from the lengths of those in front of it. A writer begins at the
// border of a block: what lies in front of that is put aside, and written with the part before.
template <typename Part>
void LineFiles::open_parts(const std::vector<std::unique_ptr<Part>>& sorted,
                           std::uint64_t most_bytes, std::vector<OutputPart>& parts) {
  const std::size_t block_bytes = job_.plan().block_bytes;
  parts.resize(sorted.size());
  parts.front().writer.emplace(open_writer(most_bytes, most_bytes));
  parts.front().out.emplace(ByteOutput(parts.front().writer->bytes(), block_bytes),
                            options_.framing);
  append_header(*parts.front().out);
  std::uint64_t begin = parts.front().out->bytes();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].bytes =
        sorted[i]->text_bytes() + sorted[i]->counted() * framing_bytes(options_.framing);
    if (i > 0) {
      const std::uint64_t border = detail::round_up(begin, block_bytes);
      parts[i].head.resize(static_cast<std::size_t>(border - begin));
      parts[i].writer.emplace(files_.open_writer_behind(border, job_.pool(), job_.plan().writer,
                                                        parts[i].bytes + block_bytes));
      parts[i].out.emplace(ByteOutput(parts[i].head, parts[i].writer->bytes(), block_bytes),
                           options_.framing);
    }
    begin += parts[i].bytes;
  }
}

// All threads merge or copy, each a part.
template <typename Part>
void LineFiles::write_parts(const std::vector<std::unique_ptr<Part>>& sorted,
                            std::uint64_t most_bytes) {
  OutputParts of_output;
  std::vector<OutputPart>& parts = of_output.all;
  open_parts(sorted, most_bytes, parts);
  const std::uint64_t header_bytes = parts.front().out->bytes();
  std::vector<std::unique_ptr<StreamStop>> stops;
  for (OutputPart& part : parts) {
    stops.push_back(std::make_unique<StreamStop>(part.writer->stream(), options_.resources.stop));
  }
  std::optional<LineLending> lending;
  if constexpr (std::is_same_v<Part, RunMerge>) lending.emplace(job_, sorted);
  std::vector<std::uint64_t> records(parts.size());
  std::atomic<bool> failed{false};
  const std::thread::id caller = std::this_thread::get_id();
  job_.team().run(sorted.size(), [&](std::size_t i) {
    try {
      job_.watch().expect_going();
      guarded([&] { sorted[i]->start(); }).throw_if_failed();
      records[i] = append_all(*sorted[i], *parts[i].out, [&](std::uint64_t bytes) {
        if (std::this_thread::get_id() == caller) {
          job_.watch().add(bytes);
        } else {
          job_.watch().add_beside(bytes);
        }
      });
    } catch (...) {
      // The others end with an error of their own, which says nothing.
      if (failed.exchange(true)) return;
      job_.watch().stop_now();
      throw;
    }
  });
  job_.watch().expect_going();

  // The end of a part is the head of the next one.
  report_.records_out = std::accumulate(records.begin(), records.end(), std::uint64_t{0});
  for (std::size_t i = parts.size(); i-- > 0;) {
    OutputPart& part = parts[i];
    if (part.out->bytes() != part.bytes + (i == 0 ? header_bytes : 0)) {
      throw Error(EIO, "runs are not read as they were written");
    }
    report_.output_bytes += part.out->bytes();
    if (i + 1 < parts.size()) {
      const std::vector<char>& next = parts[i + 1].head;
      guarded([&] { part.out->append_framed({next.data(), next.size()}); }).throw_if_failed();
    }
    const std::uint64_t bytes = part.out->bytes() - part.head.size();
    part.writer->finish_bytes(i > 0 ? bytes : report_.output_bytes);
  }
}

// Writes all records of a merge as runs: as one, unless there are more than expected. Runs of so
// many bytes have tables that are small beside the memory.
void LineFiles::write_runs_of(InputMerge& inputs) {
  const std::uint64_t memory = job_.plan().memory_bytes;
  const std::optional<std::uint64_t> bytes = inputs.length();
  const std::uint64_t wanted =
      bytes ? detail::saturating_sum(detail::saturating_product(*bytes, kMaxStored), kMinRunBytes)
            : kRunOfUnknown * memory;
  const std::uint64_t space = address_space_left();
  const std::uint64_t limit = std::min(wanted, space / 4);
  const std::uint64_t most = std::min(limit + memory, space / 2);  // the last record may be long
  bool more = true;
  while (more) {
    job_.runs().form(most, [&](LineRunWriter& run) {
      MergePiece piece(inputs.merge(), run, limit);
      for_each_record(
          piece,
          [&](const MergePiece& at) {
            run.append(at.stored(), run.records() == 0 ? 0 : at.in_common(), 1);
          },
          [&](std::uint64_t added) { job_.watch().add(added); });
      more = piece.more();
    });
  }
}

// Of what grows while it is merged there may be more than expected.
void LineFiles::write_merged(InputMerge& inputs) {
  job_.watch().begin(SortPhase::kWriting, inputs.length());
  const std::uint64_t least_bytes =
      inputs.length().value_or(kMinRunBytes) + kMostMissing * inputs_.size();
  write_file(std::max(least_bytes, kUnknownLengthReservation), least_bytes, inputs.merge());
  job_.runs().count_merge_of_inputs(1);
}

// As merge_inputs(). None: the records are too long for as many inputs, which can be read again.
// They are to be sorted, which has room for longer ones and gives the same output.
std::optional<bool> LineFiles::merge_if_room() {
  try {
    return merge_inputs();
  } catch (const LongRecordError&) {
    if (!inputs_.bytes() || (wrote_ && !files_.output_has_places())) throw;
  }
  header_.clear();
  has_mark_ = false;
  report_ = {};
  job_.start(inputs_.bytes());
  return std::nullopt;
}

// False: to the output, at once. An output that is an input as well is not written before all has
// been read.
bool LineFiles::merge_inputs() {
  if (job_.plan().most_inputs() < 2 && inputs_.size() > 1) {
    throw Error(ENOMEM, "merging with " + format_bytes(job_.plan().memory_bytes) +
                            " of memory: no two inputs fit; raise it");
  }
  const bool reads_output =
      !files_.output_has_places() && inputs_.contain(files_.output_identity());
  unsigned merges = 0;
  for (std::size_t first = 0; first < inputs_.size(); ++merges) {
    InputMerge merge(
        inputs_, first, options_, job_, files_.disk(),
        [this](std::size_t input, std::string_view record) { note_header(input, record); });
    merge.start();
    for (const auto& input : merge.inputs()) has_mark_ |= input->has_mark();
    const bool all = first == 0 && merge.end() == inputs_.size() && !reads_output;
    if (first == 0 && !all) job_.watch().begin(SortPhase::kMerging, inputs_.bytes());
    all ? write_merged(merge) : write_runs_of(merge);
    report_.records_in += merge.records();
    for (const auto& input : merge.inputs()) note_input(*input);
    first = merge.end();
    if (all) return false;
  }
  job_.runs().count_merge_of_inputs(merges);
  job_.end_forming();
  return true;
}

}  // namespace

LineSortReport sort_lines(const LineSortOptions& options, BegunFiles begun) {
  return LineFiles(options, std::move(begun)).sort();
}

LineSortReport sort_lines(const LineSortOptions& options) {
  SmallLineFiles small(options);
  if (const auto report = small.sort()) return *report;
  return sort_lines(options, small.begun());
}

}}  // namespace vortex::v0
