#include "io/disk/disk.h"

#include <cerrno>
#include <string>

#include "io/disk/thread_disk.h"
#include "io/disk/uring_disk.h"
#include "vortex/error.h"

void std::default_delete<vortex::Disk>::operator()(vortex::Disk* disk) const noexcept {
  delete disk;
}

namespace vortex { inline namespace v0 {

namespace {

// Enough for direct I/O to keep a solid-state disk busy.
constexpr unsigned kThreads = 4;

std::unique_ptr<Disk> open_thread_disk(const DiskOptions& options) {
  DiskOptions for_threads = options;
  if (for_threads.depth == 0) for_threads.depth = kThreads;
  return std::make_unique<ThreadDisk>(for_threads);
}

}  // namespace

std::unique_ptr<Disk> open_disk(const DiskOptions& options) {
  if (options.depth > UringDisk::kMaxDepth) {
    throw Error(EINVAL, "disk '" + options.name + "': a depth of " + std::to_string(options.depth) +
                            " is too much; the most is " + std::to_string(UringDisk::kMaxDepth));
  }
  if (options.backend == DiskBackend::kThreads) return open_thread_disk(options);
  if (options.backend == DiskBackend::kUring) return std::make_unique<UringDisk>(options);
  std::string refusal;
  try {
    return std::make_unique<UringDisk>(options);
  } catch (const Error& error) {
    refusal = error.what();
  }
  auto disk = open_thread_disk(options);
  disk->set_fallback(refusal);
  return disk;
}

unsigned threads_of_disk(DiskBackend backend) {
  if (backend == DiskBackend::kUring) return 0;
  if (backend == DiskBackend::kThreads) return kThreads;
  try {
    const UringDisk disk;
    return 0;
  } catch (const Error&) {
    return kThreads;
  }
}

}}  // namespace vortex::v0
