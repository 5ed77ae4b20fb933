#include "lines/job/input_merge.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "lines/job/line_runs.h"
#include "lines/runs/line_run.h"
#include "sort/plan/memory_limits.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 {

namespace {

// Descriptors that are left to others: a folder of runs takes four.
constexpr std::size_t kOtherDescriptors = 6;
constexpr std::size_t kDescriptorsOfFolder = 4;

// A record with its key and lengths takes this many times the bytes of its text at most, but for a
// few; runs of inputs that are merged reserve address space for it.
constexpr std::uint64_t kMaxStored = 16;
// The bytes of a run of inputs of unknown length, in multiples of the memory.
constexpr std::uint64_t kRunOfUnknown = 16;

// The records that are wanted of a merge, until a run has got a number of bytes.
class MergePiece {
 public:
  using Wanted = FirstOfCursor<LineMerge<TextCursor>>;
  MergePiece(Wanted& merge, const LineRunWriter& run, std::uint64_t limit) noexcept
      : merge_(merge), run_(run), limit_(limit) {}

  static constexpr SpanKind kWork = SpanKind::kMerge;
  bool next() { return run_.bytes() < limit_ && (more_ = merge_.next()); }
  const StoredRecord& stored() const noexcept { return merge_.stored(); }
  std::uint64_t count() const noexcept { return merge_.count(); }
  std::uint64_t in_common() const noexcept { return merge_.in_common(); }

  // False behind the last record of the merge.
  bool more() const noexcept { return more_; }

 private:
  Wanted& merge_;
  const LineRunWriter& run_;
  const std::uint64_t limit_;
  bool more_ = true;
};

}  // namespace

TextCursor& TextMerge::add(std::unique_ptr<InputText> text, const std::string& name,
                           TextCursor::UseHeader use_header) {
  inputs_.push_back(std::make_unique<FramedInput>(std::move(text), name, options_.framing,
                                                  budget_.bytes(), own_assembly_room(budget_)));
  cursors_.push_back(
      std::make_unique<TextCursor>(*inputs_.back(), options_, budget_, std::move(use_header)));
  return *cursors_.back();
}

void TextMerge::prepare(const StoredOrder& order) {
  std::vector<TextCursor*> players;
  for (const auto& cursor : cursors_) players.push_back(cursor.get());
  merge_.emplace(players, order);
}

std::uint64_t TextMerge::records() const noexcept {
  std::uint64_t records = 0;
  for (const auto& cursor : cursors_) records += cursor->records();
  return records;
}

HeldDescriptors::HeldDescriptors(const SortResources& resources) {
  const std::size_t count =
      kOtherDescriptors + kDescriptorsOfFolder * std::max<std::size_t>(resources.folders.size(), 1);
  held_.reserve(count);
  for (os::Event event; event && held_.size() < count; event = os::Event()) {
    held_.push_back(std::move(event));
  }
}

bool means_no_descriptor(const Error& error) noexcept {
  return error.code().value() == EMFILE || error.code().value() == ENFILE;
}

InputMerge::InputMerge(LineInputs& inputs, std::size_t first, const LineSortOptions& options,
                       LineJob& job, Disk* disk, UseHeader use_header)
    : all_(inputs), first_(first) {
  std::vector<std::unique_ptr<InputText>> texts;
  {
    HeldDescriptors held(options.resources);
    const std::function<bool()> spare = [&] { return held.give_one_back(); };
    texts = open_texts(inputs, job.plan(), job.pool(), disk, spare);
  }
  texts_.emplace(options, job.plan().bytes_beside_inputs(taken_));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts_->add(
        std::move(texts[i]), inputs.name(first + i),
        [use_header, index = first + i](std::string_view record) { use_header(index, record); });
  }
  texts_->prepare(job.order());
}

std::vector<std::unique_ptr<InputText>> InputMerge::open_texts(LineInputs& inputs,
                                                               const LinePlan& plan,
                                                               BlockPool& pool, Disk* disk,
                                                               const std::function<bool()>& spare) {
  std::vector<std::unique_ptr<InputText>> texts;
  const std::size_t left = inputs.size() - first_;
  const bool all_fit = left <= plan.most_inputs();
  while (texts.size() < left) {
    const std::size_t index = first_ + texts.size();
    const MergedInput input = plan.merged_input(left, inputs.length(index));
    const std::uint64_t bytes =
        taken_.reading_bytes + taken_.short_bytes + input.reading_bytes + input.short_bytes;
    if (!all_fit && texts.size() >= 2 && bytes > plan.bytes_for_inputs()) break;
    try {
      auto text = input.in_blocks ? inputs.open(index, pool, disk, plan.merged_reader)
                                  : inputs.open(index, input.buffer_bytes);
      if (inputs.length(index)) text->read_first();
      texts.push_back(std::move(text));
    } catch (const Error& error) {
      if (!means_no_descriptor(error)) throw;
      if (texts.size() >= 2) break;
      // Two have to be merged; runs take fewer descriptors than are kept for them.
      if (spare()) continue;
      throw Error(error.code().value(), "open '" + inputs.name(index) +
                                            "' to merge it with another: raise the limit of open "
                                            "files (ulimit -n)");
    }
    taken_.reading_bytes += input.reading_bytes;
    taken_.short_bytes += input.short_bytes;
  }
  return texts;
}

// Runs of kMinRunBytes have tables that are small beside the memory.
void InputMerge::write_runs(LineJob& job) {
  const std::uint64_t memory = job.plan().memory_bytes;
  const std::optional<std::uint64_t> bytes = length();
  const std::uint64_t wanted =
      bytes ? detail::saturating_sum(detail::saturating_product(*bytes, kMaxStored), kMinRunBytes)
            : kRunOfUnknown * memory;
  const std::uint64_t space = address_space_left();
  const std::uint64_t limit = std::min(wanted, space / 4);
  const std::uint64_t most = std::min(limit + memory, space / 2);  // the last record may be long
  MergePiece::Wanted first(merge(), job.first_records());
  bool more = true;
  while (more) {
    job.runs().form(most, [&](LineRunWriter& run) {
      MergePiece piece(first, run, limit);
      for_each_record(
          piece,
          [&](const MergePiece& at) {
            run.append(at.stored(), run.records() == 0 ? 0 : at.in_common(), 1);
          },
          [&](std::uint64_t added) { job.watch().add(added); });
      more = piece.more();
    });
  }
}

}}  // namespace vortex::v0
