#include "sort/job/sort_files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "io/name/path_names.h"
#include "io/sequence/single_file.h"
#include "sort/job/sort_folders.h"
#include "sort/plan/memory_limits.h"
#include "sort/plan/record_plan.h"
#include "sort/runs/run_store.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

namespace {

// A shorter input is one or two requests, through the page cache: it takes one descriptor.
constexpr std::uint64_t kReadAround = std::uint64_t{128} << 10;

BlockFile open_input(const std::string& path) {
  if (path == "-") return BlockFile::borrow(STDIN_FILENO, "standard input", false);
  return BlockFile::open(path, false);
}

BlockFile create_output(const std::string& path, const SortResources& resources, OutputUse use) {
  if (path == "-") return BlockFile::borrow(STDOUT_FILENO, "standard output", true);
  CreateOptions options;
  options.in_place = resources.output_in_place;
  options.waiting_folder =
      resources.folders.empty() ? temporary_folder() : resources.folders.front();
  options.direct = use != OutputUse::kAtOnce;
  options.may_have_name = use == OutputUse::kWriters;
  return BlockFile::create(path, options);
}

[[noreturn]] void refuse_length_of_pipe(FileReaderBase& input, std::uint64_t reserved) {
  throw Error(EFBIG, "'" + input.stream().name() + "' is longer than the " +
                         format_bytes(reserved) +
                         " of address space that there are for what does not tell its length: "
                         "sort a file");
}

}  // namespace

std::uint64_t readable_bytes(FileReaderBase& input, std::uint64_t known) {
  const std::uint64_t reserved = input.stream().reserved_bytes();
  if (!input.length_bytes() && reserved - known < input.block_bytes()) {
    refuse_length_of_pipe(input, reserved);
  }
  return input.readable_bytes(known);
}

SortInput::SortInput(const std::string& path, std::size_t record_bytes)
    : file_(open_input(path)), record_bytes_(record_bytes) {
  name_ = file_.name();
  if (fstat(file_.descriptor(), &identity_) != 0) throw Error(errno, "stat '" + name_ + "'");
  if (file_.seekable()) length_bytes_ = file_.length();
  if (length_bytes_ && *length_bytes_ % record_bytes_ != 0) refuse_length(*length_bytes_);
}

std::unique_ptr<SingleFile> SortInput::open(Caching caching, Disk* disk) const {
  BlockFile file = file_.lend();
  // Of many inputs that are open at once most are short.
  if (length_bytes_ > kReadAround || caching == Caching::kDirect) file.read_around_cache();
  return std::make_unique<SingleFile>(std::move(file), disk);
}

void SortInput::refuse_length(std::uint64_t length_bytes) const {
  throw Error(EINVAL, "'" + name_ + "' has " + std::to_string(length_bytes) +
                          " bytes, which is no multiple of the record's " +
                          std::to_string(record_bytes_));
}

void SortInput::expect_unchanged() const {
  if (!S_ISREG(identity_.st_mode)) return;
  struct stat now {};
  if (fstat(file_.descriptor(), &now) != 0) throw Error(errno, "stat '" + name_ + "'");
  if (now.st_size == identity_.st_size && now.st_mtim.tv_sec == identity_.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == identity_.st_mtim.tv_nsec) {
    return;
  }
  throw Error(EBUSY, "'" + name_ +
                         "' was changed while it was sorted: sort it when nobody "
                         "writes to it, or a copy of it");
}

SortOutput::SortOutput(const std::string& path, const SortResources& resources, OutputUse use)
    : path_(path), resources_(resources), file_(create_output(path, resources, use)) {
  if (fstat(file_.descriptor(), &identity_) != 0) throw Error(errno, "stat '" + name() + "'");
  if (path != "-" && S_ISREG(identity_.st_mode)) folder_ = folder_of(name());
}

void SortOutput::expect_room(std::uint64_t bytes) const {
  std::optional<std::uint64_t> room;
  if (S_ISBLK(identity_.st_mode)) {
    std::uint64_t size = 0;
    if (ioctl(file_.descriptor(), BLKGETSIZE64, &size) != 0) return;
    // Standard output is written from where it stands.
    const off_t position = lseek(file_.descriptor(), 0, SEEK_CUR);
    room = size - std::min(size, static_cast<std::uint64_t>(std::max<off_t>(position, 0)));
  } else if (S_ISREG(identity_.st_mode)) {
    // The contents that the file of a borrowed descriptor has already may be overwritten.
    room = file_.room_bytes();
  } else {
    return;
  }
  if (!room || *room >= bytes) return;
  throw Error(ENOSPC, "the output takes " + format_bytes(bytes) + ", and " +
                          (S_ISBLK(identity_.st_mode)
                               ? "the device '" + name() + "' holds "
                               : "the file system of '" + name() + "' has room for ") +
                          format_bytes(*room));
}

void SortOutput::write_whole(std::string_view bytes, bool sync) {
  file_.write_all(bytes);
  if (sync) file_.sync();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    file_.publish(sync);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileWriterBase SortOutput::open_writer(const FileWriterOptions& options) {
  if (!file_)
    file_ = create_output(path_, resources_, OutputUse::kWriters);  // a writer before took it along
  auto layout = std::make_unique<SingleFile>(std::move(file_), options.disk);
  layout_ = layout.get();
  return FileWriterBase(std::move(layout), options);
}

FileWriterBase SortOutput::open_writer_behind(std::uint64_t begin,
                                              const FileWriterOptions& options) {
  return FileWriterBase(std::make_unique<FilePart>(*layout_, begin), options);
}

SortFiles::SortFiles(const SortPlaces& places, std::size_t record_bytes)
    : places_(places), record_bytes_(record_bytes), folders_(places.resources.folders) {
  if (record_bytes != 0) open_inputs();
  if (folders_.empty()) folders_.push_back(default_run_folder(places.output));
}

void SortFiles::open_inputs() {
  if (places_.inputs.empty()) throw Error(EINVAL, "a sort needs an input");
  for (const std::string& path : places_.inputs) {
    try {
      inputs_.push_back(std::make_unique<SortInput>(path, record_bytes_));
    } catch (const Error& error) {
      if (error.code().value() != EMFILE) throw;
      throw Error(EMFILE, "'" + path + "' is input " + std::to_string(inputs_.size() + 1) + " of " +
                              std::to_string(places_.inputs.size()) +
                              ", all of which are open at once: raise the limit (ulimit -n)");
    }
  }
}

void SortFiles::expect_folders() const {
  for (const std::string& folder : folders_) file_system_of(folder);
}

std::optional<std::uint64_t> SortFiles::input_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& input : inputs_) {
    if (!input->length_bytes()) return std::nullopt;
    bytes = detail::saturating_sum(bytes, *input->length_bytes());
  }
  return bytes;
}

void SortFiles::expect_inputs_unchanged() const {
  for (const auto& input : inputs_) input->expect_unchanged();
}

void SortFiles::expect_known_lengths() const {
  for (const auto& input : inputs_) {
    if (input->length_bytes()) continue;
    throw Error(EINVAL,
                "'" + input->name() +
                    "' is no file, and merging sorted inputs needs to know how long they are");
  }
}

bool SortFiles::open_output_at_once() {
  try {
    output_.emplace(places_.output, places_.resources, OutputUse::kAtOnce);
  } catch (const NoNamelessFile&) {
    return false;
  }
  return true;
}

// Pipes and devices cannot be opened anew.
void SortFiles::open_output() {
  if (!output_ || output_->folder()) {
    output_.reset();
    output_.emplace(places_.output, places_.resources);
  }
  expect_no_overwriting();
  const SortResources& resources = places_.resources;
  disk_ = open_sort_disk(resources.open_disk, resources.backend, "");
  constexpr std::uint64_t kBytesOfCopier = std::uint64_t{4} << 20;
  const std::uint64_t most = input_bytes().value_or(kMaxSortInputBytes) / kBytesOfCopier;
  const unsigned threads = static_cast<unsigned>(
      std::min<std::uint64_t>(detail::ThreadTeam::resolve(resources.threads), most));
  const unsigned copiers = Disk::copiers_for(threads);
  if (copiers != 0 && !resources.open_disk) disk_->copy_with(copiers);
}

// A device or file that is written in place must not be an input, too.
void SortFiles::expect_no_overwriting() const {
  if (output_->folder()) return;
  const struct stat& to = output_->identity();
  for (const auto& input : inputs_) {
    const struct stat& from = input->identity();
    const bool block_device = S_ISBLK(to.st_mode) && S_ISBLK(from.st_mode);
    const bool same_file = S_ISREG(to.st_mode) && S_ISREG(from.st_mode) &&
                           to.st_dev == from.st_dev && to.st_ino == from.st_ino;
    if ((block_device && to.st_rdev == from.st_rdev) || same_file) {
      throw Error(EINVAL, "'" + input->name() + "' is an input and would be overwritten as '" +
                              output_->name() + "'");
    }
  }
}

void SortFiles::expect_room(const SortPlan& plan, bool runs) const {
  const std::uint64_t bytes = *plan.input_bytes;
  if (runs) expect_room_for_runs(folders_, bytes + room_beside_runs(plan));
  output_->expect_room(bytes);
}

// The room in bytes that the output takes in the folders' file system before the last merge has
// given as much of the runs' room back.
std::uint64_t SortFiles::room_beside_runs(const SortPlan& plan) const {
  if (!output_->folder()) return 0;
  const dev_t of_output = file_system_of(*output_->folder());
  const auto elsewhere = [&](const std::string& folder) {
    return file_system_of(folder) != of_output;
  };
  if (std::any_of(folders_.begin(), folders_.end(), elsewhere)) return 0;
  if (!punches_holes(folders_.front())) return *plan.input_bytes;
  // The last block of a run is not full, and of each folder's slots one more is free. Blocks in
  // which parts of the merge meet stay until its end.
  return *plan.input_bytes / RunStore::kPartFreedAtOnce +
         (plan.runs * std::max({plan.merge_parts, plan.pass_parts, 1U}) + folders_.size()) *
             plan.block_bytes;
}

std::vector<SortedFile> SortFiles::open_sorted(std::size_t first, std::size_t last) const {
  std::vector<SortedFile> files;
  for (std::size_t i = first; i < last; ++i) {
    files.push_back({inputs_[i]->open(places_.resources.caching, disk_.get()),
                     *inputs_[i]->length_bytes() / record_bytes_});
  }
  return files;
}

FileReaderOptions SortFiles::reader_options(BlockPool& pool, FileReaderOptions options) const {
  options.caching = places_.resources.caching;
  options.disk = disk_.get();
  options.pool = &pool;
  return options;
}

FileReaderBase SortFiles::open_reader(std::size_t input, BlockPool& pool, FileReaderOptions options,
                                      std::uint64_t space_for_others) const {
  const std::uint64_t left = address_space_left();
  options = reader_options(pool, std::move(options));
  const std::uint64_t least = std::min(left / 2, RecordPlan::kLeastOfPipe);
  options.unknown_length_bytes = std::min(options.unknown_length_bytes,
                                          std::max(left - std::min(left, space_for_others), least));
  return inputs_[input]->open_reader(options);
}

FileWriterBase SortFiles::open_writer(BlockPool& pool, FileWriterOptions options,
                                      std::uint64_t most_bytes, std::uint64_t least_bytes) {
  return output_->open_writer(writer_options(pool, options, most_bytes, least_bytes));
}

FileWriterBase SortFiles::open_writer_behind(std::uint64_t begin, BlockPool& pool,
                                             FileWriterOptions options, std::uint64_t most_bytes) {
  return output_->open_writer_behind(begin, writer_options(pool, options, most_bytes, most_bytes));
}

std::optional<BlockFile> SortFiles::open_file_for_runs() const {
  std::error_code error;
  const std::optional<std::string>& folder = output_->folder();
  if (!folder || folders_.size() != 1) return std::nullopt;
  if (!std::filesystem::equivalent(*folder, folders_.front(), error)) return std::nullopt;
  try {
    return create_output(places_.output, places_.resources, OutputUse::kRun);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void SortFiles::publish_run(BlockFile file, std::uint64_t bytes) const {
  SingleFile(std::move(file), disk_.get()).finish(bytes, places_.resources.sync);
}

FileWriterOptions SortFiles::writer_options(BlockPool& pool, FileWriterOptions options,
                                            std::uint64_t most_bytes,
                                            std::uint64_t least_bytes) const {
  options.gaps = Gaps::kUnspecified;  // a sort writes every byte
  options.caching = places_.resources.caching;
  options.sync = places_.resources.sync;
  options.reserve_bytes =
      detail::round_up(detail::saturating_sum(most_bytes, 1), pool.block_bytes());
  options.least_reserve_bytes =
      detail::round_up(detail::saturating_sum(least_bytes, 1), pool.block_bytes());
  options.disk = disk_.get();
  options.pool = &pool;
  return options;
}

}}  // namespace vortex::v0
