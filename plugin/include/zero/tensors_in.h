// SPDX-License-Identifier: Apache-2.0
// Finds the tensors in a value: in tuples, pairs, optionals, vectors, arrays, maps and variants, at
// any depth. A struct of one's own is looked into where a function beside it says how:
//
//   struct State { at::Tensor hidden, cell; int step; };
//   template <class Visit> void visit_tensors(State& s, Visit&& visit) {
//     visit(s.hidden);
//     visit(s.cell);
//   }
//
// Other types are left as they are: tensors in them are used, but not seen.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace zero::detail {

struct AnyVisit {
  void operator()(at::Tensor&) const {}
};
template <class T>
concept HasVisitTensors = requires(T& value, AnyVisit visit) {
  visit_tensors(value, visit);
};

// Walks one type. kSeen: its tensors are found, or it can hold none.
template <class T>
struct Walk {
  static constexpr bool kSeen = HasVisitTensors<T> || std::is_arithmetic_v<T> ||
                                std::is_enum_v<T> || std::is_same_v<T, std::string> ||
                                std::is_same_v<T, std::monostate> ||
                                std::is_same_v<T, std::nullopt_t>;
  template <class Visit>
  static void tensors(T& value, Visit& visit) {
    if constexpr (HasVisitTensors<T>) {
      visit_tensors(value, [&visit](auto& part) {
        Walk<std::remove_cvref_t<decltype(part)>>::tensors(part, visit);
      });
    }
  }
};

template <class T>
void walk(T& value, auto& visit) {
  Walk<T>::tensors(value, visit);
}

template <std::derived_from<at::Tensor> T>
struct Walk<T> {
  static constexpr bool kSeen = true;
  template <class Visit>
  static void tensors(T& value, Visit& visit) {
    visit(static_cast<at::Tensor&>(value));
  }
};

template <class... T>
struct Walk<std::tuple<T...>> {
  static constexpr bool kSeen = (Walk<std::remove_cvref_t<T>>::kSeen && ...);
  template <class Visit>
  static void tensors(std::tuple<T...>& value, Visit& visit) {
    std::apply([&visit](auto&... part) { (walk(part, visit), ...); }, value);
  }
};

template <class A, class B>
struct Walk<std::pair<A, B>> {
  static constexpr bool kSeen =
      Walk<std::remove_cv_t<A>>::kSeen && Walk<std::remove_cv_t<B>>::kSeen;
  template <class Visit>
  static void tensors(std::pair<A, B>& value, Visit& visit) {
    if constexpr (!std::is_const_v<A>) walk(value.first, visit);  // a map's key stays
    walk(value.second, visit);
  }
};

template <class T>
struct Walk<std::optional<T>> {
  static constexpr bool kSeen = Walk<T>::kSeen;
  template <class Visit>
  static void tensors(std::optional<T>& value, Visit& visit) {
    if (value) walk(*value, visit);
  }
};

template <class... T>
struct Walk<std::variant<T...>> {
  static constexpr bool kSeen = (Walk<T>::kSeen && ...);
  template <class Visit>
  static void tensors(std::variant<T...>& value, Visit& visit) {
    std::visit([&visit](auto& held) { walk(held, visit); }, value);
  }
};

template <class Range>
struct WalkRange {
  using Element = typename Range::value_type;
  static constexpr bool kSeen = Walk<Element>::kSeen;
  template <class Visit>
  static void tensors(Range& value, Visit& visit) {
    for (auto& element : value) Walk<Element>::tensors(element, visit);
  }
};
template <class T, class A>
struct Walk<std::vector<T, A>> : WalkRange<std::vector<T, A>> {};
template <class A>
struct Walk<std::vector<bool, A>> {
  static constexpr bool kSeen = true;
  static void tensors(std::vector<bool, A>&, auto&) {}
};
template <class T, size_t n>
struct Walk<std::array<T, n>> : WalkRange<std::array<T, n>> {};
template <class... T>
struct Walk<std::map<T...>> : WalkRange<std::map<T...>> {};
template <class... T>
struct Walk<std::unordered_map<T...>> : WalkRange<std::unordered_map<T...>> {};

// What a value is kept as: views of somebody else's memory become copies of it.
template <class T>
struct Kept {
  using Type = T;
};
template <class T>
struct Kept<c10::ArrayRef<T>> {
  using Type = std::vector<T>;
};
template <class T, size_t n>
struct Kept<std::span<T, n>> {
  using Type = std::vector<std::remove_cv_t<T>>;
};
template <>
struct Kept<std::string_view> {
  using Type = std::string;
};
template <class T>
using KeptType = typename Kept<std::decay_t<T>>::Type;

// ArrayRef and span have no conversion to a vector that an initialiser would take.
template <class T>
KeptType<T> keep(T&& value) {
  using Given = std::decay_t<T>;
  if constexpr (std::is_same_v<Given, KeptType<T>>) {
    return std::forward<T>(value);
  } else {
    return KeptType<T>(value.begin(), value.end());
  }
}

}  // namespace zero::detail
