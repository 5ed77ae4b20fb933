#include "io/sequence/block_transfers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/file/block_checksum.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
  counter.fetch_add(by, std::memory_order_relaxed);
}

std::uint64_t get(const std::atomic<std::uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

bool BlockTransfers::goes_direct(const FileLayout::Place& place, const Range& range) noexcept {
  const BlockFile& file = *place.file;
  if (file.direct_descriptor() < 0 || caching_ == Caching::kBuffered) return false;
  if (range.as_placed) return range.bytes % file.alignment() == 0;
  return operation_ == Operation::kWrite || caching_ != Caching::kAuto ||
         !page_cache_.worth_reading_through(file.descriptor(), place.offset + range.begin,
                                            range.bytes);
}

void BlockTransfers::start(PlacedRequest& transfer, FileLayout& layout, const Range& range,
                           std::span<const Block> blocks, Pieces* pieces,
                           bool more_to_come) noexcept {
  const FileLayout::Place place = layout.locate(range.unit, range.unit_bytes);
  const bool direct = goes_direct(place, range);
  Request& request = transfer.request;
  const auto memory_of = [&](Block block) {
    return range.as_placed ? pool_.where(block) : pool_.home(block);
  };
  request.set_memory(memory_of(blocks.front()), pool_.block_bytes());
  if (blocks.size() > 1) {
    request.pieces = pieces;
    request.piece_count = static_cast<unsigned>(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) pieces->begins[i] = memory_of(blocks[i]);
  }
  transfer.aim(operation_, place, range.begin, range.bytes, direct);
  if (operation_ == Operation::kWrite && request.bytes > range.bytes) {
    // It is cut off in the end, and must not be seen meanwhile.
    const std::size_t used = range.bytes - (blocks.size() - 1) * pool_.block_bytes();
    std::memset(memory_of(blocks.back()) + used, 0, request.bytes - range.bytes);
  }
  if (!range.again) {
    add(requests_, 1);
    add(cached_requests_, direct ? 0 : 1);
    add(bytes_, range.bytes);
  }
  place.disk->submit(request, more_to_come);
}

bool BlockTransfers::await(PlacedRequest& transfer, const std::atomic<bool>& stop) noexcept {
  if (!transfer.request.under_way()) return true;
  const std::uint64_t begin = steady_now_ns();
  const bool ended = transfer.place.disk->wait(transfer.request, &stop);
  add(waits_, 1);
  add(waited_ns_, steady_now_ns() - begin);
  return ended;
}

int BlockTransfers::error_before(const Request& read, std::size_t bytes) noexcept {
  if (read.bytes_done >= std::min(bytes, read.wanted_bytes())) return 0;
  return read.error != 0 ? read.error : ENODATA;
}

Status BlockTransfers::failed(const FileLayout& layout, const FileLayout::Place& place,
                              std::uint64_t offset, int error) noexcept {
  const bool ended = operation_ == Operation::kRead && error == ENODATA;
  cause_ = {};
  if (!ended) cause_.text(operation_ == Operation::kRead ? "reading " : "writing ");
  if (place.file != nullptr) {
    layout.describe(place, cause_);
  } else {
    cause_.text("'").text(layout.name()).text("'");
  }
  cause_.text(ended ? " ends at byte " : " at byte ").number(offset);
  if (operation_ == Operation::kWrite) {
    if (const char* const way_out = layout.way_out(error)) cause_.text("; ").text(way_out);
  } else if (ended && place.file->length() > offset) {
    cause_.text(" and was ").number(place.file->length()).text(" long when it was opened");
  } else if (error == EBADMSG) {
    cause_.text(kOtherBytes);
  }
  return {error, cause_.c_str()};
}

TransferStatistics BlockTransfers::statistics() const noexcept {
  return {.requests = get(requests_),
          .cached_requests = get(cached_requests_),
          .bytes = get(bytes_),
          .waits = get(waits_),
          .waited_ns = get(waited_ns_)};
}

}}  // namespace vortex::v0
