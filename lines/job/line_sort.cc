#include "vortex/line_sort.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lines/job/input_merge.h"
#include "lines/job/line_job.h"
#include "lines/job/line_output.h"
#include "lines/job/small_line_files.h"
#include "lines/text/framed_input.h"
#include "lines/text/line_inputs.h"
#include "sort/job/file_sort.h"
#include "sort/job/sort_files.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// What an input may lack at its end, and the output has: a quote and a delimiter.
constexpr std::uint64_t kMostMissing = 2;

// A sort or a merge of files, once.
class LineFiles final : public RecordKind {
 public:
  LineFiles(const LineSortOptions& options, BegunFiles begun)
      : options_(options),
        inputs_(options, std::move(begun.inputs)),
        machine_(options, 0, std::move(begun.output)),
        files_(machine_.files()),
        job_(options.order, machine_.context()),
        output_(options, files_, job_, report_) {}

  SortReport sort() {
    machine_.run(*this, report_);
    LinePlan plan = job_.plan();
    if (merged_inputs_ != 0) plan.tell_inputs(merged_inputs_);
    report_.plan = plan;
    return report_;
  }

 private:
  void start() override;
  Merged merge_inputs() override;
  std::size_t inputs() const override { return inputs_.size(); }
  std::optional<std::uint64_t> input_bytes() const override { return inputs_.bytes(); }
  void form_runs(std::size_t input) override;
  void end_forming() override;
  void reduce_runs() override;
  std::uint64_t bytes_to_write() override { return report_.input_bytes; }
  void write_output() override;
  RunSet& runs() override { return job_.runs(); }
  RunCounts counts() override;

  bool will_form_runs() const;
  void note_header(std::size_t input, std::string_view record);
  void note_input(const FramedInput& input);
  Merged merge();
  void write_merged(InputMerge& inputs);

  const LineSortOptions& options_;
  LineInputs inputs_;
  FileSort machine_;
  SortFiles& files_;
  LineJob job_;
  SortReport report_;
  LineOutput output_;
  std::uint64_t merged_inputs_ = 0;
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

RunCounts LineFiles::counts() {
  RunCounts counts = job_.runs().counts();
  counts.runs += job_.long_lines().empty() ? 0 : 1;
  counts.bytes += job_.long_lines().file_bytes();
  return counts;
}

void LineFiles::note_header(std::size_t input, std::string_view record) {
  if (input == 0) output_.append_to_head(record);
}

// Which has ended.
void LineFiles::note_input(const FramedInput& input) {
  report_.input_bytes += input.bytes();
  report_.invalid_records += input.invalid_records();
  report_.unclosed_records += input.ends_in_quotes() ? 1 : 0;
  output_.begin_with_mark(input.has_mark());
}

void LineFiles::form_runs(std::size_t index) {
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

void LineFiles::end_forming() {
  report_.records_in = job_.records();
  job_.end_forming();
}

void LineFiles::reduce_runs() {
  if (!job_.in_memory()) job_.runs().reduce_to_one_merge(false);
}

void LineFiles::write_output() {
  output_.write_sorted(report_.input_bytes + kMostMissing * inputs_.size());
}

// Inputs that grow while they are merged may bring more than expected.
void LineFiles::write_merged(InputMerge& inputs) {
  job_.watch().begin(SortPhase::kWriting, inputs.length());
  const std::uint64_t least_bytes =
      inputs.length().value_or(InputMerge::kMinRunBytes) + kMostMissing * inputs_.size();
  output_.write_merged(inputs.merge(), least_bytes);
  job_.runs().count_merge_of_inputs(1);
}

// Where records are too long for a merge of as many inputs, which can be read again, they are
// sorted, which has room for longer ones and gives the same output.
RecordKind::Merged LineFiles::merge_inputs() {
  if (!options_.merge_inputs) return Merged::kNothing;
  try {
    return merge();
  } catch (const LongRecordError&) {
    if (!inputs_.bytes() || (output_.begun() && !files_.output_has_places())) throw;
  }
  output_.forget_head();
  report_ = {};
  merged_inputs_ = 0;
  job_.start(inputs_.bytes());
  return Merged::kNothing;
}

// An output that is an input as well is not written before all has been read.
RecordKind::Merged LineFiles::merge() {
  if (job_.plan().most_inputs() < 2 && inputs_.size() > 1) {
    throw Error(ENOMEM, "merging with " + format_bytes(job_.plan().memory_bytes) +
                            " of memory: no two inputs fit; raise it");
  }
  const bool reads_output =
      !files_.output_has_places() && inputs_.contain(files_.output_identity());
  merged_inputs_ = inputs_.size();
  unsigned merges = 0;
  for (std::size_t first = 0; first < inputs_.size(); ++merges) {
    InputMerge merge(
        inputs_, first, options_, job_, files_.disk(),
        [this](std::size_t input, std::string_view record) { note_header(input, record); });
    merge.start();
    for (const auto& input : merge.inputs()) output_.begin_with_mark(input->has_mark());
    const bool all = first == 0 && merge.end() == inputs_.size() && !reads_output;
    if (first == 0 && !all) job_.watch().begin(SortPhase::kMerging, inputs_.bytes());
    all ? write_merged(merge) : merge.write_runs(job_);
    report_.records_in += merge.records();
    for (const auto& input : merge.inputs()) note_input(*input);
    first = merge.end();
    if (all) return Merged::kToOutput;
  }
  job_.runs().count_merge_of_inputs(merges);
  job_.end_forming();
  return Merged::kToRuns;
}

}  // namespace

SortReport sort_lines(const LineSortOptions& options) {
  SmallLineFiles small(options);
  if (const auto report = small.sort()) return *report;
  LineSortOptions for_threads = options;
  if (options.before_threads) options.before_threads(for_threads.resources);
  return LineFiles(for_threads, small.begun()).sort();
}

}}  // namespace vortex::v0
