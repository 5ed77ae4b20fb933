// The kernel's memory calls, in one place: the seam at which tests inject failures, and the only
// file that maps anything. Everything here is async-signal-safe, allocates nothing and keeps errno.
//
// The calls go to the kernel directly. The C library's wrappers are replaced by sanitizers and heap
// profilers, whose versions lock, allocate or write shadow memory for the whole of a reservation.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace os {

enum class MemoryCall { kMap, kMove, kAlias, kVacate, kPopulate, kUnmap, kProtect };

// Address space without memory (PROT_NONE, not accounted). nullptr and *error on failure.
std::byte* reserve(std::size_t bytes, int* error) noexcept;

// Readable and writable private anonymous memory, not accounted: at `address` exactly when given
// (what was mapped there is replaced in the same step), anywhere otherwise.
VORTEX_EXPORT std::byte* map_memory(std::byte* address, std::size_t bytes, int* error) noexcept;

// Moves the pages of [from, from + bytes) to [to, to + bytes), replacing what was mapped there. The
// source stays mapped, without pages, so that at no instant another thread's mmap can take either
// range (MREMAP_DONTUNMAP). Returns 0 or an errno value; on failure nothing has moved, but the
// kernel may have unmapped the destination already: see reserve_hole().
int move_pages(std::byte* from, std::byte* to, std::size_t bytes) noexcept;

// Memory that can be mapped at several addresses: a descriptor of `bytes` bytes, none of them there
// yet (memfd). -1 and *error on failure; EFBIG where RLIMIT_FSIZE is below that size.
int make_shared_memory(const char* name, std::size_t bytes, int* error) noexcept;

// Maps all of such a descriptor at `address`, replacing what was mapped there. Returns 0 or an
// errno value; on failure there may be a hole.
int map_shared(int descriptor, std::byte* address, std::size_t bytes, bool writable) noexcept;

// Maps what lies in [from, from + bytes), within one map of map_shared(), at [to, to + bytes) as
// well, replacing what was mapped there: the same memory with the same rights and advice. Pages
// appear as they are touched. Nothing is taken away from anybody, so no other processor is
// interrupted. Returns 0 or an errno value; on failure see reserve_hole().
int alias_pages(const std::byte* from, std::byte* to, std::size_t bytes) noexcept;

// Gives every page of a range of map_shared() memory. Returns 0 or an errno value.
int populate_shared(int descriptor, std::byte* begin, std::size_t offset,
                    std::size_t bytes) noexcept;

// Has the kernel put the pages of the range on huge pages now (Linux 6.1), whatever it does by
// itself. Returns 0 or an errno value: EINVAL where it cannot.
int collapse(std::byte* address, std::size_t bytes) noexcept;

void close_descriptor(int descriptor) noexcept;

// Makes [address, address + bytes) bare reservation where nothing is mapped there at all, and
// leaves it as it is otherwise.
void reserve_hole(std::byte* address, std::size_t bytes) noexcept;

// Makes bare reservation of all pages of the range where nothing is mapped, and leaves the others
// as they are. Some system calls for each hole.
void reserve_holes(std::byte* address, std::size_t bytes) noexcept;

// Turns [address, address + bytes) back into bare reservation, in one step; memory there is freed,
// and so are the page tables of every 2 MiB and 1 GiB span that the range covers whole.
int vacate(std::byte* address, std::size_t bytes) noexcept;

// Takes the pages of [address, address + bytes) away and leaves the map as it is; the kernel frees
// page tables that are empty then from Linux 6.14 on. Returns 0 or an errno value.
VORTEX_EXPORT int discard(std::byte* address, std::size_t bytes) noexcept;

// Makes every page of the range present and writable. Returns 0 or an errno value.
int populate(std::byte* address, std::size_t bytes) noexcept;

// Makes every page of private memory present by writing to it what is there, whatever others write
// there at the same time. Unlike populate() it leaves the map lock alone, which moving blocks
// takes.
VORTEX_EXPORT void touch(std::byte* address, std::size_t bytes) noexcept;

// Sets what is allowed (PROT_NONE, ...) on pages that stay where they are. A range of whole huge
// pages keeps them whole. Returns 0 or an errno value.
int protect(std::byte* address, std::size_t bytes, int protection) noexcept;
inline int forbid_access(std::byte* address, std::size_t bytes) noexcept {
  return protect(address, bytes, PROT_NONE);
}
inline int allow_access(std::byte* address, std::size_t bytes) noexcept {
  return protect(address, bytes, PROT_READ | PROT_WRITE);
}

VORTEX_EXPORT int advise(std::byte* address, std::size_t bytes, int advice) noexcept;
VORTEX_EXPORT int unmap(std::byte* address, std::size_t bytes) noexcept;

// The kernel may give an address that one thread has unmapped to another thread's next mapping, and
// orders the two; a race detector sees only what the C library maps. Code that has a library map or
// unmap memory by system calls of the library's own (liburing's rings) calls these two: whatever
// happened before a note_unmapped() happened before whatever follows a later note_mapped(). The
// calls above do both by themselves.
void note_mapped() noexcept;
void note_unmapped() noexcept;

VORTEX_EXPORT std::size_t page_bytes() noexcept;

// What the machine has, and what nobody uses; 0 where the kernel refuses to tell, which sysconf()
// does not notice.
struct MachineMemory {
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};
VORTEX_EXPORT MachineMemory machine_memory() noexcept;

// vm.max_map_count, or the kernel's default where /proc cannot be read.
std::size_t max_map_count() noexcept;

// For tests: called before each memory call; a result other than 0 makes the call fail with it.
// Null removes the hook.
using FailureHook = int (*)(MemoryCall call) noexcept;
void set_failure_hook(FailureHook hook) noexcept;
// The hook's answer to a call, for the calls that other files make.
int injected_failure(MemoryCall call) noexcept;

// Frees memory from malloc(3), which none of the above is.
struct FreeDeleter {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

}}}  // namespace vortex::v0::os
