// Sorts of lines in folders of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "study/fault_plan.h"
#include "tests/disk/test_disk.h"
#include "tests/lines/line_cases.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/line_sort.h"

namespace vortex::test {

// Inputs and output in one folder, and runs in another, where nothing may stay; with little memory.
class LineFolder : public ::testing::Test {
 protected:
  LineFolder() {
    options.output = folder.file("out");
    options.resources.memory_bytes = std::uint64_t{1} << 20;
    options.resources.folders = {runs.path().string()};
  }
  void TearDown() override { EXPECT_EQ(runs.entries(), 0u); }

  std::string put(const std::string& name, std::string_view text) {
    put_file_text(folder.file(name), text);
    return folder.file(name);
  }
  void put_input(const Lines& lines) {
    options.inputs = {put("in", framed(lines, options.framing))};
  }
  // One more input, whose lines join those of all.
  void add_input(const Lines& lines, Lines& all, const std::string& header = {}) {
    options.inputs.push_back(
        put("in" + std::to_string(options.inputs.size()), header + joined(lines)));
    all.insert(all.end(), lines.begin(), lines.end());
  }
  // Sorts, and finds these records in this order, behind a text.
  SortReport expect_output(const Lines& expected, const std::string& header = {}) {
    const SortReport report = sort_lines(options);
    const std::string wanted = header + framed(expected, options.framing);
    const std::string found = file_text(options.output);
    if (found != wanted) {
      const auto differs =
          std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end()).first;
      ADD_FAILURE() << "differs at " << differs - found.begin() << " of " << found.size()
                    << ", wanted are " << wanted.size();
    }
    EXPECT_EQ(report.records_out, expected.size());
    EXPECT_EQ(report.output_bytes, wanted.size());
    return report;
  }
  // The sort ends with an error whose message has these parts, and leaves no output.
  void expect_refused(int error, std::initializer_list<std::string> parts = {}) {
    EXPECT_TRUE(fails([&] { sort_lines(options); }, error, parts));
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }

  // The disks of runs and files from now on.
  void use(std::shared_ptr<FaultPlan> plan) {
    options.resources.open_disk = sort_disks(Backend::kThreads, std::move(plan));
  }
  // Finds the lines, and nothing where any of the requests failed or the sort was stopped in this
  // phase. Returns the report of the first.
  SortReport expect_whole_or_nothing(const Lines& expected, SortPhase stopped_in,
                                     std::mt19937_64& random) {
    const auto all = counted();
    use(all);
    const SortReport report = expect_output(expected);
    std::filesystem::remove(options.output);
    use(error_at(random() % (all->attempts() * 4 / 5), EIO));
    expect_refused(EIO);
    use(counted());
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == stopped_in) stop.request_stop();
    };
    expect_refused(ECANCELED);
    options.resources.progress = {};
    options.resources.stop = {};
    return report;
  }

  // In memory: outputs are synced.
  const TemporaryFolder folder{fast_folder()};
  const TemporaryFolder runs{fast_folder()};
  LineSortOptions options;
};

}  // namespace vortex::test
