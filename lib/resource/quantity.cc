#include "resource/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace sluice {
namespace {

using Nanos = Quantity::Nanos;

constexpr Nanos kNanosPerUnit = 1'000'000'000;
constexpr Nanos kNanosPerMilli = 1'000'000;
constexpr Nanos kMaxNanos = Nanos{std::numeric_limits<int64_t>::max()} * kNanosPerUnit;
constexpr int kNanoDigits = 9;
// A number with more digits than this is beyond the cap whatever stands in front.
constexpr size_t kMaxDigits = 37;
// 18 digits times 2^60 still fit into 127 bits, so that such numbers need no digit strings.
constexpr size_t kFastDigits = 18;
// Exponents are clamped here: beyond it a number is capped, or the smallest one.
constexpr int kMaxExponent = 100'000;

struct Suffix {
  const char* text;
  int power;  // of ten, or of 1024
};
constexpr std::array kDecimalSuffixes = {
    Suffix{"n", -9}, Suffix{"u", -6}, Suffix{"m", -3}, Suffix{"", 0},   Suffix{"k", 3},
    Suffix{"M", 6},  Suffix{"G", 9},  Suffix{"T", 12}, Suffix{"P", 15}, Suffix{"E", 18}};
constexpr std::array kBinarySuffixes = {Suffix{"", 0},   Suffix{"Ki", 1}, Suffix{"Mi", 2},
                                        Suffix{"Gi", 3}, Suffix{"Ti", 4}, Suffix{"Pi", 5},
                                        Suffix{"Ei", 6}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Scale {
  Quantity::Format format = Quantity::Format::kDecimalSI;
  int power10 = 0;
  int power1024 = 0;
  bool upper_exponent = false;
};

// "e3", "E-6": the exponent, or nothing when the text is not one.
std::optional<int> ParseExponent(std::string_view text) {
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  const bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit)) return std::nullopt;
  int exponent = 0;
  for (const char c : text) exponent = std::min(exponent * 10 + (c - '0'), kMaxExponent);
  return negative ? -exponent : exponent;
}

std::optional<Scale> ParseSuffix(std::string_view text) {
  for (const Suffix& suffix : kDecimalSuffixes) {
    if (text == suffix.text) return Scale{Quantity::Format::kDecimalSI, suffix.power, 0, false};
  }
  for (const Suffix& suffix : kBinarySuffixes) {
    if (text == suffix.text) return Scale{Quantity::Format::kBinarySI, 0, suffix.power, false};
  }
  if (const std::optional<int> exponent = ParseExponent(text)) {
    return Scale{Quantity::Format::kDecimalExponent, *exponent, 0, text[0] == 'E'};
  }
  return std::nullopt;
}

Nanos PowerOfTen(int exponent) {
  Nanos power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

Nanos DivideRoundingUp(Nanos value, Nanos divisor) {
  return value / divisor + (value % divisor == 0 ? 0 : 1);
}

// digits * 1024^power as a digit string.
std::string MultiplyDigits(std::string digits, int power1024) {
  for (int step = 0; step < power1024; ++step) {
    int carry = 0;
    for (size_t i = digits.size(); i-- > 0;) {
      const int product = (digits[i] - '0') * 1024 + carry;
      digits[i] = static_cast<char>('0' + product % 10);
      carry = product / 10;
    }
    if (carry > 0) digits = std::to_string(carry) + digits;
  }
  return digits;
}

// Numbers of any length: digits * 1024^power1024 * 10^shift, capped and rounded up.
Nanos LongNanos(std::string digits, int power1024, int shift) {
  digits = MultiplyDigits(std::move(digits), power1024);
  bool rest = false;
  if (shift < 0) {
    const size_t cut = std::min(digits.size(), static_cast<size_t>(-shift));
    const std::string_view tail = std::string_view(digits).substr(digits.size() - cut);
    rest = std::any_of(tail.begin(), tail.end(), [](char c) { return c != '0'; });
    digits.resize(digits.size() - cut);
  } else if (digits.size() + static_cast<size_t>(shift) > kMaxDigits) {
    return kMaxNanos;
  } else {
    digits.append(static_cast<size_t>(shift), '0');
  }
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.size() > kMaxDigits) return kMaxNanos;
  Nanos value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value + (rest ? 1 : 0);
}

// The magnitude in nanos of integer digits, fraction digits and scale.
Nanos Magnitude(std::string_view whole, std::string_view fraction, const Scale& scale) {
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
  const size_t count = whole.size() + fraction.size();
  if (count == 0) return 0;
  const int shift = scale.power10 + kNanoDigits - static_cast<int>(fraction.size());
  if (count > kFastDigits || shift > kNanoDigits || shift < -kNanoDigits * 4) {
    std::string digits(whole);
    digits.append(fraction);
    return std::min(LongNanos(std::move(digits), scale.power1024, shift), kMaxNanos);
  }
  int64_t number = 0;
  for (const char c : whole) number = number * 10 + (c - '0');
  for (const char c : fraction) number = number * 10 + (c - '0');
  const Nanos value = Nanos{number} << (10 * scale.power1024);
  if (shift < 0) return std::min(DivideRoundingUp(value, PowerOfTen(-shift)), kMaxNanos);
  const Nanos power = PowerOfTen(shift);
  return value > kMaxNanos / power ? kMaxNanos : value * power;
}

Nanos Cap(Nanos nanos) { return std::clamp(nanos, -kMaxNanos, kMaxNanos); }

int64_t RoundAwayFromZero(Nanos nanos, Nanos unit) {
  const Nanos magnitude = DivideRoundingUp(nanos < 0 ? -nanos : nanos, unit);
  const Nanos capped = std::min(magnitude, Nanos{std::numeric_limits<int64_t>::max()});
  return static_cast<int64_t>(nanos < 0 ? -capped : capped);
}

std::string MagnitudeText(Nanos magnitude) {
  if (magnitude == 0) return "0";
  std::string text;
  for (; magnitude > 0; magnitude /= 10) text += static_cast<char>('0' + magnitude % 10);
  std::reverse(text.begin(), text.end());
  return text;
}

std::string BinaryText(Nanos magnitude) {
  Nanos mantissa = magnitude / kNanosPerUnit;
  size_t suffix = 0;
  while (suffix + 1 < kBinarySuffixes.size() && mantissa % 1024 == 0) {
    mantissa /= 1024;
    ++suffix;
  }
  return MagnitudeText(mantissa) + kBinarySuffixes.at(suffix).text;
}

// Mantissa and power of ten: the power is a multiple of three, at most `max_power`.
std::pair<Nanos, int> DecimalParts(Nanos magnitude, int max_power) {
  int power = -kNanoDigits;
  while (power < max_power && magnitude % 1000 == 0) {
    magnitude /= 1000;
    power += 3;
  }
  return {magnitude, power};
}

}  // namespace

Quantity Quantity::FromInt(int64_t units, Format format) {
  return Quantity(Cap(Nanos{units} * kNanosPerUnit), format);
}

Quantity Quantity::FromMilli(int64_t milli, Format format) {
  return Quantity(Nanos{milli} * kNanosPerMilli, format);
}

absl::StatusOr<Quantity> Quantity::Parse(const std::string& text) {
  std::string_view rest = text;
  if (rest.empty()) return InvalidArgument("an empty text is not a quantity");
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  const auto take_digits = [&rest] {
    size_t count = 0;
    while (count < rest.size() && IsDigit(rest[count])) ++count;
    const std::string_view digits = rest.substr(0, count);
    rest.remove_prefix(count);
    return digits;
  };
  const std::string_view whole = take_digits();
  std::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction = take_digits();
  }
  if (whole.empty() && fraction.empty()) {
    return InvalidArgument("\"{}\" is not a quantity: it has no digits", text);
  }
  const std::optional<Scale> scale = ParseSuffix(rest);
  if (!scale) {
    return InvalidArgument(
        "\"{}\" is not a quantity: \"{}\" is none of the suffixes n, u, m, k, M, G, T, P, E, Ki, "
        "Mi, Gi, Ti, Pi, Ei or an exponent",
        text, rest);
  }
  const Nanos magnitude = Magnitude(whole, fraction, *scale);
  Quantity quantity(negative ? -magnitude : magnitude, scale->format);
  quantity.upper_exponent_ = scale->upper_exponent;
  return quantity;
}

int64_t Quantity::Value() const { return RoundAwayFromZero(nanos_, kNanosPerUnit); }

int64_t Quantity::MilliValue() const { return RoundAwayFromZero(nanos_, kNanosPerMilli); }

std::string Quantity::ToString() const {
  if (nanos_ == 0) return "0";
  const Nanos magnitude = nanos_ < 0 ? -nanos_ : nanos_;
  const std::string sign = nanos_ < 0 ? "-" : "";
  if (format_ == Format::kBinarySI && magnitude % kNanosPerUnit == 0 &&
      magnitude >= 1024 * kNanosPerUnit) {
    return sign + BinaryText(magnitude);
  }
  if (format_ == Format::kDecimalExponent) {
    const auto [mantissa, power] = DecimalParts(magnitude, 3 * kNanoDigits);
    if (power == 0) return sign + MagnitudeText(mantissa);
    return fmt::format("{}{}{}{}", sign, MagnitudeText(mantissa), upper_exponent_ ? "E" : "e",
                       power);
  }
  const auto [mantissa, power] = DecimalParts(magnitude, kDecimalSuffixes.back().power);
  const auto index = static_cast<size_t>((power + kNanoDigits) / 3);
  return sign + MagnitudeText(mantissa) + kDecimalSuffixes.at(index).text;
}

Quantity Quantity::operator+(const Quantity& other) const {
  return Quantity(Cap(nanos_ + other.nanos_), nanos_ == 0 ? other.format_ : format_);
}

Quantity Quantity::operator-(const Quantity& other) const {
  return Quantity(Cap(nanos_ - other.nanos_), nanos_ == 0 ? other.format_ : format_);
}

}  // namespace sluice
