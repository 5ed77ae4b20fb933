// Files as memory that Python can look at through the buffer protocol.
#include <vortex/error.h>
#include <vortex/fault_dispatcher.h>
#include <vortex/file_array.h>
#include <vortex/file_reader.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "failures.h"
#include "io/file/block_file.h"
#include "module.h"

#include <nanobind/stl/vector.h>

namespace vortex_python {

void receive_faults() {
  vortex::FaultDispatcher& dispatcher = vortex::FaultDispatcher::instance();
  if (dispatcher.running() && !dispatcher.handler_in_front().empty()) dispatcher.reclaim();
}

namespace {

constexpr std::size_t kLongRequest = std::size_t{4} << 20;

// All of a file, read or changed in any order in a fixed memory. Lives as long as a buffer of it.
class Mapping {
 public:
  // Errors have `name`.
  Mapping(const std::string& path, std::size_t memory_bytes, bool writable,
          const std::string& name) {
    const nb::gil_scoped_release released;
    receive_faults();
    if (writable) {
      array_ = std::make_unique<vortex::FileArray<std::byte>>(
          path, vortex::FileArrayOptions{.memory_bytes = memory_bytes, .name = name});
    } else {
      reader_ = std::make_unique<vortex::FileReader<std::byte>>(
          path, vortex::FileReaderOptions{
                    // Of what is read ahead: where there is room, a disk that others use, too,
                    // serves long requests in half of the time.
                    .request_bytes = memory_bytes >= 8 * kLongRequest ? kLongRequest : 0,
                    .memory_bytes = memory_bytes,
                    .name = name});
      size_ = reader_->size();
    }
    touched_.emplace(name, stream());
  }

  // What has been changed is written then.
  ~Mapping() {
    touched_.reset();
    const nb::gil_scoped_release released;
    array_.reset();
    reader_.reset();
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const noexcept {
    return array_ ? array_->data() : const_cast<std::byte*>(reader_->data());
  }
  std::uint64_t size() const noexcept { return array_ ? array_->size() : size_; }
  std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(data()); }
  bool writable() const noexcept { return array_ != nullptr; }

  // Copies the bytes from `offset` on to an array; an error of the file is thrown.
  void read(std::uint64_t offset, nb::handle to) const {
    const Buffer buffer(to, Buffer::Use::kChange);
    const nb::gil_scoped_release released;
    if (offset > size() || buffer.bytes() > size() - offset) {
      vortex::throw_error(ERANGE, "a read beyond the end of the file");
    }
    const vortex::Failure failure =
        vortex::guarded([&] { std::memcpy(buffer.data(), data() + offset, buffer.bytes()); });
    failure.throw_if_failed();
  }

  // With `set_aside` the disk has room for all of it from now on.
  void resize(std::uint64_t bytes, bool set_aside) {
    const nb::gil_scoped_release released;
    changed().resize_bytes(bytes);
    if (set_aside) changed().allocate_bytes(bytes);
  }

  void flush(bool sync) {
    const nb::gil_scoped_release released;
    changed().flush(sync ? vortex::Flush::kSynced : vortex::Flush::kWritten);
  }

  // What is not in memory cannot be touched any more, and what is cannot be changed.
  void close() {
    const nb::gil_scoped_release released;
    stream().cancel(EBADF, "the array was closed");
  }

 private:
  vortex::Stream& stream() const { return array_ ? array_->stream() : reader_->stream(); }

  vortex::FileArray<std::byte>& changed() const {
    if (!array_) vortex::throw_error(EBADF, "the file was opened to be read");
    return *array_;
  }

  std::unique_ptr<vortex::FileReader<std::byte>> reader_;
  std::unique_ptr<vortex::FileArray<std::byte>> array_;
  std::uint64_t size_ = 0;
  std::optional<OpenFile> touched_;
};

// A file that appears under its name when it is published, and until then is seen by nobody. What
// it replaces passes its rights on, and links to that stay.
class NewFile {
 public:
  explicit NewFile(const std::string& path) {
    const nb::gil_scoped_release released;
    file_ = vortex::BlockFile::create(path, {.direct = false});
  }

  int descriptor() const noexcept { return file_.descriptor(); }
  // One that was not published is gone.
  void close() { file_ = {}; }

  // They appear together, and have reached the disk then.
  static void publish(const std::vector<NewFile*>& files) {
    const nb::gil_scoped_release released;
    std::vector<vortex::BlockFile*> whole;
    for (NewFile* const file : files) {
      file->file_.sync();
      whole.push_back(&file->file_);
    }
    vortex::publish_together(whole, true);
  }

 private:
  vortex::BlockFile file_;
};

// By its name in Python; "auto" is the one that serves the kernel as well, where that is allowed.
void use_engine(const std::string& name) {
  vortex::FaultDispatcher& dispatcher = vortex::FaultDispatcher::instance();
  vortex::Engine engine = vortex::Engine::kUserfaultfd;
  if (name != "signals") {
    try {
      vortex::FaultDispatcher::require(engine);
    } catch (const vortex::Error&) {
      if (name != "auto") throw;
      engine = vortex::Engine::kNative;
    }
  } else {
    engine = vortex::Engine::kNative;
  }
  if (dispatcher.running() && dispatcher.engine() == engine) return;
  if (dispatcher.running()) dispatcher.stop();
  dispatcher.start(engine);
}

std::string engine_in_use() {
  const vortex::FaultDispatcher& dispatcher = vortex::FaultDispatcher::instance();
  const vortex::Engine engine =
      dispatcher.running() ? dispatcher.engine() : vortex::FaultDispatcher::default_engine();
  return engine == vortex::Engine::kUserfaultfd ? "userfaultfd" : "signals";
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Mapping& mapping = *nb::inst_ptr<Mapping>(self);
  return PyBuffer_FillInfo(view, self, mapping.data(), static_cast<Py_ssize_t>(mapping.size()),
                           mapping.writable() ? 0 : 1, flags);
}

PyType_Slot kMappingSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                               {0, nullptr}};

}  // namespace

void bind_files(nb::module_& module) {
  nb::class_<Mapping>(module, "Mapping", nb::type_slots(kMappingSlots))
      .def(nb::init<const std::string&, std::size_t, bool, const std::string&>())
      .def_prop_ro("size", &Mapping::size)
      .def_prop_ro("address", &Mapping::address)
      .def_prop_ro("writable", &Mapping::writable)
      .def("read", &Mapping::read)
      .def("resize", &Mapping::resize)
      .def("flush", &Mapping::flush)
      .def("close", &Mapping::close);
  nb::class_<NewFile>(module, "NewFile")
      .def(nb::init<const std::string&>())
      .def_prop_ro("descriptor", &NewFile::descriptor)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](NewFile& self, const nb::args&) { self.close(); });
  module.def("publish", &NewFile::publish);
  module.def("use_engine", &use_engine);
  module.def("engine", &engine_in_use);
}

}  // namespace vortex_python
