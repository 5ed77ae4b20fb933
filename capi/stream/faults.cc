#include <cerrno>
#include <string>

#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"

int vtx_receive_faults(int engine) {
  using vortex::Engine;
  using vortex::FaultDispatcher;
  return vortex::capi::answer(vortex::capi::thread_error(), [engine] {
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
  return vortex::capi::answer(vortex::capi::thread_error(),
                              [] { vortex::FaultDispatcher::instance().reclaim(); });
}
