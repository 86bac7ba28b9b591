// Boxed<T>: a std::optional whose value lives on the heap.
//
// For large members that most objects leave out: an absent one costs a pointer instead of the whole
// value. Value semantics (copies are deep, equality is by value); the interface is the part of
// std::optional that is used. Thread-compatible.
//
//   Boxed<Admission> admission;             // 8 bytes
//   if (admission) Use(admission->cluster_queue);
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace sluice {

template <typename T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(std::nullopt_t) {}
  Boxed(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Boxed(std::optional<T> value) {
    if (value) emplace(*std::move(value));
  }
  Boxed(const Boxed& other) : value_(Copy(other)) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(const Boxed& other) {
    if (this != &other) value_ = Copy(other);
    return *this;
  }
  Boxed& operator=(Boxed&&) noexcept = default;
  ~Boxed() = default;

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  // Only when there is a value.
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

  template <typename... Args>
  T& emplace(Args&&... args) {
    value_ = std::make_unique<T>(std::forward<Args>(args)...);
    return *value_;
  }
  void reset() { value_.reset(); }

  friend bool operator==(const Boxed& a, const Boxed& b) {
    return a.has_value() && b.has_value() ? *a == *b : a.has_value() == b.has_value();
  }

 private:
  static std::unique_ptr<T> Copy(const Boxed& other) {
    return other ? std::make_unique<T>(*other) : nullptr;
  }
  std::unique_ptr<T> value_;
};

}  // namespace sluice
