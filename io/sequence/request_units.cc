#include "io/sequence/request_units.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "io/disk/request.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// From here on larger requests gain nothing on the disks we know.
constexpr std::size_t kMinRequestBytes = std::size_t{512} << 10;

}  // namespace

std::size_t RequestUnits::group(std::size_t block_bytes, std::size_t request_bytes,
                                std::size_t unit_bytes) {
  if (block_bytes == 0) throw Error(EINVAL, "blocks of 0 bytes hold nothing");
  if (unit_bytes == 0) {
    const std::size_t wanted = request_bytes != 0 ? request_bytes : kMinRequestBytes;
    return std::clamp<std::size_t>(wanted / block_bytes, 1, kMaxPieces);
  }
  if (unit_bytes % block_bytes != 0 || unit_bytes / block_bytes > kMaxPieces) {
    throw Error(EINVAL, "blocks of " + format_bytes(block_bytes) + " cannot hold stripe units of " +
                            format_bytes(unit_bytes) + ": a unit must be 1 to " +
                            std::to_string(kMaxPieces) + " blocks");
  }
  return unit_bytes / block_bytes;
}

RequestUnits::RequestUnits(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                           const Options& options, Use use)
    : pool_(pool),
      layout_(std::move(layout)),
      block_bytes_(pool.block_bytes()),
      group_(group(block_bytes_, options.request_bytes, layout_->unit_bytes())),
      caching_(options.caching),
      registered_(options.register_pool),
      use_(use) {
  const BlockFile& file = *layout_->locate(0, bytes()).file;
  if (caching_ != Caching::kBuffered && block_bytes_ % file.alignment() != 0) {
    throw Error(EINVAL, "'" + layout_->name() + "' is " +
                            (use == Use::kReading   ? "read"
                             : use == Use::kWriting ? "written"
                                                    : "read and written") +
                            " directly in multiples of " + format_bytes(file.alignment()) +
                            ", and blocks of " + format_bytes(block_bytes_) + " are none");
  }
  if (!registered_) return;
  for (Disk* disk : layout_->disks()) {
    disk->register_memory(pool_.homes(), pool_.pool_bytes(), block_bytes_);
  }
}

RequestUnits::~RequestUnits() {
  if (!registered_ || pool_.inherited()) return;
  for (Disk* disk : layout_->disks()) disk->unregister_memory(pool_.homes());
}

BlockQuota RequestUnits::quota(std::size_t blocks) const {
  const char* const user = use_ == Use::kReading   ? "reader of '"
                           : use_ == Use::kWriting ? "writer of '"
                                                   : "array of '";
  return BlockQuota(pool_, blocks, blocks, user + layout_->name() + "'");
}

void RequestUnits::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  layout_->cancel();
  for (Disk* disk : layout_->disks()) disk->interrupt();
}

}}  // namespace vortex::v0
