#include "cli/verbs/disk_bound.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "cli/common/folder_speeds.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex::cli {

namespace {

// The folder of a file, whether or not it is there, with the links at its end followed.
std::string folder_of(std::filesystem::path path) {
  constexpr int kMostLinks = 40;
  for (int links = 0; links < kMostLinks && std::filesystem::is_symlink(path); ++links) {
    path = path.parent_path() / std::filesystem::read_symlink(path);
  }
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error(errno, "measure the disk of '" + path + "'");
  return status;
}

// Whether a file will have the name, which a device or a pipe may have.
bool is_file(const std::string& output) {
  struct stat status {};
  return output != "-" && (stat(output.c_str(), &status) != 0 || S_ISREG(status.st_mode));
}

}  // namespace

DiskSpeed DiskBound::measured(const std::string& folder) {
  DiskOptions for_disk;
  for_disk.name = "disk of " + folder;
  const std::unique_ptr<Disk> disk = open_disk(for_disk);
  return measure_disk_speed(*disk, folder);
}

DiskBound::DiskBound(const std::vector<std::string>& inputs, const std::string& output,
                     const SortResources& resources, bool merge_only, const SpeedOf& speed_of)
    : merge_only_(merge_only) {
  std::map<dev_t, std::string> folders;
  const auto measured_in = [&](const std::string& folder) {
    const dev_t file_system = status_of(folder).st_dev;
    folders.emplace(file_system, folder);
    return file_system;
  };
  std::vector<std::string> run_folders = resources.folders;
  if (run_folders.empty()) {
    run_folders.push_back(is_file(output) ? folder_of(output) : temporary_folder());
  }
  // These first: files can be made there in any case.
  const std::vector<double>& speeds = resources.folder_speeds;
  for (std::size_t i = 0; i < run_folders.size(); ++i) {
    run_folders_[measured_in(run_folders[i])] += i < speeds.size() ? speeds[i] : 1;
  }
  if (is_file(output)) output_ = measured_in(folder_of(output));
  for (const std::string& path : inputs) {
    if (path == "-") continue;
    const struct stat input = status_of(path);
    if (!S_ISREG(input.st_mode)) continue;
    input_bytes_[measured_in(folder_of(path))] += static_cast<std::uint64_t>(input.st_size);
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
  // A merge of the first records does not read all.
  std::uint64_t inputs = 0;
  for (const auto& [file_system, length] : input_bytes_) inputs += length;
  const bool in_part = merge_only_ && report.input_bytes < inputs;
  const double read =
      in_part ? static_cast<double>(report.input_bytes) / static_cast<double>(inputs) : 1;
  for (const auto& [file_system, length] : input_bytes_) {
    first[file_system].read += static_cast<std::uint64_t>(static_cast<double>(length) * read);
  }
  if (merge_only_) {
    if (output_) first[*output_].written += written;
    return seconds(first);
  }
  if (report.runs != 0) {
    double all = 0;
    for (const auto& [file_system, weight] : run_folders_) all += weight;
    // Runs may be shorter than what they hold: packed, or lines that share their beginnings.
    const auto in_runs = static_cast<double>(std::min(report.run_bytes, written));
    for (const auto& [file_system, weight] : run_folders_) {
      const auto share = static_cast<std::uint64_t>(in_runs * weight / all);
      first[file_system].written += share;
      second[file_system].read += share;
    }
  }
  // The only run that is the output was written while the input was read.
  const bool is_run = report.runs != 0 && report.run_bytes == 0;
  if (output_) (is_run ? first : second)[*output_].written += written;
  return seconds(first) + seconds(second);
}

}  // namespace vortex::cli
