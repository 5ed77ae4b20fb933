// Where the bytes of a sequence lie: in one file, or striped over several disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A sequence of bytes cut into units of equal size, each whole on one disk. locate(), assign() and
// move_elsewhere() are called inside faults: no allocation, no exceptions.
class VORTEX_EXPORT FileLayout {
 public:
  struct Place {
    Disk* disk = nullptr;
    const BlockFile* file = nullptr;
    std::uint64_t offset = 0;  // or Request::kSequential
  };

  virtual ~FileLayout() = default;

  // The name of the sequence, for messages.
  virtual const std::string& name() const noexcept = 0;
  // The disks of its files, each once.
  virtual std::span<Disk* const> disks() const noexcept = 0;
  // The size of a unit. 0: the reader or writer chooses the size.
  virtual std::size_t unit_bytes() const noexcept { return 0; }
  // The place of unit `unit`, where units have `unit_bytes`, the size agreed on.
  virtual Place locate(std::uint64_t unit, std::size_t unit_bytes) noexcept = 0;

  // Units must be read and written one after the other.
  virtual bool sequential() const noexcept { return false; }
  // Bytes to read; none when only the end will tell.
  virtual std::optional<std::uint64_t> length() const noexcept = 0;

  // For writing, units in increasing order: the place of a unit that has none yet.
  virtual Place assign(std::uint64_t unit, std::size_t unit_bytes) noexcept {
    return locate(unit, unit_bytes);
  }
  // Writing the unit failed with `error`: another place, or none (no disk).
  virtual Place move_elsewhere(std::uint64_t /*unit*/, std::size_t /*unit_bytes*/,
                               int /*error*/) noexcept {
    return {};
  }
  // A layout whose units are blocks may keep them in fewer bytes than they have: pack() makes those
  // of a unit that is about to be written, in place, and returns how many; packed_bytes() says how
  // many are to be read for a unit that has `bytes`; unpack() makes them what they were, in a place
  // with room for a unit, and returns how many, or 0 if they are not what pack() made. Each once
  // for a unit, inside faults, by whichever thread reads or writes.
  virtual std::size_t pack(std::uint64_t, std::byte* /*begin*/, std::size_t bytes) noexcept {
    return bytes;
  }
  virtual std::size_t packed_bytes(std::uint64_t, std::size_t bytes) const noexcept {
    return bytes;
  }
  virtual std::size_t unpack(std::uint64_t, std::byte* /*begin*/, std::size_t packed) noexcept {
    return packed;
  }
  // Names a place, for messages. Inside faults.
  virtual void describe(const Place& place, CauseText& text) const noexcept {
    text.text("'").text(place.file->name()).text("'");
  }
  // A remedy for `error`, the errno value of a failed write, for its message; null where none is
  // known.
  virtual const char* way_out(int /*error*/) const noexcept { return nullptr; }
  // Everything has been written: cuts the files to size, syncs them, gives them their names.
  // Throws.
  virtual void finish(std::uint64_t length, bool sync) = 0;
  // Ends requests that wait for the other side of a pipe or socket. Any thread.
  virtual void cancel() noexcept {}
};

// A request that reads or writes a part of a unit. It stays where it is while it is under way.
struct VORTEX_EXPORT PlacedRequest {
  Request request;
  FileLayout::Place place;  // of the unit

  // Points the request at `bytes` bytes from byte `begin` of the unit at `where` on, in memory that
  // is still to be named: around the page cache where that is wanted and the file can, then in
  // whole sectors. Where there are no offsets, it is the next bytes.
  void aim(Operation operation, const FileLayout::Place& where, std::size_t begin,
           std::size_t bytes, bool direct) noexcept;

  // Once it has ended: the byte of the data in the file where it stopped. `begin`: where it began,
  // which tells where there are no offsets.
  std::uint64_t stopped_at(std::uint64_t begin = 0) const noexcept {
    if (request.offset != Request::kSequential) begin = request.offset - place.file->begin();
    return begin + request.bytes_done;
  }
};

}}  // namespace vortex::v0
