// Blocks of runs in fewer bytes: compressed in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vortex { inline namespace v0 {

// Compresses blocks with LZ4, a chunk at a time, so that it needs no second block. Records of one
// length, whose neighbours in a run are alike, are put into columns of bytes before, or into
// columns of the differences from the record in front, where that makes a chunk smaller: which of
// these it is gets tried now and then. A packed block has its chunks one behind the other, each
// compressed if that saves a sixteenth of it, then the length of each chunk, and last the length of
// the records and the number of chunks.
//
// Allocates when it is made and never later; may be called inside faults. One thread at a time.
class BlockPacker {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

  // False: this build is without LZ4, and pack() leaves everything as it is.
  static bool available() noexcept;
  // What one allocates for blocks of that size.
  static std::size_t memory_bytes(std::size_t block_bytes) noexcept;

  // For records of `record_bytes` each; 0: of any length. Whatever was packed is unpacked.
  explicit BlockPacker(std::size_t block_bytes, std::size_t record_bytes = 0);

  // Packs the block in place and returns the bytes that it has then, fewer than before; `bytes` if
  // nothing was to be saved, and the block is as it was.
  std::size_t pack(std::byte* begin, std::size_t bytes) noexcept;
  // Finds the best way for a block, which stays as it is: the next pack() need not try.
  void choose_kind(std::byte* begin, std::size_t bytes) noexcept;
  // Undoes that in place, in room for a block. Returns the bytes of the block; 0: these `packed`
  // bytes are not what pack() made.
  std::size_t unpack(std::byte* begin, std::size_t packed) noexcept;

  // A chunk of a packed block that is read by itself.
  struct Chunk {
    std::size_t begin = 0;  // in the packed block
    std::size_t packed = 0;
    std::uint32_t kind = 0;  // how it lies there
    std::size_t record_bytes = 0;
  };
  // The end of a block of `packed` bytes in which lengths and their number stand, at most.
  static std::size_t table_bytes(std::size_t block_bytes, std::size_t packed) noexcept;
  // Finds a chunk by the `table_bytes()` at the end; none: they are not what pack() made.
  static std::optional<Chunk> find_chunk(std::span<const std::byte> table, std::size_t packed,
                                         std::size_t index) noexcept;
  // Makes `to` what the chunk was, unless that is longer. Returns its bytes, or 0 as above.
  std::size_t unpack_chunk(const Chunk& chunk, const std::byte* from,
                           std::span<std::byte> to) noexcept;

 private:
  std::size_t pack_chunk(std::uint32_t kind, const std::byte* chunk, std::size_t size,
                         std::byte* to, std::size_t room) noexcept;
  void put_back(std::uint32_t kind, std::size_t size, std::byte* to) const noexcept;
  static std::size_t least_saved(std::size_t size, std::size_t chunks) noexcept;
  std::uint32_t best_kind(std::byte* chunk, std::size_t size, std::byte* to,
                          std::size_t room) noexcept;

  const std::size_t block_bytes_;
  const std::size_t record_bytes_;  // 0: chunks are compressed as they are
  std::uint32_t kind_;              // of the chunks that come next
  unsigned until_trial_ = 0;        // chunks
  std::vector<std::byte> chunk_;
  std::vector<std::byte> state_;  // of LZ4
  std::vector<std::uint32_t> lengths_;
};

}}  // namespace vortex::v0
