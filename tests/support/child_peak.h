// The peak of memory that a piece of work takes, alone, and the memory that an error names.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

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

// The resident bytes of files: programs and libraries, whose pages the kernel maps by its own
// measure.
inline std::uint64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word && word != "RssFile:") continue;
  EXPECT_TRUE(status >> kib);
  return kib * 1024;
}

// The same beyond what the child had before, and without what it maps of programs and libraries
// meanwhile: it is not the work's, and differs from machine to machine.
inline std::uint64_t peak_beyond_start(const std::function<void()>& work) {
  int channel[2];
  EXPECT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    const std::uint64_t files_before = resident_file_bytes();
    getrusage(RUSAGE_SELF, &before);
    work();
    getrusage(RUSAGE_SELF, &after);
    const std::uint64_t files = resident_file_bytes() - files_before;
    const std::uint64_t peak =
        static_cast<std::uint64_t>(after.ru_maxrss - before.ru_maxrss) * 1024 - files;
    _exit(write(channel[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
  }
  close(channel[1]);
  std::uint64_t peak = 0;
  EXPECT_EQ(read(channel[0], &peak, sizeof peak), static_cast<ssize_t>(sizeof peak));
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return peak;
}

// What "at least SIZE" in a message means, as people read it; 0: it says no such thing.
inline std::uint64_t named_memory(const std::string& message) {
  const std::size_t at = message.find("at least ");
  if (at == std::string::npos) return 0;
  std::istringstream words(message.substr(at + 9));
  double number = 0;
  std::string unit;
  words >> number >> unit;
  double bytes = number;
  for (const char* name : {"KiB", "MiB", "GiB"}) {
    bytes *= 1024;
    if (unit == name) return static_cast<std::uint64_t>(bytes);
  }
  return static_cast<std::uint64_t>(number);
}

}  // namespace vortex::test
