// A sequence whose units are spread over files on several disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "io/sequence/file_layout.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Where a unit lies: the number of the file, and of the slot in it.
struct UnitPlace {
  std::uint32_t file = 0;
  std::uint32_t slot = 0;
};

// Files on different disks, cut into slots of one unit. All but disks() is called inside faults: no
// allocation, no exceptions.
class VORTEX_EXPORT SlotFiles {
 public:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  // The disks of the files, each once.
  virtual std::span<Disk* const> disks() const noexcept = 0;
  virtual unsigned files() const noexcept = 0;
  virtual std::size_t unit_bytes() const noexcept = 0;
  virtual FileLayout::Place locate(UnitPlace place) const noexcept = 0;
  // A slot for another unit; kNoSlot: the file cannot have more.
  virtual std::uint32_t take_slot(unsigned file) noexcept = 0;
  // The disk had no room for the slot: its unit goes elsewhere.
  virtual void refuse_slot(UnitPlace place) noexcept = 0;

 protected:
  ~SlotFiles() = default;
};

// The place of every unit of one sequence. A file whose disk turns out to be full is left out from
// then on, and what it would have got is scattered over the others by the same strategy. Files of
// weight 0 come last. Movable; the files outlive it.
class VORTEX_EXPORT SpreadSequence {
 public:
  // Allocates the table for `most_units` at once, and nothing later.
  SpreadSequence(SlotFiles& files, BlockAllocation allocation, std::uint64_t most_units);

  // Units that have a place.
  std::uint64_t units() const noexcept { return places_.size(); }
  UnitPlace place(std::uint64_t unit) const noexcept { return places_[unit]; }
  FileLayout::Place locate(std::uint64_t unit) const noexcept {
    return files_->locate(unit < places_.size() ? places_[unit] : UnitPlace{});
  }
  bool left_out(unsigned file) const noexcept { return left_out_[file] != 0; }

  // These are called inside faults. False: no file has room, or there are too many units.
  bool add_unit() noexcept;
  bool move_elsewhere(std::uint64_t unit) noexcept;

  // The unit is not needed any more; who keeps the slots gives its own back.
  void forget(std::uint64_t unit) noexcept { places_[unit].slot = SlotFiles::kNoSlot; }

  // These are its units from now on: of those that it has, or that another has had. Not inside a
  // fault.
  void become(std::vector<UnitPlace> places) noexcept { places_ = std::move(places); }

  // It has no units, and room for as many as before. Not inside a fault.
  void clear() noexcept { places_.clear(); }

  // No more units come: gives back the rest of the table. Not inside a fault.
  void end() { places_.shrink_to_fit(); }

  SlotFiles& files() const noexcept { return *files_; }

 private:
  // False: none has room.
  bool find_place(std::uint64_t unit, UnitPlace& place) noexcept;

  SlotFiles* files_;
  BlockAllocation allocation_;
  std::uint64_t most_units_;
  std::vector<UnitPlace> places_;
  std::vector<char> left_out_;  // of each file
};

// The layout through which readers and writers see a spread sequence. The sequence outlives the
// layout.
class VORTEX_EXPORT SpreadLayout : public FileLayout {
 public:
  // `length` bytes to read, from the beginning of a unit on.
  SpreadLayout(SpreadSequence& sequence, std::string name, std::optional<std::uint64_t> length,
               std::uint64_t first_unit = 0)
      : sequence_(sequence), name_(std::move(name)), length_(length), first_unit_(first_unit) {}

  const std::string& name() const noexcept override { return name_; }
  std::span<Disk* const> disks() const noexcept override { return sequence_.files().disks(); }
  std::size_t unit_bytes() const noexcept override { return sequence_.files().unit_bytes(); }
  Place locate(std::uint64_t unit, std::size_t) noexcept override {
    return sequence_.locate(first_unit_ + unit);
  }
  std::optional<std::uint64_t> length() const noexcept override { return length_; }
  Place assign(std::uint64_t unit, std::size_t) noexcept override;
  Place move_elsewhere(std::uint64_t unit, std::size_t, int error) noexcept override;
  void finish(std::uint64_t, bool) override {}

 private:
  SpreadSequence& sequence_;
  std::string name_;
  std::optional<std::uint64_t> length_;
  std::uint64_t first_unit_;  // 0 where it is written
};

}}  // namespace vortex::v0
