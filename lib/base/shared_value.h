// SharedValue<T>: a value that equal objects may hold together until one of them is changed.
//
// Copies share; reading through a const object never copies; access through one that is not const
// first takes a copy of its own when the value is shared (copy on write). Take reads through const
// objects where that matters. A new one reads as T() and costs a pointer. The holders of a value
// belong to one thread.
//
//   SharedValue<PodSpec> spec;
//   spec->node_name = "n1";                        // its own from now on
//   const SharedValue<PodSpec> same = spec;        // no copy
#pragma once

#include <memory>
#include <utility>

namespace sluice {

template <typename T>
class SharedValue {
 public:
  SharedValue() = default;
  SharedValue(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return value_ == nullptr ? Default() : *value_; }
  const T* operator->() const { return &**this; }
  T& operator*() { return Own(); }
  T* operator->() { return &Own(); }

  // Whether both hold the very same value.
  bool SharesWith(const SharedValue& other) const { return value_ == other.value_; }
  // How many hold this value; 0 when it was never set.
  long holders() const { return value_.use_count(); }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    return a.SharesWith(b) || *a == *b;
  }

 private:
  static const T& Default() {
    static const T kDefault{};
    return kDefault;
  }
  T& Own() {
    if (value_ == nullptr) {
      value_ = std::make_shared<T>();
    } else if (value_.use_count() > 1) {
      value_ = std::make_shared<T>(*value_);
    }
    return *value_;
  }
  std::shared_ptr<T> value_;
};

}  // namespace sluice
