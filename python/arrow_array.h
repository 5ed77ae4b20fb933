// An array as Arrow's C data interface hands it over.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vortex_python {

// Its members and their order are those of the interface, which other libraries know.
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;  // -1: unknown
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

// The array in a capsule of __arrow_c_array__(), which owns it. Throws nb::python_error.
inline const ArrowArray& array_in(nanobind::handle capsule) {
  void* const array = PyCapsule_GetPointer(capsule.ptr(), "arrow_array");
  if (array == nullptr) throw nanobind::python_error();
  return *static_cast<const ArrowArray*>(array);
}

// A buffer for pyarrow: where the values lie, how many bytes they are, and what owns them from now
// on.
template <typename T>
nanobind::tuple taken(std::vector<T>& values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  values.clear();
  // What comes next is about as long, and mostly needs no more room.
  values.reserve(owner->size() + owner->size() / 8);
  if (owner->capacity() / 5 > owner->size() / 4) owner->shrink_to_fit();
  owner->reserve(1);  // no bytes have a place, too
  const auto place = reinterpret_cast<std::uintptr_t>(owner->data());
  const std::size_t bytes = owner->size() * sizeof(T);
  const nanobind::capsule capsule(
      owner.get(), [](void* taken) noexcept { delete static_cast<std::vector<T>*>(taken); });
  owner.release();
  return nanobind::make_tuple(place, bytes, capsule);
}

// Values of an array, from number `begin` on, which does not count the array's offset.
struct ArrowValues {
  const ArrowArray& array;
  std::size_t begin;
  std::size_t count;

  // Where the first lies.
  std::size_t place() const noexcept { return static_cast<std::size_t>(array.offset) + begin; }
  template <typename T>
  const T* buffer(std::size_t number) const noexcept {
    return static_cast<const T*>(array.buffers[number]);
  }
  ArrowValues some(std::size_t first, std::size_t some_count) const noexcept {
    return {array, begin + first, some_count};
  }
};

inline bool bit_at(const std::uint8_t* bits, std::size_t place) noexcept {
  return (bits[place / 8] >> place % 8 & 1) != 0;
}

// Tells of each value whether there is one.
class ArrowValidity {
 public:
  explicit ArrowValidity(const ArrowValues& values) noexcept
      : bits_(values.array.null_count == 0 || values.array.n_buffers == 0
                  ? nullptr
                  : values.buffer<std::uint8_t>(0)),
        place_(values.place()) {}

  bool operator[](std::size_t i) const noexcept {
    return bits_ == nullptr || bit_at(bits_, place_ + i);
  }

 private:
  const std::uint8_t* bits_;
  std::size_t place_;
};

// What belongs to values one behind the other: to each its own, or one thing to all of them, which
// they use one after the other (step 0).
template <typename T>
class Each {
 public:
  Each(T* first, std::size_t step) noexcept : first_(first), step_(step) {}
  T& operator[](std::size_t i) const noexcept { return first_[i * step_]; }
  bool is_one_thing() const noexcept { return step_ == 0; }
  Each one(std::size_t i) const noexcept { return {first_ + i * step_, 0}; }

 private:
  T* first_;
  std::size_t step_;
};

}  // namespace vortex_python
