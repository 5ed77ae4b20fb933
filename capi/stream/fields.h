// One description of the fields that a struct of C and one of C++ share, for both directions.
//
// Each pair of structs has a list: FIELDS_OF(the struct of C, the one of C++, how many fields are
// in C only, how many in C++ only, row...). Options are taken from C by the list, reports are told
// by it. A field of either struct that no list knows of is an error of the compiler.
#pragma once

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "capi/stream/handle.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

// An enumeration of C++ whose enumerators C numbers in the same order, from kFirst to kLast.
template <typename Enumeration>
struct Choice;
#define CHOICE_OF(enumeration, name, first, last) \
  template <>                                     \
  struct Choice<enumeration> {                    \
    static constexpr const char* kName = name;    \
    static constexpr int kFirst = first;          \
    static constexpr int kLast = last;            \
  }

template <typename Enumeration>
Enumeration choice_of(int given) {
  using Known = Choice<Enumeration>;
  if (given < Known::kFirst || given > Known::kLast) {
    throw Error(EINVAL, "there is no " + std::string(Known::kName) + " " + std::to_string(given));
  }
  return static_cast<Enumeration>(given - Known::kFirst);
}

// ---- One value, from C and to C.

template <typename A, typename B>
void take(const A& given, B& option) {
  if (given == A{}) return;
  if constexpr (std::is_enum_v<B>) {
    option = choice_of<B>(given);
  } else if constexpr (std::is_arithmetic_v<A>) {
    option = static_cast<std::conditional_t<std::is_arithmetic_v<B>, B, A>>(given);
  } else if constexpr (std::is_same_v<B, std::string>) {
    option = given;
  } else {
    given->give_to(option);  // a handle
  }
}

template <typename C, typename Cpp>
void tell_fields(const Cpp& made, C& told);

template <typename B, typename A>
void tell(const B& made, A& told) {
  if constexpr (std::is_enum_v<B>) {
    told = static_cast<A>(static_cast<int>(made) + Choice<B>::kFirst);
  } else if constexpr (std::is_arithmetic_v<B>) {
    told = static_cast<A>(made);
  } else if constexpr (std::is_same_v<B, std::string>) {
    told = made.c_str();
  } else if constexpr (std::is_same_v<B, std::optional<A>>) {
    told = made.value_or(0);
  } else if constexpr (std::is_array_v<A>) {
    for (std::size_t i = 0; i < std::extent_v<A>; ++i) tell_fields(made[i], told[i]);
  } else {
    tell_fields(made, told);
  }
}

// ---- Rows. Each takes some fields of the struct of C.

template <typename C, typename A>
constexpr std::size_t width_in_c(A C::*) {
  return std::is_array_v<A> ? std::extent_v<A> : 1;
}

// The same value. 0 and NULL are the default, which the struct of C++ has.
template <typename OfC, typename OfCpp>
struct Field {
  constexpr std::size_t width() const { return width_in_c(c); }
  void take_from(const auto& given, auto& options) const { take(given.*c, options.*cpp); }
  void tell_to(const auto& made, auto& told) const { tell(made.*cpp, told.*c); }

  OfC c;
  OfCpp cpp;
};
template <typename OfC, typename OfCpp>
Field(OfC, OfCpp) -> Field<OfC, OfCpp>;

// A flag: 1 stands for one value of the field of C++.
template <typename OfC, typename OfCpp, typename Value>
struct Flag {
  static constexpr std::size_t width() { return 1; }
  void take_from(const auto& given, auto& options) const {
    if (given.*c != 0) options.*cpp = value;
  }

  OfC c;
  OfCpp cpp;
  Value value;
};
template <typename OfC, typename OfCpp, typename Value>
Flag(OfC, OfCpp, Value) -> Flag<OfC, OfCpp, Value>;

// An array and its length; `many` and `one` name its elements in messages.
template <typename OfC, typename Count, typename OfCpp>
struct List {
  static constexpr std::size_t width() { return 2; }
  void take_from(const auto& given, auto& options) const {
    const auto* const array = given.*c;
    expect_array(array, given.*count, sizeof(*array), many);
    for (std::size_t i = 0; i < given.*count; ++i) {
      if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(*array)>>) {
        (options.*cpp).push_back(required(array[i], one));
      } else {
        (options.*cpp).push_back(array[i]);
      }
    }
  }
  void tell_to(const auto& made, auto& told) const {
    told.*c = (made.*cpp).data();
    told.*count = (made.*cpp).size();
  }

  OfC c;
  Count count;
  OfCpp cpp;
  const char* many;
  const char* one;
};
template <typename OfC, typename Count, typename OfCpp>
List(OfC, Count, OfCpp, const char*, const char*) -> List<OfC, Count, OfCpp>;

// ---- Lists of rows, and that no field is forgotten.

template <typename C, typename Cpp>
struct Fields;

#define FIELDS_OF(of_c, of_cpp, only_in_c, only_in_cpp, ...)    \
  template <>                                                   \
  struct Fields<of_c, of_cpp> {                                 \
    using C = of_c;                                             \
    using Cpp = of_cpp;                                         \
    static constexpr std::size_t kOnlyInC = only_in_c;          \
    static constexpr std::size_t kOnlyInCpp = only_in_cpp;      \
    static constexpr auto kRows = std::make_tuple(__VA_ARGS__); \
  }
// A row for two fields of the same name.
#define SAME(name) \
  Field { &C::name, &Cpp::name }

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// With how many values an aggregate can be initialised, the first ones being Given.
template <typename T, typename... Given>
consteval std::size_t field_count() {
  if constexpr (requires { T{std::declval<Given>()..., std::declval<Anything>()}; }) {
    return field_count<T, Given..., Anything>();
  } else if constexpr (requires { T{std::declval<Given>()..., std::nullopt}; }) {
    return field_count<T, Given..., const std::nullopt_t&>();
  } else {
    return sizeof...(Given);
  }
}

// Calls use(row...) with the rows of two structs, which name all their fields.
template <typename C, typename Cpp, typename Use>
constexpr void with_rows(const Use& use) {
  using Table = Fields<C, Cpp>;
  constexpr std::size_t in_c = std::apply(
      [](const auto&... rows) { return (std::size_t{0} + ... + rows.width()); }, Table::kRows);
  static_assert(field_count<Cpp>() == std::tuple_size_v<decltype(Table::kRows)> + Table::kOnlyInCpp,
                "a field of the struct of C++ has no row: give it one, and C a field");
  static_assert(field_count<C>() == in_c + Table::kOnlyInC,
                "a field of the struct of C has no row");
  std::apply(use, Table::kRows);
}

// Sets what the caller has given; the rest keeps its defaults. Throws Error(EINVAL) for choices
// that there are not, and for arrays that are NULL.
template <typename C, typename Cpp>
void take_fields(const C& given, Cpp& options) {
  with_rows<C, Cpp>([&](const auto&... rows) { (rows.take_from(given, options), ...); });
}

// Options from a struct that may be NULL.
template <typename Cpp, typename C>
Cpp options_of(const C* given) {
  Cpp options;
  if (given != nullptr) take_fields(*given, options);
  return options;
}

// Texts and arrays stay where `made` has them.
template <typename C, typename Cpp>
void tell_fields(const Cpp& made, C& told) {
  with_rows<C, Cpp>([&](const auto&... rows) { (rows.tell_to(made, told), ...); });
}

// Answers a call that tells in `*told` what `make` returns. `on` is a handle or the text of errors.
template <typename On, typename C, typename Make>
int answer_told(On& on, C* told, const Make& make) noexcept {
  return answer(on, [&] {
    expect_place(told);
    tell_fields(make(), *told);
  });
}

}}}  // namespace vortex::v0::capi
