// Quantity: a fixed-point number as the Kubernetes API writes it ("500m", "1Gi", "2e3").
//
// The value is kept exactly in units of 10^-9 (the finest that the API keeps), as a 128-bit
// integer; values finer than that are rounded up away from zero, and values beyond +-(2^63-1) are
// capped, as the API server does. The format (decimal SI, binary SI, decimal exponent) is
// remembered for output. Source: Kubernetes documentation, "Quantity"; API conventions of
// k8s.io/apimachinery.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <string>

namespace sluice {

class Quantity {
 public:
  enum class Format { kDecimalSI, kBinarySI, kDecimalExponent };
  __extension__ typedef __int128 Nanos;  // the widest exact integer there is

  Quantity() = default;
  static Quantity FromInt(int64_t units, Format format = Format::kDecimalSI);
  static Quantity FromMilli(int64_t milli, Format format = Format::kDecimalSI);
  // Accepts exactly the grammar of the API; the error says what is wrong.
  static absl::StatusOr<Quantity> Parse(const std::string& text);

  // Whole units and thousandths, rounded away from zero as Kubernetes' Value() and MilliValue() do,
  // capped at the range of int64_t.
  int64_t Value() const;
  int64_t MilliValue() const;
  Nanos nanos() const { return nanos_; }
  Format format() const { return format_; }
  int Sign() const { return nanos_ < 0 ? -1 : nanos_ > 0 ? 1 : 0; }

  // Canonical form: no fractional digits, the largest suffix for which the number is an integer. A
  // binary quantity below 1024 or with a fraction is written as a decimal one.
  std::string ToString() const;

  // The result has the format of the left operand, or of the right one when the left is zero.
  Quantity operator+(const Quantity& other) const;
  Quantity operator-(const Quantity& other) const;

  // By value; the format does not matter.
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nanos_ <=> b.nanos_;
  }
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos_ == b.nanos_; }

 private:
  Quantity(Nanos nanos, Format format) : nanos_(nanos), format_(format) {}
  Nanos nanos_ = 0;
  Format format_ = Format::kDecimalSI;
  bool upper_exponent_ = false;  // parsed from "1E3", to be written with the same letter
};

}  // namespace sluice
