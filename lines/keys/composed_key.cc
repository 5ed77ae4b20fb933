#include "lines/keys/composed_key.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

// Letters that contradict each other have been refused; R wins over V as in GNU sort.
FieldEncoder encoder_for(const KeyFlags& flags, const KeyLocale& locale) noexcept {
  if (flags.numeric) return append_number;
  if (flags.general_numeric) return append_float;
  if (flags.human_numeric) return append_human_number;
  if (flags.month) return append_month;
  if (flags.random) return append_random;
  if (flags.version) return append_version;
  return locale.collates_bytes() ? append_text : append_collated;
}

int reversed(int compared) noexcept { return (compared < 0) - (compared > 0); }

}  // namespace

// Room for a field that the finder puts together, and for the characters of a field that count.
struct ComposedKey::Scratch {
  Scratch() : field(strings[0]), chosen(strings[1]) {}
  Scratch(std::span<char> for_field, std::span<char> for_chosen)
      : field(for_field), chosen(for_chosen) {}

  std::array<std::string, 2> strings;
  KeyBytes field;
  KeyBytes chosen;
};

ComposedKey::ComposedKey(std::shared_ptr<const KeyLocale> locale, const FieldFinder& fields,
                         std::span<const KeySpecification> keys,
                         const std::array<char, 16>& random_seed)
    : locale_(std::move(locale)), rules_{*locale_, random_seed}, fields_(fields) {
  for (const KeySpecification& key : keys) {
    parts_.push_back({key, encoder_for(key.flags, *locale_), {*locale_, key.flags}});
  }
  if (parts_.empty()) return;
  Part& last = parts_.back();
  last.plain = !last.where.flags.reverse && last.encode == append_text;
  const auto collated = std::find_if(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.encode == append_collated;
  });
  if (collated != parts_.end()) first_collated_ = &*collated;
  // The characters of a plain field are chosen where the key grows.
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
  Scratch scratch;
  std::string room;
  KeyBytes key(room);
  for (const std::string_view record : records) {
    append_record(record, scratch, key, &keys);
    keys.append(key.view());
    keys.end_key();
  }
}

// The key grows from the beginning of the room, and what it is made from lies at the end.
void ComposedKey::append_in(std::span<char> room, std::string_view record, KeyBatch& keys) const {
  const std::size_t for_field = fields_.copies() ? record.size() : 0;
  const std::size_t for_chosen = chooses_ ? record.size() : 0;
  if (room.size() < for_field + for_chosen) throw KeyRoomFull();
  Scratch scratch(room.last(for_field), room.last(for_field + for_chosen).first(for_chosen));
  KeyBytes key(room.first(room.size() - for_field - for_chosen));
  append_record(record, scratch, key, nullptr);
  keys.used(key.size());
  keys.end_key();
}

// Leaves the key in `key`, or with `keys` the end of it behind what went into the batch.
void ComposedKey::append_record(std::string_view record, Scratch& scratch, KeyBytes& key,
                                KeyBatch* keys) const {
  key.clear();
  for (const Part& part : parts_) {
    if (part.plain && keys == nullptr) {
      part.choice.append_chosen(fields_.find(record, part.where, scratch.field), key);
      break;
    }
    const std::string_view field = find(part, record, scratch);
    if (part.plain) {
      keys->append(key.view());
      key.clear();
      keys->append(field);
    } else if (&part == first_collated_) {
      const std::size_t begin = key.size();
      append_first_rule(field, *locale_, key);
      if (part.where.flags.reverse) key.invert_from(begin);
      break;
    } else {
      append_part(part, field, key);
    }
  }
}

void ComposedKey::append_whole(std::string_view record, std::string& key) const {
  Scratch scratch;
  KeyBytes bytes(key);
  for (const Part& part : parts_) {
    const std::string_view found = find(part, record, scratch);
    if (part.plain) {
      bytes += found;
    } else {
      append_part(part, found, bytes);
    }
  }
  bytes.finish();
}

// Returns the characters of the field that count.
std::string_view ComposedKey::find(const Part& part, std::string_view record,
                                   Scratch& scratch) const {
  return part.choice.chosen_of(fields_.find(record, part.where, scratch.field), scratch.chosen);
}

void ComposedKey::append_part(const Part& part, std::string_view field, KeyBytes& key) const {
  const std::size_t begin = key.size();
  part.encode(field, rules_, key);
  if (part.where.flags.reverse) key.invert_from(begin);
}

// The parts in front of the first text are in the keys, which are equal.
int ComposedKey::compare_whole(std::string_view a, std::string_view b) const {
  const Part* part = shortened() ? first_collated_ : parts_.data();
  for (; part != parts_.data() + parts_.size(); ++part) {
    const int compared =
        part->encode == append_collated ? compare_texts(*part, a, b) : compare_made(*part, a, b);
    if (compared != 0) return compared;
  }
  return 0;
}

int ComposedKey::compare_texts(const Part& part, std::string_view a, std::string_view b) const {
  Scratch left, right;
  const int compared =
      compare_collated(fields_.find(a, part.where, left.field),
                       fields_.find(b, part.where, right.field), *locale_, part.choice);
  return part.where.flags.reverse ? reversed(compared) : compared;
}

int ComposedKey::compare_made(const Part& part, std::string_view a, std::string_view b) const {
  Scratch scratch;
  std::string room_of_a, room_of_b;
  KeyBytes key_of_a(room_of_a), key_of_b(room_of_b);
  append_part(part, find(part, a, scratch), key_of_a);
  append_part(part, find(part, b, scratch), key_of_b);
  return key_of_a.view().compare(key_of_b.view());
}

}}  // namespace vortex::v0
