// Cases that a random test must have seen, types and cases of which sanitizers try some, and cases
// that have no threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"

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

// The types of a typed test. Under a sanitizer, where each takes seconds to compile and to run,
// some stand for the others: of each size and kind of key one.
template <typename All, typename Some>
using TypesOf = std::conditional_t<kShadowMemory, Some, All>;

// Cases that are gone through in turn, each as good as the others: one of so many is tried, others
// with another seed, and all of them where tests may take long.
class Turns {
 public:
  template <typename Random>
  Turns(Random& random, unsigned one_of)
      : one_of_(long_tests() ? 1 : one_of), at_(static_cast<unsigned>(random() % one_of_)) {}

  bool leave_out() { return at_++ % one_of_ != 0; }

 private:
  unsigned one_of_;
  unsigned at_;
};

// So many of the cases, by turns; all of them where tests may take long.
template <typename T, typename Random>
std::vector<T> some_of(std::initializer_list<T> cases, std::ptrdiff_t most, Random& random) {
  std::vector<T> some;
  std::ranges::sample(cases, std::back_inserter(some), long_tests() ? std::ssize(cases) : most,
                      random);
  return some;
}

// Whether a case that takes seconds has its turn: one of so many is tried, by the seed, and all of
// them where tests may take long. Cases of one kind are numbered one behind the other.
inline bool has_turn(std::uint64_t number, unsigned one_of) {
  return long_tests() || (test_seed() + number) % one_of == 0;
}
inline constexpr const char* kNotItsTurn = "it takes seconds: other seeds give it its turn";

}  // namespace vortex::test

// Cases that have no threads: the thread sanitizer, which would see nothing in them, neither
// compiles nor runs them. What is new is written with TEST and its like, so that it runs with
// threads.
#ifdef VORTEX_TEST_TSAN
// What only they call is left over.
#pragma clang diagnostic ignored "-Wunneeded-internal-declaration"
#pragma clang diagnostic ignored "-Wunused-function"

// A template that nobody instantiates.
#define VORTEX_LEFT_OUT(suite, name, T, fixture) \
  template <typename T>                          \
  struct suite##_##name##_LeftOut : fixture {    \
    using TestFixture = fixture;                 \
    void TestBody() override;                    \
  };                                             \
  template <typename T>                          \
  void suite##_##name##_LeftOut<T>::TestBody()
#define TEST_OF_ONE_THREAD(suite, name) VORTEX_LEFT_OUT(suite, name, Nobody, ::testing::Test)
#define TEST_F_OF_ONE_THREAD(suite, name) VORTEX_LEFT_OUT(suite, name, Nobody, suite)
#define TEST_P_OF_ONE_THREAD(suite, name) VORTEX_LEFT_OUT(suite, name, Nobody, suite)
#define TYPED_TEST_OF_ONE_THREAD(suite, name) \
  VORTEX_LEFT_OUT(suite, name, TypeParam, suite<TypeParam>)
#else
#define TEST_OF_ONE_THREAD(suite, name) TEST(suite, name)
#define TEST_F_OF_ONE_THREAD(suite, name) TEST_F(suite, name)
#define TEST_P_OF_ONE_THREAD(suite, name) TEST_P(suite, name)
#define TYPED_TEST_OF_ONE_THREAD(suite, name) TYPED_TEST(suite, name)
#endif
