// Runs whose blocks may be packed: written, and read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lines/runs/block_packer.h"
#include "sort/runs/run_store.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// Decides which blocks of the runs of a sort are packed, and packs them. A disk is slow if its
// writer waited longer for it, for each byte of the run before, than packing one takes: that is
// tried with a block. Blocks that would have been waited for are then packed in that time, and each
// is read in less, too. A run that hardly became smaller is the last for a while.
//
// One run at a time.
class RunPacking {
 public:
  RunPacking(RunCompression wanted, std::size_t block_bytes);

  bool may_pack() const noexcept { return wanted_ != RunCompression::kNever; }

  // As BlockPacker::pack(). Inside faults.
  std::size_t pack(std::byte* begin, std::size_t bytes) noexcept;
  // A run of `bytes` has been written in `packed` bytes, and its writer waited so long for disks.
  void end_run(std::uint64_t bytes, std::uint64_t packed, std::uint64_t waited_ns) noexcept;

 private:
  enum class State : std::uint8_t { kOff, kTrying, kOn };

  const RunCompression wanted_;
  State state_;
  double waited_ = 0;   // ns a byte of the run before
  unsigned pause_ = 0;  // runs until it is tried again
  BlockPacker packer_;
};

// The blocks of a run on the disks: those that are packed have fewer bytes there.
class PackedBlocks {
 public:
  // Allocates for so many, and nothing later.
  void reserve(std::uint64_t blocks) { packed_.reserve(blocks); }

  // Blocks are added in their order.
  void add(std::size_t packed, std::size_t bytes) noexcept {
    packed_.push_back(packed < bytes ? static_cast<std::uint32_t>(packed) : 0);
    saved_ += bytes - packed;
  }
  // 0: the block is as it was.
  std::size_t packed(std::uint64_t block) const noexcept {
    return block < packed_.size() ? packed_[block] : 0;
  }
  std::uint64_t saved_bytes() const noexcept { return saved_; }

 private:
  std::vector<std::uint32_t> packed_;
  std::uint64_t saved_ = 0;
};

// The layout of a run that is written. All outlive it.
class PackingLayout final : public RunLayout {
 public:
  PackingLayout(Run& run, PackedBlocks& blocks, RunPacking& packing)
      : RunLayout(run), blocks_(blocks), packing_(packing) {}

  std::size_t pack(std::uint64_t unit, std::byte* begin, std::size_t bytes) noexcept override;

 private:
  PackedBlocks& blocks_;
  RunPacking& packing_;
};

// The layout of a run that is read, from a block to a byte. All outlive it.
class UnpackingLayout final : public RunLayout {
 public:
  UnpackingLayout(Run& run, const PackedBlocks& blocks, BlockPacker& packer,
                  std::uint64_t first_block, std::uint64_t bytes)
      : RunLayout(run, first_block, bytes),
        blocks_(blocks),
        packer_(packer),
        first_block_(first_block) {}

  std::size_t packed_bytes(std::uint64_t unit, std::size_t bytes) const noexcept override;
  std::size_t unpack(std::uint64_t unit, std::byte* begin, std::size_t packed) noexcept override;

 private:
  const PackedBlocks& blocks_;
  BlockPacker& packer_;
  const std::uint64_t first_block_;
};

}}  // namespace vortex::v0
