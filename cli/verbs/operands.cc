#include "cli/verbs/operands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <string>
#include <string_view>

namespace vortex::cli {

namespace {

// CLI11 looks for an option by name in functions that end the process where they find no memory.
const CLI::Option* option_of(const CLI::App& verb, std::string_view name) {
  const bool is_long = name.starts_with("--");
  name.remove_prefix(is_long ? 2 : 1);
  for (const CLI::Option* const option : verb.get_options({})) {
    const auto& names = is_long ? option->get_lnames() : option->get_snames();
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

// Whether the argument behind this option is its value.
bool takes_the_next(const CLI::App& verb, std::string_view option) {
  const auto takes_value = [&](std::string_view name) {
    const CLI::Option* const known = option_of(verb, name);
    return known != nullptr && known->get_items_expected_max() > 0;
  };
  if (option.starts_with("--")) return option.find('=') == option.npos && takes_value(option);
  for (std::size_t i = 1; i < option.size(); ++i) {
    if (takes_value(std::string{'-', option[i]})) return i + 1 == option.size();
  }
  return false;
}

}  // namespace

void keep_bracketed_names(const CLI::App& program, int argc, char** argv) {
  static std::deque<std::string> names;  // which argv has from now on
  const CLI::App* verb = nullptr;
  for (const CLI::App* const known : program.get_subcommands({})) {
    if (argc > 1 && known->get_name() == argv[1]) verb = known;
  }
  if (verb == nullptr) return;
  bool operands_only = false;
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!operands_only && argument.size() > 1 && argument.front() == '-') {
      operands_only = argument == "--";
      if (!operands_only && takes_the_next(*verb, argument)) ++i;
    } else if (argument.starts_with('[') && argument.ends_with(']')) {
      argv[i] = names.emplace_back("./" + std::string(argument)).data();
    }
  }
}

}  // namespace vortex::cli
