#include "vortex/os/memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "vortex/os/descriptor.h"
#include "vortex/thread/race_detector.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4  // Linux 5.7
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U  // Linux 6.3
#endif

namespace vortex { inline namespace v0 { namespace os {

namespace {

std::atomic<FailureHook> failure_hook{nullptr};

// How often memory was unmapped: written only for the order that it makes.
std::atomic<unsigned> unmappings{0};

// A system call whose error comes back as a value, with errno left as it was.
template <typename... Args>
long kernel(int* error, long number, Args... args) noexcept {
  const KeptErrno kept;
  const long result = syscall(number, args...);
  *error = result == -1 ? errno : 0;
  return result;
}

std::byte* map(std::byte* address, std::size_t bytes, int protection, int flags,
               int* error) noexcept {
  const long result =
      kernel(error, SYS_mmap, address, bytes, static_cast<long>(protection),
             static_cast<long>(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags), -1L, 0L);
  return *error != 0 ? nullptr : reinterpret_cast<std::byte*>(result);
}

}  // namespace

void set_failure_hook(FailureHook hook) noexcept {
  failure_hook.store(hook, std::memory_order_release);
}

int injected_failure(MemoryCall call) noexcept {
  FailureHook hook = failure_hook.load(std::memory_order_acquire);
  return hook == nullptr ? 0 : hook(call);
}

std::byte* reserve(std::size_t bytes, int* error) noexcept {
  *error = injected_failure(MemoryCall::kMap);
  if (*error != 0) return nullptr;
  std::byte* const address = map(nullptr, bytes, PROT_NONE, 0, error);
  note_mapped();
  return address;
}

std::byte* map_memory(std::byte* address, std::size_t bytes, int* error) noexcept {
  *error = injected_failure(MemoryCall::kMap);
  if (*error != 0) return nullptr;
  const int flags = address != nullptr ? MAP_FIXED : 0;
  std::byte* const mapped = map(address, bytes, PROT_READ | PROT_WRITE, flags, error);
  note_mapped();
  return mapped;
}

int move_pages(std::byte* from, std::byte* to, std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kMove);
  if (error != 0) return error;
  kernel(&error, SYS_mremap, from, bytes, bytes,
         static_cast<long>(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP), to);
  return error;
}

int make_shared_memory(const char* name, std::size_t bytes, int* error) noexcept {
  *error = injected_failure(MemoryCall::kMap);
  if (*error != 0) return -1;
  // Beyond this limit the call that sets the size raises SIGXFSZ.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    *error = EFBIG;
    return -1;
  }
  long descriptor = kernel(error, SYS_memfd_create, name, long{MFD_CLOEXEC | MFD_NOEXEC_SEAL});
  if (*error == EINVAL) descriptor = kernel(error, SYS_memfd_create, name, long{MFD_CLOEXEC});
  if (*error != 0) return -1;
  kernel(error, SYS_ftruncate, descriptor, static_cast<long>(bytes));
  if (*error == 0) return static_cast<int>(descriptor);
  close_descriptor(static_cast<int>(descriptor));
  return -1;
}

int map_shared(int descriptor, std::byte* address, std::size_t bytes, bool writable) noexcept {
  int error = injected_failure(MemoryCall::kMap);
  if (error != 0) return error;
  kernel(&error, SYS_mmap, address, bytes,
         static_cast<long>(writable ? PROT_READ | PROT_WRITE : PROT_READ),
         static_cast<long>(MAP_SHARED | MAP_FIXED), static_cast<long>(descriptor), 0L);
  return error;
}

int alias_pages(const std::byte* from, std::byte* to, std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kAlias);
  if (error != 0) return error;
  // The kernel's word for "as well": an old size of 0.
  kernel(&error, SYS_mremap, from, 0L, bytes, static_cast<long>(MREMAP_MAYMOVE | MREMAP_FIXED), to);
  return error;
}

int populate_shared(int descriptor, std::byte* begin, std::size_t offset,
                    std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kPopulate);
  if (error != 0) return error;
  error = advise(begin, bytes, MADV_POPULATE_WRITE);
  // No memory within the commit limit is a bus error to whoever touches such a page.
  if (error == EFAULT) return ENOMEM;
  if (error != EINVAL) return error;
  // Before Linux 5.14.
  do {
    kernel(&error, SYS_fallocate, static_cast<long>(descriptor), 0L, static_cast<long>(offset),
           static_cast<long>(bytes));
  } while (error == EINTR);
  return error == ENOSPC ? ENOMEM : error;
}

int collapse(std::byte* address, std::size_t bytes) noexcept {
  return advise(address, bytes, MADV_COLLAPSE);
}

void close_descriptor(int descriptor) noexcept {
  int error = 0;
  kernel(&error, SYS_close, static_cast<long>(descriptor));
}

void reserve_hole(std::byte* address, std::size_t bytes) noexcept {
  int error = 0;
  map(address, bytes, PROT_NONE, MAP_FIXED_NOREPLACE, &error);
}

void reserve_holes(std::byte* address, std::size_t bytes) noexcept {
  // The call that tells whether a page of a range is missing, without looking at pages.
  int error = 0;
  kernel(&error, SYS_msync, address, bytes, static_cast<long>(MS_ASYNC));
  if (error != ENOMEM) return;
  if (map(address, bytes, PROT_NONE, MAP_FIXED_NOREPLACE, &error) != nullptr) return;
  if (bytes <= page_bytes()) return;
  const std::size_t half = bytes / page_bytes() / 2 * page_bytes();
  reserve_holes(address, half);
  reserve_holes(address + half, bytes - half);
}

int vacate(std::byte* address, std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kVacate);
  if (error != 0) return error;
  map(address, bytes, PROT_NONE, MAP_FIXED, &error);
  return error;
}

int discard(std::byte* address, std::size_t bytes) noexcept {
  const int error = injected_failure(MemoryCall::kVacate);
  return error != 0 ? error : advise(address, bytes, MADV_DONTNEED);
}

int populate(std::byte* address, std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kPopulate);
  if (error != 0) return error;
  error = advise(address, bytes, MADV_POPULATE_WRITE);
  if (error != EINVAL) return error;
  // Before Linux 5.14: touch each page. The memory is ours and holds nothing yet.
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    *reinterpret_cast<volatile unsigned char*>(address + at) = 0;
  }
  return 0;
}

// Compilers may turn an atomic "or" with nothing into a load, which gives no page.
[[gnu::no_sanitize_thread]] void touch(std::byte* address, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    auto* const byte = reinterpret_cast<unsigned char*>(address + at);
#if defined(__x86_64__)
    asm volatile("lock orb $0, %0" : "+m"(*byte));
#else
    __atomic_fetch_add(static_cast<volatile unsigned char*>(byte), 0, __ATOMIC_RELAXED);
#endif
  }
}

int protect(std::byte* address, std::size_t bytes, int protection) noexcept {
  int error = injected_failure(MemoryCall::kProtect);
  if (error == 0) kernel(&error, SYS_mprotect, address, bytes, static_cast<long>(protection));
  return error;
}

int advise(std::byte* address, std::size_t bytes, int advice) noexcept {
  int error = 0;
  do {
    kernel(&error, SYS_madvise, address, bytes, static_cast<long>(advice));
  } while (error == EINTR);  // EAGAIN is what lasts: the kernel's word for "no more maps"
  return error;
}

int unmap(std::byte* address, std::size_t bytes) noexcept {
  int error = injected_failure(MemoryCall::kUnmap);
  if (error != 0) return error;
  note_unmapped();
  kernel(&error, SYS_munmap, address, bytes);
  return error;
}

void note_mapped() noexcept {
  unmappings.load(std::memory_order_acquire);
  note_acquired(&unmappings);
}

void note_unmapped() noexcept {
  note_released(&unmappings);
  unmappings.fetch_add(1, std::memory_order_release);
}

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

MachineMemory machine_memory() noexcept {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return {};
  const std::uint64_t unit = info.mem_unit;
  return {info.totalram * unit, info.freeram * unit};
}

std::size_t max_map_count() noexcept {
  constexpr std::size_t kKernelDefault = 65530;
  const Descriptor file(open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t size = file ? read(file.get(), text, sizeof text - 1) : -1;
  if (size <= 0) return kKernelDefault;
  text[size] = '\0';
  const unsigned long value = std::strtoul(text, nullptr, 10);
  return value != 0 ? value : kKernelDefault;
}

}}}  // namespace vortex::v0::os
