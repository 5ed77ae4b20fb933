// What a whole job of the library is, where it has its files, and what must hold behind it, however
// it has ended.
#pragma once

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/faulty_disk.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/external_sort.h"

namespace vortex::test {

// The plan of the disks that jobs make; none: disks are the library's own.
inline std::shared_ptr<FaultPlan>& plan_of_disks() {
  static std::shared_ptr<FaultPlan> plan;
  return plan;
}
inline std::unique_ptr<Disk> disk_of_job(DiskBackend backend = DiskBackend::kBest) {
  return plan_of_disks() ? with_faults(open_disk({.backend = backend}), plan_of_disks()) : nullptr;
}

// Where jobs have their files.
inline std::filesystem::path& folder_of_jobs() {
  static std::filesystem::path folder = fast_folder();
  return folder;
}

// A folder with inputs, the output as it was before, and two folders of runs. A second output lies
// in another folder.
class Place {
 public:
  static constexpr std::string_view kOld = "what was there before";

  Place() {
    for (const char* const runs : {"runs0", "runs1"}) {
      std::filesystem::create_directory(folder_.file(runs));
      run_folders_.push_back(folder_.file(runs));
    }
    restore();
  }

  const std::vector<std::string>& run_folders() const { return run_folders_; }
  std::string output() const { return folder_.file("out"); }
  std::string second_output() const { return folder_.file("second/out"); }
  void add_second_output() {
    std::filesystem::create_directory(folder_.file("second"));
    outputs_.push_back(second_output());
    restore();
  }
  std::string add_input(std::string bytes) {
    paths_.push_back(folder_.file("in" + std::to_string(paths_.size())));
    put(paths_.back(), bytes);
    inputs_.push_back(std::move(bytes));
    return paths_.back();
  }
  const std::string& input(std::size_t index = 0) const { return inputs_[index]; }
  const std::vector<std::string>& paths() const { return paths_; }

  void restore() const {
    for (const std::string& output : outputs_) {
      if (text(output) != kOld) put(output, kOld);
      // An attribute is passed on as far as that goes; some file systems have none.
      setxattr(output.c_str(), "user.origin", "here", 4, 0);
    }
  }

  // What is wrong; empty: nothing. `expected` is the output of a job that has ended well.
  std::string complaint(bool ended_well, const std::string& expected,
                        bool files_may_stay = false) const {
    const std::string out = text(output());
    if (ended_well ? out != expected : out != expected && out != kOld) {
      return "the output has " + std::to_string(out.size()) + " bytes and is not " +
             (ended_well ? "right" : "old or new");
    }
    return complaint_of_others(files_may_stay);
  }
  // Of all files but the outputs.
  std::string complaint_of_others(bool files_may_stay) const {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (text(paths_[i]) != inputs_[i]) return paths_[i] + " has changed";
    }
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) names.insert(entry.path().string());
    }
    for (const std::string& output : outputs_) names.erase(output);
    for (const std::string& path : paths_) names.erase(path);
    if (names.empty()) return {};
    const std::string left = *names.begin();
    for (const std::string& name : names) unlink(name.c_str());
    return files_may_stay ? "" : "left behind: " + left;
  }

  // With plain calls: it is done thousands of times.
  static std::string text(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string bytes(file < 0 ? 0 : std::filesystem::file_size(path), '\0');
    const ssize_t got = file < 0 ? 0 : read(file, bytes.data(), bytes.size());
    if (file >= 0) close(file);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  static void put(const std::string& path, std::string_view bytes) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("cannot write " + path);
    }
    close(file);
  }

 private:
  TemporaryFolder folder_{folder_of_jobs()};
  std::vector<std::string> run_folders_, paths_, inputs_, outputs_{output()};
};

// A pipe that holds some bytes and has no writer, as a path that can be opened once.
class FullPipe {
 public:
  explicit FullPipe(std::string_view bytes) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    end_ = ends[0];
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const ssize_t written = write(ends[1], bytes.data(), bytes.size());
    close(ends[1]);
    if (written != static_cast<ssize_t>(bytes.size())) throw std::runtime_error("a small pipe");
  }
  ~FullPipe() { close(end_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(end_); }

 private:
  int end_ = -1;
};

struct WholeJob {
  std::string name;
  bool quick = false;  // it takes some milliseconds: more of it fails than of others
  // What must be done before each time, where nothing fails yet.
  std::function<void()> prepare = [] {};
  std::function<void()> run;  // throws what the job ends with
  // What is wrong then; empty: nothing.
  std::function<std::string(bool ended_well, bool files_may_stay)> complaint;
};

// Of a job whose result stays in memory.
struct Result {
  std::string expected, got;
  std::string complaint(bool ended_well) const {
    return ended_well && got != expected ? "the result is wrong" : "";
  }
};

// As WholeJob::complaint.
inline auto complaint_of(std::shared_ptr<Place> place, std::shared_ptr<Result> result) {
  return
      [place = std::move(place), result = std::move(result)](bool ended_well, bool files_may_stay) {
        const std::string wrong = result->complaint(ended_well);
        return wrong.empty() ? place->complaint(false, {}, files_may_stay) : wrong;
      };
}

inline constexpr std::size_t kJobBlock = std::size_t{16} << 10;

inline std::string random_numbers(std::size_t count, std::mt19937_64& random) {
  std::string bytes(count * 8, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = random() % 100'000;
    std::memcpy(bytes.data() + i * 8, &number, 8);
  }
  return bytes;
}
inline std::string sorted_numbers(const std::string& bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / 8);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::sort(numbers.begin(), numbers.end());
  return {reinterpret_cast<const char*>(numbers.data()), bytes.size()};
}
inline std::string random_lines(std::size_t bytes, std::mt19937_64& random) {
  std::string text;
  while (text.size() < bytes)
    text += std::to_string(random()) + " " + std::to_string(random()) + '\n';
  return text;
}
inline std::string sorted_lines(const std::string& text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end;
  }
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string_view line : lines) sorted += line;
  return sorted;
}

inline SortResources job_resources(const Place& place, std::uint64_t memory_bytes,
                                   DiskBackend backend = DiskBackend::kBest) {
  SortResources resources;
  resources.folders = place.run_folders();
  resources.memory_bytes = memory_bytes;
  resources.block_bytes = kJobBlock;
  resources.threads = 2;
  resources.backend = backend;
  if (plan_of_disks()) {
    resources.open_disk = [backend](const std::string&) { return disk_of_job(backend); };
  }
  return resources;
}

}  // namespace vortex::test
