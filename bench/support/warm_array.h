// Memory that is large enough for its pages to matter.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace vortex::bench {

// An array on huge pages where the system grants them, each placed by the thread that touches it
// first.
template <typename T>
class HugeArray {
 public:
  explicit HugeArray(std::size_t count) : bytes_(std::max(count, std::size_t{1}) * sizeof(T)) {
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    records_ = {static_cast<T*>(memory), count};
  }
  ~HugeArray() { munmap(records_.data(), bytes_); }
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;

  std::span<T> records() const noexcept { return records_; }

 private:
  std::size_t bytes_;
  std::span<T> records_;
};

// One that sorts find touched.
template <typename T>
class WarmArray : public HugeArray<T> {
 public:
  explicit WarmArray(std::size_t count) : HugeArray<T>(count) {
    std::memset(static_cast<void*>(this->records().data()), 1, this->records().size_bytes());
  }
};

}  // namespace vortex::bench
