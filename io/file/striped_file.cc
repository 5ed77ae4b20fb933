#include "vortex/striped_file.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <optional>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex::inline v0 {
namespace {

// A place is the part's number above the unit's number within the part.
constexpr unsigned kPartShift = 48;
constexpr std::uint64_t kUnitMask = (std::uint64_t{1} << kPartShift) - 1;

std::vector<double> weights_of(const StripedFileOptions& options, std::size_t parts) {
  if (parts == 0) throw Error(EINVAL, "a striped file needs at least one part");
  if (options.unit_bytes == 0) throw Error(EINVAL, "a striped file with units of 0 bytes");
  if (options.weights.empty()) return std::vector<double>(parts, 1.0);
  if (options.weights.size() != parts) {
    throw Error(EINVAL, "a striped file of " + std::to_string(parts) + " parts with " +
                            std::to_string(options.weights.size()) + " weights");
  }
  return options.weights;
}

}  // namespace

std::vector<double> stripe_weights(const std::vector<double>& bytes_per_s,
                                   const std::vector<std::uint64_t>& free_bytes,
                                   std::uint64_t total_bytes) {
  std::vector<double> weights = bytes_per_s;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (free_bytes[i] == 0) weights[i] = 0;
  }
  if (total_bytes == 0) return weights;
  // Disks that would overflow get what fits, and the others share the rest, which may make others
  // overflow.
  std::vector<double> share(weights.size(), 0);
  std::vector<bool> full(weights.size(), false);
  auto left = static_cast<double>(total_bytes);
  for (bool again = true; again;) {
    again = false;
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += full[i] ? 0 : weights[i];
    if (sum <= 0) break;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i]) continue;
      share[i] = left * weights[i] / sum;
      if (share[i] > static_cast<double>(free_bytes[i])) {
        share[i] = static_cast<double>(free_bytes[i]);
        full[i] = true;
        again = true;
      }
    }
    if (again) {
      left = static_cast<double>(total_bytes);
      for (std::size_t i = 0; i < weights.size(); ++i) left -= full[i] ? share[i] : 0;
    }
  }
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  if (sum < static_cast<double>(total_bytes) * (1 - 1e-9)) {
    throw Error(ENOSPC, "the disks have room for " +
                            format_bytes(std::accumulate(free_bytes.begin(), free_bytes.end(),
                                                         std::uint64_t{0})) +
                            " together, and " + format_bytes(total_bytes) + " are to be written");
  }
  return share;
}

// What readers and writers see of a striped file.
class StripedLayout final : public FileLayout {
 public:
  StripedLayout(StripedFile& file, bool writing) : file_(file), writing_(writing) {
    for (const StripedFile::Part& part : file_.parts_) {
      if (std::find(disks_.begin(), disks_.end(), part.disk) == disks_.end()) {
        disks_.push_back(part.disk);
      }
    }
  }

  const std::string& name() const noexcept override { return file_.name_; }
  std::span<Disk* const> disks() const noexcept override { return disks_; }
  std::size_t unit_bytes() const noexcept override { return file_.options_.unit_bytes; }
  Place locate(std::uint64_t unit, std::size_t) noexcept override { return file_.place_of(unit); }
  std::optional<std::uint64_t> length() const noexcept override {
    if (writing_) return std::nullopt;
    return file_.length_;
  }
  Place assign(std::uint64_t unit, std::size_t) noexcept override {
    return file_.assign(unit) ? file_.place_of(unit) : Place{};
  }
  Place move_elsewhere(std::uint64_t unit, std::size_t, int error) noexcept override {
    if (error != ENOSPC && error != EDQUOT) return {};
    const std::uint64_t part = file_.places_[unit] >> kPartShift;
    file_.left_out_[part] = 1;
    return file_.put(unit, file_.choose(unit)) ? file_.place_of(unit) : Place{};
  }
  void finish(std::uint64_t length, bool sync) override { file_.finish(length, sync); }

 private:
  StripedFile& file_;
  bool writing_;
  std::vector<Disk*> disks_;
};

StripedFile::StripedFile(std::vector<Part> parts, StripedFileOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      allocation_(options_.strategy, weights_of(options_, parts_.size()), options_.seed,
                  options_.sequence),
      name_(parts_[0].file.name() + " and " + std::to_string(parts_.size() - 1) + " more"),
      most_units_(options_.most_bytes / options_.unit_bytes + 1),
      units_(parts_.size(), 0),
      left_out_(parts_.size(), 0) {
  for (const Part& part : parts_) {
    if (!part.file.seekable()) {
      throw Error(EINVAL,
                  "'" + part.file.name() + "' cannot be part of a striped file: no seeking");
    }
    if (options_.unit_bytes % part.file.alignment() != 0) {
      throw Error(EINVAL, "'" + part.file.name() + "' is reached directly in multiples of " +
                              format_bytes(part.file.alignment()) + ", and units of " +
                              format_bytes(options_.unit_bytes) + " are none");
    }
  }
  int error = 0;
  places_ = reinterpret_cast<std::uint64_t*>(
      os::map_memory(nullptr, most_units_ * sizeof(std::uint64_t), &error));
  if (places_ == nullptr) throw Error(error, "no address space for the places of a striped file");
}

StripedFile::StripedFile(std::vector<Part> parts, StripedFileOptions options, std::uint64_t length)
    : StripedFile(std::move(parts), std::move(options)) {
  length_ = length;
  const std::uint64_t units = (length + options_.unit_bytes - 1) / options_.unit_bytes;
  for (std::uint64_t unit = 0; unit < units; ++unit) {
    if (!assign(unit)) throw Error(EINVAL, "'" + name_ + "': most_bytes is less than its length");
  }
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::uint64_t wanted = bytes_of(part, length);
    if (parts_[part].file.length() == wanted) continue;
    throw Error(EINVAL, "'" + parts_[part].file.name() + "' has " +
                            std::to_string(parts_[part].file.length()) +
                            " bytes, and its part of " + std::to_string(length) + " is " +
                            std::to_string(wanted) +
                            ": other options, another order, or a disk was left out");
  }
}

StripedFile::~StripedFile() {
  os::unmap(reinterpret_cast<std::byte*>(places_), most_units_ * sizeof(std::uint64_t));
}

std::unique_ptr<FileLayout> StripedFile::writing_layout() {
  return std::make_unique<StripedLayout>(*this, true);
}

std::unique_ptr<FileLayout> StripedFile::reading_layout() {
  return std::make_unique<StripedLayout>(*this, false);
}

FileLayout::Place StripedFile::place_of(std::uint64_t unit) const noexcept {
  const std::uint64_t place = unit < most_units_ ? places_[unit] : 0;
  const Part& part = parts_[place >> kPartShift];
  return {part.disk, &part.file, part.file.begin() + (place & kUnitMask) * options_.unit_bytes};
}

std::size_t StripedFile::choose(std::uint64_t unit) const noexcept {
  std::size_t part = allocation_.disk(unit);
  // What a full disk would have got is scattered over the others by the same strategy.
  for (std::uint64_t k = 1; left_out_[part] != 0 && k <= 64; ++k) {
    part = allocation_.disk((unit + k) * 0x9e3779b97f4a7c15 >> 32);
  }
  for (std::size_t i = 0; left_out_[part] != 0 && i < parts_.size(); ++i) part = i;
  return left_out_[part] != 0 ? kNoPart : part;
}

bool StripedFile::put(std::uint64_t unit, std::size_t part) noexcept {
  if (part == kNoPart || unit >= most_units_) return false;
  places_[unit] = std::uint64_t{part} << kPartShift | units_[part]++;
  return true;
}

bool StripedFile::assign(std::uint64_t unit) noexcept {
  while (assigned_ <= unit) {
    if (!put(assigned_, choose(assigned_))) return false;
    ++assigned_;
  }
  return true;
}

// The last unit need not be whole.
std::uint64_t StripedFile::bytes_of(std::size_t part, std::uint64_t length) const noexcept {
  std::uint64_t bytes = units_[part] * options_.unit_bytes;
  const std::uint64_t tail = length % options_.unit_bytes;
  if (tail == 0) return bytes;
  const std::uint64_t last = places_[length / options_.unit_bytes];
  const bool at_end = last >> kPartShift == part && (last & kUnitMask) + 1 == units_[part];
  return at_end ? bytes - options_.unit_bytes + tail : bytes;
}

void StripedFile::finish(std::uint64_t length, bool sync) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    BlockFile& file = parts_[part].file;
    file.truncate(bytes_of(part, length));
    if (sync) file.sync();
  }
  for (Part& part : parts_) part.file.prepare_name();
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    try {
      parts_[part].file.take_name();
    } catch (const Error& error) {
      if (part == 0) throw;
      throw Error(error.code().value(), std::string(error.message()) + "; the first " +
                                            std::to_string(part) + " of " +
                                            std::to_string(parts_.size()) +
                                            " parts are in place, and the others are as they were");
    }
  }
  length_ = length;
  for (Part& part : parts_) part.file.settle_name(sync);
}

}  // namespace vortex::inline v0
