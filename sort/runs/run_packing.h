// Whether the runs of a sort are packed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sort/runs/block_packer.h"
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
  // What packing takes of the memory of a sort.
  struct Plan {
    RunCompression compression = RunCompression::kNever;
    std::uint64_t bytes = 0;
  };
  // With `packers` at the same time: as it is wanted, or not at all where that takes more
  // than a sixteenth of the memory, or a quarter where it is demanded.
  static Plan plan(RunCompression wanted, std::size_t block_bytes, unsigned packers,
                   std::uint64_t memory_bytes) noexcept;

  // Records of `record_bytes` each; 0: of any length.
  RunPacking(RunCompression wanted, std::size_t block_bytes, std::size_t record_bytes = 0);

  bool may_pack() const noexcept { return wanted_ != RunCompression::kNever; }
  // Whether blocks of the run that comes next may be packed.
  bool may_pack_next() const noexcept { return state_ != State::kOff; }

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

}}  // namespace vortex::v0
