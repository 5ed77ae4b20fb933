#include "vortex/array_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sort/arrays/scratch.h"
#include "sort/memory/shares.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Copies bytes [begin, end) of the chunks, as one array, to `together` or from there.
void copy_part(std::span<const WholeChunk> chunks, std::byte* together, bool back,
               std::size_t begin, std::size_t end) noexcept {
  std::size_t at = 0;  // where a chunk begins
  for (const WholeChunk& chunk : chunks) {
    const std::size_t from = std::max(begin, at), to = std::min(end, at + chunk.bytes);
    if (from < to) {
      std::byte* const apart = static_cast<std::byte*>(chunk.begin) + (from - at);
      if (back) {
        std::memcpy(apart, together + from, to - from);
      } else {
        std::memcpy(together + from, apart, to - from);
      }
    }
    at += chunk.bytes;
  }
}

}  // namespace

void sort_joined(std::span<const WholeChunk> chunks, unsigned threads,
                 const std::function<void(void* together)>& sort) {
  constexpr std::size_t kUnit = 8;  // bytes of what threads share
  std::size_t bytes = 0;
  const WholeChunk* filled = nullptr;
  for (const WholeChunk& chunk : chunks) {
    bytes += chunk.bytes;
    if (chunk.bytes != 0 && (filled == nullptr || filled->bytes < chunk.bytes)) filled = &chunk;
  }
  if (filled == nullptr) return;
  if (filled->bytes == bytes) return sort(filled->begin);
  const Scratch<std::byte> together(bytes);
  Shares shares(bytes / kUnit, threads);
  const auto copy = [&](bool back) {
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      const bool is_last = share + 1 == shares.shares();
      copy_part(chunks, together.get(), back, begin * kUnit, is_last ? bytes : end * kUnit);
    });
  };
  copy(false);
  sort(together.get());
  copy(true);
}

}}}  // namespace vortex::v0::detail
