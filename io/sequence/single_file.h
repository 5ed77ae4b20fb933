// The layout of a sequence that lies in one file.
#pragma once

#include <memory>

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

}}  // namespace vortex::v0
