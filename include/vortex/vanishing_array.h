// An array whose memory flows away as it is read and comes back as it is written.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "vortex/detail/export.h"
#include "vortex/error.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

struct VanishingArrayOptions {
  std::string name = "array";
  // M: how many blocks a reader may come back. Records and vector loads that straddle a block
  // border need 1.
  std::size_t comeback_blocks = 0;
};

// The untyped part: the simple case of Vortex-S (section 6.5 of the Vortex paper). Writing draws
// blocks from the pool. Reading in ascending order gives a block back when the reader touches a
// block more than M beyond it. Afterwards the array can be written again, and even while it is
// being read: in the blocks that the reader has given back, so more than M blocks behind it. (A
// store into a block that the reader still has is lost with the block: nothing faults, so nobody
// can know.) What the reader touched last stays until finish_reading(). One thread at a time.
class VORTEX_EXPORT VanishingArrayBase : public PooledStream {
 public:
  using Options = VanishingArrayOptions;

  // Throws Error(ENOMEM) from the reservation.
  VanishingArrayBase(StreamPool& pool, std::uint64_t capacity_bytes, Options options);
  ~VanishingArrayBase() override;

  // Declares the written data complete: the last block is guarded, too, so that the array notices a
  // reader in it. Without this call reading works, and the last block written stays until
  // finish_reading(). Throws Error. Not inside a fault.
  void finish_writing();

  // The reader is done: gives back what it touched last. Throws Error. Not inside a fault.
  void finish_reading();

  // Gives everything back. Throws Error. Not inside a fault.
  void clear();

 protected:
  int serve_write(std::uint64_t index) noexcept final;
  int serve_read(std::uint64_t index, bool at_front) noexcept final;

  // Throws Error when `error` is not 0.
  void require(int error, const char* what) const;

 private:
  static constexpr std::uint64_t kNone = static_cast<std::uint64_t>(-1);

  const std::size_t comeback_blocks_;
  std::uint64_t write_begin_ = kNone;  // blocks [write_begin_, writing_] were opened by the writer
  std::uint64_t writing_ = kNone;
  std::uint64_t read_begin_ = kNone;  // blocks [read_begin_, reading_] were opened by the reader
  std::uint64_t reading_ = kNone;
};

// VanishingArray<T>: `T*` for plain loops.
//
//   vortex::VanishingArray<int> a(pool, n);
//   for (std::size_t i = 0; i < n; ++i) a.data()[i] = f(i);    // memory comes from the pool
//   for (std::size_t i = 0; i < n; ++i) use(a.data()[i]);      // and returns to it
template <typename T>
class VanishingArray : public VanishingArrayBase {
  static_assert(std::is_trivially_copyable_v<T>,
                "a vanishing array moves bytes: its element type must be trivially copyable");

 public:
  // Room for `capacity` elements: address space only.
  VanishingArray(StreamPool& pool, std::uint64_t capacity, Options options = {})
      : VanishingArrayBase(pool, std::max<std::uint64_t>(capacity, 1) * sizeof(T),
                           std::move(options)),
        capacity_(capacity) {}

  T* data() noexcept { return reinterpret_cast<T*>(bytes()); }
  std::uint64_t capacity() const noexcept { return capacity_; }

  // Elements that load() has put there or resize() has declared. Plain stores do not change it.
  std::uint64_t size() const noexcept { return size_; }

  // Declares that the first `count` elements are the contents. Throws Error(EINVAL) beyond
  // capacity().
  void resize(std::uint64_t count) {
    if (count > capacity_) require(EINVAL, "more elements than its capacity");
    size_ = count;
  }

  // Replaces the contents by a copy of `values`. Throws Error: EINVAL beyond the capacity, EAGAIN
  // when the pool is used up; then the array is empty.
  void load(std::span<const T> values) {
    load_with(values.size(), [&values](std::span<T> part, std::uint64_t first) {
      std::memcpy(part.data(), values.data() + first, part.size_bytes());
    });
  }

  // Replaces the contents by `count` elements that `read(std::span<T> part, std::uint64_t first)`
  // puts in place, part by part in ascending order: the parts are the array's own memory,
  // accessible to system calls, so that a file is read without a copy. Parts are `part_bytes` long
  // and begin where blocks begin. Throws what `read` throws; then the array is empty.
  template <typename Read>
  void load_with(std::uint64_t count, Read&& read, std::size_t part_bytes = std::size_t{8} << 20) {
    clear();
    size_ = 0;
    if (count > capacity_) require(EINVAL, "more elements than its capacity");
    const std::uint64_t whole =
        std::max<std::uint64_t>(part_bytes / block_bytes() * block_bytes(), block_bytes());
    const std::uint64_t step = std::max<std::uint64_t>(whole / sizeof(T), 1);
    try {
      for (std::uint64_t first = 0; first < count; first += step) {
        const std::uint64_t here = std::min(step, count - first);
        require(open_range(first * sizeof(T), here * sizeof(T)), "loading it");
        read(std::span<T>(data() + first, here), first);
      }
    } catch (...) {
      clear();
      throw;
    }
    size_ = count;
  }

  // Forbids access to the contents until they are read, so that a plain loop over data() gives them
  // back block by block. load() leaves them open, for code that comes in any order.
  void seal() { finish_writing(); }

 private:
  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
};

}  // namespace vortex::inline v0
