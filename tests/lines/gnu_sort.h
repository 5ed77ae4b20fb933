// GNU sort as an oracle, and what to ask it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lines/line_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"

namespace vortex::test {

struct ProgramResult {
  int code = -1;
  std::string output;
  std::string errors;
};

// Runs programs in a folder with files for their input and output.
class ProgramRunner {
 public:
  // `arguments` begins with the program, which lies at an absolute path; `environment` is what it
  // gets besides LOCPATH, "NAME=value" each.
  ProgramResult run(std::vector<std::string> arguments, std::string_view input,
                    std::vector<std::string> environment) {
    put_file_text(in_, input);
    if (const char* locales = std::getenv("LOCPATH")) {
      environment.push_back(std::string("LOCPATH=") + locales);
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, in_.c_str(), O_RDONLY, 0);
    constexpr int kFresh = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_.c_str(), kFresh, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors_.c_str(), kFresh, 0600);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, arguments.front().c_str(), &files, nullptr,
                          pointers(arguments).data(), pointers(environment).data()),
              0);
    posix_spawn_file_actions_destroy(&files);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), file_text(out_),
            file_text(errors_)};
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  TemporaryFolder folder_;
  std::string in_ = folder_.file("in");
  std::string out_ = folder_.file("out");
  std::string errors_ = folder_.file("errors");
};

inline constexpr const char* kGnuSort = "/usr/bin/sort";

// The words of a list, in which each ends with a bar.
inline std::vector<std::string> words_in(std::string_view list) {
  std::vector<std::string> words;
  for (; !list.empty(); list.remove_prefix(words.back().size() + 1)) {
    words.emplace_back(list.substr(0, list.find('|')));
  }
  return words;
}

// Fields and lines that look like what the orders are about, and like what they are not about.
class FieldMaker {
 public:
  explicit FieldMaker(std::mt19937_64& random) : random_(random) {}

  std::size_t some(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[some(values.size())];
  }

  std::string of_alphabet(std::string_view alphabet, std::size_t most) {
    std::string text(some(most + 1), ' ');
    for (char& c : text) c = alphabet[some(alphabet.size())];
    return text;
  }

  std::string number() {
    std::string text = one_of({"", "", "", "-", "+", "--", " -", "\t"});
    text += of_alphabet(one_of<std::string_view>({"0", "01", "0123456789", "0123456789,", "12.,"}),
                        one_of<std::size_t>({1, 3, 8, 30, 300}));
    if (some(2) == 0) text += one_of({".", ",", ".."}) + of_alphabet("0012349", 6);
    return text + one_of({"",  "",  "",  "K", "k",  "M",   "m", "G", "T",  "P", "E",
                          "Z", "Y", "Q", "R", "e5", "e-3", "E", "x", " 7", "i", "Ki"});
  }
  std::string floating() {
    static const std::vector<std::string> kNumbers = words_in(
        "inf|-inf|INFINITY|0x1p4|-0x.8|1e400|-1e-4940|1e5000|-0|0|+1| 12|1e|1e+|"
        "18446744073709551617|0.1|0.10000000000000000001|infx|-|.|\v3|\n4|1_000|");
    return kNumbers[some(kNumbers.size())];
  }
  std::string month() {
    return std::string(one_of({"", " ", "\t"})) +
           one_of({"jan", "FEB", "Mar", "apr", "mAy", "jun", "jul", "aug", "sep", "oct", "nov",
                   "dec", "ma", "foo", "M\xc4R", "m\xe4r", "okt", "Dez"}) +
           of_alphabet("ch ", 2);
  }
  std::string version() {
    return of_alphabet(one_of<std::string_view>({"a1", "ab~", ".~0", "a.0", "0129", "aZ.-_~019"}),
                       8) +
           one_of({"", "", ".tar.gz", ".c", ".~1~", ".", "..", ".0", ".a1~.b", "\xff"});
  }
  std::string word() {
    return of_alphabet(
        one_of<std::string_view>({"aAbB", "ab cD", "-_aA.", "eE\xc3\xa9", "a\xe9\xfc\xc9Z", "xyz"}),
        6);
  }
  std::string binary() {
    std::string text(some(9), ' ');
    for (char& c : text) c = static_cast<char>(some(256));
    return text;
  }
  std::string zeros() { return of_alphabet(std::string_view("\0a\1", 3), 4); }

  std::string field(unsigned kind) {
    constexpr std::string (FieldMaker::*kMakers[kKinds])() = {
        &FieldMaker::number, &FieldMaker::floating, &FieldMaker::month, &FieldMaker::version,
        &FieldMaker::word,   &FieldMaker::binary,   &FieldMaker::zeros};
    return (this->*kMakers[kind])();
  }
  static constexpr unsigned kKinds = 7;

  std::string line(char separator) {
    std::string text;
    for (std::size_t fields = some(4); fields-- > 0;) {
      text += field(static_cast<unsigned>(some(kKinds)));
      if (some(5) != 0) text += separator;
      if (some(4) == 0) text += ' ';
    }
    if (some(8) == 0) text += '\r';
    return text;
  }

 private:
  std::mt19937_64& random_;
};

}  // namespace vortex::test
