#include "vortex/external_sort.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/job/file_sort.h"
#include "sort/job/output_parts.h"
#include "sort/job/sort_files.h"
#include "sort/job/sort_job.h"
#include "sort/merge/file_merge.h"
#include "sort/plan/memory_limits.h"
#include "sort/plan/record_plan.h"
#include "sort/record/record_output.h"
#include "sort/runs/sort_watch.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/record_order.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// external_sort() by any order of records: opens and plans when it is made, and sorts once. The
// options outlive it. Throws as external_sort() does.
class RecordFiles final : public RecordKind {
 public:
  RecordFiles(const ExternalSortOptions& options, std::shared_ptr<const RecordOrder> order);

  SortPlan plan() const { return plan_.told(); }

  SortReport sort();

 private:
  using Writing = std::function<void(RecordOutput& out)>;

  void start() override;
  Merged merge_inputs() override;
  std::optional<std::uint64_t> input_bytes() const override { return plan_.input_bytes; }
  void form_runs(std::size_t input) override;
  void end_forming() override;
  void reduce_runs() override;
  std::uint64_t bytes_to_write() override;
  void write_output() override;
  RunSet& runs() override { return job_.runs(); }

  RecordPlan make_plan();
  // Of so many bytes in order, those that come out at most.
  std::uint64_t wanted_of(std::uint64_t bytes) const noexcept {
    const std::uint64_t first = plan_.first_records;
    return first == 0 ? bytes : std::min(bytes, detail::saturating_product(first, record_bytes_));
  }
  void publish_run();
  bool merges_at_once() const noexcept { return options_.merge_inputs && plan_.runs <= 1; }
  void write_file(const FileWriterOptions& options, std::uint64_t most_bytes, const Writing& write);
  template <typename Merges>
  void write_merges(const FileWriterOptions& options, std::uint64_t bytes, const Merges& merges);
  template <typename Merges>
  void write_parts(const FileWriterOptions& options, const Merges& merges);
  unsigned most_parts(std::uint64_t bytes) const;

  using FileMerges = std::vector<std::unique_ptr<FileMerge>>;
  FileMerges merges_of(std::span<const SortedFile> files, unsigned parts) const;
  void merge_inputs_to_output();
  void merge_inputs_to_runs();

  const ExternalSortOptions& options_;
  const std::size_t record_bytes_;
  FileSort machine_;
  SortFiles& files_;
  std::optional<BlockFile> run_file_;  // until the runs take it along; outlives them
  SortJob job_;
  const RecordPlan plan_;
  SortReport report_;
};

RecordFiles::RecordFiles(const ExternalSortOptions& options,
                         std::shared_ptr<const RecordOrder> order)
    : options_(options),
      record_bytes_(order->record_bytes()),
      machine_(options, record_bytes_),
      files_(machine_.files()),
      job_(std::move(order), machine_.context(), options.unique),
      plan_(make_plan()) {}

RecordPlan RecordFiles::make_plan() {
  files_.expect_folders();
  // Inputs and output have a disk of their own.
  SortPlanRequest request = job_.plan_request(files_.input_bytes(), 1);
  request.in_parts = !options_.unique && options_.output != "-";
  if (!options_.merge_inputs) return plan_thriftily(request);
  files_.expect_known_lengths();
  return plan_input_merge(request, files_.inputs());
}

SortReport RecordFiles::sort() {
  machine_.run(*this, report_);
  report_.plan = job_.plan().told();
  return report_;
}

void RecordFiles::start() {
  const bool needs_runs = !plan_.in_memory() && !merges_at_once();
  // How much is left of what need not be unique, and is wanted whole, is known.
  if (plan_.input_bytes && !options_.unique && plan_.first_records == 0) {
    files_.expect_room(plan_.told(), needs_runs);
    if (!needs_runs) files_.reserve_output(*plan_.input_bytes);
  }
  machine_.context().keep(plan_.memory_bytes);
  if (needs_runs) run_file_ = files_.open_file_for_runs();
  std::function<BlockFile()> run_file;
  if (run_file_) run_file = [this] { return std::move(*run_file_); };
  job_.start(plan_, plan_.in_memory() ? Warming::kOnDemand : Warming::kBackground,
             "memory of the sort", run_file);
  // Opening the folders now shows their errors at once. For a pipe the first run opens them: it may
  // hold so little that no run is written.
  if (needs_runs && plan_.input_bytes) job_.runs().open();
  if (!options_.merge_inputs) job_.begin_forming();
}

RecordKind::Merged RecordFiles::merge_inputs() {
  merges_at_once() ? merge_inputs_to_output() : merge_inputs_to_runs();
  report_.input_bytes = report_.records_in * record_bytes_;
  return merges_at_once() ? Merged::kToOutput : Merged::kToRuns;
}

// `write` gets the output, of `most_bytes` at most; what it wrote appears.
void RecordFiles::write_file(const FileWriterOptions& options, std::uint64_t most_bytes,
                             const Writing& write) {
  FileWriterBase writer = files_.open_writer(*job_.pool(), options, most_bytes);
  const StreamStop stop(writer.stream(), options_.resources.stop);
  PointerOutput pointer(writer.bytes(), record_bytes_, plan_.block_bytes, {},
                        plan_.wide_of(options));
  WatchedOutput to(pointer, job_.watch());
  write(to);
  job_.watch().expect_going();
  files_.expect_inputs_unchanged();
  report_.output_bytes = to.bytes();
  report_.records_out = to.bytes() / record_bytes_;
  writer.finish_bytes(to.bytes());
}

void RecordFiles::form_runs(std::size_t input) {
  FileReaderOptions options = plan_.reader;
  options.unknown_length_bytes = options_.most_pipe_bytes;
  FileReaderBase reader =
      files_.open_reader(input, *job_.pool(), options, plan_.space_beside_input_bytes());
  const StreamStop stop(reader.stream(), options_.resources.stop);
  std::uint64_t done = 0;
  std::uint64_t readable = 0;
  for (;;) {
    guarded([&] { readable = readable_bytes(reader, readable); }).throw_if_failed();
    const std::uint64_t records = (readable - done) / record_bytes_;
    job_.take(reader.bytes() + done, records, Readers::kSeveral);
    done += records * record_bytes_;
    const auto length = reader.length_bytes();
    if (length && *length - done < record_bytes_) break;
  }
  if (*reader.length_bytes() != done) files_.input(input).refuse_length(*reader.length_bytes());
}

void RecordFiles::end_forming() {
  report_.records_in = job_.records();
  report_.input_bytes = report_.records_in * record_bytes_;
  job_.end_forming();
}

void RecordFiles::reduce_runs() {
  if (!job_.in_memory()) job_.runs().reduce_to(job_.runs().last_merge_order());
}

std::uint64_t RecordFiles::bytes_to_write() {
  return job_.run_is_output() ? 0 : wanted_of(job_.bytes_to_write());
}

void RecordFiles::publish_run() {
  job_.watch().expect_going();
  files_.expect_inputs_unchanged();
  report_.output_bytes = job_.runs().bytes();
  report_.records_out = report_.output_bytes / record_bytes_;
  files_.publish_run(job_.runs().take_file(), report_.output_bytes);
}

// One, where parts of the output have no places; or the system no address space for their arrays.
unsigned RecordFiles::most_parts(std::uint64_t bytes) const {
  return files_.output_has_places() && address_space_left() / 4 > bytes ? job_.plan().threads : 1;
}

void RecordFiles::write_output() {
  if (job_.run_is_output()) return publish_run();
  const std::uint64_t bytes = bytes_to_write();
  job_.expect_write();
  if (job_.in_memory()) {
    return write_file(plan_.wide_writer(), bytes, [&](RecordOutput& out) { job_.write(out, 0); });
  }
  const std::size_t runs = job_.runs().size();
  job_.write_parts(most_parts(bytes), [&](const SortJob::PartMerges& merges) {
    const auto parts = static_cast<unsigned>(merges.size());
    write_merges(job_.plan().merge_buffers(runs, parts).writer, bytes, merges);
  });
}

template <typename Merges>
void RecordFiles::write_merges(const FileWriterOptions& options, std::uint64_t bytes,
                               const Merges& merges) {
  report_.merge_parts = static_cast<unsigned>(merges.size());
  if (merges.size() > 1) return write_parts(options, merges);
  write_file(options, bytes, [&](RecordOutput& out) { merges.front()->merge_to(out); });
}

// All threads merge, each some parts. What a part ends with comes before what the next begins with,
// or what is merged was not cut by its records.
template <typename Merges>
void RecordFiles::write_parts(const FileWriterOptions& options, const Merges& merges) {
  std::vector<std::uint64_t> bytes;
  for (const auto& merge : merges) bytes.push_back(merge->records() * record_bytes_);
  OutputParts parts(files_, *job_.pool(), options, bytes, options_.resources.stop);
  std::vector<std::unique_ptr<NotedEnds>> ends(parts.size());
  detail::ThreadTeam team(report_.merge_parts);
  work_for_log(team);
  parts.write(team, job_.watch(), [&](std::size_t part, Written told) {
    PointerOutput pointer(parts[part].behind_head, record_bytes_, plan_.block_bytes,
                          parts[part].head);
    ends[part] = std::make_unique<NotedEnds>(pointer, record_bytes_);
    WatchedOutput to(*ends[part], job_.watch(), told);
    merges[part]->merge_to(to);
    to.tell_rest();
    return to.bytes();
  });
  files_.expect_inputs_unchanged();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    if (job_.order().less(ends[i]->first(), ends[i - 1]->last())) OutputParts::refuse();
  }
  report_.output_bytes = parts.bytes();
  report_.records_out = parts.bytes() / record_bytes_;
  parts.finish();
}

// Of sorted files, in `parts` parts at most. How many equal records are dropped is not known
// beforehand.
RecordFiles::FileMerges RecordFiles::merges_of(std::span<const SortedFile> files,
                                               unsigned parts) const {
  const std::uint64_t first = plan_.first_records;
  const FileMergeOptions options{.reader = files_.reader_options(*job_.pool(), plan_.reader),
                                 .stop = options_.resources.stop,
                                 .unique = options_.unique,
                                 .most_records = options_.unique ? first : 0};
  FileMerges merges;
  for (const RecordPart& part :
       divide_files(job_.order(), files, plan_.block_bytes, parts, options_.unique ? 0 : first)) {
    merges.push_back(std::make_unique<FileMerge>(job_.order(), files, part, options));
  }
  return merges;
}

void RecordFiles::merge_inputs_to_output() {
  const std::uint64_t bytes = wanted_of(plan_.input_bytes.value_or(0));
  job_.watch().begin(SortPhase::kWriting, bytes);
  const std::vector<SortedFile> files = files_.open_sorted(0, files_.inputs());
  const FileMerges merges = merges_of(files, std::min(plan_.merge_parts, most_parts(bytes)));
  write_merges(plan_.writer, bytes, merges);
  for (const auto& merge : merges) report_.records_in += merge->taken();
  job_.runs().count_merge_of_inputs(1);
}

void RecordFiles::merge_inputs_to_runs() {
  job_.watch().begin(SortPhase::kMerging, plan_.input_bytes);
  const std::uint64_t order = plan_.plain_merge_order();
  unsigned merges = 0;
  for (std::size_t first = 0; first < files_.inputs(); first += order) {
    const std::size_t last = std::min<std::size_t>(first + order, files_.inputs());
    std::uint64_t bytes = 0;
    for (std::size_t i = first; i < last; ++i) bytes += files_.input(i).length_bytes().value_or(0);
    job_.runs().form(wanted_of(bytes), [&](RecordOutput& out) {
      WatchedOutput watched(out, job_.watch());
      const std::vector<SortedFile> files = files_.open_sorted(first, last);
      const FileMerges merge = merges_of(files, 1);
      merge.front()->merge_to(watched);
      report_.records_in += merge.front()->taken();
    });
    ++merges;
  }
  job_.runs().count_merge_of_inputs(merges);
}

std::shared_ptr<const RecordOrder> order_of(const ExternalSortOptions& options,
                                            std::shared_ptr<const RecordOrder> order) {
  if (!order && !options.format) {
    throw Error(EINVAL, "a sort needs a record format or a comparator");
  }
  if (order && options.format) {
    throw Error(EINVAL, "a sort by a comparator has a record format, too: which of them counts?");
  }
  return order ? order : order_of_format(*options.format);
}

}  // namespace

SortPlan plan_external_sort(const ExternalSortOptions& options,
                            std::shared_ptr<const RecordOrder> order) {
  return RecordFiles(options, order_of(options, std::move(order))).plan();
}

SortReport external_sort(const ExternalSortOptions& options,
                         std::shared_ptr<const RecordOrder> order) {
  return RecordFiles(options, order_of(options, std::move(order))).sort();
}

}}  // namespace vortex::v0
