#include "lines/keys/composed_key.h"

#include <utility>

#include "lines/keys/collation_key.h"
#include "lines/keys/float_key.h"
#include "lines/keys/month_key.h"
#include "lines/keys/number_key.h"
#include "lines/keys/text_key.h"
#include "lines/keys/version_key.h"

namespace vortex::inline v0 {
namespace {

// Letters that contradict each other have been refused; R wins over V as in GNU sort.
std::unique_ptr<const FieldEncoder> encoder_for(const KeyFlags& flags, const KeyLocale& locale,
                                                const RandomKey::Seed& seed) {
  if (flags.numeric) return std::make_unique<NumberKey>(locale);
  if (flags.general_numeric) return std::make_unique<FloatKey>(locale);
  if (flags.human_numeric) return std::make_unique<HumanNumberKey>(locale);
  if (flags.month) return std::make_unique<MonthKey>(locale);
  if (flags.random) return std::make_unique<RandomKey>(locale, seed);
  if (flags.version) return std::make_unique<VersionKey>();
  if (!locale.collates_bytes()) return std::make_unique<CollationKey>(locale);
  return std::make_unique<TextKey>();
}

bool compares_bytes(const KeyFlags& flags, const KeyLocale& locale) noexcept {
  return !(flags.numeric || flags.general_numeric || flags.human_numeric || flags.month ||
           flags.random || flags.version) &&
         locale.collates_bytes();
}

}  // namespace

ComposedKey::ComposedKey(std::shared_ptr<const KeyLocale> locale,
                         std::unique_ptr<const FieldFinder> fields,
                         std::span<const KeySpecification> keys, const RandomKey::Seed& seed)
    : locale_(std::move(locale)), fields_(std::move(fields)) {
  for (const KeySpecification& key : keys) {
    parts_.push_back({key, encoder_for(key.flags, *locale_, seed)});
  }
  if (parts_.empty()) return;
  const KeyFlags& last = parts_.back().where.flags;
  parts_.back().plain = !last.reverse && compares_bytes(last, *locale_);
}

void ComposedKey::append(std::span<const std::string_view> records, KeyBatch& keys) const {
  Scratch scratch;
  for (const std::string_view record : records) append_record(record, scratch, keys);
}

void ComposedKey::append_record(std::string_view record, Scratch& scratch, KeyBatch& keys) const {
  scratch.key.clear();
  for (const Part& part : parts_) {
    std::string_view field = fields_->find(record, part.where, scratch.field);
    field = choose(field, part.where.flags, scratch.chosen);
    if (part.plain) {
      keys.append(scratch.key);
      scratch.key.clear();
      keys.append(field);
    } else {
      append_part(part, field, scratch.key);
    }
  }
  keys.append(scratch.key);
  keys.end_key();
}

void ComposedKey::append_part(const Part& part, std::string_view field, std::string& key) const {
  const std::size_t begin = key.size();
  part.encoder->append(field, key);
  if (!part.where.flags.reverse) return;
  for (std::size_t i = begin; i < key.size(); ++i) key[i] = static_cast<char>(~key[i]);
}

// A field without the bytes that d and i leave out, and folded by f.
std::string_view ComposedKey::choose(std::string_view field, const KeyFlags& flags,
                                     std::string& chosen) const {
  if (!flags.dictionary && !flags.printable && !flags.fold) return field;
  chosen.clear();
  for (const char c : field) {
    if (flags.dictionary ? !locale_->in_dictionary(c)
                         : flags.printable && !locale_->is_printable(c)) {
      continue;
    }
    chosen += flags.fold ? locale_->to_upper(c) : c;
  }
  return chosen;
}

}  // namespace vortex::inline v0
