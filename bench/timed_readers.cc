// Measures how often streams at uneven rates wait for disks, and with how much memory: 200 of 1 to
// 20 MB/s, each striped over four disks, of whose speed they take the part that the rows name as
// load. The disks are simulated on virtual time, so the rows are exact, and come out the same on
// every machine. Streams begin within 0.1 s, when the memory has been filled.
//
//   memory:MIB/load:L/optimal, srm-async, naive   TimedReaders, by the policies of merges
//   memory:MIB/load:L/double_buffering            the memory in equal shares, each two buffers:
//   while
//                                                 one is used, one request fills the other
//
// Counters: late, how often a stream waited; memory_MiB; disk_MB_s, the speed of a disk; twice, how
// many requests were made once more, since their memory was needed earlier by others.
//
// Options before those of Google Benchmark:
//   --streams=N       (200)
//   --disks=N         (4)
//   --seconds=N       that are played (20)
//   --seek-us=N       what each request costs a disk (100)
//   --request-kib=N   of TimedReaders (512)
//   --memory-mib=N    instead of 110, 220 and 330
//   --folders=A,B,..  real disks, in real time, of --disk-mb=N MB/s each; files of --mib=N (4096)
//   in
//                     all are written there first, and rates are as the load says
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/own_options.h"
#include "bench/support/ratios.h"
#include "io/sequence/block_allocation.h"
#include "io/sequence/file_layout.h"
#include "study/simulated_disk.h"
#include "study/virtual_clock.h"
#include "vortex/file_writer.h"
#include "vortex/files/timed_readers.h"
#include "vortex/thread/activity.h"

namespace vortex { namespace {

using bench::kMiB;

constexpr std::size_t kPage = 4096;

struct Settings {
  std::size_t streams = 200;
  unsigned disks = 4;
  std::uint64_t seconds = 20;
  std::uint64_t seek_us = 100;
  std::size_t request_bytes = std::size_t{512} << 10;
  std::vector<std::size_t> memories_mib = {110, 220, 330};
  std::string folders;
  double disk_bytes_per_s = 0;
  std::uint64_t file_bytes = std::uint64_t{4} << 30;
};
Settings settings;

// A film on all disks of which nobody looks at the bytes.
class Film final : public FileLayout {
 public:
  Film(const std::vector<Disk*>& disks, std::uint64_t number)
      : disks_(disks),
        allocation_(AllocationStrategy::kSimpleRandomized, std::vector<double>(disks.size(), 1), 1,
                    number),
        begin_(number << 40) {}

  const std::string& name() const noexcept override { return name_; }
  std::span<Disk* const> disks() const noexcept override { return disks_; }
  Place locate(std::uint64_t unit, std::size_t unit_bytes) noexcept override {
    return {disks_[allocation_.disk(unit)], &file_, begin_ + unit / disks_.size() * unit_bytes};
  }
  std::optional<std::uint64_t> length() const noexcept override { return std::uint64_t{1} << 40; }
  void finish(std::uint64_t, bool) override {}

 private:
  const std::string name_ = "film";
  const std::vector<Disk*> disks_;
  const BlockAllocation allocation_;
  const std::uint64_t begin_;
  BlockFile file_;  // none: no bytes are moved
};

// Disks and films of one row, and time.
class Stage {
 public:
  // With blocks of that size the disks carry the rates as the load says.
  Stage(double load, std::size_t unit_bytes) : unit_bytes_(unit_bytes) {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> rate(1e6, 20e6);
    double sum = 0;
    for (std::size_t i = 0; i < settings.streams; ++i) sum += rates_.emplace_back(rate(random));
    settings.folders.empty() ? simulate(sum, load) : write_files(sum, load);
  }
  ~Stage() {
    striped_.reset();
    for (const auto& path : paths_) std::filesystem::remove(path);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  std::unique_ptr<FileLayout> film(std::size_t stream) {
    if (striped_ != nullptr) return striped_->reading_layout();
    return std::make_unique<Film>(disks_, stream + 1);
  }
  // The unit at which it begins, of as many.
  std::uint64_t first_unit(std::size_t stream) const {
    const std::uint64_t units = settings.file_bytes / unit_bytes_;
    return striped_ == nullptr ? 0 : units / settings.streams * stream / 2;
  }
  const std::vector<double>& rates() const { return rates_; }
  const std::vector<Disk*>& disks() const { return disks_; }
  double speed() const { return speed_; }
  std::uint64_t now_ns() const { return striped_ ? steady_now_ns() : clock_.now_ns(); }
  void wait_until(std::uint64_t time_ns) {
    if (time_ns <= now_ns()) return;
    if (striped_ == nullptr) return clock_.advance(time_ns - now_ns());
    const timespec until{static_cast<time_t>(time_ns / 1'000'000'000),
                         static_cast<long>(time_ns % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }

 private:
  void simulate(double sum, double load) {
    speed_ = sum / load / settings.disks;
    const ServiceModel model{static_cast<std::uint64_t>(speed_), static_cast<std::uint64_t>(speed_),
                             settings.seek_us * 1000};
    for (unsigned i = 0; i < settings.disks; ++i) {
      owned_.push_back(std::make_unique<SimulatedDisk>(clock_, model));
      disks_.push_back(owned_.back().get());
    }
  }

  void write_files(double sum, double load) {
    std::vector<StripedFile::Part> parts;
    std::istringstream folders(settings.folders);
    for (std::string folder; std::getline(folders, folder, ',');) {
      owned_.push_back(open_disk({.name = folder}));
      disks_.push_back(owned_.back().get());
      paths_.push_back(folder + "/timed_readers.bin");
      parts.push_back({paths_.back(), disks_.back()});
    }
    speed_ = settings.disk_bytes_per_s;
    const double wanted = load * speed_ * static_cast<double>(disks_.size());
    for (double& rate : rates_) rate *= wanted / sum;
    StripedFileOptions options;
    options.unit_bytes = unit_bytes_;
    striped_ = std::make_unique<StripedFile>(parts, options);
    FileWriter<std::uint64_t> writer(striped_->writing_layout(), {.block_bytes = unit_bytes_});
    const std::uint64_t bytes = settings.file_bytes / unit_bytes_ * unit_bytes_;
    for (std::uint64_t i = 0; i < bytes / 8; ++i) writer.data()[i] = i;
    writer.finish(bytes / 8);
  }

  const std::size_t unit_bytes_;
  VirtualClock clock_;
  std::vector<std::unique_ptr<Disk>> owned_;
  std::vector<Disk*> disks_;
  std::vector<double> rates_;
  double speed_ = 0;
  std::vector<std::string> paths_;
  std::unique_ptr<StripedFile> striped_;
};

// Who shows blocks of streams. take() says how many bytes, or 0: they are not there yet.
class Player {
 public:
  virtual ~Player() = default;
  virtual void fill() = 0;
  virtual std::size_t take(std::size_t stream) = 0;
  virtual std::uint64_t late() const = 0;
};

class Group final : public Player {
 public:
  Group(Stage& stage, PrefetchKind kind, std::size_t memory_bytes) {
    TimedReadersOptions options;
    for (Disk* const disk : stage.disks()) options.disks.push_back({.disk = disk});
    options.memory_bytes = memory_bytes;
    options.request_bytes = settings.request_bytes;
    options.prefetch = kind;
    options.caching = Caching::kDirect;
    options.now_ns = [&stage] { return stage.now_ns(); };
    group_ = std::make_unique<TimedReaders>(options);
    for (std::size_t i = 0; i < settings.streams; ++i) {
      readers_.push_back(
          group_->open(stage.film(i), {.begin = stage.first_unit(i) * settings.request_bytes,
                                       .bytes_per_s = stage.rates()[i]}));
    }
  }
  void fill() override { group_->fill(); }
  std::size_t take(std::size_t stream) override {
    return readers_[stream].ready() ? readers_[stream].next().size() : 0;
  }
  std::uint64_t late() const override {
    std::uint64_t sum = 0;
    for (const TimedReader& reader : readers_) sum += reader.statistics().late;
    return sum;
  }
  TimedReadersStatistics statistics() const { return group_->statistics(); }

 private:
  std::unique_ptr<TimedReaders> group_;
  std::vector<TimedReader> readers_;
};

class DoubleBuffering final : public Player {
 public:
  DoubleBuffering(Stage& stage, std::size_t unit_bytes)
      : unit_bytes_(unit_bytes), streams_(settings.streams) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].film = stage.film(i);
      streams_[i].next = stage.first_unit(i);
    }
  }
  ~DoubleBuffering() override {
    for (Stream& stream : streams_) {
      for (PlacedRequest& half : stream.halves) half.place.disk->wait(half.request);
    }
  }
  void fill() override {
    for (Stream& stream : streams_) {
      read(stream, 0);
      read(stream, 1);
    }
    for (Stream& stream : streams_) {
      for (PlacedRequest& half : stream.halves) half.place.disk->wait(half.request);
    }
  }
  // The half that was used until now is read into.
  std::size_t take(std::size_t number) override {
    Stream& stream = streams_[number];
    if (stream.begun && !stream.waits) read(stream, 1 - stream.coming);
    if (!stream.halves[stream.coming].request.done()) {
      late_ += !std::exchange(stream.waits, true);
      return 0;
    }
    stream.waits = false;
    stream.begun = true;
    stream.coming = 1 - stream.coming;
    return unit_bytes_;
  }
  std::uint64_t late() const override { return late_; }

 private:
  struct Stream {
    std::unique_ptr<FileLayout> film;
    std::array<PlacedRequest, 2> halves;
    std::array<std::unique_ptr<std::byte[]>, 2> memory;
    std::uint64_t next = 0;
    unsigned coming = 0;
    bool begun = false;
    bool waits = false;
  };

  void read(Stream& stream, unsigned half) {
    PlacedRequest& read = stream.halves[half];
    const FileLayout::Place place = stream.film->locate(stream.next++, unit_bytes_);
    std::byte* memory = nullptr;
    if (place.file->descriptor() >= 0) {
      auto& owned = stream.memory[half];
      if (owned == nullptr) owned = std::make_unique<std::byte[]>(unit_bytes_ + kPage);
      memory = owned.get() + (kPage - reinterpret_cast<std::uintptr_t>(owned.get()) % kPage);
    }
    read.request.set_memory(memory, unit_bytes_);
    read.aim(Operation::kRead, place, 0, unit_bytes_, true);
    place.disk->submit(read.request);
  }

  const std::size_t unit_bytes_;
  std::vector<Stream> streams_;
  std::uint64_t late_ = 0;
};

// Every stream takes a block when the last one is used up.
std::uint64_t play(Stage& stage, Player& player) {
  player.fill();
  const std::uint64_t begin = stage.now_ns();
  const std::uint64_t end = begin + settings.seconds * 1'000'000'000;
  using Due = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
  std::mt19937_64 random(11);
  for (std::size_t i = 0; i < settings.streams; ++i) due.push({begin + random() % 100'000'000, i});
  std::uint64_t played = 0;
  while (due.top().first < end) {
    const auto [when, stream] = due.top();
    due.pop();
    stage.wait_until(when);
    const std::size_t bytes = player.take(stream);
    played += bytes;
    const double used_ns =
        bytes == 0 ? 1e5 : static_cast<double>(bytes) * 1e9 / stage.rates()[stream];
    // What is late begins when it is there, other blocks when they are due.
    due.push({when + static_cast<std::uint64_t>(used_ns), stream});
  }
  return played;
}

struct Result {
  std::uint64_t bytes = 0;
  std::uint64_t late = 0;
  double speed = 0;
  TimedReadersStatistics statistics;
};

Result play_group(PrefetchKind kind, double load, std::size_t memory_bytes) {
  Stage stage(load, settings.request_bytes);
  Group group(stage, kind, memory_bytes);
  const std::uint64_t bytes = play(stage, group);
  return {bytes, group.late(), stage.speed(), group.statistics()};
}

Result play_double(double load, std::size_t unit_bytes) {
  Stage stage(load, unit_bytes);
  DoubleBuffering player(stage, unit_bytes);
  const std::uint64_t bytes = play(stage, player);
  return {bytes, player.late(), stage.speed(), {}};
}

void tell(benchmark::State& state, const Result& result, std::size_t memory_bytes) {
  state.SetIterationTime(static_cast<double>(settings.seconds));
  state.SetBytesProcessed(static_cast<std::int64_t>(result.bytes));
  state.counters["late"] = static_cast<double>(result.late);
  state.counters["memory_MiB"] = static_cast<double>(memory_bytes) / kMiB;
  state.counters["disk_MB_s"] = result.speed * 1e-6;
  state.counters["twice"] = static_cast<double>(result.statistics.flushed);
}

void add_rows() {
  for (const int percent : {80, 90}) {
    const double load = percent / 100.0;
    for (const std::size_t mib : settings.memories_mib) {
      const std::string begin =
          "memory:" + std::to_string(mib) + "/load:" + std::to_string(percent) + "/";
      for (const PrefetchKind kind :
           {PrefetchKind::kOptimal, PrefetchKind::kAsynchronousForecastAndFlush,
            PrefetchKind::kNaive}) {
        bench::add_row(begin + std::string(prefetch_kind_name(kind)), [=](auto& state) {
          for ([[maybe_unused]] auto _ : state)
            tell(state, play_group(kind, load, mib * kMiB), mib * kMiB);
        });
      }
      bench::add_row(begin + "double_buffering", [=](auto& state) {
        const std::size_t half = mib * kMiB / settings.streams / 2 / kPage * kPage;
        for ([[maybe_unused]] auto _ : state) {
          tell(state, play_double(load, half), 2 * half * settings.streams);
        }
      });
    }
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using vortex::settings;
  using vortex::bench::number;
  using vortex::bench::text;
  const vortex::bench::OwnOptions options = {
      {"--streams=", number(settings.streams)},
      {"--disks=", number(settings.disks)},
      {"--seconds=", number(settings.seconds)},
      {"--seek-us=", number(settings.seek_us)},
      {"--request-kib=", number(settings.request_bytes, 1024)},
      {"--folders=", text(settings.folders)},
      {"--disk-mb=", number(settings.disk_bytes_per_s, 1'000'000)},
      {"--memory-mib=",
       [](const std::string& value) { settings.memories_mib = {std::stoull(value)}; }},
      {"--mib=", number(settings.file_bytes, vortex::bench::kMiB)}};
  vortex::add_rows();
  return vortex::bench::run_with_ratios(
      vortex::bench::benchmark_arguments(argc, argv, options, "1"), {});
}
