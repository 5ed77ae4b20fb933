// Decisions and answers that file readers, writers and arrays share: the pool of their own, the
// name of a descriptor, the report on direct I/O, a file that ends in the middle of an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "io/file/block_file.h"
#include "vortex/block_pool.h"
#include "vortex/file_reader.h"
#include "vortex/version.h"

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

// A pool of at least `blocks`, for a file of `file_bytes` at present. Beyond 2 MiB it is one
// of whole huge pages: scattered memory costs a disk more than the room that is left over. Acquires
// the memory where it is taken at once and disks are not told of it (see
// BlockPool::may_be_pinned()). Throws Error(ENOMEM) when the system refuses it.
VORTEX_EXPORT std::unique_ptr<BlockPool> make_own_pool(
    const std::string& user, std::size_t block_bytes, std::size_t blocks,
    std::uint64_t file_bytes = std::numeric_limits<std::uint64_t>::max());

// Blocks that a file has, one at least.
std::uint64_t blocks_of_file(std::uint64_t file_bytes, std::size_t block_bytes) noexcept;

// Whether disks may be told about a pool's memory while others use it, see Disk::register_memory():
// the homes of aliases are always there. Not before all of it is there: registering would get it in
// small pages.
VORTEX_EXPORT bool homes_can_be_registered(const BlockPool& pool);

// Whether to tell them of the pool of a file, which may be its own: of a small one, which the file
// fills and which gets all its memory when a disk is told of it. Larger ones get it as it is
// touched, 2 MiB at a time.
bool disks_may_know(const BlockPool& pool, bool own,
                    std::uint64_t file_bytes = std::numeric_limits<std::uint64_t>::max());

// `name`, or what to call a descriptor without one.
std::string descriptor_name(int descriptor, const std::string& name);

// "direct I/O", or why not.
std::string direct_io_report(const BlockFile& file);

// Advice for programs whose order of access makes a file be read again and again. It works, and so
// hides mistakes: two passes where one would do, too little memory, or blocks that are too large
// for touches in random places. Empty where it is a minor part.
std::string reread_advice(const TransferStatistics& reads, const AnyOrderStatistics& order,
                          std::size_t pool_bytes);

// Throws Error(EINVAL) where `length` bytes are no whole elements. `name` is the file's.
void expect_whole_elements(const std::string& name, std::uint64_t length,
                           std::size_t element_bytes);

}}  // namespace vortex::v0
