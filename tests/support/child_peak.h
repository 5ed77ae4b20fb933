// The peak of memory that a piece of work takes, alone.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>

namespace vortex::test {

// The resident bytes of a child that does the work, at their peak, as the kernel counts them. An
// error of the child fails the test, and its text is on stderr.
inline std::uint64_t peak_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      static_cast<void>(!write(STDERR_FILENO, error.what(), std::strlen(error.what())));
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace vortex::test
