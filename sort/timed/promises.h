// What disks carry, and what of it readers were promised.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "vortex/files/timed_readers.h"

namespace vortex { inline namespace v0 {

// Bytes a second that a reader takes from each disk, in the order of the disks.
using DiskShares = std::vector<double>;

class Promises {
 public:
  Promises(const TimedReadersOptions& options, std::size_t request_bytes);

  // Promises a reader that was promised `before` (nothing: empty) what it wants now. Throws
  // Error(EBUSY), with nothing changed, where a disk does not carry more.
  void change(const std::string& name, const DiskShares& before, const DiskShares& wanted);
  void take_back(const DiskShares& shares) noexcept;

  const std::vector<double>& carried() const noexcept { return carried_; }
  const std::vector<double>& promised() const noexcept { return promised_; }

 private:
  const std::size_t request_bytes_;
  const double most_load_;
  std::vector<std::string> names_;
  std::vector<double> carried_;
  std::vector<double> promised_;
};

}}  // namespace vortex::v0
