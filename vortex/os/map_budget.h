// The kernel's limit on maps, shared by all pools of the process.
#pragma once

#include <cstddef>
#include <string>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A claim on a number of kernel maps, held for as long as the object lives. Blocks placed in order
// share one map; in the worst case each placed block costs two (itself and the reservation behind
// it), and a process that exceeds vm.max_map_count gets a bare ENOMEM from calls that need no
// memory. So pools claim their worst case when they are made.
class VORTEX_EXPORT MapBudget {
 public:
  // Throws Error(ENOMEM) naming vm.max_map_count and the value that would do. `what` says who asks.
  MapBudget(std::size_t maps, const std::string& what);
  ~MapBudget();
  MapBudget(const MapBudget&) = delete;
  MapBudget& operator=(const MapBudget&) = delete;

  // Claims more, up to `maps` in all. Throws as the constructor does, with nothing changed. For
  // one thread at a time.
  void raise(std::size_t maps, const std::string& what);

  // Maps that are still to be had: 7/8 of the limit is ours, the rest is left to the program.
  static std::size_t available() noexcept;
  // Maps claimed by all pools alive.
  static std::size_t claimed() noexcept;

 private:
  static void claim(std::size_t maps, const std::string& what);

  std::size_t maps_;
};

}}  // namespace vortex::v0
