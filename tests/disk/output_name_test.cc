// Files get their names: whatever others do to the folder meanwhile, whatever the file system
// cannot do, and with what the file passes on that gives way; or their contents are replaced.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/file/block_file.h"
#include "io/name/path_names.h"
#include "tests/support/cases.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/file_writer.h"
#include "vortex/line_sort.h"

namespace vortex::output_name_test { namespace {

using test::error_of;
using test::file_text;
using test::put_file_text;
using test::refuse_call;
using test::refuse_call_with;
using test::refuse_nameless_files;

constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr int kCannotRefuse = 77;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

FileWriter<char> written(const std::string& path, bool replace = true) {
  FileWriter<char> out(path, {.block_bytes = kBlock, .sync = true, .replace = replace});
  std::memcpy(out.data(), "new", 3);
  return out;
}

class NamesToBe : public testing::Test {
 protected:
  // In a process of its own; the body returns 0 or where it went wrong.
  void run_with(bool nameless_files, const std::function<int()>& body) {
    test::expect_in_child([&] {
      if (!nameless_files && !refuse_nameless_files()) return kCannotRefuse;
      try {
        return body();
      } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 99;
      }
    });
  }

  // A file that must not replace another appears where there is none, and not where one has
  // appeared meanwhile. 0, or where that went wrong.
  int what_is_wrong_without_replacing() {
    written(path, false).finish(3);
    if (file_text(path) != "new" || folder.entries() != 1) return 1;
    if (unlink(path.c_str()) != 0) return 2;
    FileWriter<char> out = written(path, false);
    put_file_text(path, "other");
    if (error_of([&] { out.finish(3); }) != EEXIST) return 3;
    return file_text(path) == "other" ? 0 : 4;
  }

  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

// Without nameless files as well as with them.
class OutputNames : public NamesToBe, public testing::WithParamInterface<bool> {
 protected:
  void run(const std::function<int()>& body) { run_with(GetParam(), body); }
  // Another file gets the name while a call answers an error.
  void replace_where_refused(unsigned call, int error) {
    run([&] {
      if (!refuse_call(call, error)) return kCannotRefuse;
      written(path).finish(3);
      return 0;
    });
    EXPECT_EQ(file_text(path), "new");
  }
};

class TemporaryNames : public NamesToBe {
 protected:
  void run(const std::function<int()>& body) { run_with(false, body); }
};

// Some file systems tell at the end what has become of writes.
TEST_P(OutputNames, AreNotTakenWhereWritesHaveFailed) {
  put_file_text(path, "old");
  run([&] {
    FileWriter<char> out(path, {.block_bytes = kBlock});
    std::memcpy(out.data(), "new", 3);
    if (!refuse_call(SYS_close, EDQUOT)) return kCannotRefuse;
    if (error_of([&] { out.finish(3); }) != EDQUOT) return 1;
    return file_text(path) == "old" ? 0 : 2;
  });
  EXPECT_EQ(file_text(path), "old");
}

TEST_P(OutputNames, ReplaceContentsThatAreToldNotToBeWhole) {
  put_file_text(path, "old");
  run([&] {
    BlockFile file = BlockFile::create(path, {.in_place = InPlace::kAlways});
    file.write_all("new");
    if (!refuse_call(SYS_close, EDQUOT)) return kCannotRefuse;
    return error_of([&] { file.publish(false); }) == EDQUOT ? 0 : 1;
  });
}

// A process of the same number was killed and has left its files: in a container all processes have
// the same number.
TEST_P(OutputNames, AppearInTheFolderWhateverItIsCalledThen) {
  for (const bool replace : {true, false}) {
    const std::string name = replace ? "old" : "fresh";
    const std::string before = folder.file("before");
    const std::string after = folder.file("after");
    std::filesystem::remove_all(after);
    ASSERT_EQ(mkdir(before.c_str(), 0700), 0);
    if (replace) put_file_text(before + "/" + name, "old");
    run([&] {
      FileWriter<char> out = written(before + "/" + name, replace);
      if (rename(before.c_str(), after.c_str()) != 0) return 1;
      // And somebody else has a folder of that name.
      if (mkdir(before.c_str(), 0700) != 0) return 2;
      out.finish(3);
      return 0;
    });
    EXPECT_EQ(file_text(after + "/" + name), "new");
    EXPECT_TRUE(std::filesystem::is_empty(before));
    ASSERT_EQ(rmdir(before.c_str()), 0);
  }
}

TEST_P(OutputNames, AreRelativeToTheFolderAtTheBeginning) {
  ASSERT_EQ(mkdir(folder.file("elsewhere").c_str(), 0700), 0);
  run([&] {
    if (chdir(folder.path().c_str()) != 0) return 1;
    FileWriter<char> fresh = written("fresh");
    put_file_text("old", "old");
    FileWriter<char> old = written("old");
    FileWriter<char> unfinished = written("unfinished");
    if (chdir("elsewhere") != 0) return 2;
    fresh.finish(3);
    old.finish(3);
    return 0;
  });
  EXPECT_EQ(file_text(folder.file("fresh")), "new");
  EXPECT_EQ(file_text(folder.file("old")), "new");
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("elsewhere")));
}

TEST_P(OutputNames, CanBeProtectedWithoutRenamingThatDoesNotReplace) {
  run([&] {
    if (!refuse_call(SYS_renameat2, EINVAL)) return kCannotRefuse;
    return what_is_wrong_without_replacing();
  });
}

TEST_F_OF_ONE_THREAD(TemporaryNames, CanBeProtectedWithoutHardLinks) {
  run([&] {
    if (!refuse_call(SYS_linkat, EPERM)) return kCannotRefuse;
    return what_is_wrong_without_replacing();
  });
}

// Not for a moment: whoever reads the folder would see it.
TEST_F_OF_ONE_THREAD(TemporaryNames, AreNotTakenWhereTheFileMayHaveNone) {
  run_with(false, [&] {
    const int changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    inotify_add_watch(changes, folder.path().c_str(), IN_CREATE);
    try {
      BlockFile::create(path, {.may_have_name = false});
      return 1;
    } catch (const NoNamelessFile&) {
    }
    std::array<char, 4096> events{};
    if (read(changes, events.data(), events.size()) >= 0) return 2;
    LineSortOptions options;
    options.inputs = {folder.file("in")};
    options.output = path;
    put_file_text(options.inputs.front(), "b\na\n");
    sort_lines(options);  // another way than that of small inputs
    return file_text(path) == "a\nb\n" ? 0 : 3;
  });
}

TEST_F_OF_ONE_THREAD(TemporaryNames, ThatCannotBeProtectedAreRefusedAtOnce) {
  run([&] {
    if (!refuse_call(SYS_renameat2, EINVAL) || !refuse_call(SYS_linkat, EPERM)) {
      return kCannotRefuse;
    }
    if (error_of([&] { const FileWriter<char> out(path, {.replace = false}); }) != EINVAL) return 1;
    if (folder.entries() != 0) return 2;
    written(path).finish(3);  // one that may replace needs neither
    return file_text(path) == "new" ? 0 : 3;
  });
}

// The descriptor with which this process has the folder open.
int descriptor_of(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored) == folder) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

TEST_P(OutputNames, AreToldToBeInPlaceWhenOnlyTheirFolderCannotBeSynced) {
  for (const bool replace : {true, false}) {
    if (replace) put_file_text(path, "old");
    run([&] {
      FileWriter<char> out = written(path, replace);
      const int opened = descriptor_of(folder.path());
      if (opened < 0) return 1;
      if (!refuse_call_with(SYS_fsync, 0, static_cast<unsigned>(opened), EIO)) {
        return kCannotRefuse;
      }
      std::string message;
      if (error_of([&] { out.finish(3); }, &message) != EIO) return 2;
      if (file_text(path) != "new" || folder.entries() != 1) return 3;
      if (message.find("is whole and in place") != std::string::npos) return 0;
      std::cerr << message << "\n";
      return 4;
    });
    unlink(path.c_str());
  }
}

// The error is that of the look, and not that of a file without a name.
TEST_F_OF_ONE_THREAD(TemporaryNames, ThatCannotBeLookedUpSayWhy) {
  put_file_text(path, "old");
  run([&] {
    const int next = dup(0);  // the folder will be open as that
    close(next);
    if (!refuse_call_with(SYS_newfstatat, 0, static_cast<unsigned>(next), EIO)) {
      return kCannotRefuse;
    }
    const bool told = test::fails([&] { written(path); }, EIO, "cannot be looked up");
    return told && file_text(path) == "old" ? 0 : 1;
  });
}

// Only its maker may look into a file that is not yet in the other's place.
TEST_P(OutputNames, AreGivenModesAtTheEnd) {
  for (const mode_t mode : {0644u, 0666u, 0400u | 0200u, 0640u, 0755u}) {
    put_file_text(path, "old");
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    run([&] {
      umask(0);
      FileWriter<char> out = written(path);
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        if (entry.path() != path && mode_of(entry.path()) != 0600) return 1;
      }
      out.finish(3);
      return 0;
    });
    EXPECT_EQ(mode_of(path), mode);
  }
  ASSERT_EQ(unlink(path.c_str()), 0);
  run([&] {
    umask(027);
    written(path).finish(3);
    return 0;
  });
  EXPECT_EQ(mode_of(path), 0640u);
}

// Nobody gets more rights than before.
TEST_P(OutputNames, OfFilesThatCannotBeGivenAway) {
  put_file_text(path, "old");
  if (chown(path.c_str(), 1234, 4321) != 0) GTEST_SKIP() << "only root gives files away";
  struct Case {
    mode_t before;
    mode_t without_both;
    mode_t without_owner;
  };
  for (const Case& one : std::initializer_list<Case>{{0660, 0600, 0660},
                                                     {0664, 0644, 0664},
                                                     {0604, 0600, 0604},
                                                     {06775, 0755, 02775},
                                                     {0640, 0600, 0640}}) {
    for (const bool group : {false, true}) {
      put_file_text(path, "old");
      ASSERT_EQ(chown(path.c_str(), 1234, 4321), 0);
      ASSERT_EQ(chmod(path.c_str(), one.before), 0);
      run([&] {
        // As for a member of the group, which may pass on the group.
        const bool refused =
            group ? refuse_call_with(SYS_fchown, 1, 1234, EPERM) : refuse_call(SYS_fchown, EPERM);
        if (!refused) return kCannotRefuse;
        written(path).finish(3);
        return 0;
      });
      EXPECT_EQ(file_text(path), "new");
      EXPECT_EQ(mode_of(path), group ? one.without_owner : one.without_both)
          << std::oct << one.before;
      ASSERT_EQ(unlink(path.c_str()), 0);
    }
  }
}

TEST_P(OutputNames, WhoseModeIsRefusedAreInPlaceAndTheirMakersAlone) {
  put_file_text(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  run([&] {
    if (!refuse_call(SYS_fchmod, EPERM)) return kCannotRefuse;
    std::string message;
    if (error_of([&] { written(path).finish(3); }, &message) != EPERM) return 1;
    if (file_text(path) != "new" || mode_of(path) != 0600) return 2;
    if (message.find("in place") != std::string::npos &&
        message.find("0644") != std::string::npos) {
      return 0;
    }
    std::cerr << message << "\n";
    return 3;
  });
}

// As acl(5) and the kernel's posix_acl_xattr.h have it.
struct ListEntry {
  std::uint16_t tag;
  std::uint16_t permissions;
  std::uint32_t id;
};
struct AccessList {
  std::uint32_t version = 2;
  std::array<ListEntry, 5> entries;
};
constexpr const char* kAccessList = "system.posix_acl_access";
constexpr const char* kDefaultList = "system.posix_acl_default";

// user::rw-, user:1234:rw-, group::---, mask::rw-, other::---
constexpr AccessList kList{
    2, {{{0x01, 6, ~0u}, {0x02, 6, 1234}, {0x04, 0, ~0u}, {0x10, 6, ~0u}, {0x20, 0, ~0u}}}};

std::string attribute(const std::string& path, const char* name) {
  std::string value(1000, '\0');
  const ssize_t bytes = getxattr(path.c_str(), name, value.data(), value.size());
  value.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return bytes < 0 ? std::strerror(errno) : value;
}

TEST_P(OutputNames, KeepListsAndAttributesAndNotHardLinks) {
  put_file_text(path, "old");
  if (setxattr(path.c_str(), "user.origin", "far away", 8, 0) != 0 ||
      setxattr(path.c_str(), kAccessList, &kList, sizeof kList, 0) != 0) {
    GTEST_SKIP() << "no extended attributes or access lists in " << folder.path() << ": "
                 << std::strerror(errno);
  }
  ASSERT_EQ(link(path.c_str(), folder.file("other").c_str()), 0);
  const std::string list = attribute(path, kAccessList);
  ASSERT_EQ(list.size(), sizeof kList);
  run([&] {
    written(path).finish(3);
    return 0;
  });
  EXPECT_EQ(file_text(path), "new");
  EXPECT_EQ(attribute(path, "user.origin"), "far away");
  EXPECT_EQ(attribute(path, kAccessList), list);
  EXPECT_EQ(mode_of(path), 0660u);
  EXPECT_EQ(file_text(folder.file("other")), "old");
}

// Without the list, its mask would be the group's rights.
TEST_P(OutputNames, BelongToTheOwnerAloneWhereTheListIsLost) {
  constexpr std::pair<unsigned, int> kRefusals[] = {
      {SYS_fsetxattr, EOPNOTSUPP}, {SYS_listxattr, EIO}, {SYS_getxattr, EIO}};
  for (const auto& [call, error] : kRefusals) {
    put_file_text(path, "old");
    if (setxattr(path.c_str(), kAccessList, &kList, sizeof kList, 0) != 0) {
      GTEST_SKIP() << "no access lists in " << folder.path() << ": " << std::strerror(errno);
    }
    replace_where_refused(call, error);
    EXPECT_EQ(mode_of(path), 0600u) << "call " << call;
  }
}

TEST_P(OutputNames, KeepTheirRightsWhereNoListCanBeLost) {
  constexpr std::pair<unsigned, int> kRefusals[] = {
      {SYS_listxattr, EIO}, {SYS_listxattr, EPERM}, {SYS_getxattr, ENOSYS}};
  for (const auto& [call, error] : kRefusals) {
    put_file_text(path, "old");
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    replace_where_refused(call, error);
    EXPECT_EQ(mode_of(path), 0640u) << "call " << call;
  }
}

// A folder can give new files an access control list. A file that replaces another has the list of
// the other instead, here none.
TEST_P(OutputNames, TakeNoListFromTheFolder) {
  put_file_text(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0660), 0);
  if (setxattr(folder.path().c_str(), kDefaultList, &kList, sizeof kList, 0) != 0) {
    GTEST_SKIP() << "no access lists in " << folder.path() << ": " << std::strerror(errno);
  }
  run([&] {
    written(path).finish(3);
    return 0;
  });
  EXPECT_EQ(attribute(path, kAccessList), std::strerror(ENODATA));
  EXPECT_EQ(mode_of(path), 0660u);
  // A file that is new has it.
  run([&] {
    written(folder.file("fresh")).finish(3);
    return 0;
  });
  EXPECT_EQ(attribute(folder.file("fresh"), kAccessList).size(), sizeof kList);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OutputNames, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "Nameless" : "UnderATemporaryName");
});

TEST_OF_ONE_THREAD(TemporaryName, OthersAreTriedWhileOneIsTaken) {
  std::set<std::string> seen;
  std::string name;
  EXPECT_EQ(take_temporary_name("file", name,
                                [&](const std::string& candidate) {
                                  seen.insert(candidate);
                                  return seen.size() < 20 ? EEXIST : 0;
                                }),
            0);
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(seen.count(name), 1u);
  EXPECT_TRUE(name.starts_with(".file.") && name.ends_with(".part")) << name;
}

TEST_OF_ONE_THREAD(TemporaryName, WhatElseIsWrongIsToldAtOnceAndNothingIsTriedForEver) {
  std::string name = "before";
  int calls = 0;
  const auto say = [&](int error) {
    return [&calls, error](const std::string&) {
      ++calls;
      return error;
    };
  };
  EXPECT_EQ(take_temporary_name("file", name, say(ENOSPC)), ENOSPC);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(take_temporary_name("file", name, say(EEXIST)), EEXIST);
  EXPECT_LT(calls, 1000);
  EXPECT_EQ(name, "before");
  EXPECT_LE(temporary_name_for(std::string(255, 'x')).size(), 255u);
}

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
  test::expect_in_child([&] {
    if (geteuid() == 0 && setuid(kNobody) != 0) return 1;
    if (access(path.c_str(), R_OK) != 0) return 77;  // a folder above is closed
    if (error_of([&] { sort_lines(sort_into_input(InPlace::kNever)); }) != EACCES) {
      return 2;
    }
    sort_lines(sort_into_input(InPlace::kWhereNeeded));
    return 0;
  });
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
  test::expect_in_child([&] {
    BlockFile file = BlockFile::create(path, {.direct = false, .in_place = InPlace::kAlways});
    const std::string text(50000, 'y');
    if (pwrite(file.descriptor(), text.data(), text.size(), 0) != 50000) return 1;
    if (!test::refuse_call(SYS_ftruncate, EIO)) return 77;
    const int error = error_of([&] { file.publish(false); }, &message);
    std::cerr << message << "\n";
    return error == EIO && message.find("not whole now") != message.npos ? 0 : 2;
  });
}

// Contents go to a file, to one in place, and to a pipe by calls that may write less than was
// asked for. Where they write nothing at all, nobody waits for ever.
TEST(Contents, OfWhichNothingIsWrittenAreAnError) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  put_file_text(path, std::string(100000, 'x'));
  for (const bool in_place : {true, false}) {
    test::expect_in_child([&] {
      alarm(60);
      BlockFile file = BlockFile::create(path, {.direct = false, .in_place = InPlace::kAlways});
      const std::string text(50000, 'y');
      if (pwrite(file.descriptor(), text.data(), text.size(), 0) != 50000) return 1;
      if (!test::refuse_call(SYS_copy_file_range, EXDEV) ||
          !test::refuse_call(in_place ? SYS_pwrite64 : SYS_write, 0)) {
        return kCannotRefuse;
      }
      return error_of([&] { in_place ? file.publish(false) : file.write_all(text); }) == EIO ? 0
                                                                                             : 2;
    });
  }
}

}  // namespace

}  // namespace vortex::output_name_test
