#include "vortex/disk.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "io/file/block_file.h"
#include "io/sequence/spread_sequence.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

struct OpenPart {
  BlockFile file;
  std::unique_ptr<Disk> own_disk;
  Disk* disk;
};

std::vector<OpenPart> open_parts(const std::vector<StripedFile::Part>& parts,
                                 const StripedFileOptions& options, bool create) {
  const bool direct = options.caching != Caching::kBuffered;
  std::vector<OpenPart> result;
  for (const StripedFile::Part& part : parts) {
    OpenPart opened{
        create ? BlockFile::create(part.path, {.replace = options.replace, .direct = direct})
               : BlockFile::open(part.path, direct),
        nullptr, part.disk};
    if (opened.disk == nullptr) {
      opened.own_disk = open_disk({.name = part.path});
      opened.disk = opened.own_disk.get();
    }
    result.push_back(std::move(opened));
  }
  return result;
}

std::vector<double> weights_of(const StripedFileOptions& options, std::size_t parts) {
  if (options.weights.empty()) return std::vector<double>(parts, 1.0);
  if (options.weights.size() != parts) {
    throw Error(EINVAL, "a striped file of " + std::to_string(parts) + " parts with " +
                            std::to_string(options.weights.size()) + " weights");
  }
  return options.weights;
}

std::uint64_t most_units_of(const StripedFileOptions& options) {
  if (options.unit_bytes == 0) throw Error(EINVAL, "a striped file with units of 0 bytes");
  const std::uint64_t units = options.most_bytes / options.unit_bytes + 1;
  if (units > SlotFiles::kNoSlot) {
    throw Error(EINVAL, "a striped file of up to " + format_bytes(options.most_bytes) +
                            " in units of " + format_bytes(options.unit_bytes) +
                            " has too many units: the most is " +
                            std::to_string(SlotFiles::kNoSlot));
  }
  return units;
}

std::string name_of(const std::vector<OpenPart>& parts) {
  if (parts.empty()) throw Error(EINVAL, "a striped file needs at least one part");
  return parts[0].file.name() + " and " + std::to_string(parts.size() - 1) + " more";
}

}  // namespace

std::vector<double> stripe_weights(const std::vector<double>& bytes_per_s,
                                   const std::vector<std::uint64_t>& free_bytes,
                                   std::uint64_t total_bytes) {
  std::vector<double> shares = shares_that_fit(bytes_per_s, free_bytes, total_bytes);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (total_bytes != 0 && sum < static_cast<double>(total_bytes) * (1 - 1e-9)) {
    throw Error(ENOSPC, "the disks have room for " +
                            format_bytes(std::accumulate(free_bytes.begin(), free_bytes.end(),
                                                         std::uint64_t{0},
                                                         detail::saturating_sum<std::uint64_t>)) +
                            " together, and " + format_bytes(total_bytes) + " are to be written");
  }
  return shares;
}

// The parts, and where each unit lies. A part's units follow one another in its file.
class StripedFile::Units final : public SlotFiles {
 public:
  Units(std::vector<OpenPart> parts, const StripedFileOptions& options);

  // Takes the parts as they are: `length` bytes in all.
  void expect_length(std::uint64_t length);

  const std::string& name() const noexcept { return name_; }
  SpreadSequence& sequence() noexcept { return sequence_; }
  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t units_of(std::size_t part) const noexcept { return units_[part]; }
  void finish(std::uint64_t length, bool sync);

  std::span<Disk* const> disks() const noexcept override { return disks_; }
  unsigned files() const noexcept override { return static_cast<unsigned>(parts_.size()); }
  std::size_t unit_bytes() const noexcept override { return unit_bytes_; }
  FileLayout::Place locate(UnitPlace place) const noexcept override;
  std::uint32_t take_slot(unsigned file) noexcept override;
  void refuse_slot(UnitPlace) noexcept override {}  // becomes a hole

 private:
  std::uint64_t bytes_of(std::size_t part, std::uint64_t length) const noexcept;

  std::vector<OpenPart> parts_;
  std::vector<Disk*> disks_;
  std::size_t unit_bytes_;
  std::vector<std::uint32_t> units_;  // of each part
  std::string name_;
  SpreadSequence sequence_;
  std::uint64_t length_ = 0;
};

// The layout through which readers and writers see the parts of a striped file.
class StripedFile::Layout final : public SpreadLayout {
 public:
  Layout(Units& units, std::optional<std::uint64_t> length)
      : SpreadLayout(units.sequence(), units.name(), length), units_(units) {}
  void finish(std::uint64_t length, bool sync) override { units_.finish(length, sync); }

 private:
  Units& units_;
};

StripedFile::Units::Units(std::vector<OpenPart> parts, const StripedFileOptions& options)
    : parts_(std::move(parts)),
      unit_bytes_(options.unit_bytes),
      units_(parts_.size(), 0),
      name_(name_of(parts_)),
      sequence_(*this,
                BlockAllocation(options.strategy, weights_of(options, parts_.size()), options.seed,
                                options.sequence),
                most_units_of(options)) {
  for (const OpenPart& part : parts_) {
    if (!part.file.seekable()) {
      throw Error(EINVAL,
                  "'" + part.file.name() + "' cannot be part of a striped file: no seeking");
    }
    if (unit_bytes_ % part.file.alignment() != 0) {
      throw Error(EINVAL, "'" + part.file.name() + "' is reached directly in multiples of " +
                              format_bytes(part.file.alignment()) + ", and units of " +
                              format_bytes(unit_bytes_) + " are none");
    }
    if (std::find(disks_.begin(), disks_.end(), part.disk) == disks_.end()) {
      disks_.push_back(part.disk);
    }
  }
}

FileLayout::Place StripedFile::Units::locate(UnitPlace place) const noexcept {
  const OpenPart& part = parts_[place.file];
  return {part.disk, &part.file, part.file.begin() + std::uint64_t{place.slot} * unit_bytes_};
}

std::uint32_t StripedFile::Units::take_slot(unsigned file) noexcept {
  if (units_[file] == kNoSlot) return kNoSlot;
  const std::uint32_t slot = units_[file]++;
  BlockFile& part = parts_[file].file;
  part.grow_ahead(part.begin() + (std::uint64_t{slot} + 1) * unit_bytes_);
  return slot;
}

void StripedFile::Units::expect_length(std::uint64_t length) {
  length_ = length;
  const std::uint64_t units = detail::units_for(length, unit_bytes_);
  while (sequence_.units() < units) {
    if (!sequence_.add_unit()) {
      throw Error(EINVAL, "'" + name_ + "': most_bytes is less than its length");
    }
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

// The last unit need not be whole.
std::uint64_t StripedFile::Units::bytes_of(std::size_t part, std::uint64_t length) const noexcept {
  std::uint64_t bytes = std::uint64_t{units_[part]} * unit_bytes_;
  const std::uint64_t tail = length % unit_bytes_;
  if (tail == 0) return bytes;
  const UnitPlace last = sequence_.place(length / unit_bytes_);
  const bool at_end = last.file == part && last.slot + 1 == units_[part];
  return at_end ? bytes - unit_bytes_ + tail : bytes;
}

void StripedFile::Units::finish(std::uint64_t length, bool sync) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    BlockFile& file = parts_[part].file;
    file.truncate(bytes_of(part, length));
    if (sync) file.sync();
  }
  length_ = length;
  std::vector<BlockFile*> files;
  for (OpenPart& part : parts_) files.push_back(&part.file);
  publish_together(files, sync);
}

StripedFile::StripedFile(const std::vector<Part>& parts, const StripedFileOptions& options)
    : units_(std::make_unique<Units>(open_parts(parts, options, true), options)) {}

StripedFile::StripedFile(const std::vector<Part>& parts, const StripedFileOptions& options,
                         std::uint64_t length)
    : units_(std::make_unique<Units>(open_parts(parts, options, false), options)) {
  units_->expect_length(length);
}

StripedFile::~StripedFile() = default;

std::unique_ptr<FileLayout> StripedFile::writing_layout() {
  return std::make_unique<Layout>(*units_, std::nullopt);
}

std::unique_ptr<FileLayout> StripedFile::reading_layout() {
  return std::make_unique<Layout>(*units_, units_->length());
}

std::uint64_t StripedFile::length() const noexcept { return units_->length(); }

std::uint64_t StripedFile::units_of(std::size_t part) const noexcept {
  return units_->units_of(part);
}

bool StripedFile::left_out(std::size_t part) const noexcept {
  return units_->sequence().left_out(static_cast<unsigned>(part));
}

}}  // namespace vortex::v0
