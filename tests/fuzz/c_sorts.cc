// Sorts in C of more than memory holds: sorters that share a budget, requests to stop, files that
// are divided, and lines that are checked, against plain models.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/c_results.h"
#include "tests/fuzz/targets.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/c.h"

namespace vortex::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr vtx_key kKey{0, 8, VTX_KEY_UNSIGNED, 0, 0};
constexpr vtx_record_format kFormat{8, &kKey, 1};

// --- Budgets and requests to stop

// One thread makes all sorters of a budget, so none can wait for another: what is not free is an
// error at once.
class BudgetCalls {
 public:
  BudgetCalls(FuzzedBytes& bytes, const TemporaryFolder& folder)
      : bytes_(bytes), name_(folder.path().string()) {}
  ~BudgetCalls() {
    for (Sorter& sorter : sorters_) vtx_sorter_close(sorter.handle);
    vtx_budget_close(budget_);
    vtx_stop_close(stop_);
  }
  BudgetCalls(const BudgetCalls&) = delete;
  BudgetCalls& operator=(const BudgetCalls&) = delete;

  void run() {
    all_ = (4 + bytes_.below(20)) * kMiB;
    EXPECT_EQ(vtx_budget_create(all_, nullptr), -EINVAL);
    EXPECT_EQ(vtx_stop_create(nullptr), -EINVAL);
    ASSERT_EQ(vtx_budget_create(all_, &budget_), 0);
    ASSERT_EQ(vtx_stop_create(&stop_), 0);
    for (int calls = 0; calls < 30 && !bytes_.empty(); ++calls) {
      Sorter& sorter = sorters_.at(bytes_.below(3));
      const unsigned call = bytes_.below(8);
      if (sorter.handle == nullptr) {
        make(sorter);
      } else if (call < 3) {
        push(sorter);
      } else if (call < 5) {
        sort(sorter);
      } else if (call == 5 && bytes_.below(4) == 0) {
        vtx_stop_request(stop_);
        stopped_ = true;
      } else if (call > 5) {
        close(sorter);
      }
      expect_free();
    }
    for (Sorter& sorter : sorters_) close(sorter);
    EXPECT_EQ(vtx_budget_free_bytes(budget_), all_);
  }

 private:
  struct Sorter {
    vtx_sorter* handle;
    vtx_input* sorted;
    std::vector<std::uint64_t> numbers;
    std::uint64_t share, most;
    bool heeds, failed, varies;
  };

  // A sort that takes records has the share that it was given; one that is read gives of it, and
  // takes what has become free.
  void expect_free() const {
    std::uint64_t most_taken = 0;
    bool exact = true;
    for (const Sorter& sorter : sorters_) {
      most_taken += sorter.varies ? sorter.most : sorter.share;
      exact = exact && !sorter.varies;
    }
    const std::uint64_t free = vtx_budget_free_bytes(budget_);
    EXPECT_LE(free, all_);
    EXPECT_GE(free + most_taken, all_);
    if (exact) {
      EXPECT_EQ(free + most_taken, all_);
    }
  }
  void make(Sorter& sorter) {
    sorter = {};
    const char* const folder = name_.c_str();
    vtx_sort_resources resources{};
    resources.folders = &folder;
    resources.folder_count = 1;
    resources.threads = 1 + bytes_.below(2);
    resources.compression = VTX_COMPRESSION_NEVER;
    resources.memory_bytes = (2 + bytes_.below(12)) * kMiB;
    const std::uint64_t least = std::min((2 + bytes_.below(4)) * kMiB, resources.memory_bytes);
    resources.least_memory_bytes = least;
    resources.budget = budget_;
    sorter.heeds = bytes_.flag();
    if (sorter.heeds) resources.stop = stop_;
    const std::uint64_t free = vtx_budget_free_bytes(budget_);
    // A sort waits two seconds for one that is read before it is sure that no more comes.
    const bool may_get_more = std::any_of(sorters_.begin(), sorters_.end(),
                                          [](const Sorter& other) { return other.varies; });
    if (may_get_more && free < least) return;
    const int result = vtx_sorter_create(&kFormat, &resources, &sorter.handle);
    EXPECT_EQ(result == 0, sorter.handle != nullptr);
    if (expect(result)) {
      EXPECT_LE(vtx_budget_free_bytes(budget_) + least, all_);
      sorter.share = std::min(resources.memory_bytes, free);
      sorter.most = resources.memory_bytes;
      sorter.varies = may_get_more;
    } else {
      EXPECT_TRUE(result == -ENOMEM || result == -EDEADLK || (stopped_ && result == -ECANCELED))
          << result;
      EXPECT_EQ(result == -ENOMEM, least > all_);
      EXPECT_TRUE(free < least || stopped_);
    }
  }
  void push(Sorter& sorter) {
    std::vector<std::uint64_t> some(bytes_.number() % 4000);
    for (std::uint64_t& number : some) number = bytes_();
    const int result = vtx_sorter_push(sorter.handle, some.data(), some.size());
    const bool may_stop = stopped_ && sorter.heeds;
    if (sorter.sorted != nullptr) {
      EXPECT_NE(result, 0);
    } else if (!sorter.failed) {
      EXPECT_TRUE(result == 0 || (may_stop && result == -ECANCELED)) << result;
    }
    if (!expect(result, sorter.handle)) {
      sorter.failed = sorter.varies = true;
      return;
    }
    sorter.numbers.insert(sorter.numbers.end(), some.begin(), some.end());
    EXPECT_EQ(vtx_sorter_size(sorter.handle), sorter.numbers.size());
    vtx_run_counts counts{};
    EXPECT_EQ(vtx_sorter_statistics(sorter.handle, &counts), 0);
    EXPECT_EQ(counts.runs, 0U) << "all is in memory";
  }
  void sort(Sorter& sorter) {
    if (sorter.sorted != nullptr) return;
    sorter.varies = true;
    const int result = vtx_sorter_sort(sorter.handle, &sorter.sorted);
    if (!expect(result, sorter.handle)) {
      EXPECT_TRUE(sorter.failed || (stopped_ && sorter.heeds && result == -ECANCELED)) << result;
      sorter.failed = true;
      return;
    }
    std::sort(sorter.numbers.begin(), sorter.numbers.end());
    if (stopped_ || sorter.numbers.empty()) return;
    const auto* const data = static_cast<const std::uint64_t*>(vtx_input_data(sorter.sorted));
    EXPECT_TRUE(std::equal(sorter.numbers.begin(), sorter.numbers.end(), data));
  }
  void close(Sorter& sorter) {
    vtx_sorter_close(sorter.handle);
    sorter = {};
  }

  FuzzedBytes& bytes_;
  const std::string name_;
  vtx_budget* budget_ = nullptr;
  vtx_stop* stop_ = nullptr;
  std::uint64_t all_ = 0;
  std::array<Sorter, 3> sorters_{};
  bool stopped_ = false;
};

// --- Files that are divided

vtx_sort_resources little_memory(FuzzedBytes& bytes) {
  vtx_sort_resources resources{};
  resources.memory_bytes = 2 * kMiB;
  resources.threads = 1 + bytes.below(2);
  resources.no_sync = 1;
  return resources;
}
std::string text_of(const std::vector<std::uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 8};
}

// Numbers, of which the low half tells those with equal keys apart.
std::vector<std::uint64_t> numbers_of_file(FuzzedBytes& bytes, const std::string& path,
                                           std::uint64_t first) {
  std::vector<std::uint64_t> some(bytes.number() % 2000);
  for (std::uint64_t& number : some) number = (bytes() % 16) << 32 | first++;
  put_file_text(path, text_of(some));
  return some;
}

void are_divided(const vtx_partition_report& report, const std::vector<std::uint64_t>& all,
                 const std::vector<std::uint64_t>& splitters) {
  EXPECT_EQ(report.records, all.size());
  ASSERT_EQ(report.part_count, splitters.size() + 1);
  for (std::size_t i = 0; i < report.part_count; ++i) {
    std::vector<std::uint64_t> expected;
    for (const std::uint64_t number : all) {
      const bool behind = i == 0 || number >> 32 >= splitters[i - 1] >> 32;
      if (behind && (i == splitters.size() || number >> 32 < splitters[i] >> 32))
        expected.push_back(number);
    }
    EXPECT_EQ(report.parts[i].records, expected.size());
    EXPECT_TRUE(file_text(report.parts[i].path) == text_of(expected));
  }
}

// Each record is in the part whose splitters are around it, behind those that came before it.
void divided(FuzzedBytes& bytes, const TemporaryFolder& folder) {
  const vtx_key key{4, 4, VTX_KEY_UNSIGNED, 0, 0};
  const vtx_record_format format{8, &key, 1};
  std::array<std::string, 2> paths{folder.file("first"), folder.file("second")};
  const std::array<const char*, 2> inputs{paths[0].c_str(), paths[1].c_str()};
  std::vector<std::uint64_t> splitters(bytes.below(5)), all;
  for (std::uint64_t& splitter : splitters) splitter = (bytes() % 16) << 32;
  vtx_file_partition files{};
  files.inputs = inputs.data();
  files.input_count = bytes.below(3);
  files.splitter_bytes = splitters.size() * 8;
  const unsigned wrong = splitters.empty() ? 2 + bytes.below(14) : bytes.below(16);
  if (wrong == 0) files.splitter_bytes += 1 + bytes.below(7);
  if (wrong == 1) files.parts = splitters.size() + 2 + bytes.byte();
  if (bytes.flag()) std::sort(splitters.begin(), splitters.end());
  // Room for the beginning of one more.
  const std::string laid = text_of(splitters) + std::string(8, '\0');
  files.splitters = laid.data();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::vector<std::uint64_t> some = numbers_of_file(bytes, paths.at(i), all.size());
    if (i < files.input_count) all.insert(all.end(), some.begin(), some.end());
  }
  const TemporaryFolder made(fast_folder());
  const std::string prefix = made.file("part");
  files.prefix = wrong == 2 ? nullptr : prefix.c_str();
  vtx_stop* stop = nullptr;
  ASSERT_EQ(vtx_stop_create(&stop), 0);
  if (wrong == 3) vtx_stop_request(stop);
  vtx_sort_resources resources = little_memory(bytes);
  resources.stop = stop;
  vtx_partition_report report{};
  const int result = vtx_partition_files(&files, &format, &resources, &report);
  vtx_stop_close(stop);
  const bool makes_sense = wrong > 2 && files.input_count != 0 && !splitters.empty() &&
                           std::is_sorted(splitters.begin(), splitters.end());
  if (wrong == 3) {
    // One reason of two comes first.
    EXPECT_TRUE(result == -ECANCELED || (!makes_sense && result == -EINVAL)) << result;
  } else {
    EXPECT_EQ(result, makes_sense ? 0 : -EINVAL) << vtx_strerror(nullptr);
  }
  if (!expect(result)) {
    EXPECT_TRUE(std::filesystem::is_empty(made.path()));
    return;
  }
  are_divided(report, all, splitters);
}

// --- Lines that are checked

// The first line that may not follow the one in front of it.
void checked(FuzzedBytes& bytes, const TemporaryFolder& folder) {
  vtx_line_format format{};
  format.unique = bytes.flag();
  format.letters = bytes.flag() ? "r" : nullptr;
  format.header_lines = bytes.below(3);
  format.stable = bytes.flag();
  const unsigned wrong = bytes.below(16);
  if (wrong == 0) format.letters = "?";
  std::vector<std::string> lines;
  while (!bytes.empty() && lines.size() < 100) {
    std::string line(bytes.take(bytes.below(6)));
    std::replace(line.begin(), line.end(), '\n', 'n');
    // Mostly in order.
    if (!lines.empty() && bytes.below(16) != 0) line = lines.back() + line;
    lines.push_back(line);
  }
  if (format.letters != nullptr) std::reverse(lines.begin(), lines.end());
  std::string text;
  std::size_t wrong_line = 0, wrong_offset = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > format.header_lines && wrong_line == 0) {
      const int order = lines[i - 1].compare(lines[i]) * (format.letters != nullptr ? -1 : 1);
      if (order > 0 || (order == 0 && format.unique != 0)) {
        wrong_line = i + 1;
        wrong_offset = text.size();
      }
    }
    text += lines[i] + '\n';
  }
  const std::string path = folder.file("lines");
  put_file_text(path, text);
  const char* const input = wrong == 1 ? "/nowhere/at/all" : path.c_str();
  vtx_file_sort files{};
  files.inputs = &input;
  files.input_count = 1;
  vtx_line_disorder disorder{"untouched", ~std::uint64_t{0}, 0, nullptr, 0};
  const vtx_sort_resources resources = little_memory(bytes);
  const int result = vtx_check_lines(&files, &format, &resources, wrong == 2 ? nullptr : &disorder);
  EXPECT_EQ(result, wrong == 1 ? -ENOENT : wrong < 3 ? -EINVAL : 0);
  if (!expect(result)) {
    EXPECT_EQ(disorder.record, ~std::uint64_t{0});
    return;
  }
  ASSERT_EQ(disorder.record, wrong_line);
  if (wrong_line == 0) return;
  EXPECT_EQ(disorder.offset, wrong_offset);
  EXPECT_STREQ(disorder.input, input);
  EXPECT_TRUE(lines[wrong_line - 1] == std::string_view(disorder.text, disorder.bytes));
}

}  // namespace

void fuzz_c_sorts(std::string_view input) {
  static const TemporaryFolder folder(fast_folder());
  FuzzedBytes bytes(input);
  switch (bytes.below(3)) {
    case 0:
      return BudgetCalls(bytes, folder).run();
    case 1:
      return divided(bytes, folder);
    default:
      return checked(bytes, folder);
  }
}

}  // namespace vortex::test
