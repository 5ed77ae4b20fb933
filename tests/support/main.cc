// The main function of all test programs. A program has the tests of a room; told --file=NAME it
// runs those of NAME.cc alone, of them what --gtest_filter takes, so that each file is one test of
// `meson test`.
#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "vortex/thread/control_groups.h"

namespace {

// Whatever the machine has, so that tests of many threads have them.
constexpr unsigned kCores = 128;

std::string_view stem_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.substr(0, path.rfind('.'));
}

// Whether one of the patterns, which colons separate, is that of a name.
bool matches(std::string_view patterns, const std::string& name) {
  while (!patterns.empty()) {
    const std::string pattern(patterns.substr(0, patterns.find(':')));
    if (fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0) return true;
    patterns.remove_prefix(std::min(pattern.size() + 1, patterns.size()));
  }
  return false;
}

// As GoogleTest reads its filter: patterns of names, and after a '-' of those that are left out.
bool takes(std::string_view filter, const std::string& name) {
  const std::size_t dash = std::min(filter.find('-'), filter.size());
  return ((dash == 0 && !filter.empty()) || matches(filter.substr(0, dash), name)) &&
         !matches(filter.substr(std::min(dash + 1, filter.size())), name);
}

// The tests of a file that the filter takes, as a filter.
std::string tests_of(std::string_view file, const std::string& filter) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string names;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string name = std::string(suite.name()) + '.' + test.name();
      if (stem_of(test.file()) == file && takes(filter, name)) names += name + ':';
    }
  }
  return names;
}

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleMock(&count, arguments);
  vortex::assume_cores(kCores);
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with(kFile)) {
      std::fprintf(stderr, "%s: no option %s\n", arguments[0], arguments[i]);
      return 2;
    }
    const std::string names = tests_of(argument.substr(kFile.size()), testing::GTEST_FLAG(filter));
    if (names.empty()) {
      std::fprintf(stderr, "%s: no test is in %s\n", arguments[0], arguments[i] + kFile.size());
      return 2;
    }
    testing::GTEST_FLAG(filter) = names;
  }
  return RUN_ALL_TESTS();
}
