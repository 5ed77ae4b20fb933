#include "io/file/file_layout.h"

void std::default_delete<vortex::FileLayout>::operator()(
    vortex::FileLayout* layout) const noexcept {
  delete layout;
}
