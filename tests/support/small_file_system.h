// File systems with little room, made for a test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace vortex::test {

// Its exit status, as of system(3).
inline int run_command(const std::string& command) {
  return std::system(("PATH=$PATH:/usr/sbin:/sbin; " + command + " >/dev/null 2>&1").c_str());
}

// "tmpfs" (0 bytes: without a limit, which it then does not tell), "ramfs" (which never has one),
// "overlay" (over the temporary folder), or one of a loop device, as "ext4", "xfs" and "exfat-fuse"
// (which a program serves); in a mount namespace of the test's own, so that nothing is left of it
// however the test ends. `refusal` says why there is none.
class SmallFileSystem {
 public:
  SmallFileSystem(const std::string& type, std::uint64_t bytes,
                  const std::filesystem::path& where = std::filesystem::temp_directory_path())
      : folder(where) {
    std::string options;
    if (type == "tmpfs") options = "size=" + std::to_string(bytes);
    if (type == "overlay") {
      for (const std::string name : {"lower", "upper", "work"}) {
        std::filesystem::create_directory(folder.path() / name);
        options += (options.empty() ? "" : ",") + name + "dir=" + folder.file(name);
      }
    }
    if (geteuid() != 0) {
      refusal = "mounting a file system needs root";
    } else if (unshare(CLONE_NEWNS) != 0 ||
               mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      refusal = std::string("no mount namespace of its own: ") + std::strerror(errno);
    } else if (type == "tmpfs" || type == "ramfs" || type == "overlay") {
      if (mount(type.c_str(), root.c_str(), type.c_str(), 0, options.c_str()) != 0) {
        refusal = "no " + type + " can be mounted: " + std::strerror(errno);
      }
    } else {
      environment = Environment::kLoopDevices;
      const std::string image = folder.file("image");
      std::ofstream(image).close();
      const std::string made = type.substr(0, type.find('-'));
      options = type == "ext4" ? "-q -F -m 0" : made.ends_with("fat") ? "" : "-q -f";
      if (truncate(image.c_str(), static_cast<off_t>(bytes)) != 0 ||
          run_command("mkfs." + made + " " + options + " '" + image + "'") != 0 ||
          run_command("mount -t " + type + " -o loop '" + image + "' '" + root + "'") != 0) {
        refusal =
            "no " + type + " can be made and mounted with mkfs." + made + " and a loop device";
      }
    }
    mounted_ = refusal.empty();
  }
  ~SmallFileSystem() {
    if (mounted_) umount2(root.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;

  std::uint64_t free_bytes() const {
    struct statvfs status {};
    EXPECT_EQ(statvfs(root.c_str(), &status), 0);
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }
  // Another file takes all but so many bytes, or no space at all.
  void leave(std::uint64_t bytes) const {
    unlink(file("ballast").c_str());
    const int ballast = open(file("ballast").c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_GE(ballast, 0);
    // Requests that are under way may take some meanwhile.
    std::uint64_t taken = 0;
    for (std::uint64_t free; (free = free_bytes()) > bytes;) {
      const int error =
          posix_fallocate(ballast, static_cast<off_t>(taken), static_cast<off_t>(free - bytes));
      if (error == ENOSPC) continue;
      ASSERT_EQ(error, 0);
      taken += free - bytes;
    }
    close(ballast);
  }
  std::string file(const std::string& name) const { return root + "/" + name; }

  const TemporaryFolder folder;
  const std::string root = [this] {
    std::filesystem::create_directory(folder.path() / "root");
    return folder.file("root");
  }();
  std::string refusal;
  // The environment that it needs.
  Environment environment = Environment::kMounts;

 private:
  bool mounted_ = false;
};

}  // namespace vortex::test
