// Records copied to where a plain pointer points.
#pragma once

#include <cstddef>

#include "sort/record/copy_record.h"

namespace vortex::inline v0 {

// A RecordOutput over the array of an output stream, whose faults append() may wait in.
class PointerOutput {
 public:
  PointerOutput(std::byte* to, std::size_t record_bytes) noexcept
      : to_(to), record_bytes_(record_bytes) {}

  void append(const std::byte* record) noexcept {
    copy_record(to_, record, record_bytes_);
    to_ += record_bytes_;
  }

 private:
  std::byte* to_;
  std::size_t record_bytes_;
};

}  // namespace vortex::inline v0
