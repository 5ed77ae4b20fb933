#include "cli/records/order_summary_json.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "vortex check";

std::string to_hex(const std::vector<std::byte>& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  throw Error(EINVAL, "a record is not written in hexadecimal digits");
}

std::vector<std::byte> from_hex(const Json& value, std::size_t bytes) {
  if (value.is_null()) return {};
  const auto text = value.get<std::string>();
  if (text.size() != 2 * bytes) throw Error(EINVAL, "a record has the wrong length");
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    result[i] =
        static_cast<std::byte>(digit_value(text[2 * i]) << 4 | digit_value(text[2 * i + 1]));
  }
  return result;
}

// nlohmann would make whole numbers of fractions and large ones of negative.
std::uint64_t count_of(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  throw Error(EINVAL, std::string("'") + name + "' is " + value.dump() + ", which counts nothing");
}

OrderReport parse(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.at("kind").get<std::string>() != kKind) throw Error(EINVAL, "it is of another kind");
  std::vector<RecordKey> keys;
  for (const Json& key : json.at("keys")) keys.push_back(parse_record_key(key.get<std::string>()));
  const std::uint64_t record_bytes = count_of(json, "record_bytes");
  OrderReport report{.format = RecordFormat(record_bytes, keys), .files = {}, .summary = {}};
  OrderSummary& summary = report.summary;
  summary.records = count_of(json, "records");
  summary.checksum = parse_checksum(json.at("checksum").get<std::string>());
  summary.duplicates = count_of(json, "duplicates");
  summary.descents = count_of(json, "descents");
  if (!json.at("first_descent").is_null()) {
    summary.first_descent = count_of(json, "first_descent");
  }
  summary.first = from_hex(json.at("first"), record_bytes);
  summary.last = from_hex(json.at("last"), record_bytes);
  std::uint64_t records_in_files = 0;
  for (const Json& file : json.at("files")) {
    report.files.push_back({file.at("path").get<std::string>(), count_of(file, "records")});
    records_in_files += report.files.back().records;
  }
  if (records_in_files != summary.records || summary.first.empty() != (summary.records == 0) ||
      summary.last.empty() != (summary.records == 0) ||
      summary.first_descent.has_value() != (summary.descents != 0) ||
      summary.first_descent.value_or(0) >= std::max<std::uint64_t>(summary.records, 1) ||
      summary.duplicates + summary.descents >= std::max<std::uint64_t>(summary.records, 1)) {
    throw Error(EINVAL, "its numbers contradict each other");
  }
  return report;
}

}  // namespace

std::string to_json(const OrderReport& report) {
  const OrderSummary& summary = report.summary;
  Json json;
  json["kind"] = kKind;
  json["record_bytes"] = report.format.record_bytes();
  json["keys"] = Json::array();
  for (const RecordKey& key : report.format.keys()) json["keys"].push_back(to_string(key));
  json["files"] = Json::array();
  for (const OrderReport::File& file : report.files) {
    json["files"].push_back({{"path", file.path}, {"records", file.records}});
  }
  json["sorted"] = summary.sorted();
  json["records"] = summary.records;
  json["bytes"] = summary.records * report.format.record_bytes();
  json["checksum"] = checksum_text(summary.checksum);
  json["duplicates"] = summary.duplicates;
  json["descents"] = summary.descents;
  json["first_descent"] = summary.first_descent ? Json(*summary.first_descent) : Json();
  json["first"] = summary.records != 0 ? Json(to_hex(summary.first)) : Json();
  json["last"] = summary.records != 0 ? Json(to_hex(summary.last)) : Json();
  if (report.seconds > 0) json["seconds"] = report.seconds;
  // A path need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

OrderReport order_report_from_json(const std::string& text, const std::string& name) {
  try {
    return parse(text);
  } catch (const Json::exception& error) {
    throw Error(EINVAL, name + " is no summary of `vortex check --json`: " + error.what());
  } catch (const Error& error) {
    throw Error(EINVAL, name + " is no summary of `vortex check --json`: " + error.what());
  }
}

}  // namespace vortex::cli
