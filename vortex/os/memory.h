// The kernel's memory calls, in one place: the seam at which tests inject failures, and the only
// file that maps anything. Everything here is async-signal-safe, allocates nothing and keeps errno.
//
// The calls go to the kernel directly. The C library's wrappers are replaced by sanitizers and heap
// profilers, whose versions lock, allocate or write shadow memory for the whole of a reservation.
#pragma once

#include <cstddef>

namespace vortex::inline v0::os {

enum class MemoryCall { kMap, kMove, kVacate, kPopulate, kUnmap, kProtect };

// Address space without memory (PROT_NONE, not accounted). nullptr and *error on failure.
std::byte* reserve(std::size_t bytes, int* error) noexcept;

// Readable and writable private anonymous memory, not accounted: at `address` exactly when given
// (what was mapped there is replaced in the same step), anywhere otherwise.
std::byte* map_memory(std::byte* address, std::size_t bytes, int* error) noexcept;

// Moves the pages of [from, from + bytes) to [to, to + bytes), replacing what was mapped there. The
// source stays mapped, without pages, so that at no instant another thread's mmap can take either
// range (MREMAP_DONTUNMAP). Returns 0 or an errno value; on failure nothing has moved, but the
// kernel may have unmapped the destination already: see reserve_hole().
int move_pages(std::byte* from, std::byte* to, std::size_t bytes) noexcept;

// Makes [address, address + bytes) bare reservation where nothing is mapped there at all, and
// leaves it as it is otherwise.
void reserve_hole(std::byte* address, std::size_t bytes) noexcept;

// Turns [address, address + bytes) back into bare reservation, in one step; memory there is freed,
// and so are the page tables of every 2 MiB and 1 GiB span that the range covers whole.
int vacate(std::byte* address, std::size_t bytes) noexcept;

// Makes every page of the range present and writable. Returns 0 or an errno value.
int populate(std::byte* address, std::size_t bytes) noexcept;

// Forbids (PROT_NONE) or allows every access to pages that stay where they are. A range of whole
// huge pages keeps them whole. Returns 0 or an errno value.
int forbid_access(std::byte* address, std::size_t bytes) noexcept;
int allow_access(std::byte* address, std::size_t bytes) noexcept;

int advise(std::byte* address, std::size_t bytes, int advice) noexcept;
int unmap(std::byte* address, std::size_t bytes) noexcept;

// The kernel may give an address that one thread has unmapped to another thread's next mapping, and
// orders the two; a race detector sees only what the C library maps. Whoever has memory mapped or
// unmapped by system calls of a library's own (liburing's rings) says so: what happened before a
// note_unmapped() happened before whatever follows a later note_mapped(). The calls above do both
// by themselves.
void note_mapped() noexcept;
void note_unmapped() noexcept;

std::size_t page_bytes() noexcept;

// vm.max_map_count, or the kernel's default where /proc cannot be read.
std::size_t max_map_count() noexcept;

// For tests: called before each memory call; a result other than 0 makes the call fail with it.
// Null removes the hook.
using FailureHook = int (*)(MemoryCall call) noexcept;
void set_failure_hook(FailureHook hook) noexcept;

}  // namespace vortex::inline v0::os
