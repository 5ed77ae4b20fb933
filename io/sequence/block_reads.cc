#include "io/sequence/block_reads.h"

#include <algorithm>
#include <cerrno>

#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

void BlockReads::start(PlacedRequest& read, FileLayout& layout, const Range& range,
                       std::span<const Block> blocks, Pieces* pieces, bool more_to_come) noexcept {
  const FileLayout::Place place = layout.locate(range.unit, range.unit_bytes);
  const BlockFile& file = *place.file;
  bool direct = file.direct_descriptor() >= 0 && caching_ != Caching::kBuffered;
  if (direct && caching_ == Caching::kAuto) {
    direct = !page_cache_.worth_reading_through(file.descriptor(), place.offset + range.begin,
                                                range.bytes);
  }
  Request& request = read.request;
  request.set_memory(pool_.home(blocks.front()), pool_.block_bytes());
  if (blocks.size() > 1) {
    request.pieces = pieces;
    request.piece_count = static_cast<unsigned>(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) pieces->begins[i] = pool_.home(blocks[i]);
  }
  read.aim(Operation::kRead, place, range.begin, range.bytes, direct);
  counters_.count_request(range.bytes, !direct);
  place.disk->submit(request, more_to_come);
}

bool BlockReads::await(PlacedRequest& read, const std::atomic<bool>& stop) noexcept {
  if (!read.request.under_way()) return true;
  const std::uint64_t begin = steady_now_ns();
  const bool ended = read.place.disk->wait(read.request, &stop);
  counters_.count_wait(steady_now_ns() - begin);
  return ended;
}

int BlockReads::error_before(const Request& read, std::size_t bytes) noexcept {
  if (read.bytes_done >= std::min(bytes, read.wanted_bytes())) return 0;
  return read.error != 0 ? read.error : ENODATA;
}

Status BlockReads::failed(const FileLayout& layout, const FileLayout::Place& place,
                          std::uint64_t offset, int error) noexcept {
  cause_ = {};
  if (error != ENODATA) cause_.text("reading ");
  layout.describe(place, cause_);
  cause_.text(error == ENODATA ? " ends at byte " : " at byte ").number(offset);
  const std::uint64_t before = place.file->length();
  if (error == ENODATA && before > offset) {
    cause_.text(" and was ").number(before).text(" long when it was opened");
  }
  return {error, cause_.c_str()};
}

}}  // namespace vortex::v0
