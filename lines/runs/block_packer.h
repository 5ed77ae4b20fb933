// Blocks of runs in fewer bytes: compressed in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vortex { inline namespace v0 {

// Compresses blocks with LZ4, a chunk at a time, so that it needs no second block. A packed block
// has its chunks one behind the other, each compressed if that saves a sixteenth of it, then the
// length of each chunk, and how many there are.
//
// Allocates when it is made and never later; may be called inside faults. One thread at a time.
class BlockPacker {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

  // False: this build is without LZ4, and pack() leaves everything as it is.
  static bool available() noexcept;
  // What one allocates for blocks of that size.
  static std::size_t memory_bytes(std::size_t block_bytes) noexcept;

  explicit BlockPacker(std::size_t block_bytes);

  // Packs the block in place and returns the bytes that it has then, fewer than before; `bytes` if
  // nothing was to be saved, and the block is as it was.
  std::size_t pack(std::byte* begin, std::size_t bytes) noexcept;
  // Undoes that in place, in room for a block. Returns the bytes of the block; 0: these `packed`
  // bytes are not what pack() made.
  std::size_t unpack(std::byte* begin, std::size_t packed) noexcept;

  // A chunk of a packed block that is read by itself.
  struct Chunk {
    std::size_t begin = 0;  // in the packed block
    std::size_t packed = 0;
    bool plain = false;  // it lies there as it was
  };
  // The end of a block of `packed` bytes in which lengths and their number stand, at most.
  static std::size_t table_bytes(std::size_t block_bytes, std::size_t packed) noexcept;
  // Finds a chunk by the `table_bytes()` at the end; none: they are not what pack() made.
  static std::optional<Chunk> find_chunk(std::span<const std::byte> table, std::size_t packed,
                                         std::size_t index) noexcept;
  // Makes `to`, with room for a whole chunk, what the chunk was. Returns its bytes, or 0 as above.
  static std::size_t unpack_chunk(const Chunk& chunk, const std::byte* from,
                                  std::byte* to) noexcept;

 private:
  const std::size_t block_bytes_;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> state_;  // of LZ4
  std::vector<std::uint32_t> lengths_;
};

}}  // namespace vortex::v0
