// Disks whose speeds are known: simulated in real time, or real ones in folders.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/support/own_options.h"
#include "bench/support/ratios.h"
#include "study/paced_disk.h"
#include "vortex/disk.h"

namespace vortex::bench {

inline constexpr double kMegabyte = 1e6;

inline double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

inline std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

inline std::vector<double> numbers_of(const std::string& list) {
  std::vector<double> numbers;
  for (const std::string& part : parts_of(list)) numbers.push_back(std::atof(part.c_str()));
  return numbers;
}

struct DiskSpeeds {
  std::vector<double> read_mbps;
  std::vector<double> write_mbps;
};

// By default disks are simulated over files in memory (PacedDisk), at the speeds asked for.
struct KnownDisks {
  std::string folder = "/dev/shm";   // of the simulated disks
  std::vector<std::string> folders;  // real disks instead of simulated ones, one a folder
  DiskSpeeds of_folders;
  double seek_ms = 0;  // of simulated disks, for a request that does not follow the last one

  bool simulated() const { return folders.empty(); }

  // Calls add_rows(name, speeds) for each set of disks: the folders, or four equal disks and four
  // of which one is slow. False: speeds are missing, as a line says.
  template <typename AddRows>
  bool for_each_set(AddRows&& add_rows) const {
    if (simulated()) {
      add_rows("equal", DiskSpeeds{{200, 200, 200, 200}, {200, 200, 200, 200}});
      add_rows("one_slow", DiskSpeeds{{200, 200, 200, 50}, {200, 200, 200, 50}});
      return true;
    }
    if (of_folders.read_mbps.size() != folders.size() ||
        of_folders.write_mbps.size() != folders.size()) {
      std::fprintf(stderr, "--folders needs as many --read-mbps and --write-mbps\n");
      return false;
    }
    add_rows("folders", of_folders);
    return true;
  }
  const std::string& folder_of(std::size_t index) const {
    return simulated() ? folder : folders[index];
  }

  std::unique_ptr<Disk> open(std::size_t index, const DiskSpeeds& speeds) const {
    if (!simulated()) {
      DiskOptions options;
      options.name = folders[index];
      return open_disk(options);
    }
    ServiceModel model;
    model.read_bytes_per_s = static_cast<std::uint64_t>(speeds.read_mbps[index] * kMegabyte);
    model.write_bytes_per_s = static_cast<std::uint64_t>(speeds.write_mbps[index] * kMegabyte);
    model.seek_ns = static_cast<std::uint64_t>(seek_ms * 1e6);
    return std::make_unique<PacedDisk>(model, DiskOptions{}, &late_);
  }
  // Requests that simulated disks have served later than their model says, so far.
  std::uint64_t late_requests() const { return late_; }

  // --folder=PATH --folders=PATH,… --read-mbps=N,… --write-mbps=N,… --seek-ms=N
  void add_to(OwnOptions& options) {
    options["--folder="] = text(folder);
    options["--folders="] = [this](const std::string& value) { folders = parts_of(value); };
    options["--read-mbps="] = [this](const std::string& value) {
      of_folders.read_mbps = numbers_of(value);
    };
    options["--seek-ms="] = [this](const std::string& value) { seek_ms = std::stod(value); };
    options["--write-mbps="] = [this](const std::string& value) {
      of_folders.write_mbps = numbers_of(value);
    };
  }

  // The rest of main(): the rows that add_rows() registers for each set of disks. --mib=N sets
  // `bytes`.
  template <typename AddRows>
  int run(int argc, char** argv, std::uint64_t& bytes, OwnOptions options, AddRows add_rows) {
    add_to(options);
    options["--mib="] = number(bytes, kMiB);
    // Speeds in real time hardly vary, and each row takes seconds: one round.
    std::vector<std::string> arguments = benchmark_arguments(argc, argv, options, "1");
    if (!for_each_set(add_rows)) return 2;
    return run_with_ratios(std::move(arguments), {});
  }

 private:
  mutable std::atomic<std::uint64_t> late_{0};
};

}  // namespace vortex::bench
