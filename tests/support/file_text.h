// Whole files as strings.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace vortex::test {

// The bytes of a regular file, or nothing where it cannot be read. One call reads them all: an
// iterator over the stream takes a dozen calls a byte in tests, which are not optimised.
inline std::string file_text(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {};
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

inline void put_file_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace vortex::test
