// The memory of the process, and what several of its sorts share of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class MemoryBudget;

// Can give a part of a share back before the share ends, see MemoryShare::lend_by().
class VORTEX_EXPORT MemoryLender {
 public:
  virtual ~MemoryLender();

  // Somebody waits, and `wanted` bytes more would do. Shrinks the share by what can be done
  // without, in whichever thread waits; must not wait for memory itself. Returns whether more will
  // come soon, whatever the thread does that the share belongs to; then it is asked again.
  virtual bool give_back(std::uint64_t wanted) noexcept = 0;
};

// Part of a budget, until it ends or is given back. Movable; the empty one holds nothing. One
// thread at a time, lender included.
class VORTEX_EXPORT MemoryShare {
 public:
  MemoryShare() noexcept;
  ~MemoryShare();
  MemoryShare(MemoryShare&& other) noexcept;
  MemoryShare& operator=(MemoryShare&& other) noexcept;

  std::uint64_t bytes() const noexcept;

  // Gives what is beyond `bytes` back. Never blocks.
  void shrink_to(std::uint64_t bytes) noexcept;

  // Takes what is free, up to `bytes` in all. Never blocks, and takes nothing while others wait.
  // Returns how many bytes it took.
  std::uint64_t grow_to(std::uint64_t bytes) noexcept;

  // Whether somebody waits for memory of the budget, at this moment.
  bool others_wait() const noexcept;

  // A share belongs to the thread that has taken it, which therefore cannot wait for its end; from
  // now on it belongs to the calling thread. Never blocks.
  void adopt() noexcept;

  // Whoever waits asks the lender, until end_lending(), which waits for calls that are under way.
  // The share is not moved meanwhile, and the lender alone changes it.
  void lend_by(MemoryLender& lender);
  void end_lending() noexcept;

 private:
  friend class MemoryBudget;
  struct Holding;

  MemoryShare(std::shared_ptr<MemoryBudget> budget, std::unique_ptr<Holding> holding) noexcept;
  void end() noexcept;

  std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<Holding> holding_;
};

// A number of bytes that sorts which run at once share:
//
//   constexpr std::uint64_t kGiB = 1 << 30;
//   const auto budget = vortex::MemoryBudget::make(4 * kGiB);
//   vortex::Sorter<Point> points({.memory_bytes = 3 * kGiB, .budget = budget});
//   vortex::Sorter<Name> names({.memory_bytes = 3 * kGiB, .budget = budget});  // gets 1 GiB
//
// Each sort takes its share before it allocates anything, and returns it when it ends: its memory,
// which is all within the share, has gone back to the system then. It takes what is free, at most
// SortResources::memory_bytes; where SortResources::least_memory_bytes are not free, it waits until
// others end, in the order of coming. A sort of files that are small keeps only what it needs. A
// sort that comes to its merges takes more for them if others have ended meanwhile. Sorters take
// their share when they are made, sorts of files and plan_external_sort() when they are called.
//
// Sorts may be a chain, each reading the one before, in one thread or several. While somebody
// waits, a sort that comes to its merges keeps no more than they need. A merge that is under way,
// or a sorted array that is being read, gives back what has been read ahead, and reads it again
// later; records that are sorted in memory are written to the folders if that is not enough.
// So a chain goes on where each sort() comes before the next sorter is made.
//
// A sort that still takes records gives nothing back. Where those who wait hold so much themselves
// that all others together have too little for the first of them, one of them gets Error(EDEADLK).
// A share belongs to the thread that made the sort, later to the one that pushes: sorters for other
// threads are best made there.
//
// The budget counts; it allocates nothing. A program may take shares for its own arrays, too.
// Thread-safe. Not for forked children.
class VORTEX_EXPORT MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  static std::shared_ptr<MemoryBudget> make(std::uint64_t bytes);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  // In no share, at this moment.
  std::uint64_t free_bytes() const noexcept;
  // Calls of take() that wait, at this moment.
  std::size_t waiting() const noexcept;

  // A share of at most `most` bytes, and at least `least`. Waits while less is free, and while
  // those who came before wait. Throws Error: ENOMEM when the whole budget is less than `least`,
  // EDEADLK when it waits for what is its own, ECANCELED after a request to stop; std::bad_alloc.
  MemoryShare take(std::uint64_t least, std::uint64_t most, std::stop_token stop = {});

 private:
  friend class MemoryShare;
  class State;

  explicit MemoryBudget(std::uint64_t bytes);

  const std::uint64_t bytes_;
  const std::unique_ptr<State> state_;
};

// The resident sizes count a page as often as it is mapped, so they show more than is held where a
// pool of aliases is in use: see held_bytes().
struct ProcessMemory {
  std::size_t resident_bytes = 0;       // VmRSS
  std::size_t peak_resident_bytes = 0;  // VmHWM, since the start or the last reset_peak_resident()
  std::size_t page_table_bytes = 0;     // VmPTE: memory that resident sizes leave out
};

// Reads /proc/self/status. Not inside a fault.
VORTEX_EXPORT ProcessMemory process_memory();

// The memory that the process holds now, each page counted once: Pss_Anon and Pss_Shmem of
// /proc/self/smaps_rollup, which count a page that other processes hold, too, in part. Pages of
// files are left out, since a process's part of a library grows whenever another user of it ends;
// kernels that do not tell them apart count them. Takes the kernel some
// microseconds a MiB. 0 where it does not tell (before Linux 4.14).
VORTEX_EXPORT std::size_t held_bytes();

// Starts a new peak from the present size. Returns false where the kernel does not let it.
VORTEX_EXPORT bool reset_peak_resident();

}}  // namespace vortex::v0
