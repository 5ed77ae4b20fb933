// The mark of the names that a shared library shows to others.
#pragma once

// Marks classes and functions that users call, and those that one of our libraries calls in
// another. Everything else is hidden in its library.
#define VORTEX_EXPORT __attribute__((visibility("default")))
