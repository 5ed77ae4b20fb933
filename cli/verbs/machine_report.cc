#include "cli/verbs/machine_report.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

namespace {

using Facts = std::vector<Fact>;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "always [madvise] never": what stands in brackets.
std::string chosen(const std::string& line) {
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return line;
  return line.substr(begin + 1, end - begin - 1);
}

Fact bytes(std::string group, std::string name, std::uint64_t value, std::string note = {}) {
  return {std::move(group), std::move(name), value, std::move(note), Fact::Unit::kBytes};
}

Fact limit(std::string group, std::string name, decltype(RLIMIT_AS) resource, std::string note) {
  rlimit found{};
  getrlimit(resource, &found);
  if (found.rlim_cur == RLIM_INFINITY) {
    return {std::move(group), std::move(name), std::string("unlimited")};
  }
  return bytes(std::move(group), std::move(name), found.rlim_cur, std::move(note));
}

void add_system(Facts& facts) {
  utsname system{};
  uname(&system);
  facts.push_back({"system", "kernel", std::string(system.sysname) + " " + system.release});
  facts.push_back({"system", "architecture", std::string(system.machine)});
  facts.push_back(bytes("system", "page size", static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string processor_features() {
  std::string features;
#if defined(__x86_64__)
  const auto add = [&features](bool has, const char* name) {
    if (has && !features.empty()) features += " ";
    if (has) features += name;
  };
  __builtin_cpu_init();
  add(__builtin_cpu_supports("sse4.2") != 0, "sse4.2");
  add(__builtin_cpu_supports("popcnt") != 0, "popcnt");
  add(__builtin_cpu_supports("bmi2") != 0, "bmi2");
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512bw") != 0, "avx512bw");
  add(__builtin_cpu_supports("avx512dq") != 0, "avx512dq");
  add(__builtin_cpu_supports("avx512vl") != 0, "avx512vl");
  add(__builtin_cpu_supports("avx512vbmi2") != 0, "avx512vbmi2");
#endif
  return features.empty() ? "none that matter here" : features;
}

void add_processor(Facts& facts) {
  facts.push_back({"processor", "model", processor_name()});
  facts.push_back({"processor", "features", processor_features()});
  const auto online = static_cast<std::uint64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.push_back({"processor", "cores", online});
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    const auto usable = static_cast<std::uint64_t>(CPU_COUNT(&allowed));
    facts.push_back(
        {"processor", "cores for this process", usable,
         usable < online ? "its affinity (taskset, cpuset) leaves out the others" : ""});
  }
}

void add_memory(Facts& facts) {
  const MemoryLimits limits = memory_limits();
  facts.push_back(bytes("memory", "machine", limits.machine_bytes));
  facts.push_back(bytes("memory", "available", limits.available_bytes));
  if (limits.group_bytes) {
    facts.push_back(bytes("memory", "control group limit", *limits.group_bytes, limits.group_file));
  } else {
    facts.push_back({"memory", "control group limit", std::string("none")});
  }
  facts.push_back(bytes("memory", "usable", limits.usable_bytes(), "what percentages refer to"));
  facts.push_back(limit("memory", "address space (RLIMIT_AS)", RLIMIT_AS,
                        "streams reserve more than they use; raise it with ulimit -v"));
  facts.push_back(limit("memory", "locked (RLIMIT_MEMLOCK)", RLIMIT_MEMLOCK,
                        "what disks may register with io_uring; beyond it requests cost more"));
  const std::string overcommit = first_line("/proc/sys/vm/overcommit_memory");
  facts.push_back(
      {"memory", "vm.overcommit_memory", overcommit,
       overcommit == "2" ? "counts address space as memory: reservations will fail" : ""});
}

void add_pages(Facts& facts) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  const std::string huge = chosen(first_line(folder + "enabled"));
  std::string note;
  if (huge.empty()) note = "this kernel has none; blocks are made of small pages";
  if (huge == "never") note = "blocks are made of small pages; 'madvise' would let pools ask";
  facts.push_back(
      {"pages", "transparent huge pages", huge.empty() ? std::string("none") : huge, note});
  facts.push_back({"pages", "defragmentation for them", chosen(first_line(folder + "defrag"))});
  const std::string maps = first_line("/proc/sys/vm/max_map_count");
  // Pools leave an eighth of them to the program, and claim two for each block.
  const std::uint64_t available = std::strtoull(maps.c_str(), nullptr, 10) / 8 * 7;
  facts.push_back({"pages", "vm.max_map_count", maps,
                   "room for pools of " + format_bytes(available / 2 * kDefaultBlockBytes) +
                       " in blocks of " + format_bytes(kDefaultBlockBytes)});
}

// Whether memory can be moved and its address stay taken.
Fact moving_blocks() {
  Fact fact{"pages", "moving memory without a hole", false};
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto map = [page] {
    return mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  void* const from = map();
  void* const to = map();
  if (from == MAP_FAILED || to == MAP_FAILED) throw Error(errno, "cannot map two pages");
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (mremap(from, page, page, flags, to) == MAP_FAILED) {
    fact.note = std::string("mremap with MREMAP_DONTUNMAP: ") + std::strerror(errno) +
                "; streams need Linux 5.7 or newer";
  } else {
    fact.value = true;
  }
  munmap(from, page);
  munmap(to, page);
  return fact;
}

// Whether the engine userfaultfd can serve faults, those of the kernel included.
Fact serving_faults() {
  Fact fact{"pages", "faults by userfaultfd", true};
  try {
    FaultDispatcher::require(Engine::kUserfaultfd);
    if (chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled")) == "never") {
      fact.note = "without huge pages a move of 2 MiB takes some 50 us instead of 1";
    }
  } catch (const Error& error) {
    fact.value = false;
    fact.note = error.what();
  }
  return fact;
}

void add_disks(Facts& facts, const FileStatistics& probe) {
  const DiskStatistics& disk = probe.disks.front();
  facts.push_back({"disks", "backend", disk.backend, disk.fallback});
  facts.push_back({"disks", "registered memory", disk.registration});
}

// An open file of the folder without a name.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& folder)
      : file_(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ >= 0) return;
    std::string name = folder + "/.vortex-info-XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0) throw Error(errno, "create a file in '" + folder + "'");
    unlink(name.c_str());
  }
  ~NamelessFile() { close(file_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  int descriptor() const noexcept { return file_; }

 private:
  int file_;
};

// A file of the folder that never gets a name: what a writer of it has found out.
FileStatistics probe_of(const std::string& folder) {
  const NamelessFile writable(folder);  // its refusal names the folder alone
  FileWriterOptions options;
  options.block_bytes = kDefaultBlockBytes;
  options.reserve_bytes = kDefaultBlockBytes;  // nothing is written
  return FileWriter<std::byte>(folder + "/.vortex-info-" + std::to_string(getpid()), options)
      .statistics();
}

std::string file_system_name(std::uint64_t magic) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 8> kTypes = {{
      {0xef53, "ext4"},
      {0x58465342, "xfs"},
      {0x9123683e, "btrfs"},
      {0x01021994, "tmpfs"},
      {0x794c7630, "overlayfs"},
      {0xf2f52010, "f2fs"},
      {0x2fc12fc1, "zfs"},
      {0x6969, "nfs"},
  }};
  for (const auto& [type, name] : kTypes) {
    if (type == magic) return name;
  }
  return "unknown";
}

// What offsets and lengths of direct transfers are multiples of.
std::uint64_t direct_alignment(int file) {
  constexpr std::uint64_t kUsual = 4096;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    return std::max<std::uint64_t>({512, status.stx_dio_offset_align, status.stx_dio_mem_align});
  }
#endif
  static_cast<void>(file);
  return kUsual;
}

// How readers find out what the page cache holds of a file that has a page.
Fact page_cache_question(const std::string& group, int file) {
  constexpr long kCachestat = 451;
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  } range;
  std::array<std::uint64_t, 5> counts{};
  Fact fact{group, "page cache asked by", std::string("cachestat")};
  if (syscall(kCachestat, file, &range, counts.data(), 0) == 0) return fact;
  char byte = 0;
  iovec place{&byte, 1};
  if (preadv2(file, &place, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN) {
    fact.value = std::string("trying to read");
    fact.note = "cachestat needs Linux 6.5 or newer";
  } else {
    fact.value = std::string("nothing");
    fact.note = "the file system has no reading without waiting either";
  }
  return fact;
}

void add_folder(Facts& facts, const std::string& folder, const FileStatistics& probe) {
  const std::string group = "folder " + printable(folder);
  const NamelessFile file(folder);
  struct statfs found {};
  if (statfs(folder.c_str(), &found) != 0) throw Error(errno, "look at '" + folder + "'");
  facts.push_back(
      {group, "file system", file_system_name(static_cast<std::uint64_t>(found.f_type))});
  if (found.f_blocks != 0) {
    facts.push_back(
        bytes(group, "free", found.f_bavail * static_cast<std::uint64_t>(found.f_frsize)));
  } else {
    facts.push_back({group, "free", std::string("unknown"), "the file system does not tell"});
  }
  if (probe.direct == "direct I/O") {
    facts.push_back(bytes(group, "direct I/O", direct_alignment(file.descriptor()),
                          "offsets and lengths are multiples of it"));
  } else {
    facts.push_back({group, "direct I/O", false, probe.direct});
  }
  const auto page = static_cast<off_t>(sysconf(_SC_PAGESIZE));
  const bool holes =
      ftruncate(file.descriptor(), 16 * page) == 0 &&
      fallocate(file.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8 * page) == 0;
  facts.push_back({group, "holes", holes,
                   holes ? "runs can be freed while they are merged"
                         : "the file system cannot free a part of a file"});
  facts.push_back(page_cache_question(group, file.descriptor()));
}

}  // namespace

std::vector<Fact> machine_report(const std::vector<std::string>& folders) {
  Facts facts;
  add_system(facts);
  add_processor(facts);
  add_memory(facts);
  add_pages(facts);
  facts.push_back(moving_blocks());
  facts.push_back(serving_faults());
  std::vector<FileStatistics> probes;
  for (const std::string& folder : folders) probes.push_back(probe_of(folder));
  add_disks(facts,
            probes.empty() ? probe_of(std::filesystem::temp_directory_path()) : probes.front());
  for (std::size_t i = 0; i < folders.size(); ++i) add_folder(facts, folders[i], probes[i]);
  return facts;
}

}  // namespace vortex::cli
