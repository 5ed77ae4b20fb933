#include "lines/runs/block_packer.h"

#include <algorithm>
#include <cstring>
#include <span>

#ifdef VORTEX_WITH_LZ4
#include <lz4.h>
#endif

namespace vortex { inline namespace v0 {

namespace {

// In the length of a chunk: it lies there as it was.
constexpr std::uint32_t kPlain = std::uint32_t{1} << 31;
constexpr std::size_t kWord = sizeof(std::uint32_t);

std::size_t chunks_of(std::size_t bytes) noexcept {
  return (bytes + BlockPacker::kChunkBytes - 1) / BlockPacker::kChunkBytes;
}

std::uint32_t word_at(const std::byte* from) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, from, kWord);
  return word;
}

// The lengths at the end of packed bytes; none: they are not what pack() made.
std::span<const std::byte> lengths_of(std::span<const std::byte> packed) noexcept {
  if (packed.size() < kWord) return {};
  const std::size_t chunks = word_at(packed.data() + packed.size() - kWord);
  if (chunks == 0 || chunks > packed.size() / kWord - 1) return {};
  return packed.subspan(packed.size() - (chunks + 1) * kWord, chunks * kWord);
}

// At most `room` bytes; 0: it needs more.
std::size_t compress(std::byte* state, const std::byte* from, std::size_t bytes, std::byte* to,
                     std::size_t room) noexcept {
#ifdef VORTEX_WITH_LZ4
  const int made = LZ4_compress_fast_extState(state, reinterpret_cast<const char*>(from),
                                              reinterpret_cast<char*>(to), static_cast<int>(bytes),
                                              static_cast<int>(room), 1);
  return static_cast<std::size_t>(std::max(made, 0));
#else
  (void)state, (void)from, (void)bytes, (void)to, (void)room;
  return 0;
#endif
}

// Returns the bytes made, or 0.
std::size_t expand(const std::byte* from, std::size_t bytes, std::byte* to,
                   std::size_t room) noexcept {
#ifdef VORTEX_WITH_LZ4
  const int made =
      LZ4_decompress_safe(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to),
                          static_cast<int>(bytes), static_cast<int>(room));
  return static_cast<std::size_t>(std::max(made, 0));
#else
  (void)from, (void)bytes, (void)to, (void)room;
  return 0;
#endif
}

std::size_t state_bytes() noexcept {
#ifdef VORTEX_WITH_LZ4
  return static_cast<std::size_t>(LZ4_sizeofState());
#else
  return 0;
#endif
}

}  // namespace

bool BlockPacker::available() noexcept { return state_bytes() > 0; }

std::size_t BlockPacker::memory_bytes(std::size_t block_bytes) noexcept {
  return std::min(kChunkBytes, block_bytes) + state_bytes() + chunks_of(block_bytes) * kWord;
}

BlockPacker::BlockPacker(std::size_t block_bytes)
    : block_bytes_(block_bytes),
      chunk_(std::min(kChunkBytes, block_bytes)),
      state_(state_bytes()),
      lengths_(chunks_of(block_bytes)) {}

std::size_t BlockPacker::pack(std::byte* begin, std::size_t bytes) noexcept {
  if (!available() || bytes == 0) return bytes;
  const std::size_t chunks = chunks_of(bytes);
  const std::size_t lengths_bytes = (chunks + 1) * kWord;
  std::byte* end = begin;  // of what is packed; never behind the chunk that comes next
  bool smaller = false;
  for (std::size_t i = 0; i < chunks; ++i) {
    const std::byte* const chunk = begin + i * kChunkBytes;
    const std::size_t size = std::min(kChunkBytes, bytes - i * kChunkBytes);
    // A chunk that is compressed makes room for all lengths, and more.
    const std::size_t least_saved = std::max(size / 16, lengths_bytes + 1);
    const std::size_t made =
        size > least_saved ? compress(state_.data(), chunk, size, chunk_.data(), size - least_saved)
                           : 0;
    if (made > 0) {
      std::memcpy(end, chunk_.data(), made);
      lengths_[i] = static_cast<std::uint32_t>(made);
      end += made;
      smaller = true;
    } else {
      if (end != chunk) std::memmove(end, chunk, size);
      lengths_[i] = static_cast<std::uint32_t>(size) | kPlain;
      end += size;
    }
  }
  if (!smaller) return bytes;
  std::memcpy(end, lengths_.data(), chunks * kWord);
  end += chunks * kWord;
  const auto count = static_cast<std::uint32_t>(chunks);
  std::memcpy(end, &count, kWord);
  return static_cast<std::size_t>(end - begin) + kWord;
}

// From the last chunk to the first: where each goes, nothing lies that is still needed.
std::size_t BlockPacker::unpack(std::byte* begin, std::size_t packed) noexcept {
  const std::span<const std::byte> lengths = lengths_of({begin, packed});
  const std::size_t chunks = lengths.size() / kWord;
  if (chunks == 0 || chunks > lengths_.size()) return 0;
  std::memcpy(lengths_.data(), lengths.data(), lengths.size());
  std::size_t left = packed - lengths.size() - kWord;
  std::size_t bytes = 0;
  for (std::size_t i = chunks; i-- > 0;) {
    const std::size_t length = lengths_[i] & ~kPlain;
    if (length > left || length > chunk_.size()) return 0;
    left -= length;
    std::byte* const chunk = begin + i * kChunkBytes;
    const std::size_t room = std::min(kChunkBytes, block_bytes_ - i * kChunkBytes);
    std::size_t made = length;
    if ((lengths_[i] & kPlain) != 0) {
      if (length > room) return 0;
      std::memmove(chunk, begin + left, length);
    } else {
      std::memcpy(chunk_.data(), begin + left, length);
      made = expand(chunk_.data(), length, chunk, room);
    }
    if (made == 0 || (i + 1 < chunks && made != kChunkBytes)) return 0;
    if (i + 1 == chunks) bytes = i * kChunkBytes + made;
  }
  return left == 0 ? bytes : 0;
}

std::size_t BlockPacker::table_bytes(std::size_t block_bytes, std::size_t packed) noexcept {
  return std::min((chunks_of(block_bytes) + 1) * kWord, packed);
}

std::optional<BlockPacker::Chunk> BlockPacker::find_chunk(std::span<const std::byte> table,
                                                          std::size_t packed,
                                                          std::size_t index) noexcept {
  const std::span<const std::byte> lengths = lengths_of(table);
  if (index >= lengths.size() / kWord) return std::nullopt;
  Chunk chunk;
  for (std::size_t i = 0; i <= index; ++i) {
    const std::uint32_t length = word_at(lengths.data() + i * kWord);
    chunk.begin += chunk.packed;
    chunk.packed = length & ~kPlain;
    chunk.plain = (length & kPlain) != 0;
    if (chunk.packed > kChunkBytes || chunk.begin + chunk.packed > packed) return std::nullopt;
  }
  return chunk;
}

std::size_t BlockPacker::unpack_chunk(const Chunk& chunk, const std::byte* from,
                                      std::byte* to) noexcept {
  if (!chunk.plain) return expand(from, chunk.packed, to, kChunkBytes);
  std::memcpy(to, from, chunk.packed);
  return chunk.packed;
}

}}  // namespace vortex::v0
