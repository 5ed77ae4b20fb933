// Inputs that are divided, and what must come of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/external_sort.h"

namespace vortex::test {

using Bytes = std::vector<std::byte>;

inline Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// What std::upper_bound() makes of the records, one at a time.
inline std::vector<Bytes> divided(const RecordOrder& order, const RecordList& list,
                                  const RecordList& splitters) {
  std::vector<Bytes> parts(splitters.count() + 1);
  for (std::size_t i = 0; i < list.count(); ++i) {
    std::size_t part = 0;
    while (part < splitters.count() && !order.less(list.at(i), splitters.at(part))) ++part;
    parts[part].insert(parts[part].end(), list.at(i), list.at(i) + list.record_bytes);
  }
  return parts;
}

// Inputs in one folder, and parts there or in others.
class PartitionCase {
 public:
  PartitionCase(RecordFormat format, const std::vector<RecordList>& lists, unsigned folders)
      : order_(std::make_unique<FormatOrder>(std::move(format))),
        all_{order_->record_bytes(), {}},
        inputs_(std::make_unique<TemporaryFolder>(fast_folder())) {
    for (const RecordList& list : lists) {
      options.inputs.push_back(inputs_->file("input " + std::to_string(options.inputs.size())));
      write_file(options.inputs.back(), list.bytes);
      all_.bytes.insert(all_.bytes.end(), list.bytes.begin(), list.bytes.end());
    }
    for (unsigned i = 0; i < folders; ++i) {
      folders_.emplace_back(fast_folder());
      options.resources.folders.push_back(folders_.back().path().string());
    }
    if (folders == 0) folders_.emplace_back(fast_folder());
    options.prefix = folders == 0 ? folders_.front().file("part") : "part";
    options.format = order_->format();
    options.resources.memory_bytes = 16 << 20;
  }

  const FormatOrder& order() const { return *order_; }
  const RecordList& all() const { return all_; }

  // The files that a report names, whose numbers it must have right.
  std::vector<Bytes> parts_of(const ExternalPartitionReport& report) const {
    std::vector<Bytes> parts;
    std::uint64_t records = 0;
    for (const PartReport& part : report.parts) {
      parts.push_back(read_file(part.path));
      EXPECT_EQ(part.bytes, parts.back().size()) << part.path;
      EXPECT_EQ(part.records * order_->record_bytes(), part.bytes);
      records += part.records;
    }
    EXPECT_EQ(report.records, all_.count());
    EXPECT_EQ(records, all_.count());
    EXPECT_EQ(report.bytes, all_.bytes.size());
    EXPECT_EQ(files(), report.parts.size());
    return parts;
  }
  std::size_t files() const {
    std::size_t files = 0;
    for (const TemporaryFolder& folder : folders_) files += folder.entries();
    return files;
  }

  ExternalPartitionOptions options;

 private:
  std::unique_ptr<FormatOrder> order_;
  RecordList all_;
  std::unique_ptr<TemporaryFolder> inputs_;
  std::deque<TemporaryFolder> folders_;
};

// Every part holds a range of keys behind those of the parts in front, and the records of each key
// come in the order of the input: then all parts, sorted and joined, are the input sorted.
inline void expect_ranges(const PartitionCase& partition, const std::vector<Bytes>& parts) {
  const FormatOrder& order = partition.order();
  std::vector<Bytes> sorted;
  for (const Bytes& part : parts) {
    sorted.push_back(stably_sorted(order, {order.record_bytes(), part}).bytes);
  }
  EXPECT_TRUE(same_bytes(joined(sorted), stably_sorted(order, partition.all()).bytes));
}

}  // namespace vortex::test
