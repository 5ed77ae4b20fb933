// Outputs that replace the contents of a file and not the file.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>

#include "io/file/block_file.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/line_sort.h"

namespace vortex { namespace {

using test::error_of;
using test::file_text;
using test::in_child;
using test::put_file_text;

constexpr uid_t kNobody = 65534;

class ContentsInPlaceOfFiles : public testing::Test {
 protected:
  LineSortOptions sort_into_input(InPlace in_place) const {
    LineSortOptions options;
    options.inputs = {path};
    options.output = path;
    options.resources.folders = {other.path().string()};
    options.resources.memory_bytes = 16 << 20;
    options.resources.output_in_place = in_place;
    return options;
  }
  ino_t inode() const {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    return status.st_ino;
  }

  test::TemporaryFolder folder;
  test::TemporaryFolder other;
  const std::string path = folder.file("file");
};

TEST_F(ContentsInPlaceOfFiles, KeepHardLinksWhenAsked) {
  const std::string link_path = folder.file("link");
  put_file_text(path, "b\nc\na\n");
  ASSERT_EQ(link(path.c_str(), link_path.c_str()), 0);
  const ino_t before = inode();
  sort_lines(sort_into_input(InPlace::kAlways));
  EXPECT_EQ(file_text(link_path), "a\nb\nc\n");
  EXPECT_EQ(inode(), before);
  // Where it is not needed, a new file takes the name.
  put_file_text(link_path, "2\n1\n");
  sort_lines(sort_into_input(InPlace::kWhereNeeded));
  EXPECT_EQ(file_text(path), "1\n2\n");
  EXPECT_EQ(file_text(link_path), "2\n1\n");
  EXPECT_EQ(folder.entries(), 2u);
}

// A merge writes while it reads; the input is the output all the same. Shorter contents leave
// nothing of the old ones behind.
TEST_F(ContentsInPlaceOfFiles, MayBeInputsOfAMerge) {
  std::string text, twice;
  for (int i = 0; i < 100000; ++i) {
    const std::string line = std::to_string(1000000 + i) + "\n";
    text += line;
    twice += line + line;
  }
  put_file_text(path, text);
  LineSortOptions merge = sort_into_input(InPlace::kAlways);
  merge.inputs = {path, path};
  merge.merge_inputs = true;
  sort_lines(merge);
  ASSERT_TRUE(file_text(path) == twice);
  merge.inputs = {path};
  merge.order.unique = true;
  sort_lines(merge);
  EXPECT_TRUE(file_text(path) == text);
}

TEST_F(ContentsInPlaceOfFiles, NeedNoRightInTheFolder) {
  put_file_text(path, "b\na\n");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  ASSERT_EQ(chmod(other.path().c_str(), 0777), 0);
  const ino_t before = inode();
  EXPECT_EQ(in_child([&] {
              if (geteuid() == 0 && setuid(kNobody) != 0) return 1;
              if (access(path.c_str(), R_OK) != 0) return 77;  // a folder above is closed
              if (error_of([&] { sort_lines(sort_into_input(InPlace::kNever)); }) != EACCES) {
                return 2;
              }
              sort_lines(sort_into_input(InPlace::kWhereNeeded));
              return 0;
            }),
            0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(file_text(path), "a\nb\n");
  EXPECT_EQ(inode(), before);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(ContentsInPlaceOfFiles, AreAsTheyWereUntilTheNewOnesAreWhole) {
  const std::string text = "b\na\n";
  put_file_text(path, text);
  LineSortOptions options = sort_into_input(InPlace::kAlways);
  options.inputs.push_back(other.file("missing"));
  EXPECT_EQ(error_of([&] { sort_lines(options); }), ENOENT);
  EXPECT_EQ(file_text(path), text);
  EXPECT_EQ(folder.entries(), 1u);
}

// A file with holes has no room for what is no longer than it.
TEST_F(ContentsInPlaceOfFiles, AreAsTheyWereWhereTheirHolesCannotBeFilled) {
  const test::SmallFileSystem small("tmpfs", 1 << 20);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  LineSortOptions options = sort_into_input(InPlace::kAlways);
  options.output = small.file("file");
  put_file_text(options.output, "before");
  std::filesystem::resize_file(options.output, 4 << 20);
  std::string text;
  while (text.size() < 600 << 10) text += std::to_string(text.size()) + "\n";
  put_file_text(path, text);
  options.resources.folders = {other.path().string()};
  EXPECT_EQ(error_of([&] { sort_lines(options); }), ENOSPC);
  const std::string now = file_text(options.output);
  EXPECT_EQ(now.size(), 4U << 20);
  EXPECT_EQ(now.substr(0, 7), std::string("before\0", 7));
  EXPECT_EQ(now.find_first_not_of('\0', 6), now.npos);
}

// What goes wrong while they are copied is said.
TEST_F(ContentsInPlaceOfFiles, SayWhenTheyAreNotWhole) {
  put_file_text(path, std::string(100000, 'x'));
  std::string message;
  EXPECT_EQ(in_child([&] {
              BlockFile file =
                  BlockFile::create(path, {.direct = false, .in_place = InPlace::kAlways});
              const std::string text(50000, 'y');
              if (pwrite(file.descriptor(), text.data(), text.size(), 0) != 50000) return 1;
              if (!test::refuse_call(SYS_ftruncate, EIO)) return 77;
              const int error = error_of([&] { file.publish(false); }, &message);
              std::cerr << message << "\n";
              return error == EIO && message.find("not whole now") != message.npos ? 0 : 2;
            }),
            0);
}

}  // namespace

}  // namespace vortex
