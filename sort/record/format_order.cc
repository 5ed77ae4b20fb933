#include "sort/record/format_order.h"

#include "sort/record/coded_record.h"
#include "sort/record/pair_sort.h"
#include "sort/record/slice_merge.h"
#include "vortex/detail/cpu.h"
#include "vortex/detail/small_sort.h"

namespace vortex::inline v0 {

template class OrderBy<FormatRules>;

void FormatOrder::sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                              RecordOutput& out) const {
  if (CodedPair::suits(rules()) && PairSort::scratch_bytes(count) <= scratch.size()) {
    const CodedPair coded(rules());
    coded.encode_in_place(records, count);
    PairSort sorter(coded, stable_small_sort_of_pairs(isa_in_use()), scratch, out);
    return sorter.sort(reinterpret_cast<Pair64*>(records), count);
  }
  OrderBy::sort_bucket(records, count, scratch, out);
}

std::unique_ptr<RecordMerge> FormatOrder::merge(std::span<const MergeInput> inputs,
                                                const MergeRoom& room) const {
  if (SliceMerge<CodedWord>::suits(rules(), inputs.size(), room)) {
    return std::make_unique<SliceMerge<CodedWord>>(
        rules(), small_sort_for<std::uint64_t>(isa_in_use()), inputs, room);
  }
  if (SliceMerge<CodedPair>::suits(rules(), inputs.size(), room)) {
    return std::make_unique<SliceMerge<CodedPair>>(
        rules(), stable_small_sort_of_pairs(isa_in_use()), inputs, room);
  }
  return OrderBy::merge(inputs, room);
}

std::shared_ptr<const RecordOrder> order_of_format(RecordFormat format) {
  return std::make_shared<FormatOrder>(std::move(format));
}

}  // namespace vortex::inline v0
