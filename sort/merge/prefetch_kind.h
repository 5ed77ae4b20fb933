// Prefetch policies made by their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sort/merge/prefetch_policy.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// The least options.buffers with which a merge of `runs` runs cannot get stuck; options.buffers
// itself is not looked at.
std::size_t minimum_read_buffers(PrefetchKind kind, const PrefetchOptions& options,
                                 std::uint32_t runs);

// A policy for the merge of `runs` runs. Throws Error (ENOBUFS) when options.buffers is below
// minimum_read_buffers(). `block_times` (see optimal_prefetch_order) is for the optimal policy, the
// only one that plans ahead for disks of unequal speed. `reads_per_disk` is for the asynchronous
// form of SRM.
std::unique_ptr<PrefetchPolicy> make_prefetch_policy(
    PrefetchKind kind, std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
    std::uint32_t runs, const std::vector<unsigned>& block_times = {}, unsigned reads_per_disk = 2);

}}  // namespace vortex::v0
