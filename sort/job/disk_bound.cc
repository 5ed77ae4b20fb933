#include "sort/job/disk_bound.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "io/name/path_names.h"
#include "sort/job/sort_folders.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

DiskSpeed DiskBound::measured(const std::string& folder) {
  DiskOptions for_disk;
  for_disk.name = "disk of " + folder;
  const std::unique_ptr<Disk> disk = open_disk(for_disk);
  return measure_disk_speed(*disk, folder);
}

DiskBound::DiskBound(const SortPlaces& places, const SpeedOf& speed_of)
    : merge_only_(places.merge_inputs) {
  std::map<dev_t, std::string> folders;
  const auto measured_in = [&](const std::string& folder) {
    const dev_t file_system = file_system_of(folder);
    folders.emplace(file_system, folder);
    return file_system;
  };
  std::vector<std::string> run_folders = places.resources.folders;
  if (run_folders.empty()) run_folders.push_back(default_run_folder(places.output));
  // These first: files can be made there in any case.
  const std::vector<double>& speeds = places.resources.folder_speeds;
  for (std::size_t i = 0; i < run_folders.size(); ++i) {
    run_folders_[measured_in(run_folders[i])] += i < speeds.size() ? speeds[i] : 1;
  }
  const std::string output = followed_links(places.output);
  struct stat status {};
  const bool exists = places.output == "-" || stat(output.c_str(), &status) == 0;
  if (!exists || S_ISREG(status.st_mode)) output_ = measured_in(folder_of(output));
  for (const std::string& path : places.inputs) {
    if (path == "-") continue;
    struct stat input {};
    if (stat(path.c_str(), &input) != 0) throw Error(errno, "measure the disk of '" + path + "'");
    if (!S_ISREG(input.st_mode)) continue;
    input_bytes_[measured_in(folder_of(followed_links(path)))] +=
        static_cast<std::uint64_t>(input.st_size);
  }
  for (const auto& [file_system, folder] : folders) {
    file_systems_[file_system] = {folder, speed_of(folder)};
  }
}

std::vector<DiskBound::FileSystem> DiskBound::file_systems() const {
  std::vector<FileSystem> all;
  for (const auto& [number, file_system] : file_systems_) all.push_back(file_system);
  return all;
}

double DiskBound::seconds(const Phase& phase) const {
  double most = 0;
  for (const auto& [file_system, traffic] : phase) {
    most =
        std::max(most, file_systems_.at(file_system).speed.seconds(traffic.read, traffic.written));
  }
  return most;
}

double DiskBound::seconds(const SortReport& report) const {
  // Runs hold that much at least, too.
  const std::uint64_t written = report.output_bytes;
  Phase first;
  Phase second;
  for (const auto& [file_system, length] : input_bytes_) first[file_system].read += length;
  if (merge_only_) {
    if (output_) first[*output_].written += written;
    return seconds(first);
  }
  if (report.runs != 0) {
    double all = 0;
    for (const auto& [file_system, weight] : run_folders_) all += weight;
    // Runs of lines may be shorter than their text.
    const auto in_runs = static_cast<double>(std::min(report.run_bytes, written));
    for (const auto& [file_system, weight] : run_folders_) {
      const auto share = static_cast<std::uint64_t>(in_runs * weight / all);
      first[file_system].written += share;
      second[file_system].read += share;
    }
  }
  if (output_) second[*output_].written += written;
  return seconds(first) + seconds(second);
}

}}  // namespace vortex::v0
