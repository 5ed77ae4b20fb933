// Cases that a random test must have seen.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace vortex::test {

// The kinds of cases that a random test must have seen. Few rounds may miss one by chance, so that
// it goes on, for at most 16 times as many, until all came: it fails where one hardly ever comes.
class Seen {
 public:
  struct Kind {
    std::string_view name;
    unsigned least = 1;
    unsigned times = 0;
  };

  explicit Seen(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}

  // Whether a test goes on that makes at least `rounds`; it ends with the first failure.
  bool another(unsigned round, unsigned rounds) const {
    if (::testing::Test::HasFailure()) return false;
    return round < rounds || (round < 16 * rounds && !std::ranges::all_of(kinds_, came));
  }
  void note(std::string_view name, bool is_one = true) {
    const auto kind = std::ranges::find(kinds_, name, &Kind::name);
    ASSERT_NE(kind, kinds_.end()) << name;
    kind->times += is_one;
  }
  void expect_all() const {
    if (::testing::Test::HasFailure()) return;
    for (const Kind& kind : kinds_) EXPECT_GE(kind.times, kind.least) << kind.name;
  }

 private:
  static bool came(const Kind& kind) { return kind.times >= kind.least; }

  std::vector<Kind> kinds_;
};

}  // namespace vortex::test
