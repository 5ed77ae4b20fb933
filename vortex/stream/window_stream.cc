#include "vortex/stream/window_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vortex/error.h"

namespace vortex::inline v0 {

WindowStream::WindowStream(std::string name, Reservation reservation, const OtherSide& other_side,
                           std::size_t comeback_blocks)
    : Stream(std::move(name), std::move(reservation)),
      pool_(other_side.pool),
      in_place_(other_side.in_place),
      block_bytes_(pool_.block_bytes()),
      window_blocks_(comeback_blocks + 1),
      slots_(window_blocks_),
      page_tables_(this->reservation(), block_bytes_) {
  if (other_side.guaranteed_blocks < window_blocks_) {
    throw Error(EINVAL, "stream '" + this->name() + "': a comeback of " +
                            std::to_string(comeback_blocks) + " blocks needs " +
                            std::to_string(window_blocks_) + ", and its " + other_side.what +
                            " guarantees " + std::to_string(other_side.guaranteed_blocks));
  }
}

int WindowStream::place(Block block, std::uint64_t index) noexcept {
  std::byte* const address = base() + index * block_bytes_;
  const int error =
      in_place_ != nullptr ? in_place_->place(block, address) : pool_.place(block, address);
  if (error == 0) slots_[index % window_blocks_] = {block, index};
  return error;
}

int WindowStream::send_home(std::uint64_t index) noexcept {
  const Block block = placed(index);
  std::byte* const home = pool_.home(block);
  return in_place_ != nullptr ? in_place_->place(block, home) : pool_.place(block, home);
}

Block WindowStream::take_back(std::uint64_t index) noexcept {
  if (send_home(index) != 0) pool_.give_up(placed(index));
  return forget(index);
}

Block WindowStream::forget(std::uint64_t index) noexcept {
  return std::exchange(slots_[index % window_blocks_].block, Block{});
}

void WindowStream::reclaim_page_tables(std::uint64_t floor) noexcept {
  std::byte* finished = base() + floor * block_bytes_;
  if (in_place_ != nullptr) finished = in_place_->lowest_placed(base(), finished);
  page_tables_.finished_below(finished);
}

void WindowStream::recall_in_place() noexcept {
  if (in_place_ != nullptr) in_place_->recall(base(), base() + reservation().bytes());
}

void WindowStream::place_range(std::uint64_t offset, std::size_t bytes, std::uint64_t end,
                               const char* what_ends, Access access) {
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
  if (last - first >= window_blocks_) {
    throw Error(EINVAL, "stream '" + name() + "': the range to place spans " +
                            std::to_string(last - first + 1) + " blocks, and the window holds " +
                            std::to_string(window_blocks_) + ": raise the comeback");
  }
  if (first < floor()) {
    throw Error(EINVAL, "stream '" + name() + "': the range to place begins in block " +
                            std::to_string(first) + ", and the window has moved on to block " +
                            std::to_string(floor()));
  }
  if (offset + bytes > end) {
    throw Error(ERANGE, "stream '" + name() + "': cannot place " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) + ": " + what_ends +
                            " at " + std::to_string(end));
  }
  for (std::uint64_t index = first; index <= last; ++index) {
    if (placed(index)) continue;
    if (!serve_locked(access, std::max(offset, index * block_bytes_))) break;
  }
}

}  // namespace vortex::inline v0
