// An array that threads share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>

#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 { namespace detail {

// Splits an array of `count` items among as many of `threads` as pay for it. Virtual for tests,
// which count the threads that took part.
class Shares {
 public:
  // The fewest items of a share: with fewer a thread costs about what it gains.
  static constexpr std::size_t kMinShare = std::size_t{1} << 20;

  // Starts the threads. Throws std::bad_alloc. A test asks for smaller shares.
  Shares(std::size_t count, unsigned threads, std::size_t least = kMinShare) : count_(count) {
    if (threads == 1 || count < 2 * least) return;
    team_.emplace(
        static_cast<unsigned>(std::min<std::size_t>(ThreadTeam::resolve(threads), count / least)));
    shares_ = team_->threads();
  }
  virtual ~Shares() = default;
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  std::size_t shares() const noexcept { return shares_; }
  std::size_t count() const noexcept { return count_; }
  // Where a share begins, and where the last one ends for the number of shares.
  std::size_t begin_of(std::size_t share) const noexcept {
    return share == shares_ ? count_ : count_ / shares_ * share;
  }

  // Calls body(share, begin, end) for each of them, all at once where there are threads.
  template <typename Body>
  void run(const Body& body) {
    const auto part = [&](std::size_t share) { body(share, begin_of(share), begin_of(share + 1)); };
    run_parts(std::cref(part));
  }

 protected:
  // Without threads, for one that has its own.
  struct OwnThreads {
    std::size_t threads;
  };
  Shares(std::size_t count, OwnThreads own) noexcept : count_(count), shares_(own.threads) {}

 private:
  virtual void run_parts(const std::function<void(std::size_t)>& part) {
    if (team_) {
      team_->run(shares_, part);
    } else {
      part(0);
    }
  }

  const std::size_t count_;
  std::optional<ThreadTeam> team_;
  std::size_t shares_ = 1;
};

}}}  // namespace vortex::v0::detail
