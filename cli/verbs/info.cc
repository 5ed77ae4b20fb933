// vortex info: what the machine offers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "cli/verbs/machine_report.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"

namespace vortex::cli {

namespace {

std::string text_of(const Fact& fact) {
  if (const bool* yes = std::get_if<bool>(&fact.value)) return *yes ? "yes" : "no";
  if (const std::uint64_t* number = std::get_if<std::uint64_t>(&fact.value)) {
    return fact.unit == Fact::Unit::kBytes ? format_bytes(*number) : fmt::to_string(*number);
  }
  return std::get<std::string>(fact.value);
}

void print(const std::vector<Fact>& facts) {
  std::size_t width = 0;
  for (const Fact& fact : facts) width = std::max(width, fact.name.size());
  std::string group;
  for (const Fact& fact : facts) {
    if (fact.group != group) fmt::print("{}{}\n", group.empty() ? "" : "\n", fact.group);
    group = fact.group;
    fmt::print("  {:<{}}  {}{}\n", fact.name, width, text_of(fact),
               fact.note.empty() ? "" : " (" + fact.note + ")");
  }
}

void print_json(const std::vector<Fact>& facts) {
  nlohmann::ordered_json json;
  for (const Fact& fact : facts) {
    nlohmann::ordered_json& entry = json[fact.group][fact.name];
    std::visit([&entry](const auto& value) { entry["value"] = value; }, fact.value);
    if (fact.unit == Fact::Unit::kBytes) entry["unit"] = "bytes";
    if (!fact.note.empty()) entry["note"] = fact.note;
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int info(const InfoOptions& options) {
  std::vector<std::string> folders = options.folders;
  if (folders.empty()) folders.emplace_back(".");
  const std::vector<Fact> facts = machine_report(folders);
  options.json ? print_json(facts) : print(facts);
  return kExitGood;
}

}  // namespace vortex::cli
