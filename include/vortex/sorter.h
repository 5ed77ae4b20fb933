// Sorting more than memory holds: push records, then read them in order from one pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "sort/job/byte_sorter.h"
#include "vortex/input_stream.h"
#include "vortex/record_format.h"
#include "vortex/record_kernels.h"
#include "vortex/record_order.h"
#include "vortex/sort_plan.h"
#include "vortex/sort_progress.h"

namespace vortex::inline v0 {

// What STXXL calls a sorter. T is trivially copyable; `less(const T&, const T&)` is a strict weak
// order that must not throw. It is called by whoever pushes and, after sort(), by a thread of the
// sorter. Numbers need none: they are sorted by their bits, which is faster and a total order, NaNs
// included (see RadixKey).
//
//   vortex::Sorter<Point, ByX> sorter({.memory_bytes = 256 << 20});
//   while (...) sorter.push(point);
//   sorter.sort();
//   for (std::uint64_t i = 0; i < sorter.size(); ++i) use(sorter.data()[i]);
//
// What blocks, what is thrown and what holds afterwards: see ByteSorter.
template <typename T, typename Less = std::less<T>>
class Sorter : private ByteSorter {
  using Base = ByteSorter;

 public:
  explicit Sorter(const SortResources& resources, Less less = {})
      : Base(resources, order_of_type<T>(std::move(less))) {}

  using Base::counts;
  using Base::plan;
  using Base::size;
  using Base::sort;
  using Base::stream;

  void push(const T& record) { std::memcpy(Base::next(sizeof(T)), &record, sizeof(T)); }
  void push(std::span<const T> records) {
    Base::push(reinterpret_cast<const std::byte*>(records.data()), records.size());
  }

  // The sorted array.
  const T* data() const { return reinterpret_cast<const T*>(Base::bytes()); }
};

// The same for records whose length and keys are known when the program runs.
class RecordSorter : private ByteSorter {
  using Base = ByteSorter;

 public:
  RecordSorter(const SortResources& resources, RecordFormat format)
      : Base(resources, order_of_format(std::move(format))) {}

  using Base::counts;
  using Base::plan;
  using Base::record_bytes;
  using Base::size;
  using Base::sort;
  using Base::stream;

  // One record.
  void push(const std::byte* record) { Base::push(record); }
  // Whole records; Error(EINVAL) otherwise, and nothing is taken.
  void push(std::span<const std::byte> records);

  // The sorted array: record i begins at byte i * record_bytes().
  const std::byte* data() const { return Base::bytes(); }
};

}  // namespace vortex::inline v0
