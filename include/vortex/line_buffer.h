// Text put together without allocating: for what the fault handler has to say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vortex::inline v0 {

// A line of at most kCapacity bytes; what does not fit is cut off. Async-signal-safe.
template <std::size_t kCapacity>
class LineBuffer {
 public:
  constexpr LineBuffer& text(std::string_view piece) noexcept {
    for (char c : piece) {
      if (size_ + 1 >= kCapacity) break;
      bytes_[size_++] = c;
    }
    bytes_[size_] = '\0';
    return *this;
  }

  constexpr LineBuffer& number(std::uint64_t value) noexcept { return digits(value, 10); }

  LineBuffer& address(const void* value) noexcept {
    return text("0x").digits(reinterpret_cast<std::uintptr_t>(value), 16);
  }

  constexpr std::string_view view() const noexcept { return {bytes_.data(), size_}; }
  const char* c_str() const noexcept { return bytes_.data(); }
  bool empty() const noexcept { return size_ == 0; }

 private:
  constexpr LineBuffer& digits(std::uint64_t value, unsigned base) noexcept {
    std::array<char, 20> reversed{};
    std::size_t count = 0;
    do {
      reversed[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count > 0) text({&reversed[--count], 1});
    return *this;
  }

  std::array<char, kCapacity> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace vortex::inline v0
