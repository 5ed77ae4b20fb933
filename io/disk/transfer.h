// The system call behind an attempt.
#pragma once

#include <cstdint>

#include "io/disk/request.h"

namespace vortex { inline namespace v0 {

// Carries out the attempt with preadv or pwritev (readv or writev where the descriptor cannot seek)
// and returns the bytes moved or a negative errno value. Keeps errno.
std::int64_t transfer(const Attempt& attempt) noexcept;

// The same for a descriptor that poll(2) says is ready: moves what a pipe or a socket takes now,
// and does not wait for its other side to make room for all.
std::int64_t transfer_at_once(const Attempt& attempt) noexcept;

}}  // namespace vortex::v0
