// The arguments of GNU sort's options. What is wrong with one is thrown as UsageError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vortex::cli {

// A number without a suffix; too large ones are the largest.
std::uint64_t parse_count(std::string_view text, const char* option);

// KiB without a unit, bytes with b, percent of the memory with %, else powers of 1024. `option` is
// what the size was given behind.
std::uint64_t parse_memory(std::string_view text, const char* option);

// The byte that separates fields.
char parse_separator(std::string_view text);

// The letters that mean the same as the words of --check and --sort, which may be cut short where
// that leaves one meaning.
char parse_check_word(std::string_view text);
char parse_sort_word(std::string_view text);

// The names in a file of --files0-from, each ended by NUL; "-" is standard input.
std::vector<std::string> read_names(const std::string& path);

}  // namespace vortex::cli
