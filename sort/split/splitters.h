// Which part a record belongs to, decided by splitters exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vortex/external_sort.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// A key whose records are divided between neighbouring parts: those of the input before ends[0] go
// to part `first`, those before ends[1] to the next, and so on.
struct DividedKey {
  std::size_t first = 0;
  std::vector<std::uint64_t> ends = {};
  std::uint64_t seen = 0;  // of its records, so far

  std::size_t last() const noexcept { return first + ends.size(); }
};

// Splitters are records in order; the part of a record is the number of those not greater than it,
// unless its key is a divided one. For thousands of splitters: a search by the leading bits, and
// among those that are equal by whole records. In memory that is exact, where BucketSplitters may
// move what it was given.
class Splitters final : public PartFunction {
 public:
  // The order outlives it. `divided` in the order of the parts. Throws Error(EINVAL) for splitters
  // out of order.
  Splitters(const RecordOrder& order, std::vector<std::byte> records,
            std::vector<DividedKey> divided = {});

  std::size_t parts() const noexcept { return bits_.size() + 1; }
  // What it takes for each splitter beside the record.
  static constexpr std::size_t kBytesOfSplitter = sizeof(std::uint64_t);

  void find(const std::byte* records, std::size_t count, std::uint32_t* parts) override;

 private:
  static constexpr std::size_t kAtOnce = 64;

  const std::byte* splitter(std::size_t index) const noexcept {
    return records_.data() + index * order_.record_bytes();
  }
  void count_splitters(const std::uint64_t* bits, std::size_t count,
                       std::uint32_t* parts) const noexcept;
  std::uint32_t behind_equal(const std::byte* record, std::uint64_t bits,
                             std::uint32_t end) const noexcept;
  void divide(const std::byte* record, std::uint64_t bits, std::uint32_t& part) noexcept;

  const RecordOrder& order_;
  const std::vector<std::byte> records_;
  std::vector<std::uint64_t> bits_;  // of the splitters
  std::vector<DividedKey> divided_;
};

}}  // namespace vortex::v0
