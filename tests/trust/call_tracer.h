// A child process of which one system call fails, the n-th of its kind, or all from that on.
#pragma once

#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/child_process.h"
#include "vortex/thread/masked_thread.h"

namespace vortex::test {

// A system call, and the error with which it fails.
struct FailingCall {
  const char* name;
  unsigned number;
  int error;
  unsigned device = 0;  // of ioctl(2): whose requests alone; 0: of all others
};

// On all architectures; headers before Linux 6.5 lack it.
inline constexpr unsigned kCachestat = 451;

// The letter of userfaultfd's requests, and those that end an access: waking, which cannot fail,
// and poisoning, for which the kernel needs a page table at most.
inline constexpr unsigned kUserfaultfd = 0xAA, kUserfaultfdWake = 0x02, kUserfaultfdPoison = 0x08;

// What may fail while programs run. Calls that cannot (close() gives the descriptor back whatever
// it returns), and those that only ask or wait, are left out, and so is brk(2), which the heap
// alone makes.
inline constexpr FailingCall kFailingCalls[] = {
    {"mmap", SYS_mmap, ENOMEM},
    {"mremap", SYS_mremap, ENOMEM},
    {"munmap", SYS_munmap, ENOMEM},
    {"madvise", SYS_madvise, ENOMEM},
    {"mprotect", SYS_mprotect, ENOMEM},
    {"mlock", SYS_mlock, ENOMEM},
    {"msync", SYS_msync, ENOMEM},
    {"fadvise64", SYS_fadvise64, EINVAL},
    {"memfd_create", SYS_memfd_create, EMFILE},
    {"openat", SYS_openat, EMFILE},
    {"ftruncate", SYS_ftruncate, EIO},
    {"fallocate", SYS_fallocate, ENOSPC},
    {"fsync", SYS_fsync, EIO},
    {"fdatasync", SYS_fdatasync, EIO},
    {"read", SYS_read, EIO},
    {"write", SYS_write, EIO},
    {"pread64", SYS_pread64, EIO},
    {"pwrite64", SYS_pwrite64, EIO},
    {"preadv", SYS_preadv, EIO},
    {"pwritev", SYS_pwritev, EIO},
    {"preadv2", SYS_preadv2, EIO},
    {"pwritev2", SYS_pwritev2, EIO},
    {"readv", SYS_readv, EIO},
    {"writev", SYS_writev, EIO},
    {"lseek", SYS_lseek, EIO},
    {"fstat", SYS_fstat, EIO},
    {"newfstatat", SYS_newfstatat, EIO},
    {"statx", SYS_statx, EIO},
    {"fstatfs", SYS_fstatfs, EIO},
    {"statfs", SYS_statfs, EIO},
    {"fcntl", SYS_fcntl, EBADF},
    {"ioctl", SYS_ioctl, EIO},
    {"userfaultfd", SYS_userfaultfd, EMFILE},
    {"ioctl of userfaultfd", SYS_ioctl, ENOMEM, kUserfaultfd},
    {"renameat", SYS_renameat, EIO},
    {"renameat2", SYS_renameat2, EIO},
    {"linkat", SYS_linkat, EIO},
    {"unlinkat", SYS_unlinkat, EIO},
    {"fchmod", SYS_fchmod, EPERM},
    {"fchown", SYS_fchown, EPERM},
    {"syncfs", SYS_syncfs, EIO},
    {"copy_file_range", SYS_copy_file_range, EIO},
    {"faccessat", SYS_faccessat, EACCES},
    {"faccessat2", SYS_faccessat2, EACCES},
    {"listxattr", SYS_listxattr, EIO},
    {"getxattr", SYS_getxattr, EIO},
    {"fremovexattr", SYS_fremovexattr, EIO},
    {"fsetxattr", SYS_fsetxattr, EIO},
    {"flistxattr", SYS_flistxattr, EIO},
    {"fgetxattr", SYS_fgetxattr, EIO},
    {"readlinkat", SYS_readlinkat, EIO},
    {"dup", SYS_dup, EMFILE},
    {"pipe2", SYS_pipe2, EMFILE},
    {"cachestat", kCachestat, EPERM},
    {"getrandom", SYS_getrandom, ENOSYS},
    {"eventfd2", SYS_eventfd2, EMFILE},
    {"io_uring_setup", SYS_io_uring_setup, ENOMEM},
    {"io_uring_register", SYS_io_uring_register, ENOMEM},
    {"io_uring_enter", SYS_io_uring_enter, ENOMEM},
    {"clone3", SYS_clone3, EAGAIN},
    {"clone", SYS_clone, EAGAIN},
    {"sched_getaffinity", SYS_sched_getaffinity, EPERM},
    {"sysinfo", SYS_sysinfo, EPERM},
    {"prlimit64", SYS_prlimit64, EPERM},
    {"sigaltstack", SYS_sigaltstack, ENOMEM},
    {"tgkill", SYS_tgkill, EPERM},
    {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, EPERM},
    {"poll", SYS_poll, ENOMEM},
    {"ppoll", SYS_ppoll, ENOMEM},
#ifdef SYS_open
    {"open", SYS_open, EMFILE},
    {"access", SYS_access, EACCES},
    {"dup2", SYS_dup2, EBUSY},
    {"stat", SYS_stat, EIO},
    {"lstat", SYS_lstat, EIO},
    {"rename", SYS_rename, EIO},
    {"link", SYS_link, EIO},
    {"unlink", SYS_unlink, EIO},
    {"readlink", SYS_readlink, EIO},
#endif
};
inline constexpr std::size_t kCallKinds = std::size(kFailingCalls);

inline std::size_t kind_of(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kFailingCalls), std::end(kFailingCalls),
                                         [&](const auto& call) { return call.name == name; });
  return static_cast<std::size_t>(found - kFailingCalls);
}

// Those that a signal may interrupt and that are made again then. Opening is not among them: an
// interruption is how a program leaves the wait for the other end of a pipe.
inline constexpr unsigned kInterruptedCalls[] = {
    SYS_ftruncate, SYS_fallocate, SYS_fsync,          SYS_read,    SYS_write,
    SYS_pread64,   SYS_pwrite64,  SYS_preadv,         SYS_pwritev, SYS_preadv2,
    SYS_pwritev2,  SYS_readv,     SYS_io_uring_enter, SYS_writev,  SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
};

// Lies in memory that both processes share. The child changes what is to fail while it runs.
struct CallLedger {
  std::atomic<bool> armed = false;
  std::atomic<bool> armed_by_exec = false;  // when the child becomes another program
  std::atomic<bool> lasting = false;
  std::atomic<std::uint64_t> at = 0;      // the call that fails, from 1 on; 0: none
  std::atomic<bool> interrupted = false;  // it fails with EINTR instead, as by a signal
  std::atomic<std::uint64_t> failed = 0;
  std::array<std::atomic<std::uint64_t>, kCallKinds> seen = {};  // while armed
  std::atomic<std::uint64_t> steps = 0;     // one that does not come in time is a hang
  std::array<char, 256> doing = {};         // the step, for messages
  std::atomic<std::uint64_t> tried = 0;     // the last call that was to fail
  std::atomic<std::uint64_t> injected = 0;  // failures, of which one that lasts counts once
  std::atomic<std::uint64_t> complaints = 0;
  std::atomic<int> listener = -1;   // the child's descriptor of the questions about its calls
  std::atomic<bool> begin = false;  // they are answered

  void arm(std::uint64_t call, bool and_later) noexcept {
    for (auto& count : seen) count = 0;
    failed = 0;
    at = call;
    lasting = and_later;
    armed = true;
  }
  void disarm() noexcept { armed = false; }
};

// How a child ended: by itself with this status, or after the time or the calls that a step may
// take; then `waits` tells what its threads waited for.
struct TracedEnd {
  int status = 0;
  bool hung = false;
  std::string waits;
  bool exited_with(int code) const {
    return !hung && WIFEXITED(status) && WEXITSTATUS(status) == code;
  }
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The file and offset of code at an address of a process; empty: there is none.
inline std::string place_of_code(const std::string& maps, std::uint64_t address) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t begin = 0, end = 0, offset = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx", &begin, &end, rights.data(), &offset) != 4 ||
        address < begin || address >= end || rights[2] != 'x') {
      continue;
    }
    std::ostringstream place;
    place << line.substr(line.rfind('/') + 1) << "+0x" << std::hex << address - begin + offset;
    return place.str();
  }
  return {};
}

// For each thread: its name, what it waits for in the kernel, its system call, and the code whose
// addresses lie on its stack, for `addr2line -e`.
inline std::string what_threads_wait_for(pid_t process) {
  const std::string root = "/proc/" + std::to_string(process);
  const std::string maps = text_of(root + "/maps");
  std::ostringstream out;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator(root + "/task", ignored)) {
    const std::string call = text_of(thread.path() / "syscall");
    out << text_of(thread.path() / "comm") << "  in " << text_of(thread.path() / "wchan")
        << ", system call " << call;
    std::istringstream words(call);
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    if (all.size() < 2) continue;
    const std::uint64_t stack = std::strtoull(all[all.size() - 2].c_str(), nullptr, 16);
    const std::uint64_t code = std::strtoull(all.back().c_str(), nullptr, 16);
    out << "  at " << place_of_code(maps, code);
    std::array<std::uint64_t, 512> words_of_stack{};
    const iovec here{words_of_stack.data(), sizeof words_of_stack};
    const iovec there{reinterpret_cast<void*>(stack), sizeof words_of_stack};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    for (ssize_t i = 0; i < got / 8; ++i) {
      const std::string place = place_of_code(maps, words_of_stack[static_cast<std::size_t>(i)]);
      if (!place.empty()) out << ' ' << place;
    }
    out << '\n';
  }
  return out.str();
}

// seccomp(2) asks this process what becomes of each call, those without a wrapper of the C library
// too, which liburing and fault handlers make. Of the kinds that are asked for alone: others run at
// full speed, and so do page faults, which ptrace(2) would stop at.
class CallTracer {
 public:
  // Twenty times what a step of the greatest job asks about, and ninety times what fails in one.
  static constexpr std::uint64_t kMostAnswers = std::uint64_t{1} << 16;

  // A child hangs that makes no step and asks about no call for so many seconds. So does one that
  // makes no step for so long and asks about more calls than that, as one does that makes a call
  // that fails again for ever; on a slow machine a step takes longer, but has no more calls.
  explicit CallTracer(int patience = 60, std::uint64_t most_answers = kMostAnswers)
      : patience_(patience), most_answers_(most_answers) {
    void* const shared = mmap(nullptr, sizeof(CallLedger), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ledger_ = new (shared) CallLedger;
  }
  ~CallTracer() { munmap(ledger_, sizeof *ledger_); }
  CallTracer(const CallTracer&) = delete;
  CallTracer& operator=(const CallTracer&) = delete;

  CallLedger& ledger() noexcept { return *ledger_; }

  // Why the kernel does not ask; empty: it does.
  std::string refusal() {
    const TracedEnd end = run({0}, [] { return 0; });
    return end.exited_with(0) ? "" : "seccomp(2) does not ask about calls here: " + end.waits;
  }

  // Runs the body in a child whose calls of these kinds are seen; it returns the exit status, or
  // becomes another program. The ledger is armed by the child, or by its exec.
  TracedEnd run(const std::vector<std::size_t>& kinds, const std::function<int()>& body) {
    ledger_->listener = -1;
    ledger_->begin = false;
    asked_ = kinds;
    const pid_t child = fork();
    if (child == 0) {
      ledger_->listener = ask_about(kinds);
      while (!ledger_->begin) sched_yield();
      if (ledger_->listener >= 0) close(ledger_->listener);
      end_process(ledger_->listener < 0 ? 98 : body());
    }
    TracedEnd end;
    const int process = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    pollfd ended{process, POLLIN, 0};
    while (ledger_->listener == -1 && poll(&ended, 1, 0) == 0) sched_yield();
    const int listener =
        static_cast<int>(syscall(SYS_pidfd_getfd, process, ledger_->listener.load(), 0));
    if (listener < 0) {
      end.waits = std::strerror(errno);
      kill(child, SIGKILL);
    }
    // Linux 6.6: who asks and who answers take turns on one processor, which is faster.
    constexpr std::uint64_t kSyncWakeUp = 1;
    ioctl(listener, _IOW('!', 4, std::uint64_t), kSyncWakeUp);
    ledger_->begin = true;
    if (listener >= 0) follow(listener, process, child, end);
    waitpid(child, &end.status, 0);
    close(listener);
    close(process);
    return end;
  }

 private:
  // From now on, in this process; returns where the questions arrive, or -2.
  static int ask_about(const std::vector<std::size_t>& kinds) {
    std::vector<sock_filter> program = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
    for (const std::size_t kind : kinds) {
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kFailingCalls[kind].number, 0, 1));
      program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -2;
    const long listener =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    return listener < 0 ? -2 : static_cast<int>(listener);
  }

  void follow(int listener, int process, pid_t child, TracedEnd& end) {
    using Clock = std::chrono::steady_clock;
    std::uint64_t steps = ledger_->steps, answers = 0;
    Clock::time_point step_began = Clock::now();
    bool asks_for_ever = false;
    for (int waited = 0; waited < patience_ && !asks_for_ever;) {
      std::array<pollfd, 2> events{{{listener, POLLIN, 0}, {process, POLLIN, 0}}};
      const int ready = poll(events.data(), events.size(), 1000);
      if ((events[1].revents & POLLIN) != 0) return;
      const bool went_on = steps != ledger_->steps;
      waited = ready != 0 || went_on ? 0 : waited + 1;
      if (went_on) {
        steps = ledger_->steps;
        answers = 0;
        step_began = Clock::now();
      }
      if ((events[0].revents & POLLIN) == 0) continue;
      asks_for_ever =
          answers >= most_answers_ && Clock::now() - step_began >= std::chrono::seconds(patience_);
      // A thread without an answer is found where it asks.
      if (!asks_for_ever) answer(listener);
      ++answers;
    }
    end.hung = true;
    if (asks_for_ever) end.waits = "calls without end in one step, the last of which is here\n";
    end.waits += what_threads_wait_for(child);
    kill(child, SIGKILL);
  }

  void answer(int listener) {
    seccomp_notif question{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) return;  // it has ended
    seccomp_notif_resp reply{};
    reply.id = question.id;
    reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (question.data.nr == SYS_execve) {
      ledger_->armed = ledger_->armed_by_exec.load();
    } else if (const int error = error_of(question); error != 0) {
      reply.flags = 0;
      reply.error = -error;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
  }

  // 0: the call is made.
  int error_of(const seccomp_notif& question) {
    if (!ledger_->armed) return 0;
    const bool of_userfaultfd =
        question.data.nr == SYS_ioctl && (question.data.args[1] >> 8 & 0xFF) == kUserfaultfd;
    const auto* const call =
        std::find_if(std::begin(kFailingCalls), std::end(kFailingCalls), [&](const auto& one) {
          return one.number == static_cast<unsigned>(question.data.nr) &&
                 one.device == (of_userfaultfd ? kUserfaultfd : 0);
        });
    if (call == std::end(kFailingCalls) || !can_fail(question)) return 0;
    // Of two kinds with one number the kernel asks about both.
    const auto kind = static_cast<std::size_t>(call - kFailingCalls);
    if (std::find(asked_.begin(), asked_.end(), kind) == asked_.end()) return 0;
    const std::uint64_t count = ++ledger_->seen[kind];
    const std::uint64_t at = ledger_->at;
    if (at == 0 || count < at || (count > at && !ledger_->lasting)) return 0;
    ++ledger_->failed;
    return ledger_->interrupted ? EINTR : call->error;
  }

  // What the C library maps for the stack of a thread: of the usual size, or of MaskedThread's.
  static bool is_of_stack(std::size_t bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    std::size_t stack = 0, guard = 0;
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    return bytes == stack + guard || bytes == MaskedThread::kStackBytes + guard;
  }

  // Reading and writing a counter (eventfd), by which threads wake each other, can only wait, and
  // so can reading faults. Where the stack of a thread that has ended cannot be unmapped, the C
  // library ends the process.
  static bool can_fail(const seccomp_notif& question) {
    if (question.data.nr == SYS_munmap) return !is_of_stack(question.data.args[1]);
    if (question.data.nr == SYS_ioctl) {
      const std::uint64_t request = question.data.args[1] & 0xFFFF;
      return request != (kUserfaultfd << 8 | kUserfaultfdWake) &&
             request != (kUserfaultfd << 8 | kUserfaultfdPoison);
    }
    if (question.data.nr != SYS_read && question.data.nr != SYS_write) return true;
    const std::string link =
        "/proc/" + std::to_string(question.pid) + "/fd/" + std::to_string(question.data.args[0]);
    std::array<char, 64> target{};
    const ssize_t length = readlink(link.c_str(), target.data(), target.size() - 1);
    const std::string_view what(target.data());
    return length < 0 || (what != "anon_inode:[eventfd]" && what != "anon_inode:[userfaultfd]");
  }

  const int patience_;
  const std::uint64_t most_answers_;
  CallLedger* ledger_;
  std::vector<std::size_t> asked_;
};

}  // namespace vortex::test
