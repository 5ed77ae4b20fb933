// The fields of options and counts of pools, disks, files and streams, in C and in C++.
#pragma once

#include "capi/stream/fields.h"
#include "capi/stream/pool.h"
#include "vortex/block_pool.h"
#include "vortex/c.h"
#include "vortex/disk.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/memory_budget.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 { namespace capi {

CHOICE_OF(Warming, "warming", VTX_WARMING_BACKGROUND, VTX_WARMING_ON_DEMAND);
CHOICE_OF(PoolKind, "kind of pools", VTX_POOL_ONE_THREAD, VTX_POOL_ALIASES);
CHOICE_OF(Caching, "caching", VTX_CACHING_AUTO, VTX_CACHING_BUFFERED);
CHOICE_OF(DiskBackend, "backend of disks", VTX_DISK_BEST, VTX_DISK_THREADS);
CHOICE_OF(AllocationStrategy, "strategy", VTX_STRIPING, VTX_FULLY_RANDOM);
CHOICE_OF(Access, "access", VTX_ACCESS_READ, VTX_ACCESS_UNKNOWN);

// What the process and its pools and disks do.
FIELDS_OF(vtx_fault_counts, FaultDispatcher::Statistics, 0, 0, SAME(served), SAME(failed),
          SAME(forwarded));
FIELDS_OF(vtx_memory_counts, ProcessMemory, 0, 0, SAME(resident_bytes), SAME(peak_resident_bytes),
          SAME(page_table_bytes));
FIELDS_OF(vtx_pool_options, BlockPoolOptions, 0, 0, SAME(pool_bytes), SAME(block_bytes),
          SAME(warming), SAME(kind), SAME(in_core_dumps), SAME(checked_homes), SAME(name),
          SAME(most_placed), Flag{&C::no_huge_pages, &Cpp::huge_pages, false});
FIELDS_OF(vtx_pool_counts, BlockPool::Statistics, 0, 0, SAME(blocks_in_use), SAME(blocks_lost),
          SAME(blocks_retired), SAME(peak_blocks_in_use), SAME(blocks_guaranteed),
          SAME(blocks_populated), SAME(placements), SAME(withdrawals));
FIELDS_OF(vtx_disk_options, DiskOptions, 0, 0, SAME(name), SAME(depth), SAME(backend));
FIELDS_OF(vtx_disk_counts, DiskStatistics, 0, 0, SAME(backend), SAME(fallback), SAME(registration),
          SAME(reads), SAME(writes), SAME(read_bytes), SAME(written_bytes), SAME(failures),
          SAME(attempts), SAME(fixed_attempts), SAME(retries), SAME(short_transfers), SAME(waits),
          SAME(waited_ns), SAME(peak_in_flight));
FIELDS_OF(vtx_disk_speed, DiskSpeed, 0, 0, SAME(read), SAME(write), SAME(copy));
// Not `now_ns`, the clock of simulated disks.
FIELDS_OF(vtx_disk_speed_options, DiskSpeedOptions, 0, 1, SAME(bytes), SAME(most_ns),
          SAME(request_bytes), SAME(depth));

// Files. Not `allow_rest`, for elements in C are bytes.
FIELDS_OF(vtx_file_options, FileReaderOptions, 0, 1, SAME(block_bytes), SAME(comeback_blocks),
          SAME(read_ahead), SAME(request_bytes), SAME(memory_bytes), SAME(cursors), SAME(caching),
          SAME(disk), SAME(pool), SAME(unknown_length_bytes), SAME(name),
          Flag{&C::forward, &Cpp::order, ReadOrder::kForward});
FIELDS_OF(vtx_new_file_options, FileWriterOptions, 0, 0, SAME(block_bytes), SAME(comeback_blocks),
          SAME(write_behind), SAME(request_bytes), SAME(caching), SAME(sync), SAME(expected_bytes),
          SAME(disk), SAME(pool), SAME(reserve_bytes), SAME(least_reserve_bytes), SAME(name),
          Flag{&C::keep_existing, &Cpp::replace, false},
          Flag{&C::unspecified_gaps, &Cpp::gaps, Gaps::kUnspecified});
FIELDS_OF(vtx_array_options, FileArrayOptions, 0, 1, SAME(memory_bytes), SAME(block_bytes),
          SAME(comeback_blocks), SAME(read_ahead), SAME(cursors), SAME(write_behind),
          SAME(request_bytes), SAME(caching), SAME(make), SAME(disk), SAME(pool),
          SAME(reserve_bytes), SAME(name));
FIELDS_OF(vtx_striped_options, StripedFileOptions, 0, 0, SAME(strategy), SAME(seed), SAME(sequence),
          SAME(unit_bytes), SAME(most_bytes), SAME(caching),
          Flag{&C::keep_existing, &Cpp::replace, false},
          List{&C::weights, &C::weight_count, &Cpp::weights, "the weights", "a weight"});
FIELDS_OF(vtx_part, StripedFile::Part, 0, 0, SAME(path), SAME(disk));

// Streams: the pool, its blocks and the length of the data are no options of those of C++.
FIELDS_OF(vtx_stream_options, InputStreamOptions, 4, 0, SAME(name), SAME(comeback_blocks),
          SAME(stale_blocks), SAME(reserve_bytes), SAME(least_reserve_bytes));
FIELDS_OF(vtx_stream_options, OutputStreamOptions, 3, 0, SAME(name), SAME(comeback_blocks),
          SAME(stale_blocks), SAME(reserve_bytes), SAME(least_reserve_bytes),
          Flag{&C::unspecified_gaps, &Cpp::gaps, Gaps::kUnspecified});
// `exact` is the 0 of stale_blocks, whose default is another number.
FIELDS_OF(vtx_pipe_options, PipelineOptions, 1, 0, SAME(name), SAME(block_bytes),
          SAME(read_ahead_blocks), SAME(writer_comeback_blocks), SAME(reader_comeback_blocks),
          SAME(pool_kind), SAME(stale_blocks), SAME(length_bytes), SAME(reserve_bytes), SAME(pool),
          Flag{&C::zero_gaps, &Cpp::gaps, Gaps::kZeros});

// What streams have done. The disks are an array of C, which the handle keeps.
FIELDS_OF(vtx_transfer_counts, TransferStatistics, 0, 0, SAME(requests), SAME(cached_requests),
          SAME(bytes), SAME(waits), SAME(waited_ns));
FIELDS_OF(vtx_any_order_counts, AnyOrderStatistics, 0, 0, SAME(cursors), SAME(reread_bytes),
          SAME(drops), SAME(unused));
FIELDS_OF(vtx_stream_counts, Stream::Statistics, 8, 0, SAME(faults), SAME(spurious_faults));
FIELDS_OF(vtx_stream_counts, FileStatistics, 4, 1, SAME(direct), SAME(pool_bytes), SAME(advice),
          SAME(any_order), Field{&C::read, &Cpp::source}, Field{&C::written, &Cpp::sink});

}}}  // namespace vortex::v0::capi
