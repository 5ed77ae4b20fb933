// The interface by which a page fault reaches the stream that has to serve it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/error.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 {

struct Fault {
  std::byte* address = nullptr;
  Access access = Access::kUnknown;
  std::int32_t thread = 0;  // whose access it was; 0: the calling thread's
  // Another thread's, which may have been interrupted by a signal, have seen its data on a second
  // attempt, and have gone on long ago.
  bool doubtful = false;
};

class Region;

// Serves the faults of a region. Called inside the signal handler, on the faulting thread, or on a
// thread of the engine's while the faulting one sleeps: no allocation, no exceptions, no lock that
// user code can hold.
class FaultServer {
 public:
  // Makes the access possible and returns true; the instruction then runs again. Or says why not.
  virtual bool serve(const Fault& fault, Failure& why) noexcept = 0;

  // serve() has refused the access of the calling thread, which has nothing to go back to. Makes it
  // possible all the same, by what is no data, and returns true; the failure then goes to `call`,
  // unless another try went better.
  virtual bool fill(const Fault&, Stream::FailureCall&) noexcept { return false; }

  // A fault that user code caused while serve() ran it (a callback that read another stream)
  // failed, and control leaves serve() for good, from the middle. Release what serve() holds and
  // mark the region as failed because of `inner`.
  virtual void abandon(const Failure& inner) noexcept = 0;

  // The access was refused, and the page is there (for reads): it goes, so that the access can
  // fail. For engines that do not interrupt whoever made it.
  virtual void withhold(const Fault&) noexcept {}

  // An access at this address was refused, and the page answers so ever after. Makes it as it was
  // before and returns true where another try may go better. For the same engines.
  virtual bool readmit(std::byte* /*address*/) noexcept { return false; }

 protected:
  ~FaultServer() = default;
};

}}  // namespace vortex::v0
