#include "io/sequence/file_layout.h"

#include "vortex/detail/stream/saturating.h"

void std::default_delete<vortex::FileLayout>::operator()(
    vortex::FileLayout* layout) const noexcept {
  delete layout;
}

namespace vortex { inline namespace v0 {

void PlacedRequest::aim(Operation operation, const FileLayout::Place& where, std::size_t begin,
                        std::size_t bytes, bool direct) noexcept {
  place = where;
  const BlockFile& file = *place.file;
  const bool around = direct && file.direct_descriptor() >= 0;
  const bool sequential = place.offset == Request::kSequential;
  request.operation = operation;
  request.file = around ? file.direct_descriptor() : file.descriptor();
  request.offset = sequential ? Request::kSequential : place.offset + begin;
  request.alignment = around ? file.alignment() : 1;
  request.bytes = detail::round_up(bytes, request.alignment);
  request.least_bytes = operation == Operation::kRead && !sequential ? bytes : 0;
  // What is read through the page cache lies there, or comes ahead of the reader.
  request.copies = !sequential && (file.in_memory() || (operation == Operation::kRead && !around));
}

}}  // namespace vortex::v0
