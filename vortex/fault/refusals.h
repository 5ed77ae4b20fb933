// Accesses that could not be served, on their way from the thread that found out to the thread that
// made them.
#pragma once

#include <cstdint>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

class Region;

// The calling thread enters or leaves an outermost guarded scope.
void enter_guarded() noexcept;
void leave_guarded() noexcept;

// Keeps why an access of `thread` to the region, which is pinned, was refused. An instruction of
// the program's asks with take_refusal() when the thread runs again. A system call gets no signal:
// the failure is kept for the guarded scope that the thread is in; outside of one a line on stderr
// tells.
void keep_refusal(std::int32_t thread, const Region& region, const Failure& failure) noexcept;

// The refusal of an instruction of the calling thread, which is forgotten. False: there is none.
bool take_refusal(Failure* failure) noexcept;

// Before the memory of the region goes, and with it the bus errors that tell the threads: waits
// until its refusals have been taken, a fifth of a second at most, since a thread may have found
// its page there after all.
void await_refusals_taken(const Region& region) noexcept;

// The oldest failure kept for a system call of the calling thread, which is forgotten then; one
// that converts to false if there is none. Makes no system call when nothing ever failed.
Failure failure_of_call() noexcept;

}}  // namespace vortex::v0
