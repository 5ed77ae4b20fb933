// A folder that lives as long as a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace vortex::test {

class TemporaryFolder {
 public:
  // Below $TMPDIR or /tmp, or below `parent`.
  explicit TemporaryFolder(std::filesystem::path parent = std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "vortex-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      (void)entry;
      ++count;
    }
    return count;
  }

 private:
  std::filesystem::path path_;
};

// While it lives, what this process and those that it starts make by default lies in another
// folder, and goes with that: for children that die before they remove theirs.
class FoldersWithin {
 public:
  explicit FoldersWithin(const TemporaryFolder& folder) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", folder.path().c_str(), 1);
  }
  ~FoldersWithin() { before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR"); }
  FoldersWithin(const FoldersWithin&) = delete;
  FoldersWithin& operator=(const FoldersWithin&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace vortex::test
