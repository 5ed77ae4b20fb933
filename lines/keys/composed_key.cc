#include "lines/keys/composed_key.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lines/keys/float_key.h"
#include "lines/keys/month_key.h"
#include "lines/keys/number_key.h"
#include "lines/keys/text_key.h"
#include "lines/keys/version_key.h"

namespace vortex { inline namespace v0 {

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
    parts_.push_back({key, encoder_for(key.flags, *locale_, seed), {*locale_, key.flags}});
    Part& part = parts_.back();
    part.text = dynamic_cast<const CollationKey*>(part.encoder.get());
    if (first_text_ != nullptr || part.text == nullptr) continue;
    first_text_ = part.text;
    text_part_ = parts_.size() - 1;
  }
  if (parts_.empty()) return;
  const KeyFlags& last = parts_.back().where.flags;
  parts_.back().plain = !last.reverse && compares_bytes(last, *locale_);
  // What is plain is chosen where the key grows.
  chooses_ = std::any_of(parts_.begin(), parts_.end(),
                         [](const Part& part) { return !part.plain && !part.choice.all(); });
}

const std::array<char, 256>* ComposedKey::byte_map() const noexcept {
  if (parts_.size() != 1 || !parts_.front().plain || !parts_.front().choice.all_count()) {
    return nullptr;
  }
  const KeySpecification& where = parts_.front().where;
  const bool whole = where.begin_field == 0 && where.begin_byte == 0 &&
                     where.end_field == KeySpecification::kLineEnd &&
                     !where.flags.skip_start_blanks;
  return whole ? &parts_.front().choice.map() : nullptr;
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
    if (part.plain && keys == nullptr) {
      append_chosen(fields_->find(record, part.where, scratch.field), part.choice, key);
      break;
    }
    const std::string_view field = find(part, record, scratch);
    if (part.plain) {
      keys->append(key.view());
      key.clear();
      keys->append(field);
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
  return choose(fields_->find(record, part.where, scratch.field), part.choice, scratch.chosen);
}

void ComposedKey::append_part(const Part& part, std::string_view field, KeyBytes& key) const {
  const std::size_t begin = key.size();
  part.encoder->append(field, key);
  if (part.where.flags.reverse) key.invert_from(begin);
}

void ComposedKey::append_chosen(std::string_view field, const CharacterChoice& choice,
                                KeyBytes& chosen) {
  if (choice.all()) {
    chosen += field;
    return;
  }
  if (choice.all_count()) {
    char* const to = chosen.more(field.size());
    std::transform(field.begin(), field.end(), to, [&](char c) { return choice.as(c); });
    return;
  }
  for (const char c : field) {
    if (choice.counts(c)) chosen += choice.as(c);
  }
}

// A field without the bytes that d and i leave out, and folded by f.
std::string_view ComposedKey::choose(std::string_view field, const CharacterChoice& choice,
                                     KeyBytes& chosen) {
  if (choice.all()) return field;
  chosen.clear();
  append_chosen(field, choice, chosen);
  return chosen.view();
}

// The parts in front of the first text are in the keys, which are equal.
int ComposedKey::compare_whole(std::string_view a, std::string_view b) const {
  for (std::size_t i = text_part_; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const int compared =
        part.text != nullptr ? compare_texts(part, a, b) : compare_made(part, a, b);
    if (compared != 0) return compared;
  }
  return 0;
}

int ComposedKey::compare_texts(const Part& part, std::string_view a, std::string_view b) const {
  std::string string_of_a, string_of_b;
  KeyBytes of_a(string_of_a), of_b(string_of_b);
  const std::string_view left = fields_->find(a, part.where, of_a);
  const std::string_view right = fields_->find(b, part.where, of_b);
  const int compared = part.text->compare(left, right, part.choice);
  return part.where.flags.reverse ? (compared < 0) - (compared > 0) : compared;
}

int ComposedKey::compare_made(const Part& part, std::string_view a, std::string_view b) const {
  std::string field, chosen, key_of_a, key_of_b;
  KeyBytes of_field(field), of_chosen(chosen), of_a(key_of_a), of_b(key_of_b);
  Scratch left{of_field, of_chosen, of_a};
  Scratch right{of_field, of_chosen, of_b};
  append_part(part, find(part, a, left), of_a);
  append_part(part, find(part, b, right), of_b);
  return of_a.view().compare(of_b.view());
}

}}  // namespace vortex::v0
