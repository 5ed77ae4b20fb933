// Threads of ours inside somebody's program.
#pragma once

#include <pthread.h>

namespace vortex::inline v0 {

// Starts a thread with all signals blocked, so that it never runs a handler of the program. Returns
// 0 or an errno value.
int start_masked_thread(pthread_t* thread, void* (*run)(void*), void* argument) noexcept;

}  // namespace vortex::inline v0
