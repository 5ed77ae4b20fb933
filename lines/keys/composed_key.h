// The keys of an order, one behind the other.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lines/fields/character_choice.h"
#include "lines/fields/field_finder.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "lines/keys/field_encoders.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Makes for each record the bytes of its fields as their encoders write them, those of descending
// keys inverted. In a locale a key is several times as long as its text, and mostly the first rule
// of the first text decides: keys are shortened to that.
class ComposedKey : public RecordKeys {
 public:
  ComposedKey(std::shared_ptr<const KeyLocale> locale, const FieldFinder& fields,
              std::span<const KeySpecification> keys, const std::array<char, 16>& random_seed);

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override;
  bool appended_by_any_thread() const noexcept override { return true; }
  // Keys end behind the first rule of the first text that a locale orders.
  bool shortened() const noexcept override { return first_collated_ != nullptr; }
  void append_whole(std::string_view record, std::string& key) const override;
  // Makes no key of a text in a locale.
  int compare_whole(std::string_view a, std::string_view b) const override;
  // Where the key of a record is the whole record, byte by byte, what each byte becomes; else null.
  const std::array<char, 256>* byte_map() const noexcept;

 private:
  struct Part {
    KeySpecification where;
    FieldEncoder encode;
    CharacterChoice choice;
    bool plain = false;  // the last part, whose bytes are its key as they stand
  };
  struct Scratch;

  std::string_view find(const Part& part, std::string_view record, Scratch& scratch) const;
  void append_record(std::string_view record, Scratch& scratch, KeyBytes& key,
                     KeyBatch* keys) const;
  void append_in(std::span<char> room, std::string_view record, KeyBatch& keys) const;
  void append_part(const Part& part, std::string_view field, KeyBytes& key) const;
  int compare_texts(const Part& part, std::string_view a, std::string_view b) const;
  int compare_made(const Part& part, std::string_view a, std::string_view b) const;

  const std::shared_ptr<const KeyLocale> locale_;
  const KeyRules rules_;
  const FieldFinder fields_;
  std::vector<Part> parts_;
  const Part* first_collated_ = nullptr;  // the first part that a locale orders
  bool chooses_ = false;  // some fields are copied without the characters that do not count
};

}}  // namespace vortex::v0
