// An array that is large enough for its pages to matter.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

namespace vortex::bench {

// On huge pages where the system grants them, each placed by the thread that touches it first.
template <typename T>
class HugeArray {
 public:
  explicit HugeArray(std::size_t count) : bytes_(std::max(count, std::size_t{1}) * sizeof(T)) {
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    items_ = {static_cast<T*>(memory), count};
  }
  ~HugeArray() { munmap(items_.data(), bytes_); }
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;

  std::span<T> items() const noexcept { return items_; }

 private:
  std::size_t bytes_;
  std::span<T> items_;
};

}  // namespace vortex::bench
