// The layout of a sequence that lies in one file, or of a part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/sequence/file_layout.h"
#include "vortex/thread/futex.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class VORTEX_EXPORT SingleFile final : public FileLayout {
 public:
  // With `disk` null, opens one that suits the file and owns it: io_uring where it can be had, a
  // thread for descriptors that cannot seek.
  SingleFile(BlockFile file, Disk* disk);

  const std::string& name() const noexcept override { return file_.name(); }
  std::span<Disk* const> disks() const noexcept override { return {&disk_, 1}; }
  Place locate(std::uint64_t unit, std::size_t unit_bytes) noexcept override;
  Place assign(std::uint64_t unit, std::size_t unit_bytes) noexcept override;
  // As assign() does, for a writer beside the one in order. Any thread.
  void grow_ahead(std::uint64_t end) noexcept;
  bool sequential() const noexcept override { return !file_.seekable(); }
  std::optional<std::uint64_t> length() const noexcept override;
  void finish(std::uint64_t length, bool sync) override;
  void cancel() noexcept override;

  BlockFile& file() noexcept { return file_; }

 private:
  BlockFile file_;
  FutexMutex growth_;
  std::unique_ptr<Disk> own_disk_;
  Disk* disk_;
};

// What lies of such a file from byte `begin` on, a multiple of the unit: `length` bytes to be read;
// or to be written, beside who writes the beginning and finishes the file behind it. Several share
// the file and its descriptors; it outlives them.
class VORTEX_EXPORT FilePart final : public FileLayout {
 public:
  FilePart(SingleFile& whole, std::uint64_t begin,
           std::optional<std::uint64_t> length = {}) noexcept
      : whole_(whole), begin_(begin), length_(length) {}

  const std::string& name() const noexcept override { return whole_.name(); }
  std::span<Disk* const> disks() const noexcept override { return whole_.disks(); }
  Place locate(std::uint64_t unit, std::size_t unit_bytes) noexcept override;
  Place assign(std::uint64_t unit, std::size_t unit_bytes) noexcept override;
  std::optional<std::uint64_t> length() const noexcept override { return length_; }
  void finish(std::uint64_t, bool) override {}

 private:
  SingleFile& whole_;
  const std::uint64_t begin_;
  const std::optional<std::uint64_t> length_;
};

}}  // namespace vortex::v0
