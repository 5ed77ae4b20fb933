// Random letters, a draw for eight of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace vortex::test {

// `size` of the 26 small letters. None is zero, which is also found where a block is missing.
inline std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t begin = 0; begin < size; begin += 8) {
    std::uint64_t word = random();
    const std::size_t end = size - begin < 8 ? size : begin + 8;
    for (std::size_t at = begin; at < end; ++at, word >>= 8) {
      text[at] = static_cast<char>('a' + ((word & 0xff) * 26 >> 8));
    }
  }
  return text;
}

}  // namespace vortex::test
