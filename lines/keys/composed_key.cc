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

bool chooses(const KeyFlags& flags) noexcept {
  return flags.dictionary || flags.printable || flags.fold;
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
    chooses_ |= chooses(key.flags);
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
  if (keys.is_fixed()) {
    for (const std::string_view record : records) append_in(keys.fixed_room(), record, keys);
    return;
  }
  std::string field, chosen, key;
  KeyBytes of_field(field), of_chosen(chosen), of_key(key);
  Scratch scratch{of_field, of_chosen, of_key};
  for (const std::string_view record : records) {
    append_record(record, scratch, &keys);
    keys.append(of_key.view());
    keys.end_key();
  }
}

// The key grows from the beginning of the room, and what it is made from lies at the end.
void ComposedKey::append_in(std::span<char> room, std::string_view record, KeyBatch& keys) const {
  const std::size_t for_field = fields_->copies() ? record.size() : 0;
  const std::size_t for_chosen = chooses_ ? record.size() : 0;
  if (room.size() < for_field + for_chosen) throw KeyRoomFull();
  KeyBytes of_field(room.last(for_field));
  KeyBytes of_chosen(room.last(for_field + for_chosen).first(for_chosen));
  KeyBytes of_key(room.first(room.size() - for_field - for_chosen));
  Scratch scratch{of_field, of_chosen, of_key};
  append_record(record, scratch, nullptr);
  keys.used(of_key.size());
  keys.end_key();
}

// Leaves the key, or the end of it behind what went into the batch, in the scratch.
void ComposedKey::append_record(std::string_view record, Scratch& scratch, KeyBatch* keys) const {
  KeyBytes& key = scratch.key;
  key.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const std::string_view field = find(part, record, scratch);
    if (part.plain && keys != nullptr) {
      keys->append(key.view());
      key.clear();
      keys->append(field);
    } else if (part.plain) {
      key += field;
    } else if (first_text_ != nullptr && i == text_part_) {
      const std::size_t begin = key.size();
      first_text_->append_first_rule(field, key);
      if (part.where.flags.reverse) key.invert_from(begin);
      break;
    } else {
      append_part(part, field, key);
    }
  }
}

void ComposedKey::append_whole(std::string_view record, std::string& key) const {
  std::string field, chosen;
  KeyBytes of_field(field), of_chosen(chosen), of_key(key);
  Scratch scratch{of_field, of_chosen, of_key};
  for (const Part& part : parts_) {
    const std::string_view found = find(part, record, scratch);
    if (part.plain) {
      of_key += found;
    } else {
      append_part(part, found, of_key);
    }
  }
  of_key.finish();
}

// What of the record counts.
std::string_view ComposedKey::find(const Part& part, std::string_view record,
                                   Scratch& scratch) const {
  return choose(fields_->find(record, part.where, scratch.field), part.where.flags, scratch.chosen);
}

void ComposedKey::append_part(const Part& part, std::string_view field, KeyBytes& key) const {
  const std::size_t begin = key.size();
  part.encoder->append(field, key);
  if (part.where.flags.reverse) key.invert_from(begin);
}

// A field without the bytes that d and i leave out, and folded by f.
std::string_view ComposedKey::choose(std::string_view field, const KeyFlags& flags,
                                     KeyBytes& chosen) const {
  if (!chooses(flags)) return field;
  chosen.clear();
  for (const char c : field) {
    if (flags.dictionary ? !locale_->in_dictionary(c)
                         : flags.printable && !locale_->is_printable(c)) {
      continue;
    }
    chosen += flags.fold ? locale_->to_upper(c) : c;
  }
  return chosen.view();
}

}  // namespace vortex::inline v0
