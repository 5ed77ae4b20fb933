// Lines as sorts of text are measured with: each function appends line `i`, without its end.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/sequence/seeded_random.h"

namespace vortex::bench {

inline void append_letters(std::uint64_t bits, std::size_t count, std::string& text) {
  for (std::size_t i = 0; i < count; ++i) {
    text += static_cast<char>('!' + bits % 94);
    bits = i % 8 == 7 ? mix_bits(bits + i) : bits / 94;
  }
}
inline void random_line(std::uint64_t i, std::string& text) {
  const std::uint64_t bits = mix_bits(i);
  append_letters(mix_bits(bits), 10 + bits % 191, text);
}
// The word of rank r is about as frequent as 1/r.
inline void word_line(std::uint64_t i, std::string& text) {
  const double uniform = static_cast<double>(mix_bits(i) >> 11) * 0x1p-53;
  const std::uint64_t word = mix_bits(static_cast<std::uint64_t>(std::pow(200000.0, uniform)));
  for (std::uint64_t bits = word, left = 2 + word % 9; left > 0; --left, bits /= 26) {
    text += static_cast<char>('a' + bits % 26);
  }
}
inline void url_line(std::uint64_t i, std::string& text) {
  const std::uint64_t bits = mix_bits(i);
  text += "https://www.example";
  text += std::to_string(bits % 20);
  text += ".org/archive/section-";
  text += std::to_string(bits / 20 % 50);
  text += "/articles/";
  text += std::to_string(2000 + bits / 1000 % 25);
  text += '/';
  text += std::to_string(mix_bits(bits) % 1000000000);
  text += ".html";
}
inline void integer_line(std::uint64_t i, std::string& text) {
  const std::uint64_t bits = mix_bits(i);
  if (bits % 8 == 0) text += '-';
  text += std::to_string(mix_bits(bits) >> (bits % 50));
}
inline void fields_line(std::uint64_t i, std::string& text) {
  const std::uint64_t bits = mix_bits(i);
  text += std::to_string(i);
  text += '\t';
  append_letters(bits, 20, text);
  text += '\t';
  word_line(bits, text);
  text += std::to_string(bits % 1000);
  text += '\t';
  append_letters(~bits, 40, text);
}

}  // namespace vortex::bench
