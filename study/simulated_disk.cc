#include "study/simulated_disk.h"

#include <utility>

#include "io/disk/request.h"
#include "vortex/fault/diagnostics.h"

namespace vortex { inline namespace v0 {

SimulatedDisk::SimulatedDisk(VirtualClock& clock, ServiceModel model, DiskOptions options)
    : Disk(std::move(options), 1), clock_(clock), service_(model) {}

SimulatedDisk::~SimulatedDisk() { drain(); }

void SimulatedDisk::start(Request& request) noexcept {
  if (served_ != nullptr) {
    backlog_.push(request);
    return;
  }
  served_ = &request;
  clock_.schedule(*this, service_.serve(request.attempt(), clock_.now_ns()));
}

void SimulatedDisk::happen() noexcept {
  Request& request = *std::exchange(served_, nullptr);
  const Attempt& attempt = request.attempt();
  const std::int64_t result =
      attempt.file >= 0 ? transfer(attempt) : static_cast<std::int64_t>(attempt.bytes);
  if (Request* const next = backlog_.pop()) start(*next);
  arrived(request, result);
}

void SimulatedDisk::await_progress(std::uint32_t seen) noexcept {
  if (progress() != seen || clock_.step()) return;
  fatal("vortex: a wait for a simulated disk would never end: nothing is going to happen");
}

}}  // namespace vortex::v0
