// The keys of an order, one behind the other.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lines/fields/character_choice.h"
#include "lines/fields/field_finder.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "lines/keys/collation_key.h"
#include "lines/keys/field_encoder.h"
#include "lines/keys/random_key.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// For each record, the bytes of its fields as their encoders write them, those of descending keys
// inverted. In a locale a key is several times as long as its text, and mostly the first rule of
// the first text decides: keys are shortened to that.
class ComposedKey : public RecordKeys {
 public:
  ComposedKey(std::shared_ptr<const KeyLocale> locale, std::unique_ptr<const FieldFinder> fields,
              std::span<const KeySpecification> keys, const RandomKey::Seed& seed);

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override;
  // Keys end behind the first rule of the first text that a locale orders.
  bool shortened() const noexcept override { return first_text_ != nullptr; }
  void append_whole(std::string_view record, std::string& key) const override;
  // Makes no key of a text in a locale.
  int compare_whole(std::string_view a, std::string_view b) const override;
  // What each byte of a record becomes where its key is the whole record, byte by byte; null: it is
  // made in another way.
  const std::array<char, 256>* byte_map() const noexcept;

 private:
  struct Part {
    KeySpecification where;
    std::unique_ptr<const FieldEncoder> encoder;
    CharacterChoice choice;
    const CollationKey* text = nullptr;  // the encoder, where it is that of a text in a locale
    bool plain = false;                  // the last part, whose bytes are its key as they stand
  };
  struct Scratch {
    KeyBytes& field;   // put together by the finder
    KeyBytes& chosen;  // what of the field counts
    KeyBytes& key;
  };

  std::string_view find(const Part& part, std::string_view record, Scratch& scratch) const;
  void append_record(std::string_view record, Scratch& scratch, KeyBatch* keys) const;
  void append_in(std::span<char> room, std::string_view record, KeyBatch& keys) const;
  void append_part(const Part& part, std::string_view field, KeyBytes& key) const;
  static void append_chosen(std::string_view field, const CharacterChoice& choice,
                            KeyBytes& chosen);
  static std::string_view choose(std::string_view field, const CharacterChoice& choice,
                                 KeyBytes& chosen);
  int compare_texts(const Part& part, std::string_view a, std::string_view b) const;
  int compare_made(const Part& part, std::string_view a, std::string_view b) const;

  const std::shared_ptr<const KeyLocale> locale_;
  const std::unique_ptr<const FieldFinder> fields_;
  std::vector<Part> parts_;
  const CollationKey* first_text_ = nullptr;  // the first part that a locale orders
  std::size_t text_part_ = 0;                 // its number
  bool chooses_ = false;                      // fields are copied without what does not count
};

}}  // namespace vortex::v0
