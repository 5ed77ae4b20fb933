#include "lines/job/input_merge.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// Descriptors that are left to others: a folder of runs takes four.
constexpr std::size_t kOtherDescriptors = 6;
constexpr std::size_t kDescriptorsOfFolder = 4;

// Descriptors that nobody else gets while this lives.
class HeldDescriptors {
 public:
  explicit HeldDescriptors(std::size_t count) {
    held_.reserve(count);
    while (held_.size() < count) {
      const int descriptor = eventfd(0, EFD_CLOEXEC);
      if (descriptor < 0) return;
      held_.push_back(descriptor);
    }
  }
  ~HeldDescriptors() {
    for (const int descriptor : held_) close(descriptor);
  }
  // False: there was none.
  bool give_one_back() noexcept {
    if (held_.empty()) return false;
    close(held_.back());
    held_.pop_back();
    return true;
  }

  HeldDescriptors(const HeldDescriptors&) = delete;
  HeldDescriptors& operator=(const HeldDescriptors&) = delete;

 private:
  std::vector<int> held_;
};

bool means_no_descriptor(const Error& error) {
  return error.code().value() == EMFILE || error.code().value() == ENFILE;
}

}  // namespace

InputMerge::InputMerge(LineInputs& inputs, std::size_t first, const LineSortOptions& options,
                       LineJob& job, Disk* disk, UseHeader use_header)
    : all_(inputs), first_(first) {
  std::vector<std::unique_ptr<InputText>> texts;
  {
    const std::size_t folders = options.resources.folders.size();
    HeldDescriptors held(kOtherDescriptors +
                         kDescriptorsOfFolder * std::max<std::size_t>(folders, 1));
    const std::function<bool()> spare = [&] { return held.give_one_back(); };
    texts = open_texts(inputs, job.plan(), job.pool(), disk, spare);
  }
  budget_.emplace(job.plan().bytes_beside_inputs(taken_));
  std::vector<TextCursor*> players;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    inputs_.push_back(std::make_unique<FramedInput>(std::move(texts[i]), inputs.name(first + i),
                                                    options.framing, budget_->bytes(),
                                                    own_assembly_room(*budget_)));
    cursors_.push_back(std::make_unique<TextCursor>(
        *inputs_.back(), options, *budget_,
        [use_header, index = first + i](std::string_view record) { use_header(index, record); }));
    players.push_back(cursors_.back().get());
  }
  merge_.emplace(players, job.order());
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

std::optional<std::uint64_t> InputMerge::length() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = first_; i < end(); ++i) {
    const std::optional<std::uint64_t> length = all_.length(i);
    if (!length) return std::nullopt;
    bytes = detail::saturating_sum(bytes, *length);
  }
  return bytes;
}

std::uint64_t InputMerge::records() const noexcept {
  std::uint64_t records = 0;
  for (const auto& cursor : cursors_) records += cursor->records();
  return records;
}

}}  // namespace vortex::v0
