// The part of linux/userfaultfd.h that came with Linux 6.6 and 6.8, for older headers.
#pragma once

#include <linux/userfaultfd.h>

#include <cstdint>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)  // Linux 6.1
#endif

namespace vortex::inline v0::os {

inline constexpr std::uint64_t kUffdFeaturePoison = std::uint64_t{1} << 14;  // Linux 6.6
inline constexpr std::uint64_t kUffdFeatureMove = std::uint64_t{1} << 16;    // Linux 6.8

// The kernel's struct uffdio_poison.
struct UffdPoison {
  uffdio_range range;
  std::uint64_t mode;
  std::int64_t updated;
};
inline constexpr unsigned long kUffdPoison = _IOWR(UFFDIO, 0x08, UffdPoison);

// The kernel's struct uffdio_move.
struct UffdMove {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t bytes;
  std::uint64_t mode;
  std::int64_t moved;
};
inline constexpr unsigned long kUffdMove = _IOWR(UFFDIO, 0x05, UffdMove);
inline constexpr std::uint64_t kUffdMoveDontWake = 1;

}  // namespace vortex::inline v0::os
