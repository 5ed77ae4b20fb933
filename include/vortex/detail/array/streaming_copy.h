// Copies whole cache lines past the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vortex { inline namespace v0 { namespace detail {

// What the copies below are aligned to, and a multiple of.
inline constexpr std::size_t kStreamedBytes = 64;

inline bool suits_streaming(const void* to, std::size_t bytes) noexcept {
  return (reinterpret_cast<std::uintptr_t>(to) | bytes) % kStreamedBytes == 0;
}

// Copies kBytes, or `bytes`, to aligned memory that is not read again soon. The thread calls
// finish_streaming() before it tells another one of what it has written.
template <std::size_t kBytes>
[[gnu::always_inline]] inline void streaming_copy(void* to, const void* from) noexcept {
  static_assert(kBytes % kStreamedBytes == 0);
#if defined(__SSE2__)
  const auto* source = static_cast<const __m128i*>(from);
  auto* target = static_cast<__m128i*>(to);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kBytes / sizeof(__m128i); ++i) {
    _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  }
#else
  std::memcpy(to, from, kBytes);
#endif
}
inline void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes; done += kStreamedBytes) {
    streaming_copy<kStreamedBytes>(static_cast<std::byte*>(to) + done,
                                   static_cast<const std::byte*>(from) + done);
  }
}

inline void finish_streaming() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// memcpy() to memory that this processor does not read again soon, of any length and alignment, for
// any thread to see: a disk reads it next, and plain stores would first read what they overwrite.
inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t kWorthIt = 4096;
  if (bytes >= kWorthIt) {
    const std::size_t behind = reinterpret_cast<std::uintptr_t>(to) % kStreamedBytes;
    const std::size_t head = (kStreamedBytes - behind) % kStreamedBytes;
    const std::size_t lines = (bytes - head) / kStreamedBytes * kStreamedBytes;
    std::memcpy(to, from, head);
    streaming_copy(to + head, from + head, lines);
    std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
    finish_streaming();
    return;
  }
  std::memcpy(to, from, bytes);
}

}}}  // namespace vortex::v0::detail
