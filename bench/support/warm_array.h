// Memory that a benchmark's sorts find touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace vortex::bench {

// An array on huge pages where the system grants them, touched.
template <typename T>
class WarmArray {
 public:
  explicit WarmArray(std::size_t count) : bytes_(count * sizeof(T)) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    records_ = {static_cast<T*>(memory), count};
    std::memset(memory, 1, bytes_);
  }
  ~WarmArray() { munmap(records_.data(), bytes_); }
  WarmArray(const WarmArray&) = delete;
  WarmArray& operator=(const WarmArray&) = delete;
  std::span<T> records() const { return records_; }

 private:
  std::size_t bytes_;
  std::span<T> records_;
};

}  // namespace vortex::bench
