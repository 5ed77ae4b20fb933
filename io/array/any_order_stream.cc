#include "io/array/any_order_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "io/file/own_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

namespace {

// The most that one instruction touches: two places, each over the border of two blocks.
constexpr std::size_t kMinKept = 4;
constexpr std::size_t kMaxCursors = 256;
constexpr std::size_t kMaxRequests = 256;
constexpr char kNoMemory[] = "the system refuses memory for a block";

std::size_t kept_blocks(const FileReaderOptions& options) noexcept {
  return std::max(detail::saturating_sum(options.comeback_blocks, 1), kMinKept);
}

std::uint64_t address_space(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return detail::saturating_sum(detail::round_up(bytes, block_bytes), block_bytes);
}

// A process may have thousands of arrays, each of which could grow. While most of the address space
// is there, one gets what it asks for, then a part of what may go to those that ask for much, and
// then little, for others need some, too.
std::uint64_t room_to_grow(std::uint64_t length, std::uint64_t wanted) noexcept {
  constexpr std::uint64_t kPlenty = std::uint64_t{64} << 40;
  constexpr std::uint64_t kForLittle = std::uint64_t{16} << 40;
  constexpr std::uint64_t kForOthers = std::uint64_t{1} << 40;
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  constexpr std::uint64_t kPart = 16;
  const std::uint64_t left = Reservation::unreserved_bytes();
  if (left < kForOthers) return length;
  if (left < kForLittle) {
    wanted = std::min(wanted, kLittle);
  } else if (left < kPlenty) {
    wanted = std::min(wanted, std::max((left - kForLittle) / kPart, kLittle));
  }
  return std::max(length, wanted);
}

// A cursor is of use if it has its head and a block ahead; and walks come in pairs.
std::size_t cursors_for(const FileReaderOptions& options, std::size_t blocks) noexcept {
  const std::size_t kept = kept_blocks(options);
  const std::size_t beside = blocks > kept ? blocks - kept : 0;
  return std::min(std::max({beside / 2, options.cursors, std::size_t{2}}), kMaxCursors);
}

}  // namespace

std::size_t AnyOrderStream::blocks_needed(const FileReaderOptions& options, std::size_t block_bytes,
                                          std::size_t unit_bytes, std::size_t write_behind,
                                          std::optional<std::uint64_t> length) {
  const std::string who = options.name.empty() ? "a file in any order" : "'" + options.name + "'";
  expect_block_count(who, "comeback_blocks", options.comeback_blocks);
  expect_block_count(who, "read_ahead", options.read_ahead);
  expect_block_count(who, "cursors", options.cursors);
  expect_block_count(who, "write_behind", write_behind);
  const std::size_t group = RequestUnits::group(block_bytes, options.request_bytes, unit_bytes);
  const std::size_t cursors = std::max<std::size_t>(options.cursors, 1);
  const std::size_t requests =
      detail::saturating_sum(detail::saturating_product(cursors, options.read_ahead), write_behind);
  // The last blocks touched may begin and end in the middle of a group.
  const std::size_t kept = kept_blocks(options) + cursors - 1 + 2 * (group - 1);
  const std::size_t needed =
      std::max(detail::saturating_sum(kept, detail::saturating_product(requests, group)),
               options.memory_bytes / block_bytes);
  if (!length) return needed;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(blocks_of_file(*length, block_bytes), needed));
}

AnyOrderStream::AnyOrderStream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                               const FileReaderOptions& options, bool register_pool,
                               const std::optional<ChangeOptions>& changes)
    : Stream(options.name.empty() ? layout->name() : options.name,
             {.bytes = address_space(
                  room_to_grow(*layout->length(), changes ? changes->reserve_bytes : 0),
                  pool.block_bytes()),
              .least_bytes = address_space(*layout->length(), pool.block_bytes())}),
      units_(pool, std::move(layout),
             {.request_bytes = options.request_bytes,
              .caching = options.caching,
              .register_pool = register_pool},
             changes ? RequestUnits::Use::kChanging : RequestUnits::Use::kReading),
      block_bytes_(pool.block_bytes()),
      max_depth_(options.read_ahead),
      announced_(options.cursors > 1 ? options.cursors : 0),
      kept_(kept_blocks(options)),
      quota_(units_.quota(blocks_needed(options, block_bytes_, units_.layout().unit_bytes(),
                                        changes ? changes->write_behind : 0,
                                        changes ? std::nullopt : units_.layout().length()))),
      held_(quota_.minimum()),
      cursors_(cursors_for(options, quota_.minimum())),
      transfers_(units_, std::min(quota_.minimum(), kMaxRequests)),
      changes_(changes ? std::make_unique<WriteBack>(units_, held_, transfers_, kept_) : nullptr),
      written_behind_((changes ? changes->write_behind : 0) * units_.group()) {
  open();
}

AnyOrderStream::~AnyOrderStream() {
  if (!close()) return;
  BlockPool& pool = quota_.pool();
  transfers_.drain();
  if (changes_ != nullptr) write_last_changes();
  held_.for_each([&](HeldBlock& held) {
    if (!held.block) return;
    if (held.state == HeldBlock::State::kPlaced && take_away(held) != 0) pool.give_up(held.block);
    quota_.give_back(std::exchange(held.block, Block{}));
  });
}

AnyOrderStatistics AnyOrderStream::order_statistics() const noexcept {
  return {.cursors = begun_.load(std::memory_order_relaxed),
          .reread_bytes = transfers_.reread_bytes(),
          .drops = drops_.load(std::memory_order_relaxed),
          .unused = unused_.load(std::memory_order_relaxed)};
}

// ---- Faults.

bool AnyOrderStream::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  HeldBlock* const held = held_.find(index);
  if (held != nullptr && held->state == HeldBlock::State::kPlaced) {
    return serve_placed(*held, access, offset);
  }
  if (access == Access::kWrite && changes_ == nullptr) return refuse_write(offset);
  if (index >= transfers_.blocks()) return serve_end(access, offset);
  return serve_block(access, index, offset);
}

bool AnyOrderStream::refuse_write(std::uint64_t offset) noexcept {
  return fail(EACCES, "a write to a stream that is read", offset);
}

bool AnyOrderStream::serve_placed(HeldBlock& held, Access access, std::uint64_t offset) noexcept {
  held_.touch(held);
  // Where the processor does not tell, what can be read is being written.
  if (changes_ != nullptr && access != Access::kRead && !held.writable) {
    const Status status = changes_->let_change(held);
    return status.ok() || fail(status.error, status.cause, offset);
  }
  if (changes_ == nullptr && access == Access::kWrite && quota_.pool().aliases()) {
    return refuse_write(offset);
  }
  note_spurious_fault();
  return true;
}

bool AnyOrderStream::serve_end(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = detail::round_up(transfers_.length(), page);
  const bool writes = access == Access::kWrite && changes_ != nullptr;
  if (writes || offset >= filler_offset + page) {
    LineBuffer<128> cause;
    cause.text(writes ? "a write" : "a read").text(" past the end of the data, which are ");
    cause.number(transfers_.length()).text(" bytes long");
    return fail(ERANGE, cause.view(), offset);
  }
  if (filler_placed_) {
    note_spurious_fault();
    return true;
  }
  // Here the page begins where the last block ends, so there is no block to hold it.
  if (const int error =
          reservation().place_zeros(base() + filler_offset, page, changes_ == nullptr)) {
    return fail(error, "no memory for the page after the end", offset);
  }
  filler_placed_ = true;
  return true;
}

bool AnyOrderStream::serve_block(Access access, std::uint64_t index,
                                 std::uint64_t offset) noexcept {
  refusal_ = 0;
  write_failure_ = {};
  just_left_ = kNoBlock;
  transfers_.collect();
  cursors_.tick();
  Cursor* const cursor = notice(index);
  HeldBlock* held = held_.find(index);
  if (held == nullptr) {
    const std::size_t most = cursor != nullptr ? blocks_to_border(*cursor, index) : 1;
    if (read_run(cursor, index, most, true) == 0) {
      if (stopping()) return fail(ECANCELED, "the stream was cancelled", offset);
      // There may be room when the next touch comes.
      if (!write_failure_.ok()) return refuse(write_failure_.error, write_failure_.cause, offset);
      return fail(refusal_ != 0 ? refusal_ : ENOMEM,
                  refusal_ != 0 ? cannot_move_block(refusal_) : kNoMemory, offset);
    }
    held = held_.find(index);
  } else if (held->cursor != HeldBlock::kNone) {
    --cursors_[std::exchange(held->cursor, HeldBlock::kNone)].ahead;
  }
  held_.touch(*held);
  if (cursor != nullptr) read_ahead(*cursor);
  if (changes_ != nullptr) write_behind();
  if (!transfers_.settle(*held)) return fail(ECANCELED, "the stream was cancelled", offset);
  if (held->error != 0) {
    const Status status = transfers_.failed_reading(*held);
    return fail(status.error, status.cause, offset);
  }
  if (refusal_ == 0) refusal_ = place(*held, access == Access::kWrite);
  return refusal_ == 0 || fail(refusal_, cannot_move_block(refusal_), offset);
}

void AnyOrderStream::take_from_sight(std::uint64_t offset) noexcept {
  HeldBlock* const held = held_.find(offset / block_bytes_);
  if (held != nullptr && held->state == HeldBlock::State::kPlaced) {
    // Its memory is where the disk finds it, so that a later write_changes() still can.
    transfers_.drain(*held);
    take_away(*held);
  } else if (held == nullptr && filler_placed_) {
    vacate(base() + detail::round_up(transfers_.length(), os::page_bytes()), os::page_bytes());
    filler_placed_ = false;
  }
}

bool AnyOrderStream::clear_refused(std::uint64_t offset) noexcept {
  const HeldBlock* const held = held_.find(offset / block_bytes_);
  const bool placed = held != nullptr && held->state == HeldBlock::State::kPlaced;
  if (placed || offset >= transfers_.length()) return false;
  const std::uint64_t page = os::page_bytes();
  return vacate(base() + offset / page * page, page) == 0;
}

bool AnyOrderStream::is_vacant(std::uint64_t index) const noexcept {
  const HeldBlock* const held = held_.find(index);
  return index < transfers_.blocks() &&
         (held == nullptr || held->state != HeldBlock::State::kPlaced);
}

// ---- Growing and shrinking.

void AnyOrderStream::resize(std::uint64_t length, BlockFile& file) {
  if (length > reserved_bytes() || address_space(length, block_bytes_) > reserved_bytes()) {
    throw Error(EFBIG, "stream '" + name() + "': cannot grow to " + format_bytes(length) +
                           ": the reservation is for " +
                           format_bytes(reserved_bytes() - block_bytes_) + ": raise reserve_bytes");
  }
  // Filler behind the new end would pass for a block once the file grows again.
  clear_filler();
  ServiceLock lock(*this);
  const std::uint64_t before = transfers_.length();
  if (length == before) return;
  // The block at the border is put together anew, and those behind it go; nobody may touch them
  // meanwhile, nor the disk.
  transfers_.drain();
  take_away_from(std::min(length, before) / block_bytes_);
  transfers_.resize(length);
  try {
    file.truncate(file.begin() + length);
  } catch (...) {
    transfers_.resize(before);
    throw;
  }
  // A block may lie there now, and takes its place then.
  if (std::exchange(filler_placed_, false)) {
    const std::uint64_t page = os::page_bytes();
    vacate(base() + detail::round_up(before, page), page);
  }
  cut_off(std::min(length, before));
  // A fault may have been refused and filled before the lock was taken.
  const std::uint64_t border = std::min(length, before) / block_bytes_ * block_bytes_;
  const std::uint64_t end = std::min(detail::round_up(before, block_bytes_), reserved_bytes());
  if (border < end) vacate(base() + border, static_cast<std::size_t>(end - border));
}

void AnyOrderStream::take_away_from(std::uint64_t index) {
  held_.for_each([&](HeldBlock& held) {
    if (held.state != HeldBlock::State::kPlaced || held.index < index) return;
    if (const int error = take_away(held)) {
      throw Error(error, "stream '" + name() + "': " + cannot_move_block(error));
    }
  });
}

// Nothing is left of what lay behind `length`, where the file ends or went on before.
void AnyOrderStream::cut_off(std::uint64_t length) noexcept {
  for (Cursor& cursor : cursors_.all()) {
    if (!cursor.live || std::max(cursor.head, cursor.reach) < length / block_bytes_) continue;
    forget_ahead(cursor, 1, cursor.distance(cursor.reach));
    cursor.live = false;
  }
  const std::uint64_t border = length / block_bytes_;
  const auto kept = static_cast<std::size_t>(length % block_bytes_);
  held_.for_each([&](HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || held.index < border) return;
    if (held.index == border && kept != 0 && held.error == 0) {
      std::memset(quota_.pool().home(held.block) + kept, 0, block_bytes_ - kept);
      held.bytes = transfers_.bytes_of(border);
      return;
    }
    let_go(held);
  });
}

// ---- System calls.

void AnyOrderStream::expect_within(std::uint64_t offset, std::size_t bytes) const {
  const std::uint64_t length = transfers_.length();
  if (offset <= length && bytes <= length - offset) return;
  throw Error(ERANGE, "stream '" + name() + "': cannot place " + std::to_string(bytes) +
                          " bytes at offset " + std::to_string(offset) + ": the data end at " +
                          std::to_string(length));
}

void AnyOrderStream::prefault(std::uint64_t offset, std::size_t bytes, Access access) {
  if (bytes == 0) return;
  expect_within(offset, bytes);
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
  if (last - first >= kept_) {
    throw Error(EINVAL, "stream '" + name() + "': the range to place spans " +
                            std::to_string(last - first + 1) + " blocks, and " +
                            std::to_string(kept_) + " stay: raise the comeback");
  }
  Failure failed;
  {
    ServiceLock lock(*this);
    expect_within(offset, bytes);  // the length may have changed
    forget_refusal();
    for (std::uint64_t index = first; index <= last; ++index) {
      HeldBlock* const held = held_.find(index);
      if (held != nullptr && held->state == HeldBlock::State::kPlaced &&
          (access == Access::kRead || held->writable)) {
        held_.touch(*held);
      } else if (!serve_locked(access, std::max(offset, index * block_bytes_))) {
        break;
      }
    }
    failed = failure();
  }
  failed.throw_if_failed();
}

const std::byte* AnyOrderStream::home_of(const void* at) noexcept {
  if (inherited()) return nullptr;  // by a forked child, in which others may hold the lock
  std::lock_guard lock(mutex());
  const auto* const byte = static_cast<const std::byte*>(at);
  if (byte < base() || byte >= base() + reserved_bytes()) return nullptr;
  const auto offset = static_cast<std::uint64_t>(byte - base());
  const HeldBlock* const held = held_.find(offset / block_bytes_);
  if (held == nullptr || held->state != HeldBlock::State::kPlaced) return nullptr;
  BlockPool& pool = quota_.pool();
  return pool.aliases() ? pool.home(held->block) + offset % block_bytes_ : byte;
}

}}  // namespace vortex::v0
