// Which sanitizer a test runs under: its shadow memory changes what can be measured or limited.
#pragma once

namespace vortex::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VORTEX_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define VORTEX_TEST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define VORTEX_TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define VORTEX_TEST_TSAN 1
#endif

#ifdef VORTEX_TEST_ASAN
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#ifdef VORTEX_TEST_TSAN
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kShadowMemory = kAddressSanitizer || kThreadSanitizer;

}  // namespace vortex::test
