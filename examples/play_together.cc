// Plays the frames of many films together: each is compressed in its own way, so that frames differ
// in size, and the films in rate. A tenth of the time that they would take is enough to see that
// no frame is late.
//
//   g++ -std=c++20 -O2 play_together.cc $(pkg-config --cflags --libs vortex) -o play_together
//   ./play_together FOLDER
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_writer.h"
#include "vortex/files/timed_readers.h"

namespace {

constexpr std::size_t kFilms = 24;
constexpr std::size_t kFrames = 250;                         // of each
constexpr std::uint64_t kFrameNs = 1'000'000'000 / 25 / 10;  // 25 a second, ten times as fast

struct Film {
  std::string path;
  std::vector<std::uint64_t> frame_ends;  // as an index of the film has them
  vortex::TimedReader reader;
  std::span<const std::byte> left = {};  // of the block that is shown
};

// A film whose frames are of its number.
Film make_film(const std::string& folder, std::size_t number) {
  Film film{.path = folder + "/film" + std::to_string(number), .frame_ends = {}, .reader = {}};
  std::uint64_t end = 0;
  for (std::size_t frame = 0; frame < kFrames; ++frame) {
    end += (number + 1) * 500 + (frame * 7919 + number * 104729) % 5 * 1000;
    film.frame_ends.push_back(end);
  }
  vortex::FileWriter<unsigned char> writer(film.path);
  for (std::uint64_t i = 0; i < end; ++i) writer.data()[i] = static_cast<unsigned char>(number);
  writer.finish(end);
  return film;
}

// When the frame that a byte belongs to is shown.
std::uint64_t due_ns(const std::vector<std::uint64_t>& frame_ends, std::uint64_t offset) {
  const auto frame = std::upper_bound(frame_ends.begin(), frame_ends.end(), offset);
  return static_cast<std::uint64_t>(frame - frame_ends.begin()) * kFrameNs;
}

// Goes over the bytes of the frame, wherever blocks end, and returns how many are right.
std::uint64_t show(Film& film, std::size_t number, std::uint64_t bytes) {
  std::uint64_t right = 0;
  while (bytes > 0) {
    if (film.left.empty()) film.left = film.reader.next();
    const std::size_t part = std::min<std::uint64_t>(bytes, film.left.size());
    for (std::size_t i = 0; i < part; ++i) right += film.left[i] == std::byte(number);
    film.left = film.left.subspan(part);
    bytes -= part;
  }
  return right;
}

void play(const std::string& folder) {
  const auto disk = vortex::open_disk();
  vortex::TimedReaders group({.disks = {{.disk = disk.get()}},
                              .memory_bytes = 8 << 20,
                              .block_bytes = 16 << 10,
                              .request_bytes = 128 << 10});
  std::vector<Film> films;
  for (std::size_t i = 0; i < kFilms; ++i) films.push_back(make_film(folder, i));
  for (Film& film : films) {
    film.reader = group.open(film.path, {.due_ns = [&film](std::uint64_t offset) {
                               return due_ns(film.frame_ends, offset);
                             }});
  }
  group.fill();
  std::uint64_t right = 0, shown = 0, late = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t frame = 0; frame < kFrames; ++frame) {
    std::this_thread::sleep_until(begin + frame * std::chrono::nanoseconds(kFrameNs));
    for (std::size_t i = 0; i < kFilms; ++i) {
      const auto& ends = films[i].frame_ends;
      const std::uint64_t bytes = ends[frame] - (frame > 0 ? ends[frame - 1] : 0);
      right += show(films[i], i, bytes);
      shown += bytes;
    }
  }
  for (const Film& film : films) late += film.reader.statistics().late;
  std::printf(
      "%zu films, %zu frames each, in 8 MiB: %llu of %llu bytes right, %llu requests late\n",
      kFilms, kFrames, static_cast<unsigned long long>(right),
      static_cast<unsigned long long>(shown), static_cast<unsigned long long>(late));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  try {
    play(argv[1]);
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
