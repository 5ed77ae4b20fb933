// Sanitizers, for the tests in C: SANITIZED where one brings the heap, THREAD_SANITIZER where it is
// that one, and their options.
#pragma once

#ifndef __has_feature
#define __has_feature(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#if defined(THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif

#if __has_feature(thread_sanitizer)
// An error of a callback allocates inside a fault, and pools that no machine has are asked for;
// both are promised to work. Races are what these tests are run for.
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) {
  return "report_signal_unsafe=0:allocator_may_return_null=1";
}
#endif
