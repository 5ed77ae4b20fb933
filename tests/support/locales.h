// Locales to test with, whatever the machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace vortex::test {

// Makes locales, and lets this process and its children find them, and no others but "C": of the
// languages with UTF-8; or en_US.UTF-8; de_DE.ISO-8859-1, which has letters beyond ASCII in one
// byte and another decimal point; and cs_CZ.UTF-8, in which two letters may be one.
class Locales {
 public:
  Locales() {
    make("en_US", "UTF-8");
    make("de_DE", "ISO-8859-1");
    make("cs_CZ", "UTF-8");
    setenv("LOCPATH", folder_.path().c_str(), 1);
  }
  explicit Locales(const std::vector<std::string>& languages) {
    for (const std::string& language : languages) make(language, "UTF-8");
    setenv("LOCPATH", folder_.path().c_str(), 1);
  }
  ~Locales() { unsetenv("LOCPATH"); }
  Locales(const Locales&) = delete;
  Locales& operator=(const Locales&) = delete;

 private:
  void make(const std::string& language, const std::string& characters) {
    const std::string command = "localedef -i " + language + " -f " + characters + " " +
                                folder_.file(language + "." + characters) + " >/dev/null 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << command << " (Debian: locales)";
  }

  TemporaryFolder folder_;
};

}  // namespace vortex::test
