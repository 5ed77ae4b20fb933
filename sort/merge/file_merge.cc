#include "sort/merge/file_merge.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "sort/record/record_output.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// Records that are merged between two looks whether the first ones are complete.
constexpr std::uint64_t kMergedAtOnce = 256;

void read_record(const BlockFile& file, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t bytes =
        pread(file.descriptor(), to.data(), to.size(), static_cast<off_t>(file.begin() + offset));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      throw Error(errno, "reading '" + file.name() + "' at byte " + std::to_string(offset));
    }
    if (bytes == 0) {
      throw Error(ENODATA, "'" + file.name() + "' ends at byte " + std::to_string(offset) +
                               " and was " + std::to_string(file.length()) +
                               " long when it was opened");
    }
    to = to.subspan(static_cast<std::size_t>(bytes));
    offset += static_cast<std::uint64_t>(bytes);
  }
}

}  // namespace

std::vector<RecordPart> divide_files(const RecordOrder& order, std::span<const SortedFile> files,
                                     std::size_t block_bytes, unsigned parts,
                                     std::uint64_t most_records) {
  std::vector<std::uint64_t> records;
  for (const SortedFile& file : files) records.push_back(file.records);
  std::vector<std::byte> record(order.record_bytes());
  const auto read = [&](std::size_t file, std::uint64_t index) {
    read_record(files[file].file->file(), index * record.size(), record);
    return record.data();
  };
  // A part of the output that is shorter than a block might end within its head.
  const std::uint64_t least = detail::units_for(block_bytes, record.size());
  return divide_sequences(order, records, read, block_bytes, parts, least, most_records);
}

FileMerge::FileMerge(const RecordOrder& order, std::span<const SortedFile> files,
                     const RecordPart& part, const FileMergeOptions& options)
    : order_(order), options_(options), records_(part.records), previous_(order.record_bytes()) {
  const std::uint64_t record_bytes = order.record_bytes();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const RecordPart::Range& range = part.runs[i];
    if (range.begin == range.end) continue;
    SingleFile& file = *files[i].file;
    // With the record in front of the first one.
    const std::uint64_t from =
        (range.begin - std::min<std::uint64_t>(range.begin, 1)) * record_bytes;
    const std::uint64_t begin = from - from % options_.reader.pool->block_bytes();
    readers_.push_back(std::make_unique<FileReaderBase>(
        std::make_unique<FilePart>(file, begin, range.end * record_bytes - begin),
        options_.reader));
    stops_.push_back(std::make_unique<StreamStop>(readers_.back()->stream(), options_.stop));
    sources_.push_back({file, range.begin});
    inputs_.push_back(
        {readers_.back()->bytes() + (range.begin * record_bytes - begin), range.end - range.begin});
  }
  merge_ = order.checked_merge(inputs_);
}

// A cut lies in front of a record of one of the files, whatever the record in front of that is.
std::optional<OutOfOrder> FileMerge::find_at_border() {
  const std::size_t record_bytes = order_.record_bytes();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (sources_[i].first == 0) continue;
    const std::byte* const first = inputs_[i].begin;
    std::memcpy(previous_.data(), first - record_bytes, record_bytes);
    // A record that lies in two blocks is entered from the front.
    static_cast<void>(*static_cast<const volatile std::byte*>(first));
    if (order_.less(first, previous_.data())) return OutOfOrder{i, first};
  }
  return std::nullopt;
}

void FileMerge::refuse(const OutOfOrder& found) const {
  const Source& source = sources_[found.input];
  const std::size_t record_bytes = order_.record_bytes();
  const auto behind = static_cast<std::uint64_t>(found.record - inputs_[found.input].begin);
  const std::uint64_t offset = source.first * record_bytes + behind;
  throw Error(EINVAL, "'" + source.file.name() + "' is not sorted: record " +
                          std::to_string(offset / record_bytes + 1) + ", at offset " +
                          std::to_string(offset) +
                          ", comes before the one in front of it; only sorted inputs can be "
                          "merged");
}

void FileMerge::merge_to(RecordOutput& out) {
  SortedOutput sorted(order_, options_.unique, options_.most_records, out);
  const std::uint64_t at_once =
      options_.most_records == 0 ? std::max<std::uint64_t>(kMaxRoomBytes / order_.record_bytes(), 1)
                                 : kMergedAtOnce;
  std::optional<OutOfOrder> found;
  guarded([&] {
    found = find_at_border();
    if (found) return;
    merge_->start();
    const std::uint64_t all = merge_->records_left();
    while (!found && taken_ < records_ && !sorted.full()) {
      const WorkSpan span(SpanKind::kMerge);
      found = merge_->merge_checked(std::min(records_ - taken_, at_once), sorted.to());
      taken_ = all - merge_->records_left();
    }
  }).throw_if_failed();
  if (found && !sorted.full()) refuse(*found);
}

}}  // namespace vortex::v0
