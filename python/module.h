// The parts of the extension module `vortex._core`, which the Python files beside it wrap.
#pragma once

#include <nanobind/nanobind.h>
#include <vortex/line_sort.h>
#include <vortex/record_order.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

// Strings are names of files, or what stands beside them on command lines: bytes, which Python has
// in its own way where they are no text. Included in the place of nanobind/stl/string.h.
template <>
struct nanobind::detail::type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    PyObject* const bytes =
        PyUnicode_Check(source.ptr()) ? PyUnicode_EncodeFSDefault(source.ptr()) : nullptr;
    if (bytes == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.assign(PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes)));
    Py_DECREF(bytes);
    return true;
  }
  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
};

namespace vortex_python {

namespace nb = nanobind;

// The memory of an object with the buffer protocol, in one piece. Made and destroyed with the GIL
// held; the memory may be used without it.
class Buffer {
 public:
  enum class Use { kRead, kChange };

  // Throws nb::python_error (BufferError) where the object has no such memory.
  Buffer(nb::handle object, Use use) {
    const int flags = use == Use::kChange ? PyBUF_CONTIG : PyBUF_CONTIG_RO;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const noexcept { return static_cast<std::byte*>(view_.buf); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_;
};

// offset, length, KeyKind as in vtx_key_kind, big-endian, descending
using KeyTuple = std::tuple<std::size_t, std::size_t, int, bool, bool>;

vortex::RecordFormat format_of(std::size_t record, const std::vector<KeyTuple>& keys);

// keys, letters for all of them, separator, whether the input is CSV
using LineKeys = std::tuple<std::vector<std::string>, std::string, std::string, bool>;

vortex::LineOrder order_of_lines(const LineKeys& keys, bool stable, bool unique);

// A number that is the same however the bytes of a record are aligned, and another one, most
// likely, for other bytes.
std::uint64_t number_of(const std::byte* record, std::size_t bytes) noexcept;

// Called before memory is touched that faults: somebody may have begun to handle SIGSEGV since, as
// faulthandler.enable() does.
void receive_faults();

void bind_arrays(nb::module_& module);
void bind_failures(nb::module_& module);
void bind_files(nb::module_& module);
void bind_lines(nb::module_& module);
void bind_records(nb::module_& module);
void bind_sorter(nb::module_& module);
void bind_sorts(nb::module_& module);
void bind_tables(nb::module_& module);

}  // namespace vortex_python
