#include "lines/job/input_parts.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lines/record/framing.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/memory_limits.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// A merge of all inputs may do better, or say what is wrong.
bool ends_parts(const Error& error) noexcept {
  return dynamic_cast<const NotInParts*>(&error) != nullptr ||
         dynamic_cast<const LongRecordError*>(&error) != nullptr || error.code().value() == ENODATA;
}

// Several writers have an array of their part each, and the first one of all. Looking for the ends
// of parts takes many requests.
bool may_have_parts(const LineInputs& inputs, const LineSortOptions& options,
                    const LinePlan& plan) {
  const std::optional<std::uint64_t> bytes = inputs.bytes();
  const RecordKeys* const keys = options.order.keys.get();
  return plan.threads > 1 && bytes && *bytes >= 2 * plan.least_part_bytes() &&
         options.framing.kind() == RecordFraming::Kind::kDelimited && options.header_records == 0 &&
         !options.order.unique && options.resources.first_records == 0 &&
         (keys == nullptr || keys->appended_by_any_thread()) &&
         plan.request_cost_bytes < kExpensiveRequest && address_space_left() / 4 > *bytes;
}

// Not read to the end that a file has now.
bool has_grown(const BlockFile& file) {
  struct stat now {};
  if (fstat(file.descriptor(), &now) != 0) throw Error(errno, "stat '" + file.name() + "'");
  return S_ISREG(now.st_mode) &&
         static_cast<std::uint64_t>(now.st_size) > file.begin() + file.length();
}

std::vector<std::uint64_t> lengths_of(std::span<const BlockFile> files) {
  std::vector<std::uint64_t> lengths;
  for (const BlockFile& file : files) lengths.push_back(file.length());
  return lengths;
}

}  // namespace

template <typename Step>
bool InputPart::go(const Step& step) {
  if (given_up_.load(std::memory_order_relaxed)) return false;
  try {
    return step();
  } catch (const Error& error) {
    if (!ends_parts(error)) throw;
  }
  given_up_.store(true, std::memory_order_relaxed);
  return false;
}

void InputPart::start() {
  texts_.prepare(order_);
  go([this] {
    texts_.start();
    return true;
  });
}

bool InputPart::next() {
  const bool more = go([this] { return texts_.merge().next(); });
  if (more && !begun_) [[unlikely]] {
    begun_ = true;
    first_.keep(stored(), order_.has_keys);
  }
  return more;
}

StoredRecord InputPart::last() const {
  StoredRecord last = first_.stored();
  for (const auto& cursor : texts_.cursors()) {
    if (cursor->records() > 0 && difference(last, cursor->last(), order_, 0).order < 0) {
      last = cursor->last();
    }
  }
  return last;
}

bool InputPart::precedes(const InputPart& other) const {
  return begun_ && other.begun_ && difference(last(), other.first_.stored(), order_, 0).order < 0;
}

std::unique_ptr<InputParts> InputParts::divide(LineInputs& inputs, const LineSortOptions& options,
                                               LineJob& job, Disk* disk) {
  const LinePlan& plan = job.plan();
  if (!may_have_parts(inputs, options, plan)) return nullptr;
  std::unique_ptr<InputParts> all(new InputParts());
  try {
    const HeldDescriptors held(options.resources);
    std::vector<std::uint64_t> lengths;
    for (std::size_t i = 0; i < inputs.size(); ++i) lengths.push_back(*inputs.length(i));
    const unsigned most = plan.input_merges_at_once(lengths);
    if (most < 2) return nullptr;
    for (std::size_t i = 0; i < inputs.size(); ++i) all->files_.push_back(inputs.open_whole(i));
    const std::vector<TextPart> divided =
        divide_texts(all->files_, options, job.order(), most, plan.least_part_bytes());
    if (divided.size() < 2) return nullptr;
    for (const TextPart& part : divided) {
      all->add(part, inputs, options, job, disk, static_cast<unsigned>(divided.size()));
    }
  } catch (const Error& error) {
    if (!ends_parts(error) && !means_no_descriptor(error)) throw;
    return nullptr;
  }
  return all;
}

void InputParts::add(const TextPart& part, LineInputs& inputs, const LineSortOptions& options,
                     LineJob& job, Disk* disk, unsigned count) {
  const LinePlan& plan = job.plan();
  const std::vector<std::uint64_t> lengths = lengths_of(files_);
  const std::uint64_t budget =
      plan.bytes_beside_inputs(plan.merged_together(lengths, count), count);
  parts_.push_back(
      std::make_unique<InputPart>(options, job.order(), part.bytes, budget, given_up_));
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (part.texts[i].empty()) continue;
    const MergedInput reading = plan.merged_input(files_.size(), lengths[i], count);
    std::optional<BlockReading> blocks;
    if (reading.in_blocks) blocks = inputs.reading(job.pool(), disk, plan.merged_reader);
    parts_.back()->add(
        inputs.open_part(files_[i], part.texts[i], reading.buffer_bytes, std::move(blocks)),
        inputs.name(i));
  }
}

bool InputParts::are_whole() const {
  if (given_up_.load() || std::ranges::any_of(files_, has_grown)) return false;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    if (!parts_[i - 1]->precedes(*parts_[i])) return false;
  }
  return true;
}

std::uint64_t InputParts::records() const noexcept {
  std::uint64_t records = 0;
  for (const auto& part : parts_) records += part->records();
  return records;
}

std::uint64_t InputParts::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const BlockFile& file : files_) bytes += file.length();
  return bytes;
}

}}  // namespace vortex::v0
