#include "vortex/disk.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "vortex/error.h"
#include "vortex/os/steady_time.h"

namespace vortex::inline v0 {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct FreeDeleter {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

// The first `bytes` of a file, from its beginning on, in requests of which `depth` are under way.
class Sweep {
 public:
  Sweep(Disk& disk, BlockFile& file, Operation operation, std::uint64_t bytes,
        const DiskSpeedOptions& options)
      : disk_(disk),
        file_(file),
        operation_(operation),
        request_bytes_(options.request_bytes),
        end_(bytes),
        requests_(options.depth) {
    const std::size_t room = std::size_t{options.depth} * options.request_bytes;
    memory_.reset(static_cast<std::byte*>(
        std::aligned_alloc(kHugePage, (room + kHugePage - 1) / kHugePage * kHugePage)));
    if (!memory_) throw std::bad_alloc();
    // A disk that takes few pieces of memory at once is slower with scattered pages.
    madvise(memory_.get(), room, MADV_HUGEPAGE);
    // Populated before the clock runs, and no zeros, which a disk might treat in its own way.
    std::memset(memory_.get(), 0x5a, requests_.size() * request_bytes_);
  }
  ~Sweep() {
    for (Request& request : requests_) {
      if (request.under_way()) disk_.wait(request);
    }
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void start() {
    for (std::size_t i = 0; i < requests_.size(); ++i) submit(i);
  }
  // No more requests follow those that are under way.
  void end_here() noexcept { end_ = begun_; }
  // How much of the file was swept, when all requests have ended.
  std::uint64_t bytes() const noexcept { return swept_; }

  // Waits for the oldest request and follows it with the next one. False: the end was reached.
  bool advance() {
    Request& request = requests_[oldest_];
    if (!request.under_way() && !request.done()) return false;
    disk_.wait(request);
    if (request.error != 0) {
      throw Error(request.error, "measure the speed of '" + file_.name() + "'");
    }
    swept_ += request.bytes;
    if (swept_ >= end_) return false;
    if (begun_ < end_) submit(oldest_);
    oldest_ = (oldest_ + 1) % requests_.size();
    return true;
  }

 private:
  void submit(std::size_t slot) {
    if (begun_ >= end_) return;
    Request& request = requests_[slot];
    const bool direct = file_.direct_descriptor() >= 0;
    request.operation = operation_;
    request.file = direct ? file_.direct_descriptor() : file_.descriptor();
    request.alignment = direct ? file_.alignment() : 1;
    request.offset = begun_;
    request.set_memory(
        memory_.get() + slot * request_bytes_,
        static_cast<std::size_t>(std::min<std::uint64_t>(request_bytes_, end_ - begun_)));
    begun_ += request.bytes;
    disk_.submit(request);
  }

  Disk& disk_;
  BlockFile& file_;
  Operation operation_;
  std::size_t request_bytes_;
  std::uint64_t end_;
  std::uint64_t begun_ = 0;
  std::uint64_t swept_ = 0;
  std::size_t oldest_ = 0;
  std::unique_ptr<std::byte, FreeDeleter> memory_;
  std::vector<Request> requests_;
};

BlockFile file_with_room(const std::string& folder, std::uint64_t bytes) {
  BlockFile file = BlockFile::temporary(folder);
  file.allocate(bytes);
  // Writes that make a file longer wait for each other (ext4).
  file.truncate(bytes);
  return file;
}

}  // namespace

double DiskSpeed::seconds(std::uint64_t read_bytes, std::uint64_t written_bytes) const noexcept {
  const std::uint64_t both = std::min(read_bytes, written_bytes);
  return static_cast<double>(both) / copy + static_cast<double>(read_bytes - both) / read +
         static_cast<double>(written_bytes - both) / write;
}

DiskSpeed measure_disk_speed(Disk& disk, const std::string& folder,
                             const DiskSpeedOptions& options) {
  if (options.bytes == 0 || options.depth == 0 || options.request_bytes == 0 ||
      options.request_bytes % 4096 != 0 || options.bytes % 4096 != 0) {
    throw Error(EINVAL, "the speed of a disk is measured with multiples of 4096 bytes");
  }
  const auto now_ns = options.now_ns ? options.now_ns : steady_now_ns;
  BlockFile one = file_with_room(folder, options.bytes);
  BlockFile two = file_with_room(folder, options.bytes);
  // All of them in step; then what `settle` does. Bytes of one of them a second.
  const auto rate_of = [&](std::initializer_list<Sweep*> sweeps, const auto& settle) {
    const std::uint64_t begin = now_ns();
    for (Sweep* sweep : sweeps) sweep->start();
    for (bool going = true; going;) {
      const bool late = now_ns() - begin >= options.most_ns;
      going = false;
      for (Sweep* sweep : sweeps) {
        if (late) sweep->end_here();
        going = sweep->advance() || going;
      }
    }
    settle();
    const std::uint64_t ns = std::max<std::uint64_t>(now_ns() - begin, 1);
    return static_cast<double>((*sweeps.begin())->bytes()) * 1e9 / static_cast<double>(ns);
  };
  DiskSpeed speed;
  std::uint64_t bytes = 0;
  {
    Sweep all(disk, one, Operation::kWrite, options.bytes, options);
    speed.write = rate_of({&all}, [&] { one.sync(); });
    bytes = all.bytes();
  }
  // Where direct I/O is refused, what was written must not come back from memory.
  const auto forget = [&] { posix_fadvise(one.descriptor(), 0, 0, POSIX_FADV_DONTNEED); };
  forget();
  {
    Sweep all(disk, one, Operation::kRead, bytes, options);
    speed.read = rate_of({&all}, [] {});
  }
  forget();
  Sweep from(disk, one, Operation::kRead, bytes, options);
  Sweep to(disk, two, Operation::kWrite, bytes, options);
  speed.copy = rate_of({&from, &to}, [&] { two.sync(); });
  return speed;
}

}  // namespace vortex::inline v0
