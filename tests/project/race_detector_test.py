#!/usr/bin/env python3
"""Runs a user's program under the thread sanitizer, with a library that was built without it.

  race_detector_test.py SOURCE_ROOT BUILD_ROOT

docs/limits.md says that this works: the library tells the sanitizer of what its threads hand each other
(vortex/thread/race_detector.h). The program sorts by templates of the headers, which are compiled into it, in
threads of the library. A second one has a race of its own, which must be found.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SKIPPED = 77
PROGRAM = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <vortex/external_sort.h>
#include <vortex/file_reader.h>
#include <vortex/file_writer.h>
#include <vortex/line_sort.h>
#include <vortex/pipeline.h>
#include <vortex/sort.h>
#include <vortex/sorter.h>

struct Item {
  std::uint64_t key;
  std::uint64_t rest[3];
};
struct ByKey {
  bool operator()(const Item& a, const Item& b) const noexcept { return a.key < b.key; }
};
constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;

int main() {
  std::vector<std::uint64_t> numbers(1 << 20);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = i * kFactor;
  const std::vector<std::uint64_t> unsorted = numbers;
  vortex::sort(numbers, {.threads = 4});
  if (!std::is_sorted(numbers.begin(), numbers.end())) return 1;

  std::vector<Item> items(200'000);
  for (std::uint64_t i = 0; i < items.size(); ++i) items[i].key = i * kFactor;
  vortex::sort(items, &Item::key, {.threads = 4});
  if (!std::is_sorted(items.begin(), items.end(), ByKey())) return 2;

  const auto budget = vortex::MemoryBudget::make(4 << 20);
  const vortex::SortResources resources{
      .memory_bytes = 4 << 20, .budget = budget, .folders = {"."}, .threads = 4};
  {
    vortex::Sorter<Item, ByKey> sorter(resources);
    for (std::uint64_t i = 0; i < 300'000; ++i) sorter.push({i * kFactor, {}});
    sorter.sort();
    if (sorter.counts().runs < 2) return 3;
    vortex::Sorter<Item, ByKey> chained(resources);
    for (const Item& item : sorter) chained.push({item.key * kFactor, {}});
    chained.sort();
    std::uint64_t last = 0;
    for (const Item& item : chained) {
      if (item.key < last) return 4;
      last = item.key;
    }
  }
  {
    vortex::LineSorter sorter({}, resources);
    for (std::uint64_t i = 0; i < 150'000; ++i) sorter.push(std::to_string(i * kFactor));
    std::string last;
    for (std::string_view line; sorter.next(line); last = line) {
      if (line < last) return 5;
    }
  }
  {
    vortex::FileWriter<std::uint64_t> out("numbers");
    for (std::size_t i = 0; i < unsorted.size(); ++i) out.data()[i] = unsorted[i];
    out.finish(unsorted.size());
    vortex::external_sort<Item>({.inputs = {"numbers"}, .output = "sorted", .resources = resources},
                                ByKey());
    const vortex::FileReader<Item> in("sorted");
    if (!std::is_sorted(in.begin(), in.end(), ByKey())) return 6;
  }
  {
    vortex::Pipeline<std::uint64_t> pipeline(
        {.block_bytes = 64 << 10, .reserve_bytes = std::uint64_t{1} << 30});
    std::thread producer([out = pipeline.writer(), &unsorted]() mutable {
      for (std::size_t i = 0; i < unsorted.size(); ++i) out.data()[i] = unsorted[i];
      out.finish(unsorted.size());
    });
    std::size_t at = 0;
    for (const std::uint64_t number : pipeline.reader()) {
      if (number != unsorted[at++]) return 7;
    }
    producer.join();
  }
  std::puts("all is sorted");
}
"""
WITH_A_RACE = r"""
#include <cstdint>
#include <thread>
#include <vector>
#include <vortex/sort.h>

int main() {
  std::uint64_t sum = 0;
  const auto add = [&sum] {
    sum += 1;
    std::vector<std::uint64_t> numbers = {3, 1, 2};
    vortex::sort(numbers);
  };
  std::thread one(add), other(add);
  one.join();
  other.join();
}
"""


class RaceDetector(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=BUILD_ROOT)))

    def run_program(self, text):
        (self.folder / "program.cc").write_text(text)
        found = dict(os.environ, PKG_CONFIG_PATH=str(BUILD_ROOT / "meson-uninstalled"))
        libraries = subprocess.run(["pkg-config", "--static", "--libs-only-l", "vortex"], env=found, check=True,
                                   stdout=subprocess.PIPE, text=True).stdout.split()
        libraries = [str(BUILD_ROOT / f"lib{name[2:]}.a") if name.startswith("-lvortex") else name
                     for name in libraries]
        subprocess.run(["clang++", "-std=c++20", "-O1", "-g", "-fsanitize=thread", f"-I{SOURCE_ROOT / 'include'}",
                        "program.cc", "-Wl,--start-group", *libraries, "-Wl,--end-group", "-pthread", "-o", "program"],
                       cwd=self.folder, check=True)
        return subprocess.run(["setarch", "--addr-no-randomize", "./program"], cwd=self.folder, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_a_library_without_it_has_no_races(self):
        done = self.run_program(PROGRAM)
        self.assertEqual(done.stderr[:4000], "")
        self.assertEqual((done.returncode, done.stdout), (0, "all is sorted\n"))

    def test_a_race_of_the_program_is_found(self):
        self.assertIn("data race", self.run_program(WITH_A_RACE).stderr)


if __name__ == "__main__":
    missing = [tool for tool in ("clang++", "pkg-config", "setarch") if not shutil.which(tool)]
    if missing:
        print(f"without {', '.join(missing)} no program can be built with the sanitizer (./dev setup installs it)")
        sys.exit(1 if "CI" in os.environ else SKIPPED)
    unittest.main(argv=sys.argv[:1])
