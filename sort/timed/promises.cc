#include "sort/timed/promises.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "io/disk/disk.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

std::string rate_text(double bytes_per_s) {
  return std::to_string(static_cast<std::uint64_t>(std::max(bytes_per_s, 0.0))) + " bytes a second";
}

double share_of(const DiskShares& shares, std::size_t disk) {
  return shares.empty() ? 0 : shares[disk];
}

}  // namespace

Promises::Promises(const TimedReadersOptions& options, std::size_t request_bytes)
    : request_bytes_(request_bytes),
      most_load_(options.most_load),
      promised_(options.disks.size(), 0) {
  const auto request = static_cast<double>(request_bytes);
  for (const TimedDisk& disk : options.disks) {
    names_.push_back(disk.disk->name());
    carried_.push_back(disk.read_bytes_per_s * request / (request + disk.request_cost_bytes));
  }
}

void Promises::change(const std::string& name, const DiskShares& before, const DiskShares& wanted) {
  for (std::size_t disk = 0; disk < carried_.size(); ++disk) {
    const double others = promised_[disk] - share_of(before, disk);
    const double left = carried_[disk] * most_load_ - others;
    const double more = share_of(wanted, disk);
    // Who wants less than before gets it, and sums are not exact.
    if (carried_[disk] == 0 || more <= share_of(before, disk) || more <= left * (1 + 1e-9))
      continue;
    throw Error(EBUSY, "'" + name + "' wants " + rate_text(more) + " of disk '" + names_[disk] +
                           "', which has " + rate_text(left) + " left: it reads " +
                           rate_text(carried_[disk]) + " in requests of " +
                           format_bytes(request_bytes_) + ", of which " +
                           std::to_string(most_load_) + " may be promised, and " +
                           rate_text(others) +
                           " are: read slower, from another disk, or in larger requests");
  }
  for (std::size_t disk = 0; disk < promised_.size(); ++disk) {
    promised_[disk] += share_of(wanted, disk) - share_of(before, disk);
  }
}

void Promises::take_back(const DiskShares& shares) noexcept {
  for (std::size_t disk = 0; disk < shares.size(); ++disk) promised_[disk] -= shares[disk];
}

}}  // namespace vortex::v0
