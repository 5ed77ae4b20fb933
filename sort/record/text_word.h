// Bytes of a text, loaded as words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vortex { inline namespace v0 {

template <typename Word>
Word load_word(const char* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Loads eight bytes, of which only those of a string mean anything: the others lie in its page,
// which can be read. Sanitizers know strings, not pages.
__attribute__((no_sanitize("address", "thread"))) inline std::uint64_t load_word_in_page(
    const char* from) noexcept {
  using Word [[gnu::aligned(1), gnu::may_alias]] = std::uint64_t;
  return *reinterpret_cast<const Word*>(from);
}

// Loads the first `bytes` bytes of a string, 1 to 7, into the lower part of a word; its upper part
// is unspecified. Reads no page that they do not lie in. The processor cannot foresee short
// lengths: no branch depends on them.
inline std::uint64_t load_short(const char* from, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kPageBytes = 4096;
  std::uint64_t word = 0;
  if (reinterpret_cast<std::uintptr_t>(from) % kPageBytes <= kPageBytes - sizeof word) [[likely]] {
    return load_word_in_page(from);
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return word;
}

}}  // namespace vortex::v0
