#include "vortex/os/userfaultfd.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/this_thread.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)  // Linux 6.1
#endif

namespace vortex { inline namespace v0 { namespace os {

namespace {

// What came with Linux 6.6 and 6.8, for older headers.
constexpr std::uint64_t kUffdFeaturePoison = std::uint64_t{1} << 14;  // Linux 6.6
constexpr std::uint64_t kUffdFeatureMove = std::uint64_t{1} << 16;    // Linux 6.8

// The kernel's struct uffdio_poison.
struct UffdPoison {
  uffdio_range range;
  std::uint64_t mode;
  std::int64_t updated;
};
constexpr unsigned long kUffdPoison = _IOWR(UFFDIO, 0x08, UffdPoison);

// The kernel's struct uffdio_move.
struct UffdMove {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t bytes;
  std::uint64_t mode;
  std::int64_t moved;
};
constexpr unsigned long kUffdMove = _IOWR(UFFDIO, 0x05, UffdMove);
constexpr std::uint64_t kUffdMoveDontWake = 1;

constexpr std::uint64_t kFeatures = kUffdFeatureMove | kUffdFeaturePoison |
                                    UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_THREAD_ID |
                                    UFFD_FEATURE_EXACT_ADDRESS;

// Returns 0 or an errno value, with errno left as it was.
int command(int descriptor, unsigned long request, void* argument) noexcept {
  const KeptErrno kept;
  return ioctl(descriptor, request, argument) == 0 ? 0 : errno;
}

// The same until nobody changes the maps at this moment.
int command_again(int descriptor, unsigned long request, void* argument) noexcept {
  int error = 0;
  do {
    error = command(descriptor, request, argument);
  } while (error == EAGAIN);
  return error;
}

uffdio_range range_of(const std::byte* begin, std::size_t bytes) noexcept {
  return {reinterpret_cast<std::uintptr_t>(begin), bytes};
}

uffdio_range page_of(const std::byte* address) noexcept {
  const std::size_t page = page_bytes();
  return {reinterpret_cast<std::uintptr_t>(address) / page * page, page};
}

// A descriptor for faults of the kernel's, too: by the system call where that is allowed, by the
// device otherwise.
Descriptor open_descriptor(int* error) noexcept {
  Descriptor descriptor(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (descriptor) return descriptor;
  *error = errno;
  const Descriptor device(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (!device) return {};
  return Descriptor(ioctl(device.get(), USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK));
}

constexpr char kWayIn[] =
    ": allow it to everybody (sysctl -w vm.unprivileged_userfaultfd=1), or this user to open "
    "/dev/userfaultfd (Linux 6.1), or give the program CAP_SYS_PTRACE; in a container its seccomp "
    "profile must allow userfaultfd, or /dev/userfaultfd must be passed in";

[[noreturn]] void refuse(int error) {
  if (error == ENOSYS) {
    throw Error(error,
                "this kernel has no userfaultfd (CONFIG_USERFAULTFD), or a seccomp profile hides "
                "it: use the engine of signals (VORTEX_ENGINE=signal)");
  }
  if (error == EPERM || error == EACCES) {
    throw Error(error, std::string("this process may not serve the kernel's faults") + kWayIn);
  }
  throw Error(error, "userfaultfd");
}

// How often a move is tried again at once, and how long, in all, it then waits for the end of the
// transfers that have pinned the pages.
constexpr int kQuickRetries = 64;
constexpr std::int64_t kLongestNapNs = 2'000'000;

}  // namespace

std::shared_ptr<Userfaultfd> Userfaultfd::make() {
  int error = 0;
  Descriptor descriptor = open_descriptor(&error);
  if (!descriptor) refuse(error);
  auto made = std::make_shared<Userfaultfd>(std::move(descriptor));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatures;
  if (command(made->descriptor(), UFFDIO_API, &api) == 0) return made;
  throw Error(ENOSYS,
              "this kernel's userfaultfd cannot move pages: Linux 6.8 or newer is needed; use the "
              "engine of signals (VORTEX_ENGINE=signal)");
}

int Userfaultfd::arm(std::byte* begin, std::size_t bytes) const noexcept {
  uffdio_register arguments{};
  arguments.range = range_of(begin, bytes);
  arguments.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  return command(descriptor(), UFFDIO_REGISTER, &arguments);
}

bool Userfaultfd::next(PageFault* fault) const noexcept {
  const KeptErrno kept;
  for (;;) {
    uffd_msg message;
    const ssize_t got = read(descriptor(), &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof message) return false;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    fault->address = reinterpret_cast<std::byte*>(message.arg.pagefault.address);
    fault->write = (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0;
    fault->thread = static_cast<std::int32_t>(message.arg.pagefault.feat.ptid);
    return true;
  }
}

Userfaultfd::Moved Userfaultfd::move(std::byte* from, std::byte* to, std::size_t bytes,
                                     std::int64_t patience_ns) const noexcept {
  const KeptErrno kept;
  Moved done;
  int tries = 0;
  std::int64_t waited_ns = 0;
  std::int64_t nap_ns = 20'000;
  while (done.bytes < bytes) {
    int error = injected_failure(MemoryCall::kMove);
    if (error == 0) {
      UffdMove arguments{.to = reinterpret_cast<std::uintptr_t>(to + done.bytes),
                         .from = reinterpret_cast<std::uintptr_t>(from + done.bytes),
                         .bytes = bytes - done.bytes,
                         .mode = kUffdMoveDontWake,
                         .moved = 0};
      error = command(descriptor(), kUffdMove, &arguments);
      if (arguments.moved > 0) {
        done.bytes += static_cast<std::size_t>(arguments.moved);
        tries = 0;
        continue;
      }
      if (error == 0) continue;
    }
    // Somebody changes the maps at this moment (EAGAIN), or has pinned a page.
    if (error != EAGAIN && error != EBUSY) return {error, done.bytes};
    if (++tries <= kQuickRetries) continue;
    if (waited_ns > patience_ns) return {EBUSY, done.bytes};
    before_waiting();
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
    waited_ns += nap_ns;
    nap_ns = std::min(nap_ns * 2, kLongestNapNs);
  }
  return done;
}

Userfaultfd::Moved Userfaultfd::copy(const std::byte* from, std::byte* to, std::size_t bytes,
                                     bool writable) const noexcept {
  Moved done;
  if ((done.error = injected_failure(MemoryCall::kMove)) != 0) return done;
  while (done.bytes < bytes) {
    uffdio_copy arguments{};
    arguments.dst = reinterpret_cast<std::uintptr_t>(to + done.bytes);
    arguments.src = reinterpret_cast<std::uintptr_t>(from + done.bytes);
    arguments.len = bytes - done.bytes;
    arguments.mode = UFFDIO_COPY_MODE_DONTWAKE;
    if (!writable) arguments.mode |= UFFDIO_COPY_MODE_WP;
    const int error = command(descriptor(), UFFDIO_COPY, &arguments);
    if (arguments.copy > 0) {
      done.bytes += static_cast<std::size_t>(arguments.copy);
    } else if (error != EAGAIN) {
      done.error = error;
      break;
    }
  }
  return done;
}

int Userfaultfd::zero(std::byte* begin, std::size_t bytes) const noexcept {
  for (std::size_t done = 0; done < bytes;) {
    uffdio_zeropage arguments{};
    arguments.range = range_of(begin + done, bytes - done);
    arguments.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE;
    const int error = command(descriptor(), UFFDIO_ZEROPAGE, &arguments);
    if (arguments.zeropage > 0) {
      done += static_cast<std::size_t>(arguments.zeropage);
    } else if (error != EAGAIN) {
      return error;
    }
  }
  return 0;
}

int Userfaultfd::protect_from_writes(std::byte* begin, std::size_t bytes,
                                     bool protect) const noexcept {
  if (const int error = injected_failure(MemoryCall::kProtect)) return error;
  uffdio_writeprotect arguments{};
  arguments.range = range_of(begin, bytes);
  // Waking goes with the end of protection alone.
  arguments.mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
  return command_again(descriptor(), UFFDIO_WRITEPROTECT, &arguments);
}

int Userfaultfd::poison(std::byte* address) const noexcept {
  UffdPoison arguments{};
  arguments.range = page_of(address);
  arguments.mode = 1;  // UFFDIO_POISON_MODE_DONTWAKE
  return command_again(descriptor(), kUffdPoison, &arguments);
}

void Userfaultfd::wake(std::byte* address) const noexcept {
  uffdio_range range = page_of(address);
  command(descriptor(), UFFDIO_WAKE, &range);
}

}}}  // namespace vortex::v0::os
