#include "lines/keys/composed_key.h"

#include <cstddef>
#include <utility>

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

void invert(std::string& bytes, std::size_t begin) noexcept {
  for (std::size_t i = begin; i < bytes.size(); ++i) bytes[i] = static_cast<char>(~bytes[i]);
}

}  // namespace

ComposedKey::ComposedKey(std::shared_ptr<const KeyLocale> locale,
                         std::unique_ptr<const FieldFinder> fields,
                         std::span<const KeySpecification> keys, const RandomKey::Seed& seed)
    : locale_(std::move(locale)), fields_(std::move(fields)) {
  for (const KeySpecification& key : keys) {
    parts_.push_back({key, encoder_for(key.flags, *locale_, seed)});
  }
  for (std::size_t i = 0; i < parts_.size() && first_text_ == nullptr; ++i) {
    first_text_ = dynamic_cast<const CollationKey*>(parts_[i].encoder.get());
    if (first_text_ != nullptr) text_part_ = i;
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
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const std::string_view field = find(part, record, scratch);
    if (part.plain) {
      keys.append(scratch.key);
      scratch.key.clear();
      keys.append(field);
    } else if (first_text_ != nullptr && i == text_part_) {
      const std::size_t begin = scratch.key.size();
      first_text_->append_first_rule(field, scratch.key);
      if (part.where.flags.reverse) invert(scratch.key, begin);
      break;
    } else {
      append_part(part, field, scratch.key);
    }
  }
  keys.append(scratch.key);
  keys.end_key();
}

void ComposedKey::append_whole(std::string_view record, std::string& key) const {
  Scratch scratch;
  for (const Part& part : parts_) {
    const std::string_view field = find(part, record, scratch);
    if (part.plain) {
      key += field;
    } else {
      append_part(part, field, key);
    }
  }
}

// What of the record counts.
std::string_view ComposedKey::find(const Part& part, std::string_view record,
                                   Scratch& scratch) const {
  return choose(fields_->find(record, part.where, scratch.field), part.where.flags, scratch.chosen);
}

void ComposedKey::append_part(const Part& part, std::string_view field, std::string& key) const {
  const std::size_t begin = key.size();
  part.encoder->append(field, key);
  if (part.where.flags.reverse) invert(key, begin);
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
