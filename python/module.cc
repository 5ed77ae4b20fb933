#include "module.h"

#include <vortex/error.h>
#include <vortex/fault_dispatcher.h>
#include <vortex/sort_resources.h>
#include <vortex/version.h>

#include <exception>
#include <string_view>

namespace vortex_python {

namespace {

// A vortex::Error is an OSError with its errno, and so FileNotFoundError where that is ENOENT.
void raise_os_error(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const vortex::Error& e) {
    const std::string_view message = e.message();
    PyObject* const text =
        PyUnicode_DecodeFSDefaultAndSize(message.data(), static_cast<Py_ssize_t>(message.size()));
    if (text == nullptr) return;
    PyObject* const exception = PyObject_CallFunction(PyExc_OSError, "iN", e.code().value(), text);
    if (exception == nullptr) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
    Py_DECREF(exception);
  }
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(&raise_os_error);
  module.attr("version") = vortex::version();
  module.def("default_memory", [] { return vortex::default_memory_bytes(); });
  bind_arrays(module);
  bind_failures(module);
  bind_files(module);
  bind_lines(module);
  bind_records(module);
  bind_sorter(module);
  bind_sorts(module);
  bind_tables(module);
}

}  // namespace vortex_python
