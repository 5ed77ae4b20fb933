// Touches of files that could not be served, as exceptions of the thread that touched.
#include <vortex/error.h>

#include <time.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "failures.h"

#include <nanobind/stl/tuple.h>

namespace vortex_python {

namespace {

// From the touch to the exception: one for each thread, since the first is what matters.
struct Noted {
  std::uint64_t thread = 0;  // 0: free
  std::uint64_t file = 0;
  std::int64_t raised_ns = 0;
  vortex::Failure failure;
};
// A thread that Python does not know, as a library's: the main thread has the exception.
constexpr std::uint64_t kMainThread = ~std::uint64_t{0};
// An exception that has not come by then was swallowed, and comes again.
constexpr std::int64_t kPatienceNs = 100'000'000;

// A spin lock: it is taken inside a signal handler, by a thread that does not have it.
std::atomic_flag noted_lock;
std::array<Noted, 256> all_noted;

class NotedLock {
 public:
  NotedLock() noexcept {
    while (noted_lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~NotedLock() { noted_lock.clear(std::memory_order_release); }
  NotedLock(const NotedLock&) = delete;
  NotedLock& operator=(const NotedLock&) = delete;
};

std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// False: the thread has an exception to come already.
bool note_for(std::uint64_t thread, std::uint64_t file, const vortex::Failure& failure) noexcept {
  const std::int64_t now = now_ns();
  const NotedLock lock;
  Noted* place = &all_noted.front();
  for (Noted& noted : all_noted) {
    if (noted.thread == thread) {
      const bool is_late = now - noted.raised_ns > kPatienceNs;
      if (is_late) noted.raised_ns = now;
      return is_late;
    }
    // Those of threads that are gone stay: the oldest goes.
    if (noted.thread == 0 || (place->thread != 0 && noted.raised_ns < place->raised_ns)) {
      place = &noted;
    }
  }
  *place = {thread, file, now, failure};
  return true;
}

bool take_noted(std::uint64_t thread, Noted* taken) noexcept {
  const NotedLock lock;
  for (Noted& noted : all_noted) {
    if (noted.thread != thread) continue;
    *taken = noted;
    noted.thread = 0;
    return true;
  }
  return false;
}

// The class of the exception, which asks take_failure() what it has to say: what is raised from
// outside of a thread cannot be an object. Never freed.
PyObject* error_class = nullptr;
// Threads that want the interpreter while it ends are ended by it.
std::atomic<bool> interpreter_ends{false};

int raise_in_main_thread(void*) {
  PyErr_SetNone(error_class);
  return -1;
}

// The thread may have let the interpreter go, and takes it again for a moment; it is inside of code
// of others that only touches memory, so that it has nothing that somebody could wait for.
void raise_here() noexcept {
  if (interpreter_ends.load()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error_class);
  PyGILState_Release(state);
}

// Open files by their numbers.
struct OpenFiles {
  std::mutex mutex;
  std::map<std::uint64_t, OpenFile*> files;
  std::uint64_t next = 0;
};
OpenFiles& open_files() {
  static OpenFiles& all = *new OpenFiles;
  return all;
}

// errno, text and path of what the calling thread's last touches failed with, and whether there is
// any. From now on touches of all files fail anew: one call may have met zeros of several.
std::tuple<int, std::string, std::string, bool> take_failure() {
  Noted noted;
  const std::uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  if (!take_noted(thread, &noted) && !take_noted(kMainThread, &noted)) {
    return {0, "", "", false};
  }
  std::string text, path;
  try {
    noted.failure.throw_if_failed();
  } catch (const vortex::Error& error) {
    text = error.message();
  }
  OpenFiles& all = open_files();
  const nb::gil_scoped_release released;
  const std::lock_guard lock(all.mutex);
  const auto found = all.files.find(noted.file);
  if (found != all.files.end()) path = found->second->path;
  for (const auto& [number, file] : all.files) {
    try {
      file->stream.clear_filler();
    } catch (const vortex::Error&) {
      // A forked child has no filler in its parent's files.
    }
  }
  return {noted.failure.error, text, path, true};
}

}  // namespace

OpenFile::OpenFile(std::string name, vortex::Stream& filled)
    : path(std::move(name)), stream(filled) {
  OpenFiles& all = open_files();
  const std::lock_guard lock(all.mutex);
  number_ = ++all.next;
  all.files.emplace(number_, this);
  stream.fill_on_failure({&OpenFile::note, reinterpret_cast<void*>(number_)});
}

OpenFile::~OpenFile() {
  OpenFiles& all = open_files();
  const std::lock_guard lock(all.mutex);
  all.files.erase(number_);
}

void OpenFile::note(void* number, const vortex::Failure& failure) noexcept {
  const auto file = reinterpret_cast<std::uintptr_t>(number);
  PyThreadState* const state = PyGILState_GetThisThreadState();
  if (!note_for(state != nullptr ? PyThreadState_GetID(state) : kMainThread, file, failure)) return;
  if (state != nullptr) {
    raise_here();
  } else {
    Py_AddPendingCall(&raise_in_main_thread, nullptr);
  }
}

void bind_failures(nb::module_& module) {
  module.def("take_failure", &take_failure);
  module.def("raise_failures_as", [](nb::object type) { error_class = type.release().ptr(); });
  module.def("end_raising", [] { interpreter_ends = true; });
}

}  // namespace vortex_python
