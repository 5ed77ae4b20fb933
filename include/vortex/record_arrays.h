// Arrays of records in memory: sorted ones merged, and others sorted, on their way to an array, a
// descriptor, or an output of the program's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vortex/record_order.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Puts records one behind the other into an array of the caller's.
class VORTEX_EXPORT ArrayOutput final : public RecordOutput {
 public:
  ArrayOutput(std::span<std::byte> to, std::size_t record_bytes) noexcept
      : to_(to), record_bytes_(record_bytes) {}

  // Throws Error(ENOBUFS) where no record has room any more; those before it are in the array.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override { done_ += bytes; }

  // The length of the records that are in the array.
  std::size_t bytes() const noexcept { return done_; }

 private:
  std::span<std::byte> to_;
  std::size_t record_bytes_;
  std::size_t done_ = 0;
};

// Writes records to a descriptor, which stays the caller's, from where it stands on. Waits, outside
// faults, while that takes no more, whether or not its writes would. Its buffer of a megabyte (a
// record, if that is longer) is allocated when it is made.
class VORTEX_EXPORT DescriptorOutput final : public RecordOutput {
 public:
  // Throws Error: EINVAL where `record_bytes` is 0; std::bad_alloc.
  DescriptorOutput(int descriptor, std::size_t record_bytes);

  // room() and flush() throw Error with the errno of write(2), EPIPE and EFBIG without a signal;
  // then it is not known how many bytes were written.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override { filled_ += bytes; }
  // Writes what is left in the buffer. To be called at the end: nobody else does.
  void flush();

 private:
  int descriptor_;
  std::size_t record_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
};

// Appends the records of sorted arrays to `out` in order. Equal records come in the order of their
// arrays, which may have any alignment and be of memory that cannot be written. Arrays that are not
// sorted give a result that is not, and still has each record once.
//
// Extra memory: 16 MiB at most, 200 bytes for each array, and with several threads 1.25 MiB for
// each. `threads` may merge, as in SortOptions; the caller alone calls `out`. Throws
// std::bad_alloc, Error(EINVAL) for an array of more bytes than memory has, and what `out` throws,
// with the records that are merged until then put out. Thread-safe for different outputs. Not
// inside a fault: arrays of streams are merged inside guarded(). Barve and Vitter, section 2.2, is
// the same for disks.
VORTEX_EXPORT void merge_arrays(const RecordOrder& order, std::span<const MergeInput> arrays,
                                RecordOutput& out, unsigned threads = 0);

// Appends the records of arrays in any order to `out` in order. Leading bits are sorted with the
// places of their records, and each record is moved once, from where it is to the output. Equal
// ones come in the order of their arrays, and of their places there. One thread sorts.
//
// The arrays hold the same records afterwards, those of several arrays where they were, those of a
// single one in an unspecified order. Extra memory: 32 bytes a record, and half a megabyte. Throws
// std::bad_alloc, and Error(EINVAL) for an array whose bytes are no whole records, or several that
// have more than 2^31 records, with nothing put out, and what `out` throws.
VORTEX_EXPORT void sort_arrays(const RecordOrder& order,
                               std::span<const std::span<std::byte>> arrays, RecordOutput& out);

}}  // namespace vortex::v0
