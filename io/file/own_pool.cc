#include "io/file/own_pool.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kSmallestChosenBlock = std::size_t{64} << 10;

// The default pools of readers, writers and arrays are below that.
constexpr std::size_t kTakenAtOnce = std::size_t{16} << 20;

// Whether the pool of such a file gets all its memory at once. What rounds it up to whole huge
// pages is no reason to wait.
bool taken_at_once(const BlockPool& pool, std::uint64_t file_bytes) noexcept {
  return pool.pool_bytes() <= kTakenAtOnce &&
         (pool.pool_bytes() <= file_bytes || pool.pool_bytes() - file_bytes < kHugePageBytes);
}

}  // namespace

std::size_t block_bytes_for(std::uint64_t bytes, std::size_t blocks, std::size_t largest) {
  const std::uint64_t share = std::min<std::uint64_t>(bytes / blocks + 1, largest);
  return std::max<std::size_t>(std::bit_ceil(share), kSmallestChosenBlock);
}

std::size_t block_bytes_within(std::size_t memory_bytes, std::size_t block_bytes,
                               const std::function<std::size_t(std::size_t)>& blocks_needed) {
  while (block_bytes > kSmallestChosenBlock &&
         detail::saturating_product(blocks_needed(block_bytes), block_bytes) > memory_bytes) {
    block_bytes /= 2;
  }
  return block_bytes;
}

std::unique_ptr<BlockPool> make_own_pool(const std::string& user, std::size_t block_bytes,
                                         std::size_t blocks, std::uint64_t file_bytes) {
  BlockPoolOptions options;
  options.block_bytes = block_bytes;
  options.pool_bytes = detail::saturating_product(block_bytes, blocks);
  if (options.pool_bytes > kHugePageBytes && kHugePageBytes % block_bytes == 0) {
    options.pool_bytes = detail::round_up(options.pool_bytes, kHugePageBytes);
  }
  // Its tables alone, which are made whole, could take more than there is.
  const std::uint64_t machine_bytes = os::machine_memory().bytes;
  if (block_bytes <= kMaxBlockBytes && machine_bytes != 0 && options.pool_bytes > machine_bytes) {
    throw Error(ENOMEM, "blocks of '" + user + "': " + format_bytes(options.pool_bytes) +
                            " are more than the machine has: ask for less memory, or for fewer "
                            "blocks, requests or walks");
  }
  options.warming = Warming::kOnDemand;
  options.name = "blocks of '" + user + "'";
  options.most_placed = static_cast<std::size_t>(
      std::min<std::uint64_t>(blocks, blocks_of_file(file_bytes, block_bytes)));
  auto pool = std::make_unique<BlockPool>(options);
  // To tell disks of memory acquires all of it. Where they are not told, the first faults would,
  // block after block.
  if (!pool->may_be_pinned() && taken_at_once(*pool, file_bytes)) pool->wait_until_warm();
  return pool;
}

std::uint64_t blocks_of_file(std::uint64_t file_bytes, std::size_t block_bytes) noexcept {
  return std::max<std::uint64_t>(detail::units_for(file_bytes, block_bytes), 1);
}

bool homes_can_be_registered(const BlockPool& pool) {
  return pool.aliases() && pool.statistics().blocks_populated == pool.block_count();
}

bool disks_may_know(const BlockPool& pool, bool own, std::uint64_t file_bytes) {
  if (!own) return homes_can_be_registered(pool);
  return pool.may_be_pinned() && taken_at_once(pool, file_bytes);
}

std::string descriptor_name(int descriptor, const std::string& name) {
  return name.empty() ? "descriptor " + std::to_string(descriptor) : name;
}

std::string direct_io_report(const BlockFile& file) {
  if (file.direct_descriptor() >= 0) return "direct I/O";
  return file.direct_refusal().empty() ? "not asked for" : file.direct_refusal();
}

std::string reread_advice(const TransferStatistics& reads, const AnyOrderStatistics& order,
                          std::size_t pool_bytes) {
  const bool much = order.reread_bytes > reads.bytes / 4 && order.reread_bytes > pool_bytes;
  if (!much) return {};
  return format_bytes(order.reread_bytes) + " of " + format_bytes(reads.bytes) +
         " had been read before: raise memory_bytes, make block_bytes smaller for touches in "
         "random places, or go through the data fewer times";
}

void expect_whole_elements(const std::string& name, std::uint64_t length,
                           std::size_t element_bytes) {
  const std::uint64_t rest = length % element_bytes;
  if (rest == 0) return;
  throw Error(EINVAL, "'" + name + "' is " + std::to_string(length) +
                          " bytes long, which is no multiple of an element's " +
                          std::to_string(element_bytes) + ": the last " + std::to_string(rest) +
                          " would be left out; read elements of another size, or set allow_rest");
}

}}  // namespace vortex::v0
