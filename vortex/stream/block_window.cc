#include "vortex/stream/block_window.h"

#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

#ifndef __has_feature  // clang's word
#define __has_feature(feature) 0
#endif
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                     \
    __has_feature(memory_sanitizer)
constexpr bool kAlwaysExact = true;
#else
constexpr bool kAlwaysExact = false;
#endif

std::size_t window_of(const std::string& stream, const BlockWindow::OtherSide& other_side,
                      std::size_t comeback_blocks) {
  const std::string who = "stream '" + stream + "'";
  const std::size_t blocks = detail::saturating_sum(comeback_blocks, 1);
  expect_block_count(who, "comeback_blocks", blocks);
  if (other_side.guaranteed_blocks >= blocks) return blocks;
  throw Error(EINVAL, who + ": a comeback of " + std::to_string(comeback_blocks) +
                          " blocks needs " + std::to_string(blocks) + ", and its " +
                          other_side.what + " guarantees " +
                          std::to_string(other_side.guaranteed_blocks));
}

StaleBlocks granted(StaleBlocks wanted, const BlockPool& pool) noexcept {
  return kAlwaysExact || !pool.aliases() ? 0 : wanted;
}

}  // namespace

BlockWindow::BlockWindow(const std::string& stream, Reservation& range, const OtherSide& other_side,
                         std::size_t comeback_blocks, StaleBlocks stale_blocks)
    : stream_(stream),
      range_(range),
      pool_(other_side.pool),
      block_bytes_(pool_.block_bytes()),
      window_blocks_(window_of(stream, other_side, comeback_blocks)),
      slots_(window_blocks_),
      // On a pool of aliases, leave_behind() covers whole spans of small tables itself.
      page_tables_(range_, pool_.aliases() ? kPageTableSpan : block_bytes_),
      rights_(other_side.rights),
      stale_blocks_(granted(stale_blocks, pool_)) {
  if (stale_blocks_ > 0) stale_maps_.emplace(stale_blocks_, "stream '" + stream_ + "'");
}

const std::byte* BlockWindow::home_of(const void* at) noexcept {
  const auto* const byte = static_cast<const std::byte*>(at);
  if (byte < range_.begin() || byte >= range_.end()) return nullptr;
  const auto offset = static_cast<std::uint64_t>(byte - range_.begin());
  const Block block = placed(offset / block_bytes_);
  if (!block) return nullptr;
  return pool_.aliases() ? pool_.home(block) + offset % block_bytes_ : byte;
}

int BlockWindow::place(Block block, std::uint64_t index) noexcept {
  std::byte* const address = range_.begin() + index * block_bytes_;
  const int error =
      pool_.aliases() ? pool_.map_also(block, 1, address, rights_) : pool_.place(block, address);
  if (error == 0) slots_[index % window_blocks_] = {block, index};
  return error;
}

int BlockWindow::send_home(std::uint64_t index) noexcept {
  if (pool_.aliases()) {
    if (index < vacated_ || stale_blocks_ > 0) return 0;
    return range_.vacate(range_.begin() + index * block_bytes_, block_bytes_);
  }
  return pool_.withdraw(placed(index), rights_);
}

int BlockWindow::leave_behind(std::uint64_t floor) noexcept {
  if (!pool_.aliases() || floor <= vacated_ + stale_blocks_) return 0;
  // From the beginning of a page table on, so that the call that covers the last of it frees it.
  const std::uint64_t begin = vacated_ * block_bytes_ / kPageTableSpan * kPageTableSpan;
  const int error = range_.vacate(range_.begin() + begin, floor * block_bytes_ - begin);
  if (error == 0) vacated_ = floor;
  return error;
}

Block BlockWindow::take_back(std::uint64_t index) noexcept {
  // An alias that the kernel will not vacate goes with the reservation; the block is at home.
  if (send_home(index) != 0 && !pool_.aliases()) pool_.give_up(placed(index));
  return forget(index);
}

void BlockWindow::vacate_all() noexcept {
  if (pool_.aliases() && next_ > vacated_) {
    range_.vacate(range_.begin() + vacated_ * block_bytes_, (next_ - vacated_) * block_bytes_);
  }
}

void BlockWindow::require_within(std::uint64_t offset, std::size_t bytes, std::uint64_t end,
                                 const char* what_ends) const {
  const auto refuse_beyond_end = [&] {
    throw Error(ERANGE, "stream '" + stream_ + "': cannot place " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) + ": " + what_ends +
                            " at " + std::to_string(end));
  };
  std::uint64_t range_end = 0;
  if (__builtin_add_overflow(offset, bytes, &range_end)) refuse_beyond_end();
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (range_end - 1) / block_bytes_;
  if (last - first >= window_blocks_) {
    throw Error(EINVAL, "stream '" + stream_ + "': the range to place spans " +
                            std::to_string(last - first + 1) + " blocks, and the window holds " +
                            std::to_string(window_blocks_) + ": raise the comeback");
  }
  if (first < floor()) {
    throw Error(EINVAL, "stream '" + stream_ + "': the range to place begins in block " +
                            std::to_string(first) + ", and the window has moved on to block " +
                            std::to_string(floor()));
  }
  if (range_end > end) refuse_beyond_end();
}

}}  // namespace vortex::v0
