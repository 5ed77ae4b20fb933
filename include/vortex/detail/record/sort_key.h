// The key of a record, and the keys of an array, as they are told to code that is compiled once for
// all types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "vortex/detail/record/key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Where the key of a record lies, in bytes from its beginning.
struct KeyPlace {
  int offset = 0;
  int bytes = 0;
};

// A number at a place of the record, or whatever bits functions make of it, in ascending order.
struct SortKey {
  KeyCode code = {};
  KeyPlace place = {};  // of 0 bytes: the functions
  bool stable = true;   // records with equal keys keep their order, and else need not
  const void* function = nullptr;
  std::uint64_t (*bits_of)(const void* function, const void* record) noexcept = nullptr;
  void (*take_bits)(const void* function, const void* records, std::size_t count,
                    std::uint64_t* bits) noexcept = nullptr;
};

// A record of type T; one at an address that does not suit its type is copied to one that does.
template <typename T>
class RecordAt {
 public:
  explicit RecordAt(const std::byte* bytes) noexcept : at_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) [[unlikely]] {
      std::memcpy(copy_, bytes, sizeof(T));
      at_ = copy_;
    }
  }
  RecordAt(const RecordAt&) = delete;
  RecordAt& operator=(const RecordAt&) = delete;
  const T& get() const noexcept { return *std::launder(reinterpret_cast<const T*>(at_)); }

 private:
  alignas(T) std::byte copy_[sizeof(T)];
  const std::byte* at_;
};

// By a copy of the function where that costs nothing: compilers make vectors of what no store of
// bits can change.
template <typename T, typename Key>
void take_keys(const T* records, std::size_t count, const Key& key, std::uint64_t* bits) noexcept {
  using Own = std::conditional_t<std::is_trivially_copyable_v<Key>, const Key, const Key&>;
  Own key_of = key;
  for (std::size_t i = 0; i < count; ++i) bits[i] = key_of(records[i]);
}

// The key as `key` says, which must live as long. One record may be a copy at an address that does
// not suit its type; several lie in the caller's array.
template <typename T, typename KeyFunction>
SortKey sort_key_of(const OrderedKey<T, KeyFunction>& key) noexcept {
  using Key = OrderedKey<T, KeyFunction>;
  return {.function = std::addressof(key),
          .bits_of = [](const void* function, const void* record) noexcept -> std::uint64_t {
            return (*static_cast<const Key*>(function))(
                RecordAt<T>(static_cast<const std::byte*>(record)).get());
          },
          .take_bits =
              [](const void* function, const void* records, std::size_t count,
                 std::uint64_t* bits) noexcept {
                take_keys(static_cast<const T*>(records), count, *static_cast<const Key*>(function),
                          bits);
              }};
}

// The number that a member is.
template <typename T, typename Class, typename Member>
SortKey sort_key_of_member(Member Class::*member, Order order) noexcept {
  const auto offset = MemberKey<T, Member Class::*>::offset(member);
  return {.code = key_code<std::remove_cv_t<Member>>(order),
          .place = {static_cast<int>(offset), static_cast<int>(sizeof(Member))}};
}

// Calls use(key_bytes, sort_key) with `key` in that order, of T; key_bytes::value are those of a
// member that is the key, or 0.
template <typename T, typename KeyFunction, typename Use>
auto with_sort_key(KeyFunction key, Order order, const Use& use) {
  if constexpr (MemberKey<T, KeyFunction>::kIsOne) {
    using Key = typename MemberKey<T, KeyFunction>::Key;
    return use(std::integral_constant<std::size_t, sizeof(Key)>{},
               sort_key_of_member<T>(key, order));
  } else {
    const OrderedKey<T, KeyFunction> key_of(std::move(key), order);
    return use(std::integral_constant<std::size_t, 0>{}, sort_key_of(key_of));
  }
}

// Calls use(value), as an integral_constant where it is one of the values that are listed.
template <std::size_t first, std::size_t... others, typename Use>
auto with_constant(std::size_t value, const Use& use) {
  if (value == first) return use(std::integral_constant<std::size_t, first>{});
  if constexpr (sizeof...(others) > 0) {
    return with_constant<others...>(value, use);
  } else {
    return use(value);
  }
}

// The sizes of records that are sorted by code that is compiled once, whatever the key. Others are
// sorted by code that is compiled with the caller.
inline constexpr std::array<std::size_t, 12> kCompiledSizes = {4,  8,  12, 16, 20, 24,
                                                               28, 32, 40, 48, 64, 100};

// `key_bytes`: of a member that is the key, or 0.
template <typename T>
constexpr bool has_compiled_sort(std::size_t key_bytes) noexcept {
  // Numbers of one or two bytes have code of their own, where their addresses suit them.
  if (sizeof(T) <= 2) return key_bytes == alignof(T) && key_bytes == sizeof(T);
  for (const std::size_t bytes : kCompiledSizes) {
    if (bytes == sizeof(T)) return true;
  }
  return false;
}

// Sorts records of such a size by a key, stably, as sort() says.
VORTEX_EXPORT void sort_records(void* records, std::size_t count, std::size_t record_bytes,
                                const SortKey& key, unsigned threads);

// The same to `out`, which lies apart, of records of any size, as sort_into() says.
VORTEX_EXPORT void sort_records_into(const void* records, std::size_t count, std::size_t bytes,
                                     const SortKey& key, void* out, unsigned threads);
// Throws std::invalid_argument where there is less room than records.
VORTEX_EXPORT void expect_room(std::size_t room, std::size_t count);

// The same without a look at what order they are in; returns the bytes that it takes, at most.
VORTEX_EXPORT std::size_t sort_size_in_place(void* records, std::size_t count,
                                             std::size_t record_bytes, const SortKey& key,
                                             unsigned threads);

// Sort numbers, and pairs by their keys, in ascending order.
// What merging few runs, which an array may be, takes at most for each thread, in place of what
// sorting does.
inline constexpr std::size_t kMostMergeBytes = std::size_t{5} << 20;
VORTEX_EXPORT void sort_keys_64(std::uint64_t* keys, std::size_t count, unsigned threads);
VORTEX_EXPORT void sort_pairs_64(Pair64* pairs, std::size_t count, bool stable, unsigned threads);

// Reads the keys of an array as bits whose order is the one that is wanted. One call for a block of
// keys costs next to nothing, so what uses it is compiled once, in the library.
struct KeySource {
  // Puts the bits of the keys of records [begin, begin + count) into `bits`. From any thread.
  using Read = void (*)(const void* context, std::size_t begin, std::size_t count,
                        std::uint64_t* bits) noexcept;

  void read(std::size_t begin, std::size_t count, std::uint64_t* bits) const noexcept {
    function(context, begin, count, bits);
  }
  std::uint64_t operator[](std::size_t place) const noexcept {
    std::uint64_t bits;
    read(place, 1, &bits);
    return bits;
  }

  const void* context;
  Read function;
};

// How an array of numbers is made: of 1, 2, 4 or 8 bytes each, floating-point ones of 4 or 8.
struct NumberForm {
  std::size_t bytes;
  KeyCode code;  // never of kind kBytes
};
template <RadixKey K>
constexpr NumberForm number_form(Order order) noexcept {
  return {sizeof(K), key_code<K>(order)};
}

// The keys of an array of numbers.
VORTEX_EXPORT KeySource keys_of_numbers(const void* numbers, const NumberForm& form) noexcept;

// The keys of records: `key(record)`. Must outlive its source.
template <typename T, typename KeyFunction>
class RecordKeys {
 public:
  RecordKeys(const T* records, KeyFunction key, Order order)
      : records_(records), key_of_(std::move(key), order) {}

  KeySource source() const noexcept { return {this, &read}; }

 private:
  static void read(const void* context, std::size_t begin, std::size_t count,
                   std::uint64_t* bits) noexcept {
    const auto& keys = *static_cast<const RecordKeys*>(context);
    take_keys(keys.records_ + begin, count, keys.key_of_, bits);
  }

  const T* records_;
  OrderedKey<T, KeyFunction> key_of_;
};

}}}  // namespace vortex::v0::detail
