#include "io/file/file_layout.h"

void std::default_delete<vortex::FileLayout>::operator()(
    vortex::FileLayout* layout) const noexcept {
  delete layout;
}

namespace vortex::inline v0 {

void aim(Request& request, Operation operation, const FileLayout::Place& place, std::size_t bytes,
         bool direct) noexcept {
  const BlockFile& file = *place.file;
  const bool around = direct && file.direct_descriptor() >= 0;
  request.operation = operation;
  request.file = around ? file.direct_descriptor() : file.descriptor();
  request.offset = place.offset;
  request.alignment = around ? file.alignment() : 1;
  request.bytes = (bytes + request.alignment - 1) / request.alignment * request.alignment;
  request.least_bytes = operation == Operation::kRead ? bytes : 0;
}

}  // namespace vortex::inline v0
