// A sorter that arrays are pushed to, and merges of parts of files.
#include <vortex/block_pool.h>
#include <vortex/disk.h>
#include <vortex/error.h>
#include <vortex/file_reader.h>
#include <vortex/file_writer.h>
#include <vortex/record_order.h>
#include <vortex/sorter.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "module.h"
#include "sort_calls.h"
#include "vortex/detail/stream/saturating.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{256} << 10;

// A new file whose records follow a header; it appears when it is complete.
class NewFile final : public vortex::RecordOutput {
 public:
  // `record_bytes` in all, without the header.
  NewFile(const std::string& path, std::string_view header, std::uint64_t record_bytes,
          vortex::FileWriterOptions options = {.block_bytes = kCopyBytes})
      : at_(header.size()), all_(at_ + record_bytes), file_(path, synced(options, all_)) {
    std::memcpy(file_.data(), header.data(), header.size());
  }

  std::span<std::byte> room(std::size_t most_bytes) override {
    return {file_.data() + at_,
            static_cast<std::size_t>(std::min<std::uint64_t>(most_bytes, all_ - at_))};
  }
  void written(std::size_t bytes) override { at_ += bytes; }
  void finish() { file_.finish(all_); }

 private:
  static vortex::FileWriterOptions synced(vortex::FileWriterOptions options, std::uint64_t bytes) {
    options.sync = true;
    options.expected_bytes = bytes;
    return options;
  }

  std::uint64_t at_;
  std::uint64_t all_;
  vortex::FileWriter<std::byte> file_;
};

// Of a file: its length, when it was changed, in nanoseconds, and its inode.
using Stamp = std::tuple<std::uint64_t, std::int64_t, std::uint64_t>;

// Throws Error(EBUSY) where the file is not the one that had the stamp.
void expect_unchanged(const std::string& path, const Stamp& stamp) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) vortex::throw_error(errno, "stat " + path);
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (stamp != Stamp(now.st_size, now.st_mtim.tv_sec * kSecond + now.st_mtim.tv_nsec, now.st_ino)) {
    vortex::throw_error(EBUSY, path + " was changed meanwhile: use it when nobody writes to it");
  }
}

// A file, where its records begin, how many it has, and its stamp when its header was read.
using PartOfFile = std::tuple<std::string, std::uint64_t, std::uint64_t, Stamp>;

// How the inputs and the output of a merge share memory: in blocks of the largest size with which
// there are enough.
struct MergeMemory {
  vortex::FileReaderOptions in{.read_ahead = 2};
  vortex::FileWriterOptions out{.write_behind = 2};
  std::size_t blocks = 0;
  std::size_t block_bytes = std::size_t{1} << 20;

  // False: there is too little.
  bool divide(std::uint64_t memory, std::size_t inputs, std::size_t record) {
    constexpr std::size_t kLeastBlock = std::size_t{16} << 10;
    for (; block_bytes >= kLeastBlock; block_bytes /= 2) {
      in.comeback_blocks = out.comeback_blocks = 2 * record / block_bytes + 1;
      in.request_bytes = out.request_bytes = block_bytes;
      blocks = inputs * vortex::FileReaderBase::blocks_needed(in, block_bytes) +
               vortex::FileWriterBase::blocks_needed(out, block_bytes);
      if (blocks <= memory / block_bytes) return true;
    }
    return false;
  }
};

// Merges sorted records, `count` of those that there are, into a file with a header. Returns false,
// with nothing done, where memory has no room for as many inputs.
bool merge_parts(const std::vector<PartOfFile>& parts, const std::string& output,
                 const nb::bytes& header, std::size_t record, const std::vector<KeyTuple>& keys,
                 std::uint64_t count, std::uint64_t memory, nb::object progress) {
  MergeMemory room;
  if (!room.divide(memory, parts.size(), record)) return false;
  Watch watch(std::move(progress));
  const std::string_view head(header.c_str(), header.size());
  watch.run([&] {
    const auto order = vortex::order_of_format(format_of(record, keys));
    vortex::BlockPool pool({.pool_bytes = room.blocks * room.block_bytes,
                            .block_bytes = room.block_bytes,
                            .name = "merge"});
    const auto disk = vortex::open_disk();
    room.in.pool = room.out.pool = &pool;
    room.in.disk = room.out.disk = disk.get();
    std::vector<vortex::FileReader<std::byte>> files;
    std::vector<vortex::MergeInput> inputs;
    for (const auto& [path, offset, records, stamp] : parts) {
      files.emplace_back(path, room.in);
      const std::uint64_t bytes = files.back().size();
      if (records > (bytes - std::min(bytes, offset)) / record) {
        vortex::throw_error(ENODATA, path + " ends before its header says");
      }
      inputs.push_back({files.back().data() + offset, records});
    }
    NewFile file(output, head, count * record, room.out);
    const auto merge = order->checked_merge(inputs);
    vortex::guarded([&] { merge->start(); }).throw_if_failed();
    const std::uint64_t at_once = std::max(room.block_bytes / record, std::size_t{1});
    for (std::uint64_t done = 0; done < count;) {
      const std::uint64_t some = std::min(count - done, at_once);
      vortex::guarded([&] { merge->merge(some, file); }).throw_if_failed();
      done += some;
      watch.function()({vortex::SortPhase::kWriting, done * record, count * record});
    }
    for (const auto& part : parts) expect_unchanged(std::get<0>(part), std::get<3>(part));
    file.finish();
  });
  return true;
}

// A descriptor of a file that is read from a place on.
class ReadFile {
 public:
  explicit ReadFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) vortex::throw_error(errno, path_);
  }
  ~ReadFile() { close(descriptor_); }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  void read(std::byte* to, std::size_t bytes, std::uint64_t offset) const {
    while (bytes > 0) {
      const ssize_t got = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) vortex::throw_error(errno, path_);
      if (got == 0) vortex::throw_error(ENODATA, path_ + " ends before its header says");
      to += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;
};

// A sorter of records whose arrays lie in memory of Python's. Threads take turns.
class Sorter {
 public:
  Sorter(std::size_t record, const std::vector<KeyTuple>& keys, std::uint64_t first,
         std::uint64_t memory, std::vector<std::string> folders, unsigned threads,
         nb::object progress)
      : watch_(std::move(progress)) {
    const vortex::SortResources resources =
        resources_of(first, memory, std::move(folders), threads, watch_);
    watch_.run([&] { sorter_.emplace(resources, format_of(record, keys)); });
  }

  std::uint64_t size() {
    std::uint64_t size = 0;
    watch_.run([&] { size = sorter_->size(); });
    return size;
  }
  std::tuple<std::uint64_t, unsigned> counts() {
    vortex::RunCounts counts;
    watch_.run([&] { counts = sorter_->counts(); });
    return {counts.runs, counts.passes};
  }

  void push(nb::handle records) {
    const Buffer buffer(records, Buffer::Use::kRead);
    watch_.run([&] { sorter_->push(std::span<const std::byte>(buffer.data(), buffer.bytes())); });
  }

  void push_file(const PartOfFile& part) {
    watch_.run([&] {
      auto [path, offset, count, stamp] = part;
      const ReadFile file(path);
      const std::size_t record = sorter_->record_bytes();
      std::vector<std::byte> some(std::max(kCopyBytes / record, std::size_t{1}) * record);
      // A file may say that it has more than a number holds: reading finds its end.
      for (std::uint64_t left = vortex::detail::saturating_product(count, record); left > 0;) {
        const std::size_t bytes = std::min<std::uint64_t>(left, some.size());
        file.read(some.data(), bytes, offset);
        sorter_->push(std::span<const std::byte>(some.data(), bytes));
        offset += bytes;
        left -= bytes;
      }
      expect_unchanged(path, stamp);
    });
  }

  void sort() {
    watch_.run([&] { sorter_->sort(); });
  }

  // Copies sorted records, those from byte `offset` on; forward only.
  void read(std::uint64_t offset, nb::handle to) {
    const Buffer buffer(to, Buffer::Use::kChange);
    watch_.run([&] { copy(offset, buffer.data(), buffer.bytes()); });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

  // The header, and then all records, as a file that appears when it is complete.
  void write(const std::string& path, const nb::bytes& header) {
    const std::string_view head(header.c_str(), header.size());
    watch_.run([&] {
      const std::uint64_t all = sorter_->size() * sorter_->record_bytes();
      NewFile file(path, head, all);
      vortex::SortProgress progress{vortex::SortPhase::kWriting, 0, all};
      for (std::uint64_t at = 0; at < all; at = progress.bytes) {
        const std::span<std::byte> room = file.room(kCopyBytes);
        copy(at, room.data(), room.size());
        file.written(room.size());
        progress.bytes = at + room.size();
        watch_.function()(progress);
      }
      file.finish();
    });
  }

 private:
  void copy(std::uint64_t offset, std::byte* to, std::size_t bytes) {
    const std::uint64_t all = sorter_->size() * sorter_->record_bytes();
    if (offset > all || bytes > all - offset) {
      vortex::throw_error(ERANGE, "a read behind the last sorted record");
    }
    copy_sorted(sorter_->data(), offset, bytes, to);
  }

  Watch watch_;
  std::optional<vortex::RecordSorter> sorter_;
};

}  // namespace

void bind_sorter(nb::module_& module) {
  module.def("expect_unchanged", &expect_unchanged);
  module.def("merge_parts", &merge_parts, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<Sorter>(module, "Sorter")
      .def(nb::init<std::size_t, const std::vector<KeyTuple>&, std::uint64_t, std::uint64_t,
                    std::vector<std::string>, unsigned, nb::object>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def_prop_ro("size", &Sorter::size)
      .def_prop_ro("counts", &Sorter::counts)
      .def("push", &Sorter::push)
      .def("push_file", &Sorter::push_file)
      .def("sort", &Sorter::sort)
      .def("read", &Sorter::read)
      .def("write", &Sorter::write);
}

}  // namespace vortex_python
