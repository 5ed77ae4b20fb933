#include "cli/common/folder_speeds.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "cli/common/byte_size.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr std::uint64_t kMeasuredBytes = std::uint64_t{64} << 20;

double parse_speed(const std::string& argument, const std::string& speed) {
  const std::string what = "--disk '" + argument + "': the speed";
  try {
    const std::uint64_t bytes_per_s = parse_size(speed, what);
    if (bytes_per_s == 0) throw Error(EINVAL, what + " is 0");
    return static_cast<double>(bytes_per_s);
  } catch (const Error& error) {
    throw Error(EINVAL, std::string(error.message()) +
                            "; it is what a disk moves in a second, or auto. A folder whose name "
                            "holds a colon is written with a slash behind it: '" +
                            argument + "/'");
  }
}

}  // namespace

std::string temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

double measured_speed(const std::string& folder) {
  DiskOptions for_disk;
  for_disk.name = "disk of " + folder;
  const std::unique_ptr<Disk> disk = open_disk(for_disk);
  DiskSpeedOptions options;
  options.bytes = kMeasuredBytes;
  const DiskSpeed speed = measure_disk_speed(*disk, folder, options);
  return 2 / (1 / speed.read + 1 / speed.write);
}

void parse_run_folders(const std::vector<std::string>& arguments,
                       const std::function<double(const std::string& folder)>& measure,
                       SortResources& resources) {
  for (const std::string& argument : arguments) {
    const std::size_t colon = argument.rfind(':');
    if (colon == std::string::npos || argument.find('/', colon) != std::string::npos) {
      resources.folders.push_back(argument);
      continue;
    }
    const std::string speed = argument.substr(colon + 1);
    resources.folders.push_back(argument.substr(0, colon));
    resources.folder_speeds.push_back(speed == "auto" ? measure(resources.folders.back())
                                                      : parse_speed(argument, speed));
  }
  if (resources.folder_speeds.empty()) return;
  if (resources.folder_speeds.size() == resources.folders.size()) return;
  throw Error(EINVAL, "some folders of --disk have a speed and some have none: give one to each");
}

}  // namespace vortex::cli
