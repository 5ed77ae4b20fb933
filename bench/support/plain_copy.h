// A file copied by direct requests and nothing else: what a disk takes to read and write at once.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace vortex::bench {

// Copies `from`, whose length is a multiple of 4096 bytes, to a new file, with pread(2) and
// pwrite(2) of 512 KiB by eight threads, and syncs that; larger and smaller requests, more and
// fewer threads were no faster. None of the code that is measured against it takes part. Throws
// std::system_error.
inline void copy_plainly(const std::string& from, const std::string& to) {
  constexpr std::size_t kRequest = std::size_t{512} << 10;
  constexpr std::size_t kPage = 4096;
  constexpr int kThreads = 8;
  const auto check = [](bool good, const std::string& what) {
    if (!good) throw std::system_error(errno, std::generic_category(), what);
  };
  const int input = open(from.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  check(input >= 0, from);
  const int output = open(to.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
  check(output >= 0, to);
  struct stat status {};
  check(fstat(input, &status) == 0, from);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  check(fallocate(output, 0, 0, status.st_size) == 0, to);
  std::atomic<std::size_t> next{0};
  std::atomic<int> error{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const std::unique_ptr<void, decltype(&std::free)> memory(
            std::aligned_alloc(kPage, kRequest), &std::free);
        for (;;) {
          const std::size_t at = next.fetch_add(kRequest);
          if (at >= bytes) return;
          const std::size_t some = std::min(kRequest, bytes - at);
          const auto offset = static_cast<off_t>(at);
          if (pread(input, memory.get(), some, offset) != static_cast<ssize_t>(some) ||
              pwrite(output, memory.get(), some, offset) != static_cast<ssize_t>(some)) {
            error = errno == 0 ? EIO : errno;
            return;
          }
        }
      });
    }
  }
  errno = error;
  check(error == 0 && fdatasync(output) == 0, to);
  close(input);
  close(output);
}

}  // namespace vortex::bench
