#include "sort/runs/run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace vortex { inline namespace v0 {

Run::Run(RunStore& run_store, std::uint64_t most_bytes, std::uint64_t expected_bytes)
    : RunFields{.store = &run_store,
                .places = run_store.next_sequence(most_bytes, expected_bytes),
                .promised = run_store.blocks_of(most_bytes)} {
  store->promise_slots(promised);
}

std::size_t Run::bytes_of_block(std::uint64_t index) const noexcept {
  const std::size_t block_bytes = store->block_bytes();
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(block_bytes, bytes - index * block_bytes));
}

bool Run::begins_file() const noexcept {
  if (store->files() != 1 || stored.saved_bytes() != 0 || skipped != 0) return false;
  for (std::uint64_t index = 0; index < blocks(); ++index) {
    if (places.place(index).slot != index) return false;
  }
  return true;
}

bool Run::place_beforehand(std::uint64_t count) noexcept {
  if (store->files() != 1) return false;
  while (blocks() < count && places.add_unit()) {
  }
  if (blocks() == count) return true;
  // From the last on, so that the first are taken first again.
  for (std::uint64_t index = blocks(); index > 0; --index) free_block(index - 1, false);
  places.clear();
  return false;
}

void Run::arrange(const FallingParts& parts, bool placed_beforehand) {
  std::vector<UnitPlace> all(blocks());
  for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = places.place(i);
  if (placed_beforehand) {
    const std::uint64_t unused = all.size() - parts.blocks();
    for (std::uint64_t i = 0; i < unused; ++i) free_block(i, false);
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(unused));
  } else {
    parts.arrange(all);
  }
  places.become(std::move(all));
  stored.arrange(parts);
  parts.arrange(forecast_keys);
}

void Run::append(std::span<Run> others) {
  std::vector<UnitPlace> all;
  const auto add = [&](const Run& run) {
    for (std::uint64_t i = 0; i < run.blocks(); ++i) all.push_back(run.places.place(i));
  };
  add(*this);
  for (Run& next : others) {
    stored.append(next.stored);
    add(next);
    records += next.records;
    bytes += next.bytes;
    next.store = nullptr;
  }
  places.become(std::move(all));
}

void Run::end() noexcept { store->take_promise_back(std::exchange(promised, 0)); }

void Run::free_block(std::uint64_t index, bool punch_hole) noexcept {
  const UnitPlace place = places.place(index);
  if (place.slot == SlotFiles::kNoSlot) return;
  places.forget(index);
  store->free_slot(place.file, place.slot, punch_hole);
}

void Run::free_all() noexcept {
  if (store == nullptr) return;
  for (std::uint64_t index = 0; index < blocks(); ++index) free_block(index, false);
  end();
}

int RunBytes::read(std::uint64_t offset, std::span<std::byte> to) {
  const std::size_t block_bytes = run_.store->block_bytes();
  while (!to.empty()) {
    block_ = offset / block_bytes;
    const auto within = static_cast<std::size_t>(offset % block_bytes);
    std::span<std::byte> now = to.first(std::min(to.size(), block_bytes - within));
    const int error =
        run_.stored.packed(block_) ? read_packed(within, now) : read_slot(within, now);
    if (error != 0) return error;
    offset += now.size();
    to = to.subspan(now.size());
  }
  return 0;
}

// From byte `within` of a packed block on, to the end of a chunk at most, where `to` ends then.
int RunBytes::read_packed(std::size_t within, std::span<std::byte>& to) {
  constexpr std::size_t kChunk = BlockPacker::kChunkBytes;
  const std::size_t packed = run_.stored.bytes(block_);
  if (!packer_) packer_.emplace(run_.store->block_bytes());
  chunk_.resize(2 * kChunk);
  const std::span<std::byte> from = std::span(chunk_).first(kChunk);
  const std::span<std::byte> made = std::span(chunk_).last(kChunk);
  const std::size_t table_bytes = BlockPacker::table_bytes(run_.store->block_bytes(), packed);
  std::vector<std::byte> table(table_bytes);
  if (const int error = read_slot(packed - table_bytes, table)) return error;
  const auto chunk = BlockPacker::find_chunk(table, packed, within / kChunk);
  if (!chunk) return EBADMSG;
  if (const int error = read_slot(chunk->begin, from.first(chunk->packed))) return error;
  const std::size_t bytes = packer_->unpack_chunk(*chunk, from.data(), made);
  if (bytes <= within % kChunk) return EBADMSG;
  to = to.first(std::min(to.size(), bytes - within % kChunk));
  std::memcpy(to.data(), made.data() + within % kChunk, to.size());
  return 0;
}

int RunBytes::read_checked(std::uint64_t offset, std::span<std::byte> to) {
  const std::size_t block_bytes = run_.store->block_bytes();
  while (!to.empty()) {
    block_ = offset / block_bytes;
    if (loaded_ != block_) {
      if (const int error = load_block()) return error;
    }
    const auto within = static_cast<std::size_t>(offset % block_bytes);
    const std::size_t now = std::min(to.size(), block_bytes - within);
    std::memcpy(to.data(), whole_.data() + within, now);
    offset += now;
    to = to.subspan(now);
  }
  return 0;
}

int RunBytes::load_block() {
  loaded_.reset();
  whole_.resize(run_.store->block_bytes());
  const std::size_t stored = run_.stored.bytes(block_);
  if (const int error = read_slot(0, std::span(whole_).first(stored))) return error;
  if (!run_.stored.intact(block_, whole_.data(), stored)) return EBADMSG;
  if (run_.stored.packed(block_)) {
    if (!packer_) packer_.emplace(run_.store->block_bytes());
    if (packer_->unpack(whole_.data(), stored) == 0) return EBADMSG;
  }
  loaded_ = block_;
  return 0;
}

int RunBytes::read_last_record(std::uint64_t index, std::span<std::byte> to) {
  const std::uint64_t end = std::min(run_.bytes, (index + 1) * run_.store->block_bytes());
  const std::uint64_t records = (end - run_.skipped) / to.size();
  return read(run_.skipped + (records - 1) * to.size(), to);
}

Error RunBytes::failed(int error) const {
  const UnitPlace at = run_.places.place(block_);
  return {error, "reading a temporary file in '" + run_.store->folder(at.file) + "' (block " +
                     std::to_string(block_) + " of a run) at byte " +
                     std::to_string(at.slot * run_.store->block_bytes()) +
                     (error == EBADMSG ? kOtherBytes : "")};
}

RunLayout::RunLayout(Run& run, RunPacking* packing, const FallingParts* parts)
    : SpreadLayout(run.places, "a run", std::nullopt), run_(run), parts_(parts) {
  if (packing != nullptr && packing->may_pack()) packing_ = packing;
  run.stored.reserve(run.promised);
}

RunLayout::RunLayout(Run& run, std::uint64_t first_block, std::uint64_t bytes,
                     BlockPacker* unpacker)
    : SpreadLayout(run.places, "a run", bytes, first_block),
      run_(run),
      first_block_(first_block),
      blocks_read_(run.store->blocks_of(bytes)),
      unpacker_(unpacker) {}

FileLayout::Place RunLayout::locate(std::uint64_t unit, std::size_t bytes) noexcept {
  // Before there are parts, somebody looks which disk it is.
  if (parts_ == nullptr || unit >= parts_->blocks()) return SpreadLayout::locate(unit, bytes);
  return run_.places.locate(parts_->place(unit, run_.blocks()));
}

FileLayout::Place RunLayout::assign(std::uint64_t unit, std::size_t bytes) noexcept {
  return parts_ == nullptr ? SpreadLayout::assign(unit, bytes) : locate(unit, bytes);
}

FileLayout::Place RunLayout::move_elsewhere(std::uint64_t unit, std::size_t bytes,
                                            int error) noexcept {
  return parts_ == nullptr ? SpreadLayout::move_elsewhere(unit, bytes, error) : Place{};
}

std::size_t RunLayout::pack(std::uint64_t, std::byte* begin, std::size_t bytes) noexcept {
  const std::size_t stored = packing_ != nullptr ? packing_->pack(begin, bytes) : bytes;
  run_.stored.add(begin, stored, bytes);
  return stored;
}

// All of a block, even where a part of it is asked for: its checksum is that of all.
std::size_t RunLayout::packed_bytes(std::uint64_t unit, std::size_t) const noexcept {
  return run_.stored.bytes(first_block_ + unit);
}

std::size_t RunLayout::unpack(std::uint64_t unit, std::byte* begin, std::size_t packed) noexcept {
  const std::uint64_t block = first_block_ + unit;
  if (!run_.stored.intact(block, begin, packed)) return 0;
  return run_.stored.packed(block) ? unpacker_->unpack(begin, packed) : packed;
}

// Others may forget places of blocks that are not read here.
void RunLayout::describe(const Place& place, CauseText& text) const noexcept {
  for (unsigned file = 0; file < run_.store->files(); ++file) {
    if (&run_.store->disk(file) != place.disk) continue;
    text.text("a temporary file in '").text(run_.store->folder(file)).text("'");
    const std::uint64_t slot = place.offset / run_.store->block_bytes();
    for (std::uint64_t i = 0; i < blocks_read_; ++i) {
      const std::uint64_t block = first_block_ + i;
      const UnitPlace at = run_.places.place(block);
      if (at.file == file && at.slot == slot)
        text.text(" (block ").number(block).text(" of a run)");
    }
  }
}

const char* RunLayout::way_out(int error) const noexcept {
  return error == ENOSPC || error == EDQUOT ? "all folders for runs are full: keep runs in a "
                                              "folder with more room, or in more of them"
                                            : nullptr;
}

void RunLayout::finish(std::uint64_t length, bool) {
  run_.bytes = length;
  run_.end();
}

}}  // namespace vortex::v0
