// A program of somebody who installed the library: it knows the installed headers and nothing else,
// and has folders of its own that are called as the library's are.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <vortex/block_pool.h>
#include <vortex/error.h>
#include <vortex/external_sort.h>
#include <vortex/file_reader.h>
#include <vortex/file_writer.h>
#include <vortex/input_stream.h>
#include <vortex/output_stream.h>
#include <vortex/pipeline.h>
#include <vortex/sorter.h>
#include <vortex/version.h>

#include "io/request.h"
#include "sort/sort.h"

namespace {

struct Point {
  std::uint32_t x;
  std::uint32_t y;
};
struct ByX {
  bool operator()(const Point& a, const Point& b) const noexcept { return a.x < b.x; }
};

// Sorts more than it is given memory for, by a comparator of its own, into `folder`.
bool sorts(const std::string& folder) {
  constexpr std::uint32_t kPoints = 300'000;
  vortex::SortResources options;
  options.memory_bytes = 1 << 20;
  options.folders = {folder};
  vortex::Sorter<Point, ByX> sorter(options);
  for (std::uint32_t i = 0; i < kPoints; ++i) sorter.push({i * 2654435761U % 1000, i});
  sorter.sort();
  bool good = sorter.size() == kPoints && sorter.counts().runs > 1;
  {
    vortex::FileWriter<Point> file(folder + "/points");
    for (std::uint32_t i = 0; i < kPoints; ++i) {
      const Point point = sorter.data()[i];
      good = good && (i == 0 || !ByX{}(point, sorter.data()[i - 1]));
      file.data()[i] = {kPoints - point.x, point.y};
    }
    file.finish(kPoints);
  }
  vortex::ExternalSortOptions files;
  files.inputs = {folder + "/points"};
  files.output = folder + "/points";
  files.resources.memory_bytes = 1 << 20;
  const vortex::SortReport report = vortex::external_sort<Point>(files, ByX{});
  const vortex::FileReader<Point> sorted(files.output);
  for (std::uint32_t i = 1; i < kPoints; ++i) {
    good = good && !ByX{}(sorted.data()[i], sorted.data()[i - 1]);
  }
  return good && report.runs > 1 && sorted.size() == kPoints;
}

// Exceptions cross the border of the library, in both directions, and are known on the other side.
bool exchanges_errors(vortex::BlockPool& pool) {
  bool caught = false;
  try {
    const vortex::FileReader<char> missing("/nowhere/at/all");
  } catch (const vortex::Error& error) {
    caught = error.code().value() == ENOENT && !error.message().empty();
  }
  auto refuse = [](std::span<std::byte>, std::uint64_t) -> std::size_t {
    throw vortex::Error(EDOM, "no more of these");
  };
  auto input = vortex::input_from_callback<char>(pool, refuse);
  const vortex::Failure failure = vortex::guarded([&] { caught = caught && input.data()[0] == 0; });
  return caught && failure.error == EDOM && failure.cause.view().ends_with("no more of these");
}

// A thread writes, this one reads.
bool pipes() {
  constexpr std::uint64_t kCount = 500'000;
  vortex::Pipeline<std::uint64_t> pipeline({.block_bytes = 64 << 10});
  std::thread producer([out = pipeline.writer()]() mutable {
    for (std::uint64_t i = 0; i < kCount; ++i) out.data()[i] = i;
    out.finish(kCount);
  });
  auto in = pipeline.reader();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) sum += in.data()[i];
  producer.join();
  return sum == kCount * (kCount - 1) / 2 && in.wait_size() == kCount;
}

}  // namespace

// The folder is for files.
int main(int count, char** arguments) {
  const bool sorted = sorts(count > 1 ? arguments[1] : ".");
  constexpr std::uint64_t kCount = 3'000'000;
  vortex::BlockPool pool({.pool_bytes = 1 << 20, .block_bytes = 64 << 10});

  auto fill = [](std::span<std::byte> block, std::uint64_t offset) {
    auto* numbers = reinterpret_cast<std::uint64_t*>(block.data());
    for (std::size_t i = 0; i < block.size() / 8; ++i) numbers[i] = offset / 8 + i;
    return block.size();
  };
  std::uint64_t drained_bytes = 0;
  auto drain = [&](std::span<const std::byte> block, std::uint64_t) {
    drained_bytes += block.size();
  };
  auto input = vortex::input_from_callback<std::uint64_t>(pool, fill, {}, kCount * 8);
  auto output = vortex::output_to_callback<std::uint64_t>(pool, drain);

  std::uint64_t sum = 0;
  const vortex::Failure failure = vortex::guarded([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      sum += input.data()[i];
      output.data()[i] = sum;
    }
  });
  failure.throw_if_failed();
  output.finish(kCount);

  const bool good = sorted && exchanges_errors(pool) && pipes() &&
                    std::string_view(vortex::version()) == VORTEX_VERSION_STRING &&
                    consumer::kRequest + consumer::kSort == 3 && sum == kCount * (kCount - 1) / 2 &&
                    drained_bytes == kCount * 8;
  std::printf("sum %llu, %llu bytes written: %s\n", static_cast<unsigned long long>(sum),
              static_cast<unsigned long long>(drained_bytes), good ? "good" : "WRONG");
  return good ? 0 : 1;
}
