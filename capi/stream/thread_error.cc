#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace capi {

ErrorText& thread_error() noexcept {
  static thread_local ErrorText text;
  return text;
}

}}}  // namespace vortex::v0::capi

const char* vtx_version(void) { return vortex::version(); }

const char* vtx_strerror(const void* handle) {
  if (handle == nullptr) return vortex::capi::thread_error().c_str();
  return static_cast<const vortex::capi::Handle*>(handle)->error().c_str();
}
