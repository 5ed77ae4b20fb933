// The least time of a sort, with speeds that can be reckoned with by hand.
#include "cli/verbs/disk_bound.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"

namespace vortex::cli::disk_bound_test { namespace {

constexpr DiskSpeed kSpeed = {.read = 200, .write = 100, .copy = 80};

class DiskBoundTest : public ::testing::Test {
 protected:
  DiskBoundTest() {
    std::ofstream(folder_.file("in")) << std::string(800, 'x');
    options_.inputs = {folder_.file("in")};
    options_.output = folder_.file("out");
    report_.records_in = report_.records_out = 80;
    report_.input_bytes = report_.output_bytes = 800;
    report_.run_bytes = 4000;  // in several passes
  }
  double seconds() {
    return bound_by([this](const std::string& folder) {
             asked_.push_back(folder);
             return kSpeed;
           })
        .seconds(report_);
  }
  DiskBound bound_by(const DiskBound::SpeedOf& speed_of) const {
    return {options_.inputs, options_.output, options_.resources, options_.merge_inputs, speed_of};
  }

  test::TemporaryFolder folder_;
  ExternalSortOptions options_{.format = RecordFormat(10)};
  SortReport report_;
  std::vector<std::string> asked_;
};

TEST_F(DiskBoundTest, InMemoryIsReadingThenWriting) {
  EXPECT_DOUBLE_EQ(seconds(), 800 / 200. + 800 / 100.);
  EXPECT_EQ(asked_, std::vector<std::string>{folder_.path()});
}

TEST_F(DiskBoundTest, WithRunsItIsTwoCopiesHoweverManyPassesThereWere) {
  report_.runs = 5;
  EXPECT_DOUBLE_EQ(seconds(), 2 * 800 / 80.);
  report_.passes = 3;
  EXPECT_DOUBLE_EQ(seconds(), 2 * 800 / 80.);
  options_.resources.folders = {folder_.path(), folder_.path()};
  EXPECT_DOUBLE_EQ(seconds(), 2 * 800 / 80.);
}

TEST_F(DiskBoundTest, ARunThatIsTheOutputIsOneCopy) {
  report_.runs = 1;
  report_.run_bytes = 0;
  EXPECT_DOUBLE_EQ(seconds(), 800 / 80.);
}

TEST_F(DiskBoundTest, WhatIsDroppedNeedNotBeWritten) {
  report_.runs = 5;
  report_.records_out = 8;
  report_.output_bytes = 80;
  // To the runs neither.
  EXPECT_DOUBLE_EQ(seconds(), 80 / 80. + 720 / 200. + 80 / 80.);
}

TEST_F(DiskBoundTest, MergingIsOneCopy) {
  options_.merge_inputs = true;
  EXPECT_DOUBLE_EQ(seconds(), 800 / 80.);
  // Of the first records, which are not behind all of the inputs.
  report_.input_bytes = report_.output_bytes = 200;
  EXPECT_DOUBLE_EQ(seconds(), 200 / 80.);
}

TEST_F(DiskBoundTest, PipesAndDevicesCountForNothing) {
  options_.output = "/dev/null";
  options_.resources.folders = {folder_.path()};
  EXPECT_DOUBLE_EQ(seconds(), 800 / 200.);
  options_.output = std::string("-");  // gcc 12 warns of the plain assignment
  EXPECT_DOUBLE_EQ(seconds(), 800 / 200.);
  options_.inputs = {"-"};
  EXPECT_DOUBLE_EQ(seconds(), 0);
  report_.runs = 2;
  EXPECT_DOUBLE_EQ(seconds(), 800 / 100. + 800 / 200.);
}

TEST_F(DiskBoundTest, TheSlowestFileSystemDecides) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "there is no /dev/shm";
  const test::TemporaryFolder memory("/dev/shm");
  struct stat here {};
  struct stat there {};
  ASSERT_EQ(stat(folder_.path().c_str(), &here), 0);
  ASSERT_EQ(stat(memory.path().c_str(), &there), 0);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "the temporary folder is in /dev/shm too";
  options_.resources.folders = {folder_.path(), memory.path()};
  report_.runs = 5;
  const DiskBound bound = bound_by([&](const std::string& folder) {
    return folder == memory.path() ? DiskSpeed{.read = 10, .write = 10, .copy = 10} : kSpeed;
  });
  EXPECT_DOUBLE_EQ(bound.seconds(report_), 400 / 10. + 400 / 10.);
}

TEST_F(DiskBoundTest, MissingInputsAreErrors) {
  options_.inputs = {folder_.file("missing")};
  EXPECT_THROW(seconds(), Error);
}

}  // namespace

}  // namespace vortex::cli::disk_bound_test
