#include "sort/runs/block_packer.h"

#include <algorithm>
#include <cstring>

#ifdef VORTEX_WITH_LZ4
#include <lz4.h>
#endif

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

// How a chunk lies in a packed block, in the highest bits of its length.
constexpr std::uint32_t kKindShift = 29;
constexpr std::uint32_t kLengthMask = (std::uint32_t{1} << kKindShift) - 1;
constexpr std::uint32_t kBytes = 0;        // compressed
constexpr std::uint32_t kColumns = 1;      // the same of its columns
constexpr std::uint32_t kDifferences = 2;  // the same of their differences
constexpr std::uint32_t kPlain = 4;        // as it was

// The last word has the number of chunks in its lower half, and the length of the records above.
constexpr unsigned kCountBits = 16;
constexpr std::size_t kMaxColumns = std::size_t{8} << 10;
constexpr unsigned kChunksOfTrial = 64;

std::size_t chunks_of(std::size_t bytes) noexcept {
  return (bytes + BlockPacker::kChunkBytes - 1) / BlockPacker::kChunkBytes;
}

std::uint32_t word_at(const std::byte* from) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, from, kWord);
  return word;
}

// What stands at the end of packed bytes; no lengths: they are not what pack() made.
struct Table {
  std::span<const std::byte> lengths;
  std::size_t record_bytes = 0;

  std::size_t chunks() const noexcept { return lengths.size() / kWord; }
  std::uint32_t length(std::size_t chunk) const noexcept {
    return word_at(lengths.data() + chunk * kWord);
  }
};

Table table_of(std::span<const std::byte> packed) noexcept {
  if (packed.size() < kWord) return {};
  const std::uint32_t last = word_at(packed.data() + packed.size() - kWord);
  const std::size_t chunks = last & ((std::uint32_t{1} << kCountBits) - 1);
  if (chunks == 0 || chunks > packed.size() / kWord - 1) return {};
  return {packed.subspan(packed.size() - (chunks + 1) * kWord, chunks * kWord), last >> kCountBits};
}

// Puts bytes into columns, of which records that are whole have one for each byte, with what is
// left behind them; or back. It does not matter where in a record they begin.
template <bool kBack>
void move_columns(const std::byte* from, std::size_t bytes, std::size_t record_bytes,
                  std::uint32_t kind, std::byte* to) noexcept {
  const std::size_t rows = bytes / record_bytes;
  const unsigned mask = kind == kDifferences ? 0xff : 0;
  std::size_t at = 0;
  for (std::size_t column = 0; column < record_bytes; ++column) {
    unsigned before = 0;
    for (std::size_t in_row = column; in_row < rows * record_bytes; in_row += record_bytes) {
      const auto byte = std::to_integer<unsigned>(from[kBack ? at : in_row]);
      const unsigned moved = kBack ? byte + before : byte - before;
      to[kBack ? in_row : at] = static_cast<std::byte>(moved);
      before = (kBack ? moved : byte) & mask;
      ++at;
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
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

BlockPacker::BlockPacker(std::size_t block_bytes, std::size_t record_bytes)
    : block_bytes_(block_bytes),
      record_bytes_(record_bytes > 1 && record_bytes <= kMaxColumns ? record_bytes : 0),
      kind_(kBytes),
      chunk_(std::min(kChunkBytes, block_bytes)),
      state_(block_bytes == 0 ? 0 : state_bytes()),
      lengths_(chunks_of(block_bytes)) {}

// The chunk itself goes to chunk_, in its columns, so that `to` may reach into it.
std::size_t BlockPacker::pack_chunk(std::uint32_t kind, const std::byte* chunk, std::size_t size,
                                    std::byte* to, std::size_t room) noexcept {
  if (kind == kBytes) {
    std::memcpy(chunk_.data(), chunk, size);
  } else {
    move_columns<false>(chunk, size, record_bytes_, kind, chunk_.data());
  }
  return compress(state_.data(), chunk_.data(), size, to, room);
}

// Makes `to` what the chunk in chunk_ was.
void BlockPacker::put_back(std::uint32_t kind, std::size_t size, std::byte* to) const noexcept {
  if (kind == kBytes) {
    std::memcpy(to, chunk_.data(), size);
  } else {
    move_columns<true>(chunk_.data(), size, record_bytes_, kind, to);
  }
}

// The kind that makes the chunk the smallest. Leaves it as it was.
std::uint32_t BlockPacker::best_kind(std::byte* chunk, std::size_t size, std::byte* to,
                                     std::size_t room) noexcept {
  std::uint32_t best = kBytes;
  std::size_t least = room + 1;
  for (const std::uint32_t kind : {kDifferences, kColumns, kBytes}) {
    const std::size_t made = pack_chunk(kind, chunk, size, to, room);
    put_back(kind, size, chunk);
    if (made == 0 || made >= least) continue;
    least = made;
    best = kind;
  }
  return best;
}

// What a chunk of a block of `chunks` must save: room for all lengths, and more.
std::size_t BlockPacker::least_saved(std::size_t size, std::size_t chunks) noexcept {
  return std::max(size / 16, (chunks + 1) * kWord + 1);
}

void BlockPacker::choose_kind(std::byte* begin, std::size_t bytes) noexcept {
  const std::size_t size = std::min(kChunkBytes, bytes);
  const std::size_t saved = least_saved(size, chunks_of(bytes));
  if (!available() || record_bytes_ == 0 || size <= saved) return;
  kind_ = best_kind(begin, size, begin, size - saved);
  until_trial_ = kChunksOfTrial;
}

std::size_t BlockPacker::pack(std::byte* begin, std::size_t bytes) noexcept {
  if (!available() || bytes == 0) return bytes;
  const std::size_t chunks = chunks_of(bytes);
  std::byte* end = begin;  // of what is packed; never behind the chunk that comes next
  bool smaller = false;
  for (std::size_t i = 0; i < chunks; ++i) {
    std::byte* const chunk = begin + i * kChunkBytes;
    const std::size_t size = std::min(kChunkBytes, bytes - i * kChunkBytes);
    const std::size_t saved = least_saved(size, chunks);
    const std::size_t room = size > saved ? size - saved : 0;
    if (record_bytes_ != 0 && room > 0 && until_trial_-- == 0) {
      until_trial_ = kChunksOfTrial;
      kind_ = best_kind(chunk, size, end, room);
    }
    const std::size_t made = room > 0 ? pack_chunk(kind_, chunk, size, end, room) : 0;
    if (made > 0) {
      lengths_[i] = static_cast<std::uint32_t>(made) | kind_ << kKindShift;
      end += made;
      smaller = true;
      continue;
    }
    if (room > 0) {
      put_back(kind_, size, end);
    } else if (end != chunk) {
      std::memmove(end, chunk, size);
    }
    lengths_[i] = static_cast<std::uint32_t>(size) | kPlain << kKindShift;
    end += size;
  }
  if (!smaller) return bytes;
  std::memcpy(end, lengths_.data(), chunks * kWord);
  end += chunks * kWord;
  const auto last = static_cast<std::uint32_t>(record_bytes_ << kCountBits | chunks);
  std::memcpy(end, &last, kWord);
  return static_cast<std::size_t>(end - begin) + kWord;
}

// From the last chunk to the first: where each goes, nothing lies that is still needed.
std::size_t BlockPacker::unpack(std::byte* begin, std::size_t packed) noexcept {
  const Table table = table_of({begin, packed});
  const std::size_t chunks = table.chunks();
  if (chunks == 0 || chunks > lengths_.size()) return 0;
  std::memcpy(lengths_.data(), table.lengths.data(), table.lengths.size());
  std::size_t left = packed - table.lengths.size() - kWord;
  std::size_t bytes = 0;
  for (std::size_t i = chunks; i-- > 0;) {
    const Chunk chunk = {0, lengths_[i] & kLengthMask, lengths_[i] >> kKindShift,
                         table.record_bytes};
    if (chunk.packed > left || chunk.packed > chunk_.size()) return 0;
    left -= chunk.packed;
    const std::size_t at = i * kChunkBytes;
    const std::span<std::byte> to(begin + at, std::min(kChunkBytes, block_bytes_ - at));
    std::memcpy(chunk_.data(), begin + left, chunk.packed);
    const std::size_t made = unpack_chunk(chunk, chunk_.data(), to);
    if (made == 0 || (i + 1 < chunks && made != kChunkBytes)) return 0;
    if (i + 1 == chunks) bytes = at + made;
  }
  return left == 0 ? bytes : 0;
}

std::size_t BlockPacker::table_bytes(std::size_t block_bytes, std::size_t packed) noexcept {
  return std::min((chunks_of(block_bytes) + 1) * kWord, packed);
}

std::optional<BlockPacker::Chunk> BlockPacker::find_chunk(std::span<const std::byte> table_bytes,
                                                          std::size_t packed,
                                                          std::size_t index) noexcept {
  const Table table = table_of(table_bytes);
  if (index >= table.chunks()) return std::nullopt;
  Chunk chunk;
  chunk.record_bytes = table.record_bytes;
  for (std::size_t i = 0; i <= index; ++i) {
    chunk.begin += chunk.packed;
    chunk.packed = table.length(i) & kLengthMask;
    chunk.kind = table.length(i) >> kKindShift;
    if (chunk.packed > kChunkBytes || chunk.begin + chunk.packed > packed) return std::nullopt;
  }
  return chunk;
}

std::size_t BlockPacker::unpack_chunk(const Chunk& chunk, const std::byte* from,
                                      std::span<std::byte> to) noexcept {
  if (chunk.kind == kPlain) {
    if (chunk.packed > to.size()) return 0;
    std::memcpy(to.data(), from, chunk.packed);
    return chunk.packed;
  }
  const std::size_t made = expand(from, chunk.packed, to.data(), to.size());
  if (chunk.kind == kBytes || made == 0) return made;
  if (chunk.kind > kDifferences || chunk.record_bytes == 0 || made > chunk_.size()) return 0;
  move_columns<true>(to.data(), made, chunk.record_bytes, chunk.kind, chunk_.data());
  std::memcpy(to.data(), chunk_.data(), made);
  return made;
}

}}  // namespace vortex::v0
