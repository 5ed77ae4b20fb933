#include "io/sequence/single_file.h"

#include <mutex>

#include "io/disk/thread_disk.h"
#include "vortex/disk.h"

namespace vortex { inline namespace v0 {

SingleFile::SingleFile(BlockFile file, Disk* disk) : file_(std::move(file)), disk_(disk) {
  if (!file_.seekable()) {
    own_disk_ = std::make_unique<ThreadDisk>(DiskOptions{.name = file_.name(), .depth = 1});
    disk_ = own_disk_.get();
  } else if (disk_ == nullptr) {
    own_disk_ = open_disk({.name = file_.name()});
    disk_ = own_disk_.get();
  }
}

FileLayout::Place SingleFile::locate(std::uint64_t unit, std::size_t unit_bytes) noexcept {
  return {disk_, &file_,
          file_.seekable() ? file_.begin() + unit * unit_bytes : Request::kSequential};
}

FileLayout::Place SingleFile::assign(std::uint64_t unit, std::size_t unit_bytes) noexcept {
  const Place place = locate(unit, unit_bytes);
  if (file_.seekable()) grow_ahead(place.offset + unit_bytes);
  return place;
}

void SingleFile::grow_ahead(std::uint64_t end) noexcept {
  std::lock_guard lock(growth_);
  file_.grow_ahead(end);
}

std::optional<std::uint64_t> SingleFile::length() const noexcept {
  if (!file_.seekable()) return std::nullopt;
  return file_.length();
}

void SingleFile::finish(std::uint64_t length, bool sync) {
  if (file_.seekable()) file_.truncate(length);
  if (sync) file_.sync();
  file_.publish(sync);
}

void SingleFile::cancel() noexcept {
  if (!file_.seekable()) static_cast<ThreadDisk*>(own_disk_.get())->cancel_sequential();
}

FileLayout::Place FilePart::locate(std::uint64_t unit, std::size_t unit_bytes) noexcept {
  Place place = whole_.locate(unit, unit_bytes);
  place.offset += begin_;
  return place;
}

FileLayout::Place FilePart::assign(std::uint64_t unit, std::size_t unit_bytes) noexcept {
  const Place place = locate(unit, unit_bytes);
  whole_.grow_ahead(place.offset + unit_bytes);
  return place;
}

}}  // namespace vortex::v0
