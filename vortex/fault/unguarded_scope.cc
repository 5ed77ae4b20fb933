#include "vortex/fault/unguarded_scope.h"

#include <utility>

#include "vortex/engine/thread_state.h"

namespace vortex { inline namespace v0 {

UnguardedScope::UnguardedScope() noexcept : hidden_(std::exchange(thread_state().guard, nullptr)) {}

UnguardedScope::~UnguardedScope() { thread_state().guard = hidden_; }

}}  // namespace vortex::v0
