// A disk of exact speed on virtual time.
#pragma once

#include "io/disk/disk.h"
#include "study/service_clock.h"
#include "study/virtual_clock.h"

namespace vortex { inline namespace v0 {

// Serves one request at a time, as long as the service model says, on the clock of a simulation.
// The bytes are moved with plain system calls at the moment of completion (use files in memory);
// requests for file -1 move nothing and always succeed, for simulations of order and time alone.
//
// wait() and drain() make time pass. For one thread. Waiting for a request that cannot end, because
// no event is pending, ends the process with a line that says so.
class SimulatedDisk final : public Disk, private VirtualEvent {
 public:
  SimulatedDisk(VirtualClock& clock, ServiceModel model, DiskOptions options = {});
  ~SimulatedDisk() override;

  const ServiceClock& service() const noexcept { return service_; }

  std::uint64_t now_ns() const noexcept override { return clock_.now_ns(); }
  void await_progress(std::uint32_t seen) noexcept override;

 private:
  const char* backend() const noexcept override { return "simulated (virtual time)"; }
  void start(Request& request) noexcept override;
  void happen() noexcept override;

  VirtualClock& clock_;
  ServiceClock service_;
  Request* served_ = nullptr;
  RequestQueue backlog_;  // resubmitted while another is served
};

}}  // namespace vortex::v0
