#include "sort/runs/run_packing.h"

#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// Packing that saves less than an eighth is not worth its time.
constexpr bool saves(std::uint64_t bytes, std::uint64_t packed) noexcept {
  return packed <= bytes - bytes / 8;
}
// It has never taken less, in ns a byte: disks that are waited for less need not be compared.
constexpr double kLeastWaited = 0.5;
constexpr unsigned kPause = 8;

}  // namespace

RunPacking::Plan RunPacking::plan(RunCompression wanted, std::size_t block_bytes, unsigned packers,
                                  std::uint64_t memory_bytes) noexcept {
  constexpr std::uint64_t kShare = 16;
  constexpr std::uint64_t kDemandedShare = 4;
  const std::uint64_t bytes = packers * BlockPacker::memory_bytes(block_bytes);
  const std::uint64_t share = wanted == RunCompression::kAlways ? kDemandedShare : kShare;
  const bool packs =
      wanted != RunCompression::kNever && BlockPacker::available() && bytes <= memory_bytes / share;
  return packs ? Plan{wanted, bytes} : Plan{};
}

RunPacking::RunPacking(RunCompression wanted, std::size_t block_bytes, std::size_t record_bytes)
    : wanted_(BlockPacker::available() ? wanted : RunCompression::kNever),
      state_(wanted_ == RunCompression::kAlways ? State::kOn : State::kOff),
      packer_(may_pack() ? block_bytes : 0, record_bytes) {}

std::size_t RunPacking::pack(std::byte* begin, std::size_t bytes) noexcept {
  if (state_ == State::kOff) return bytes;
  if (state_ == State::kOn) return packer_.pack(begin, bytes);
  packer_.choose_kind(begin, bytes);  // or it would count as packing
  const std::uint64_t started = steady_now_ns();
  const std::size_t packed = packer_.pack(begin, bytes);
  const auto taken = static_cast<double>(steady_now_ns() - started);
  const bool worth = saves(bytes, packed) && taken < waited_ * static_cast<double>(bytes);
  state_ = worth ? State::kOn : State::kOff;
  if (!worth) pause_ = kPause;
  return packed;
}

void RunPacking::end_run(std::uint64_t bytes, std::uint64_t packed,
                         std::uint64_t waited_ns) noexcept {
  if (wanted_ != RunCompression::kAuto || bytes == 0) return;
  if (state_ == State::kOn) {
    if (saves(bytes, packed)) return;
    state_ = State::kOff;
    pause_ = kPause;
  } else if (pause_ > 0) {
    --pause_;
  } else {
    waited_ = static_cast<double>(waited_ns) / static_cast<double>(bytes);
    if (waited_ > kLeastWaited) state_ = State::kTrying;
  }
}

}}  // namespace vortex::v0
