#include "vortex/files/timed_readers.h"

#include <utility>

#include "io/sequence/single_file.h"
#include "sort/timed/reader_group.h"

namespace vortex { inline namespace v0 {

TimedReader::TimedReader() noexcept = default;

TimedReader::TimedReader(std::shared_ptr<ReaderGroup> group, std::uint32_t number) noexcept
    : group_(std::move(group)), number_(number) {}

TimedReader::TimedReader(TimedReader&& other) noexcept = default;

TimedReader& TimedReader::operator=(TimedReader&& other) noexcept {
  std::swap(group_, other.group_);
  std::swap(number_, other.number_);
  return *this;
}

TimedReader::~TimedReader() {
  if (group_ != nullptr) group_->remove(number_);
}

std::span<const std::byte> TimedReader::next() { return group_->next(number_); }

bool TimedReader::ready() { return group_->ready(number_); }

std::uint64_t TimedReader::offset() const noexcept { return group_->offset(number_); }

void TimedReader::set_rate(double bytes_per_s) { group_->set_rate(number_, bytes_per_s); }

double TimedReader::rate() const noexcept { return group_->rate(number_); }

TimedReaderStatistics TimedReader::statistics() const noexcept {
  return group_->statistics(number_);
}

TimedReaders::TimedReaders(const TimedReadersOptions& options)
    : group_(std::make_shared<ReaderGroup>(options)) {}

TimedReaders::~TimedReaders() = default;

TimedReader TimedReaders::open(const std::string& path, const TimedReaderOptions& options) {
  Disk* const disk = options.disk != nullptr ? options.disk : group_->first_disk();
  return open(std::make_unique<SingleFile>(BlockFile::open(path, group_->opens_direct()), disk),
              options);
}

TimedReader TimedReaders::open(std::unique_ptr<FileLayout> layout,
                               const TimedReaderOptions& options) {
  return {group_, group_->add(std::move(layout), options)};
}

void TimedReaders::fill() { group_->fill(); }

TimedReadersStatistics TimedReaders::statistics() const { return group_->statistics(); }

}}  // namespace vortex::v0
