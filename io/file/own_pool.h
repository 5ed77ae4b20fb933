// Decisions that file readers and writers share: the pool of their own, the name of a descriptor,
// and the report on direct I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "io/file/block_file.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// Blocks of a file in any order. A touch alone reads a whole one, so they are smaller than those of
// other streams: as small as disks read at full speed.
inline constexpr std::size_t kAnyOrderBlockBytes = std::size_t{1} << 20;

// Small streams do not need large blocks: the least that moves `bytes` with `blocks` of them, from
// 64 KiB to `largest`.
std::size_t block_bytes_for(std::uint64_t bytes, std::size_t blocks,
                            std::size_t largest = kDefaultBlockBytes);

// Blocks no larger than `block_bytes`, so that what `blocks_needed` tells for a size fits in
// `memory_bytes`, where blocks of 64 KiB do.
std::size_t block_bytes_within(std::size_t memory_bytes, std::size_t block_bytes,
                               const std::function<std::size_t(std::size_t)>& blocks_needed);

// A pool of at least so many blocks, for a file of `file_bytes` at present. Beyond 2 MiB it is one
// of whole huge pages: scattered memory costs a disk more than the room that is left over. Acquires
// the memory where it is taken at once and disks are not told of it (see
// BlockPool::may_be_pinned()). Throws Error(ENOMEM) when the system refuses it.
VORTEX_EXPORT std::unique_ptr<BlockPool> make_own_pool(
    const std::string& user, std::size_t block_bytes, std::size_t blocks,
    std::uint64_t file_bytes = std::numeric_limits<std::uint64_t>::max());

// Whether such a pool gets all its memory when it is made, or when a disk is told of it: a small
// one, which the file fills. Larger ones get it as it is touched, 2 MiB at a time.
bool taken_at_once(const BlockPool& pool, std::uint64_t file_bytes) noexcept;

// Blocks that a file has, one at least.
std::uint64_t blocks_of_file(std::uint64_t file_bytes, std::size_t block_bytes) noexcept;

// Whether disks may be told about a pool's memory while others use it, see Disk::register_memory():
// the homes of aliases are always there. Not before all of it is there: registering would get it in
// small pages.
VORTEX_EXPORT bool homes_can_be_registered(const BlockPool& pool);

// `name`, or what to call a descriptor without one.
std::string descriptor_name(int descriptor, const std::string& name);

// "direct I/O", or why not.
std::string direct_io_report(const BlockFile& file);

}}  // namespace vortex::v0
