// Tests in a process of their own, from which the kernel's services can be taken away.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>

namespace vortex::test {

// Runs the body in a child process and returns its exit status; the body returns it, too.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Likewise, of a body that returns 0 or tells where it went wrong.
inline void expect_in_child(const std::function<int()>& body) { EXPECT_EQ(in_child(body), 0); }

// Ends a child whose other threads may be gone or not, which a race detector would complain of.
[[noreturn]] inline void end_process(int status) {
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

// In every thread of the process.
template <std::size_t kLength>
bool filter_calls(std::array<sock_filter, kLength>& program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

// As containers do: the system call answers `error`, in this process from now on.
inline bool refuse_call(unsigned number, int error) {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return filter_calls(program);
}

// The same where argument `index` is `value`, as far as its lower half tells.
inline bool refuse_call_with(unsigned number, unsigned index, unsigned value, int error) {
  const auto offset = static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * index);
  std::array<sock_filter, 6> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return filter_calls(program);
}

// The same where argument `index` has one of the flags.
inline bool refuse_flags(unsigned number, unsigned index, unsigned flags, int error) {
  const auto offset = static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * index);
  std::array<sock_filter, 6> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return filter_calls(program);
}

// As file systems do that have no files without a name.
inline bool refuse_nameless_files() {
  return refuse_flags(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP);
}

}  // namespace vortex::test
