// The engines as the types of a typed suite, and regions of memory for its tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/environment.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"
#include "vortex/fault/region_table.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/os/userfaultfd.h"

namespace vortex::test {

struct LibsigsegvEngine {
  static constexpr Engine kEngine = Engine::kLibsigsegv;
};
struct NativeEngine {
  static constexpr Engine kEngine = Engine::kNative;
};
struct UserfaultfdEngine {
  static constexpr Engine kEngine = Engine::kUserfaultfd;
};
using AllEngines = ::testing::Types<LibsigsegvEngine, NativeEngine, UserfaultfdEngine>;
// For what is about the signal.
using SignalEngines = ::testing::Types<LibsigsegvEngine, NativeEngine>;

struct EngineNames {
  template <typename T>
  static std::string GetName(int) {
    switch (T::kEngine) {
      case Engine::kLibsigsegv:
        return "libsigsegv";
      case Engine::kNative:
        return "native";
      case Engine::kUserfaultfd:
        break;
    }
    return "userfaultfd";
  }
};

inline FaultDispatcher& dispatcher() { return FaultDispatcher::instance(); }

inline struct sigaction current_action(int signal = SIGSEGV) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action;
}

inline struct sigaction action_of(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  return action;
}

inline struct sigaction action_of(void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  return action;
}

// Why this process cannot have the engine; empty: it can.
inline std::string why_not(Engine engine) {
  try {
    FaultDispatcher::require(engine);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// Each test runs with its engine started, behind whatever handler the program began with.
template <typename EngineType>
class EngineTest : public ::testing::Test {
 protected:
  // The signal that an access raises when it cannot be served.
  static constexpr int kSignal = EngineType::kEngine == Engine::kUserfaultfd ? SIGBUS : SIGSEGV;

  void SetUp() override {
    // Children of death tests are started afresh: other threads of this process would be missing.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!FaultDispatcher::compiled_in(EngineType::kEngine)) {
      GTEST_SKIP() << "this build has no libsigsegv engine (-Dengine=native)";
    }
    if (const std::string refusal = why_not(EngineType::kEngine); !refusal.empty()) {
      END_TEST_WITHOUT(Environment::kUserfaultfd, refusal);
    }
    dispatcher().stop();
    original_ = current_action(kSignal);
    set_up_ = true;
    dispatcher().start(EngineType::kEngine);
    ASSERT_EQ(dispatcher().engine(), EngineType::kEngine);
  }

  void TearDown() override {
    if (!set_up_) return;
    dispatcher().stop();
    sigaction(kSignal, &original_, nullptr);
  }

  // Starts the engine anew, with `action` as the handler from before.
  void start_behind(const struct sigaction& action) {
    dispatcher().stop();
    sigaction(kSignal, &action, nullptr);
    dispatcher().start(EngineType::kEngine);
  }

 private:
  struct sigaction original_ {};
  bool set_up_ = false;
};

// Anonymous pages that cannot be touched until somebody allows it.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * page_bytes()),
        begin_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(begin_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* page(std::size_t index) const { return begin_ + index * page_bytes(); }
  bool contains(const void* address) const {
    return address >= begin_ && address < begin_ + bytes_;
  }

  // Under userfaultfd a page that forbids every access is one that is not there.
  void protect(std::size_t index, int protection) const {
    protect_pages(page(index), page_bytes(), protection);
  }
  void protect_all(int protection) const { protect_pages(begin_, bytes_, protection); }

  // The page of an address, made accessible. Async-signal-safe.
  static void allow(void* address, int protection = PROT_READ | PROT_WRITE) {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    protect_pages(reinterpret_cast<std::byte*>(value / page_bytes() * page_bytes()), page_bytes(),
                  protection);
  }

 private:
  static void protect_pages(std::byte* begin, std::size_t bytes, int protection) {
    const auto userfaultfd = userfaultfd_in_use();
    if (userfaultfd == nullptr) {
      mprotect(begin, bytes, protection);
    } else if (protection == PROT_NONE) {
      madvise(begin, bytes, MADV_DONTNEED);
    } else {
      userfaultfd->zero(begin, bytes);
    }
  }

  std::size_t bytes_;
  std::byte* begin_;
};

// Registered pages. By default a fault allows what was attempted, on its page alone.
class TestRegion final : private FaultServer {
 public:
  using Serve = std::function<const Failure*(const Fault&)>;

  explicit TestRegion(std::size_t pages, Serve serve = nullptr)
      : pages_(pages), serve_(std::move(serve)), region_(pages_.begin(), pages_.bytes(), *this) {
    dispatcher().add(region_);
  }
  ~TestRegion() { dispatcher().remove(region_); }

  volatile std::byte* data() const { return pages_.begin(); }
  const Pages& pages() const { return pages_; }
  std::uint64_t faults() const { return faults_; }
  Fault last() const { return {last_address_, last_access_}; }

 private:
  bool serve(const Fault& fault, Failure& why) noexcept override {
    ++faults_;
    last_address_ = fault.address;
    last_access_ = fault.access;
    if (serve_) {
      const Failure* const failure = serve_(fault);
      if (failure != nullptr) why = *failure;
      return failure == nullptr;
    }
    Pages::allow(fault.address, fault.access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE);
    return true;
  }
  void abandon(const Failure&) noexcept override {}

  Pages pages_;
  Serve serve_;
  Region region_;
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<std::byte*> last_address_{nullptr};
  std::atomic<Access> last_access_{Access::kUnknown};
};

}  // namespace vortex::test
