#include "vortex/line_sort.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/job/few_lines.h"
#include "lines/job/input_merge.h"
#include "lines/job/line_job.h"
#include "lines/job/line_output.h"
#include "lines/text/framed_input.h"
#include "lines/text/line_inputs.h"
#include "sort/job/file_sort.h"
#include "sort/job/sort_files.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// What an input may lack at its end, and the output has: a quote and a delimiter.
constexpr std::uint64_t kMostMissing = 2;

// Of a pipe that is read with plain calls.
constexpr std::size_t kInputBufferBytes = std::size_t{256} << 10;

// A sort or a merge of files, once.
class LineFiles final : public RecordKind {
 public:
  explicit LineFiles(const LineSortOptions& options)
      : options_(options),
        machine_(options_),
        files_(machine_.files()),
        inputs_(options_),
        output_(options_, files_, job_, report_) {}

  SortReport sort() {
    machine_.run(*this, report_);
    if (!job_) return report_;
    LinePlan plan = job_->plan();
    if (merged_inputs_ != 0) plan.tell_inputs(merged_inputs_);
    report_.plan = plan;
    return report_;
  }

 private:
  bool begins_small() override;
  void start() override;
  Merged merge_inputs() override;
  std::optional<std::uint64_t> input_bytes() const override { return inputs_.bytes(); }
  void form_runs(std::size_t input) override;
  void end_forming() override;
  void reduce_runs() override;
  std::uint64_t bytes_to_write() override { return report_.input_bytes; }
  void write_output() override;
  std::uint64_t most_output_bytes() const {
    return report_.input_bytes + kMostMissing * inputs_.size();
  }
  RunSet& runs() override { return job_->runs(); }
  RunCounts counts() override;

  void expect_threads();
  bool will_form_runs() const;
  std::unique_ptr<InputText> open(std::size_t input);
  void take(std::span<const std::string_view> batch, std::size_t all);
  bool take_texts();
  std::span<char> assembly_room(std::string_view so_far, std::size_t bytes);
  void go_on_with_many();
  [[noreturn]] void refuse_long(std::uint64_t record, const std::string& complaint) const;
  void note_header(std::size_t input, std::string_view record);
  void note_input(const FramedInput& input);
  Merged merge();
  void write_merged(InputMerge& inputs);
  bool merge_in_parts();

  LineSortOptions options_;
  FileSort machine_;
  SortFiles& files_;
  LineInputs inputs_;
  SortReport report_;
  // All records, as long as they are few; then there is no job.
  std::optional<FewLines> few_;
  std::vector<std::uint64_t> first_of_input_;  // how many there were when an input began
  std::vector<char> room_;  // for one of them that crosses the border of a piece of its text
  std::vector<ScatteredText> texts_;
  std::optional<LineJob> job_;
  LineOutput output_;
  FramedInput* input_ = nullptr;  // that is read
  std::uint64_t told_ = 0;        // bytes of it
  std::uint64_t merged_inputs_ = 0;
};

bool LineFiles::begins_small() {
  if (FewLines::may_do(options_, inputs_) && files_.open_output_at_once()) {
    try {
      few_.emplace(options_, inputs_);
    } catch (const Error&) {
      // There is little address space, of which plans know more.
    }
  }
  if (!few_) expect_threads();
  return few_.has_value();
}

void LineFiles::expect_threads() {
  if (options_.before_threads) options_.before_threads(options_.resources);
  inputs_.follow_stop();
}

// All records go to a job, those that were taken first.
void LineFiles::go_on_with_many() {
  expect_threads();
  machine_.begin(*this);
  job_->watch().begin(SortPhase::kReading, inputs_.bytes());
  few_->for_each_batch([this](std::span<const std::string_view> records) {
    const std::uint64_t before = job_->records();
    try {
      job_->take(records);
    } catch (const RecordTooLong& error) {
      refuse_long(before + error.index(), error.complaint());
    }
  });
  few_.reset();
  job_->watch().add(report_.input_bytes);
  if (input_ == nullptr) return;
  input_->go_on(job_->plan().longest_record,
                inputs_.reading(job_->pool(), files_.disk(), job_->plan().reader));
}

// Throws for the record that came behind `record` others, with the input that it is in.
void LineFiles::refuse_long(std::uint64_t record, const std::string& complaint) const {
  const auto behind = std::upper_bound(first_of_input_.begin(), first_of_input_.end(), record);
  const auto input = static_cast<std::size_t>(behind - first_of_input_.begin()) - 1;
  throw LongRecordError(
      "record " + std::to_string(record - first_of_input_[input] + options_.header_records + 1) +
      " of '" + inputs_.name(input) + "', " + complaint);
}

// As far as that is known before the inputs are read.
bool LineFiles::will_form_runs() const {
  return !options_.merge_inputs && !options_.order.unique &&
         inputs_.bytes().value_or(0) > job_->plan().arena_bytes;
}

void LineFiles::start() {
  job_.emplace(options_.order, machine_.context());
  job_->keep_long_apart(options_.framing);
  job_->start(inputs_.bytes());
  // Scripts may name a folder that is not there, as long as it is not needed. Where it will be,
  // that is better known before all is read.
  if (will_form_runs()) files_.expect_folders();
}

RunCounts LineFiles::counts() {
  RunCounts counts = job_->runs().counts();
  counts.runs += job_->long_lines().empty() ? 0 : 1;
  counts.bytes += job_->long_lines().file_bytes();
  return counts;
}

void LineFiles::note_header(std::size_t input, std::string_view record) {
  if (input == 0) output_.append_to_head(record);
}

// The input has ended.
void LineFiles::note_input(const FramedInput& input) {
  report_.input_bytes += input.bytes();
  report_.invalid_records += input.invalid_records();
  report_.unclosed_records += input.ends_in_quotes() ? 1 : 0;
  output_.begin_with_mark(input.has_mark());
}

std::unique_ptr<InputText> LineFiles::open(std::size_t input) {
  return few_ ? inputs_.open(input, kInputBufferBytes)
              : inputs_.open(input, job_->pool(), files_.disk(), job_->plan().reader);
}

std::span<char> LineFiles::assembly_room(std::string_view so_far, std::size_t bytes) {
  if (few_ && bytes > FewLines::kLongest) go_on_with_many();
  if (job_) return job_->assembly_room(so_far, bytes);
  room_.resize(FewLines::kLongest);  // once: it stays where it is
  if (so_far.data() != room_.data()) std::copy(so_far.begin(), so_far.end(), room_.begin());
  return room_;
}

// The rest of a batch that had `all` records.
void LineFiles::take(std::span<const std::string_view> batch, std::size_t all) {
  if (few_) {
    batch = batch.subspan(few_->take(batch));
    const bool much = report_.input_bytes + input_->bytes() > few_->most_text();
    if (batch.empty() && !much) return;
    go_on_with_many();
  }
  try {
    job_->take(batch);
  } catch (const RecordTooLong& error) {
    input_->refuse_long(all - batch.size() + error.index(), error.complaint());
  }
  job_->watch().add(input_->bytes() - std::exchange(told_, input_->bytes()));
}

// Takes what comes next by all threads, if that can be.
bool LineFiles::take_texts() {
  if (!job_ || job_->texts_at_once() == 0) return false;
  texts_.resize(job_->texts_at_once());
  const std::size_t count = input_->next_texts(texts_, job_->text_bytes());
  if (count == 0) return false;
  const LineJob::TakenTexts taken = job_->take(std::span(texts_).first(count), options_.framing);
  input_->pass(taken.records, taken.bytes);
  job_->watch().add(input_->bytes() - std::exchange(told_, input_->bytes()));
  return true;
}

void LineFiles::form_runs(std::size_t index) {
  FramedInput input(
      open(index), inputs_.name(index), options_.framing,
      job_ ? job_->plan().longest_record : FewLines::kLongest,
      [this](std::string_view so_far, std::size_t bytes) { return assembly_room(so_far, bytes); });
  input_ = &input;
  told_ = 0;
  if (few_) first_of_input_.push_back(few_->arena().records());
  std::uint64_t header = options_.header_records;
  for (;;) {
    if (header == 0 && take_texts()) continue;
    auto batch = input.next();
    if (batch.empty()) break;
    const std::size_t all = batch.size();
    for (; header > 0 && !batch.empty(); --header) {
      note_header(index, batch.front());
      batch = batch.subspan(1);
    }
    take(batch, all);
  }
  input_ = nullptr;
  note_input(input);
}

void LineFiles::end_forming() {
  if (few_) {
    report_.records_in = few_->arena().records();
    try {
      few_->sort();
      output_.prepare_at_once(most_output_bytes());
    } catch (const std::bad_alloc&) {
      go_on_with_many();
    }
  }
  if (few_) return;
  report_.records_in = job_->records();
  job_->end_forming();
}

void LineFiles::reduce_runs() {
  if (!job_->in_memory()) job_->reduce_runs(false, output_.most_parts_of_merge());
}

void LineFiles::write_output() {
  if (job_) return output_.write_sorted(most_output_bytes());
  if (options_.resources.stop.stop_requested()) throw Error(ECANCELED, kSortInterrupted);
  output_.write_at_once(few_->arena());
}

// Inputs that grow while they are merged may bring more than expected.
void LineFiles::write_merged(InputMerge& inputs) {
  job_->watch().begin(SortPhase::kWriting, inputs.length());
  const std::uint64_t least_bytes =
      inputs.length().value_or(InputMerge::kMinRunBytes) + kMostMissing * inputs_.size();
  output_.write_merged(inputs.merge(), least_bytes);
  job_->runs().count_merge_of_inputs(1);
}

// Where records are too long for a merge of as many inputs, which can be read again, they are
// sorted, which has room for longer ones and gives the same output.
RecordKind::Merged LineFiles::merge_inputs() {
  try {
    return merge();
  } catch (const LongRecordError&) {
    if (!inputs_.bytes() || (output_.begun() && !files_.output_has_places())) throw;
  }
  output_.forget_head();
  report_ = {};
  merged_inputs_ = 0;
  job_->start(inputs_.bytes());
  return Merged::kNothing;
}

// By all threads, if that can be.
bool LineFiles::merge_in_parts() {
  if (!files_.output_has_places()) return false;
  const auto parts = InputParts::divide(inputs_, options_, *job_, files_.disk());
  if (!parts) return false;
  job_->watch().begin(SortPhase::kWriting, inputs_.bytes());
  if (!output_.write_merged(*parts)) return false;
  merged_inputs_ = inputs_.size();
  report_.records_in = parts->records();
  report_.input_bytes = parts->bytes();
  job_->runs().count_merge_of_inputs(1);
  return true;
}

// An output that is an input as well is not written before all has been read.
RecordKind::Merged LineFiles::merge() {
  job_->plan().expect_two_of(inputs_.size());
  if (merge_in_parts()) return Merged::kToOutput;
  const bool reads_output =
      !files_.output_has_places() && inputs_.contain(files_.output_identity());
  merged_inputs_ = inputs_.size();
  unsigned merges = 0;
  for (std::size_t first = 0; first < inputs_.size(); ++merges) {
    InputMerge merge(
        inputs_, first, options_, *job_, files_.disk(),
        [this](std::size_t input, std::string_view record) { note_header(input, record); });
    merge.start();
    for (const auto& input : merge.inputs()) output_.begin_with_mark(input->has_mark());
    const bool all = first == 0 && merge.end() == inputs_.size() && !reads_output;
    if (first == 0 && !all) job_->watch().begin(SortPhase::kMerging, inputs_.bytes());
    all ? write_merged(merge) : merge.write_runs(*job_);
    report_.records_in += merge.records();
    for (const auto& input : merge.inputs()) note_input(*input);
    first = merge.end();
    if (all) return Merged::kToOutput;
  }
  job_->runs().count_merge_of_inputs(merges);
  job_->end_forming();
  return Merged::kToRuns;
}

}  // namespace

SortReport sort_lines(const LineSortOptions& options) { return LineFiles(options).sort(); }

}}  // namespace vortex::v0
