// The calls without handles: the version, errors, guarded scopes, and how faults reach the library.
#include <cerrno>
#include <string>

#include "capi/stream/handle.h"
#include "capi/stream/stream_fields.h"
#include "vortex/c.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace capi {

ErrorText& thread_error() noexcept {
  static thread_local ErrorText text;
  return text;
}

}}}  // namespace vortex::v0::capi

using vortex::Engine;
using vortex::FaultDispatcher;
using vortex::capi::answer;
using vortex::capi::thread_error;

const char* vtx_version(void) { return vortex::version(); }

const char* vtx_strerror(const void* handle) {
  if (handle == nullptr) return thread_error().c_str();
  return static_cast<const vortex::capi::Handle*>(handle)->error().c_str();
}

// The jump ends in this frame, which has nothing to destroy. It goes over the body alone: other
// code of the library that runs on the way is inside an UnguardedScope, or calls back into a
// guarded scope of its own.
int vtx_guarded(void (*body)(void* context), void* context) {
  const vortex::Failure failure = vortex::guarded([=] { body(context); });
  if (!failure) return 0;
  return answer(thread_error(), [&] { failure.throw_if_failed(); });
}

int vtx_receive_faults(int engine) {
  return answer(thread_error(), [engine] {
    FaultDispatcher& dispatcher = FaultDispatcher::instance();
    switch (engine) {
      case VTX_ENGINE_DEFAULT:
        return dispatcher.start();
      case VTX_ENGINE_SIGNAL:
        return dispatcher.start(FaultDispatcher::compiled_in(Engine::kLibsigsegv)
                                    ? Engine::kLibsigsegv
                                    : Engine::kNative);
      case VTX_ENGINE_USERFAULTFD:
        return dispatcher.start(Engine::kUserfaultfd);
      default:
        throw vortex::Error(EINVAL, "an engine is a vtx_engine, not " + std::to_string(engine));
    }
  });
}

int vtx_reclaim_faults(void) {
  return answer(thread_error(), [] { FaultDispatcher::instance().reclaim(); });
}

int vtx_release_faults(void) {
  return answer(thread_error(), [] { FaultDispatcher::instance().stop(); });
}

int vtx_fault_statistics(vtx_fault_counts* counts) {
  return answer(thread_error(), [&] {
    vortex::capi::expect_place(counts);
    vortex::capi::tell_fields(FaultDispatcher::instance().statistics(), *counts);
  });
}
