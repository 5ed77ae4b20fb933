#include "vortex/line_key.h"

#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "lines/fields/field_finder.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "lines/keys/composed_key.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

KeySpecification parse_column(const std::string& text) {
  KeySpecification key = parse_key_specification(text);
  if (text.find_first_of(".,") != std::string::npos) {
    throw Error(EINVAL, "'" + text + "': a key of CSV is one whole column, F[OPTS]");
  }
  key.end_field = key.begin_field;
  return key;
}

}  // namespace

LineOrder line_order(const LineKeyOptions& options) {
  const auto locale = std::make_shared<const KeyLocale>(options.locale);
  std::vector<KeySpecification> given;
  for (const std::string& text : options.keys) {
    given.push_back(options.fields == FieldRules::kCsv ? parse_column(text)
                                                       : parse_key_specification(text));
  }
  const KeyFlags for_all = parse_key_flags(options.letters);
  std::vector<KeySpecification> keys = complete_keys(std::move(given), for_all);
  const bool keys_decide = !keys.empty() && (options.stable || options.unique);
  LineOrder order{.unique = options.unique};
  order.ties = keys_decide ? Ties::kInputOrder : Ties::kRecordBytes;
  if (!keys_decide) {
    // The lines themselves decide last, in the direction that r gives to the whole.
    order.descending = for_all.reverse;
    if (!locale->collates_bytes()) {
      // They do so by the collation of the locale, and lines that it takes for equal keep their
      // order.
      keys.push_back({.flags = {.reverse = for_all.reverse}});
      order.ties = Ties::kInputOrder;
    }
  }
  if (keys.empty()) return order;
  for (KeySpecification& key : keys) key.flags.reverse ^= order.descending;
  const FieldFinder fields(*locale, options.fields, options.separator);
  order.keys = std::make_shared<ComposedKey>(locale, fields, keys, options.random_seed);
  return order;
}

}}  // namespace vortex::v0
