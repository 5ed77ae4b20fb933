// What all headers share: which version of the library this is, what they need of the compiler, and
// the mark of the names that a shared library shows to others. The macros are for C as well.
#pragma once

// The headers for C do not ask for it.
#if defined(__cplusplus) && __cplusplus < 202002L && !defined(VORTEX_FOR_C)
#error "vortex needs C++20: compile with -std=c++20"
#endif

#define VORTEX_VERSION_MAJOR 0
#define VORTEX_VERSION_MINOR 1
#define VORTEX_VERSION_PATCH 0
// One number that grows with the version, to compare with: 0.1.0 is 100.
#define VORTEX_VERSION_NUMBER \
  (VORTEX_VERSION_MAJOR * 10000 + VORTEX_VERSION_MINOR * 100 + VORTEX_VERSION_PATCH)
#define VORTEX_VERSION_STRING "0.1.0"

// Marks classes and functions that users call, and those that one of our libraries calls in
// another. Everything else is hidden in its library.
#define VORTEX_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus

// Names of the library are in the inline namespace vortex::v0. While the major version is 0, each
// minor version may break the interface, and the soname says so.
namespace vortex { inline namespace v0 {

// The version of the library that the program runs with, as the macros above give the one that it
// was compiled with: "0.1.0". Part of vortex-streams. Thread-safe, never fails.
VORTEX_EXPORT const char* version() noexcept;

}}  // namespace vortex::v0

#endif
