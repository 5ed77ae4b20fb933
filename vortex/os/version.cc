#include "vortex/version.h"

namespace vortex { inline namespace v0 {

const char* version() noexcept { return VORTEX_VERSION_STRING; }

}}  // namespace vortex::v0
