#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lines/fields/collation.h"
#include "lines/keys/field_encoders.h"

namespace vortex { inline namespace v0 {

namespace {

// MD5 (RFC 1321).
using Md5State = std::array<std::uint32_t, 4>;
constexpr std::size_t kBlockBytes = 64;

// The integer parts of 2^32 times |sin(1)| ... |sin(64)|.
const std::array<std::uint32_t, 64>& sines() noexcept {
  static const std::array<std::uint32_t, 64> table = [] {
    std::array<std::uint32_t, 64> made{};
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] =
          static_cast<std::uint32_t>(std::fabs(std::sin(static_cast<double>(i + 1))) * 0x1p32);
    }
    return made;
  }();
  return table;
}

void add_block(Md5State& state, const char* block) noexcept {
  static constexpr std::array<std::array<int, 4>, 4> kShifts{
      {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};
  std::array<std::uint32_t, 16> words{};
  std::memcpy(words.data(), block, kBlockBytes);
  auto [a, b, c, d] = state;
  for (unsigned step = 0; step < 64; ++step) {
    const unsigned round = step / 16;
    std::uint32_t mixed = 0;
    unsigned word = 0;
    switch (round) {
      case 0:
        mixed = (b & c) | (~b & d);
        word = step;
        break;
      case 1:
        mixed = (b & d) | (c & ~d);
        word = 5 * step + 1;
        break;
      case 2:
        mixed = b ^ c ^ d;
        word = 3 * step + 5;
        break;
      default:
        mixed = c ^ (b | ~d);
        word = 7 * step;
        break;
    }
    const std::uint32_t sum = a + mixed + sines()[step] + words[word % 16];
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kShifts[round][step % 4]);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

std::array<char, 16> md5(std::string_view text) noexcept {
  Md5State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  const std::uint64_t bits = 8 * std::uint64_t{text.size()};
  for (; text.size() >= kBlockBytes; text.remove_prefix(kBlockBytes)) add_block(state, text.data());
  std::array<char, 2 * kBlockBytes> end{};
  std::copy(text.begin(), text.end(), end.begin());
  end[text.size()] = static_cast<char>(0x80);
  const std::size_t end_bytes =
      text.size() + 1 + sizeof bits <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
  std::memcpy(end.data() + end_bytes - sizeof bits, &bits, sizeof bits);
  for (std::size_t at = 0; at < end_bytes; at += kBlockBytes) add_block(state, end.data() + at);
  std::array<char, 16> digest{};
  std::memcpy(digest.data(), state.data(), digest.size());
  return digest;
}

}  // namespace

void append_random(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  // What is hashed is put together where the key will be.
  const std::size_t begin = bytes.size();
  bytes += std::string_view(rules.random_seed.data(), rules.random_seed.size());
  if (rules.locale.is_c()) {
    bytes += field;
  } else {
    while (!field.empty()) {
      const std::string_view text = field.substr(0, field.find('\0'));
      if (rules.locale.collates_bytes()) {
        bytes += text;
      } else {
        append_transformed_by_libc(rules.locale.handle(), text, bytes);
      }
      bytes += '\0';
      field.remove_prefix(std::min(text.size() + 1, field.size()));
    }
  }
  const std::array<char, 16> digest = md5(bytes.view().substr(begin));
  bytes.cut(begin);
  bytes += std::string_view(digest.data(), digest.size());
}

}}  // namespace vortex::v0
