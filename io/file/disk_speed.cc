#include "vortex/disk.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;
constexpr unsigned kMaxDepth = 4096;

// In which order the parts of a file are swept.
enum class Places : std::uint8_t {
  kInOrder,
  kFarApart,
};

// The first `bytes` of a file, in requests of which `depth` are under way. Far apart: as many bytes
// as there are whole requests for.
class Sweep {
 public:
  Sweep(Disk& disk, BlockFile& file, Operation operation, std::uint64_t bytes,
        const DiskSpeedOptions& options, Places places = Places::kInOrder)
      : disk_(disk),
        file_(file),
        operation_(operation),
        request_bytes_(options.request_bytes),
        end_(places == Places::kInOrder ? bytes : bytes / request_bytes_ * request_bytes_),
        parts_(detail::units_for(end_, request_bytes_)),
        step_(places == Places::kInOrder ? 1 : far_step(parts_)),
        requests_(options.depth) {
    const std::size_t room =
        detail::saturating_product(std::size_t{options.depth}, options.request_bytes);
    memory_.reset(
        static_cast<std::byte*>(std::aligned_alloc(kHugePage, detail::round_up(room, kHugePage))));
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

  void start() {
    for (std::size_t i = 0; i < requests_.size(); ++i) submit(i);
  }
  // No more requests follow those that are under way.
  void end_here() noexcept { end_ = begun_; }
  // How many requests were begun.
  std::uint64_t parts_begun() const noexcept { return detail::units_for(begun_, request_bytes_); }
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
  // The step that leads to each of the parts once, and from each to one far away.
  static std::uint64_t far_step(std::uint64_t parts) noexcept {
    std::uint64_t step = parts / 3 * 2 + 1;
    while (std::gcd(step, parts) > 1) ++step;
    return step;
  }

  void submit(std::size_t slot) {
    if (begun_ >= end_) return;
    Request& request = requests_[slot];
    const bool direct = file_.direct_descriptor() >= 0;
    request.operation = operation_;
    request.file = direct ? file_.direct_descriptor() : file_.descriptor();
    request.alignment = direct ? file_.alignment() : 1;
    request.offset = parts_begun() * step_ % parts_ * request_bytes_;
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
  const std::uint64_t parts_;
  const std::uint64_t step_;
  std::uint64_t begun_ = 0;
  std::uint64_t swept_ = 0;
  std::size_t oldest_ = 0;
  std::unique_ptr<std::byte, os::FreeDeleter> memory_;
  std::vector<Request> requests_;
};

BlockFile file_with_room(const std::string& folder, std::uint64_t bytes) {
  BlockFile file = BlockFile::temporary(folder);
  file.allocate(bytes);
  // Writes that make a file longer wait for each other (ext4).
  file.truncate(bytes);
  return file;
}

void expect_sizes(const DiskSpeedOptions& options) {
  if (options.bytes == 0 || options.depth == 0 || options.request_bytes == 0 ||
      options.request_bytes % kPage != 0 || options.bytes % kPage != 0) {
    throw Error(EINVAL, "the speed of a disk is measured with multiples of 4096 bytes");
  }
  if (options.depth > kMaxDepth) {
    throw Error(EINVAL, "the speed of a disk is measured with a depth of " +
                            std::to_string(options.depth) + ": the most is " +
                            std::to_string(kMaxDepth));
  }
}

std::uint64_t now_ns(const DiskSpeedOptions& options) {
  return options.now_ns ? options.now_ns() : steady_now_ns();
}

// The seconds that sweeps take in step, with what `settle` does then.
template <typename Settle>
double seconds_of(std::initializer_list<Sweep*> sweeps, const DiskSpeedOptions& options,
                  const Settle& settle) {
  const std::uint64_t begin = now_ns(options);
  for (Sweep* sweep : sweeps) sweep->start();
  for (bool going = true; going;) {
    const bool late = now_ns(options) - begin >= options.most_ns;
    going = false;
    for (Sweep* sweep : sweeps) {
      if (late) sweep->end_here();
      going = sweep->advance() || going;
    }
  }
  settle();
  return static_cast<double>(std::max<std::uint64_t>(now_ns(options) - begin, 1)) / 1e9;
}

// Where direct I/O is refused, what was written must not come back from memory.
void forget(const BlockFile& file) { posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED); }

}  // namespace

double DiskSpeed::seconds(std::uint64_t read_bytes, std::uint64_t written_bytes) const noexcept {
  const std::uint64_t both = std::min(read_bytes, written_bytes);
  return static_cast<double>(both) / copy + static_cast<double>(read_bytes - both) / read +
         static_cast<double>(written_bytes - both) / write;
}

DiskSpeed measure_disk_speed(Disk& disk, const std::string& folder,
                             const DiskSpeedOptions& options) {
  expect_sizes(options);
  BlockFile one = file_with_room(folder, options.bytes);
  BlockFile two = file_with_room(folder, options.bytes);
  // Bytes of one of them a second.
  const auto rate_of = [&](std::initializer_list<Sweep*> sweeps, const auto& settle) {
    const double seconds = seconds_of(sweeps, options, settle);
    return static_cast<double>((*sweeps.begin())->bytes()) / seconds;
  };
  DiskSpeed speed;
  std::uint64_t bytes = 0;
  {
    Sweep all(disk, one, Operation::kWrite, options.bytes, options);
    speed.write = rate_of({&all}, [&] { one.sync(); });
    bytes = all.bytes();
  }
  forget(one);
  {
    Sweep all(disk, one, Operation::kRead, bytes, options);
    speed.read = rate_of({&all}, [] {});
  }
  forget(one);
  Sweep from(disk, one, Operation::kRead, bytes, options);
  Sweep to(disk, two, Operation::kWrite, bytes, options);
  speed.copy = rate_of({&from, &to}, [&] { two.sync(); });
  return speed;
}

double measure_request_cost(Disk& disk, const std::string& folder,
                            const DiskSpeedOptions& options) {
  expect_sizes(options);
  BlockFile file = file_with_room(folder, options.bytes);
  std::uint64_t bytes = 0;
  {
    Sweep all(disk, file, Operation::kWrite, options.bytes, options);
    seconds_of({&all}, options, [&] { file.sync(); });
    bytes = all.bytes();
  }
  // The faster one counts: others use the disk, too.
  constexpr unsigned kRounds = 2;
  // Fewer are served from what the disk reads ahead.
  constexpr std::uint64_t kLeastParts = 8;
  const std::size_t large = options.request_bytes;
  const std::size_t small = std::max(large / 16, kPage);
  if (bytes < kLeastParts * large || small == large) return 0;
  const auto seconds_of_requests = [&](std::size_t request_bytes) {
    forget(file);
    DiskSpeedOptions here = options;
    here.request_bytes = request_bytes;
    here.most_ns = options.most_ns / kRounds;
    Sweep parts(disk, file, Operation::kRead, bytes, here, Places::kFarApart);
    const double seconds = seconds_of({&parts}, here, [] {});
    return seconds / static_cast<double>(parts.parts_begun());
  };
  double of_small = std::numeric_limits<double>::max();
  double of_large = of_small;
  for (unsigned round = 0; round < kRounds; ++round) {
    of_small = std::min(of_small, seconds_of_requests(small));
    of_large = std::min(of_large, seconds_of_requests(large));
  }
  // Both take the same time and that for their bytes.
  const double of_bytes = of_large - of_small;
  const auto more = static_cast<double>(large - small);
  const double most = 64.0 * static_cast<double>(large);  // where the bytes take no time at all
  if (of_bytes * most <= of_small * more) return most;
  return std::max(of_small * more / of_bytes - static_cast<double>(small), 0.0);
}

}}  // namespace vortex::v0
