// The fields of options and reports of sorts, in C and in C++.
#pragma once

#include "capi/stream/fields.h"
#include "vortex/c.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"
#include "vortex/radix_sort.h"
#include "vortex/record_order.h"
#include "vortex/sort.h"
#include "vortex/sort_resources.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 { namespace capi {

CHOICE_OF(KeyKind, "kind of keys", VTX_KEY_BYTES, VTX_KEY_FLOAT);
CHOICE_OF(SortPhase, "phase", VTX_SORT_READING, VTX_SORT_WRITING);
CHOICE_OF(PrefetchKind, "prefetch", VTX_PREFETCH_OPTIMAL, VTX_PREFETCH_STRIPED);
CHOICE_OF(InPlace, "way to replace a file", VTX_IN_PLACE_NEVER, VTX_IN_PLACE_ALWAYS);
CHOICE_OF(RunCompression, "compression", VTX_COMPRESSION_AUTO, VTX_COMPRESSION_NEVER);

// Arrays in memory, and vanishing ones.
FIELDS_OF(vtx_sort_options, SortOptions, 0, 0, SAME(stable), SAME(threads),
          Flag{&C::descending, &Cpp::order, Order::kDescending});
FIELDS_OF(vtx_radix_report, RadixSortReport, 0, 0, SAME(first_split_bits), SAME(peak_blocks),
          SAME(working_bytes), SAME(epsilon_bytes));
FIELDS_OF(vtx_vanishing_options, VanishingArrayOptions, 1, 0, SAME(name), SAME(comeback_blocks));
FIELDS_OF(vtx_vanishing_options, BucketStreamOptions, 0, 1, SAME(name), SAME(comeback_blocks),
          SAME(reserve_bytes));

// A key of a record; its type is a struct of its own, whose length is the key's.
FIELDS_OF(vtx_key, RecordKey, 2, 1, SAME(offset), SAME(length), SAME(descending));
FIELDS_OF(vtx_key, KeyType, 3, 1, SAME(kind),
          Flag{&C::big_endian, &Cpp::byte_order, ByteOrder::kBigEndian});

// Sorts of files. Speeds, the progress and the disks come in by functions.
FIELDS_OF(vtx_sort_resources, SortResources, 5, 3, SAME(first_records), SAME(memory_bytes),
          SAME(budget), SAME(least_memory_bytes), SAME(block_bytes), SAME(request_cost_bytes),
          SAME(prefetch), SAME(backend), SAME(caching), SAME(compression), SAME(seed),
          SAME(threads), SAME(stop), Field{&C::in_place, &Cpp::output_in_place},
          Flag{&C::no_sync, &Cpp::sync, false},
          List{&C::folders, &C::folder_count, &Cpp::folders, "the folders",
               "the name of a folder"});
// The format or the order, and the resources, are structs of their own.
FIELDS_OF(vtx_file_sort, ExternalSortOptions, 0, 2, SAME(output), SAME(trace),
          SAME(most_pipe_bytes), SAME(unique), Field{&C::merge, &Cpp::merge_inputs},
          List{&C::inputs, &C::input_count, &Cpp::inputs, "the inputs", "the name of an input"});
// The format and the resources are structs of their own, and splitters are an array of bytes.
FIELDS_OF(vtx_file_partition, ExternalPartitionOptions, 2, 3, SAME(prefix), SAME(parts),
          SAME(most_pipe_bytes), SAME(divide_equal_keys),
          List{&C::inputs, &C::input_count, &Cpp::inputs, "the inputs", "the name of an input"});
FIELDS_OF(vtx_part_report, PartReport, 0, 0, SAME(path), SAME(records), SAME(bytes));
// The parts are told one by one.
FIELDS_OF(vtx_partition_report, ExternalPartitionReport, 2, 1, SAME(records), SAME(bytes),
          SAME(sampled_records), SAME(block_bytes), SAME(pool_blocks), SAME(read_bytes),
          SAME(written_bytes), SAME(faults), SAME(cpu_seconds), SAME(seconds));
// Not `before_threads`, for programs that want the milliseconds of a small sort.
FIELDS_OF(vtx_file_sort, LineSortOptions, 2, 5, SAME(output), SAME(trace),
          Field{&C::merge, &Cpp::merge_inputs},
          List{&C::inputs, &C::input_count, &Cpp::inputs, "the inputs", "the name of an input"});
// The separator is one byte, the seed sixteen; the others say where lines end and how keys are
// made.
FIELDS_OF(vtx_line_format, LineKeyOptions, 11, 2, SAME(letters), SAME(locale), SAME(stable),
          SAME(unique), Flag{&C::csv, &Cpp::fields, FieldRules::kCsv},
          List{&C::keys, &C::key_count, &Cpp::keys, "the keys", "a key"});

FIELDS_OF(vtx_sort_progress, SortProgress, 0, 0, SAME(phase), SAME(bytes), SAME(phase_bytes));
FIELDS_OF(vtx_run_counts, RunCounts, 0, 0, SAME(runs), SAME(merges), SAME(passes), SAME(bytes));
FIELDS_OF(vtx_sort_overlap, SortOverlap, 0, 0, SAME(seconds), SAME(disks), SAME(threads),
          SAME(both), SAME(sum_of_disks), SAME(sum_of_threads));
// The plan is told as text.
FIELDS_OF(vtx_sort_report, SortReport, 0, 1, SAME(records_in), SAME(records_out), SAME(input_bytes),
          SAME(output_bytes), SAME(runs), SAME(merges), SAME(passes), SAME(run_bytes),
          SAME(read_bytes), SAME(written_bytes), SAME(least_io_bytes), SAME(cpu_seconds),
          SAME(run_formation_seconds), SAME(merge_seconds), SAME(seconds), SAME(overlap),
          SAME(merge_parts), SAME(invalid_records), SAME(unclosed_records),
          List{&C::folder_bytes, &C::folder_count, &Cpp::folder_bytes, "", ""});
FIELDS_OF(vtx_line_disorder, LineDisorder, 1, 0, SAME(input), SAME(record), SAME(offset),
          SAME(text));

// The numbers of a vtx_number: their bytes, and the code of their order. Throws Error(EINVAL).
detail::NumberForm number_form_of(int number, bool descending);

}}}  // namespace vortex::v0::capi
