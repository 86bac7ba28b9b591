#include "resource/quantity.h"

#include <fmt/format.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "unit/catch.h"

namespace sluice {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kSkip = -424242;  // the row says nothing about this number

Quantity Parsed(const std::string& text) {
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  INFO(text << ": " << quantity.status().ToString());
  REQUIRE(quantity.ok());
  return *quantity;
}

struct Row {
  const char* text;
  const char* canonical;
  int64_t value;
  int64_t milli = kSkip;
};

TEST_CASE("A quantity has a canonical form and rounds away from zero") {
  const auto row = GENERATE(values<Row>({
      {"1.5", "1500m", 2, 1500},
      {"0.5", "500m", 1, 500},
      {".5", "500m", 1, 500},
      {"1000m", "1", 1, 1000},
      {"0.1m", "100u", 1, 1},
      {"1.0001", "1000100u", 2, 1001},
      {"1500u", "1500u", 1, 2},
      {"2000", "2k", 2000, 2000000},
      {"1000k", "1M", 1000000},
      {"1024k", "1024k", 1024000},
      {"1024", "1024", 1024},
      {"1024Ki", "1Mi", 1048576},
      {"1.5Gi", "1536Mi", 1610612736},
      {"0.5Gi", "512Mi", 536870912},
      {"1500Mi", "1500Mi", 1572864000},
      {"1.1Ki", "1126400m", 1127, 1126400},
      {"0.1Ki", "102400m", 103, 102400},
      {"1e3", "1e3", 1000},
      {"1.5e3", "1500", 1500},
      {"12e6", "12e6", 12000000},
      {"1E3", "1E3", 1000},
      {"1e-3", "1e-3", 1, 1},
      {"1E", "1E", 1000000000000000000},
      {"1E+3", "1E3", 1000},
      {"100000m", "100", 100},
      {"+1", "1", 1},
      {"-0", "0", 0, 0},
      {"-0.1m", "-100u", -1, -1},
      {"-1.5Gi", "-1536Mi", -1610612736},
      {"8Ei", "9223372036854775807", kMax, kMax},
      {"10Ei", "9223372036854775807", kMax, kMax},
      {"-8Ei", "-9223372036854775807", -kMax, -kMax},
      {"7Ei", "7Ei", 8070450532247928832},
      {"9223372036854775807", "9223372036854775807", kMax},
      {"99999999999999999999", "9223372036854775807", kMax},
      {"1e99999999999", "9223372036854775807", kMax},
      {"00", "0", 0, 0},
      {"0Ki", "0", 0},
      {"5.", "5", 5},
      {"007", "7", 7},
      {"1n", "1n", 1, 1},
      {"0.1n", "1n", 1, 1},
      {"1.00000000001", "1000000001n", 2, 1001},
      {"1e-30", "1e-9", 1, 1},
      {"-1e-99999999999", "-1e-9", -1, -1},
      {"512Ki", "512Ki", 524288},
      {"1000Ki", "1000Ki", 1024000},
      {"1023.0", "1023", 1023},
      {"123456789012345678901234567890n", "9223372036854775807", kMax},
      {"0.000000000000000000000000000001Ei", "1n", 1, 1},
      {"0.000000000000000000000000001Ei", "2n", 1, 1},
      {"0.000000000000000000000001Ei", "1153n", 1, 1},
      {"0.00000000000000000000000000000000000001", "1n", 1, 1},
      {"0000000000000000000000000000000000000000002Ki", "2Ki", 2048},
      {"3000000000000000000000000n", "3P", 3000000000000000},
  }));
  DYNAMIC_SECTION(row.text) {
    const Quantity quantity = Parsed(row.text);
    CHECK(quantity.ToString() == row.canonical);
    CHECK(quantity.Value() == row.value);
    if (row.milli != kSkip) CHECK(quantity.MilliValue() == row.milli);
    CHECK(Parsed(quantity.ToString()) == quantity);
  }
}

TEST_CASE("What is no quantity is refused with the text in the message") {
  const auto text = GENERATE(values<std::string>(
      {"",   "1ki", "1K",  "1 ",   " 1",    "0x1", "1e",    "1.2.3", "1mm", "1Zi",
       ".",  "+",   "-",   "--1",  "+-1",   "1e+", "1e1.5", "1e 3",  "Ki",  "m",
       "1i", "1KI", "1,5", "1Ki3", "1e3Ki", "NaN", "inf",   "1\n"}));
  DYNAMIC_SECTION("[" << text << "]") {
    const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
    REQUIRE_FALSE(quantity.ok());
    CHECK(quantity.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(quantity.status().message()).find(text) != std::string::npos);
  }
}

TEST_CASE("Sums keep the format of the left operand unless it is zero") {
  CHECK((Parsed("1Gi") + Parsed("500M")).ToString() == "1573741824");
  CHECK((Parsed("0") + Parsed("1Gi")).ToString() == "1Gi");
  CHECK((Parsed("1") + Parsed("1Gi")).ToString() == "1073741825");
  CHECK((Parsed("1Gi") - Parsed("2Gi")).ToString() == "-1Gi");
  CHECK((Parsed("0") - Parsed("1Gi")).ToString() == "-1Gi");
  CHECK((Parsed("1E3") + Parsed("1")).ToString() == "1001");
  CHECK((Parsed("1E3") + Parsed("1E3")).ToString() == "2e3");
  CHECK((Parsed("8Ei") + Parsed("8Ei")).ToString() == "9223372036854775807");
  CHECK((Parsed("-8Ei") - Parsed("8Ei")).Value() == -kMax);
}

TEST_CASE("Numbers become quantities") {
  CHECK(Quantity().ToString() == "0");
  CHECK(Quantity::FromInt(2048, Quantity::Format::kBinarySI).ToString() == "2Ki");
  CHECK(Quantity::FromInt(2000).ToString() == "2k");
  CHECK(Quantity::FromMilli(1500).ToString() == "1500m");
  CHECK(Quantity::FromMilli(-2000).ToString() == "-2");
  CHECK(Quantity::FromMilli(std::numeric_limits<int64_t>::min()).MilliValue() == -kMax);
  CHECK(Quantity::FromInt(std::numeric_limits<int64_t>::min()).Value() == -kMax);
  CHECK(Quantity::FromInt(kMax).Value() == kMax);
  CHECK(Parsed("-3").Sign() == -1);
  CHECK(Parsed("0").Sign() == 0);
  CHECK(Parsed("1n").Sign() == 1);
}

TEST_CASE("Quantities compare by value") {
  CHECK(Parsed("1Gi") == Parsed("1073741824"));
  CHECK(Parsed("1000m") == Parsed("1"));
  CHECK(Parsed("1") < Parsed("1001m"));
  CHECK(Parsed("-1") < Parsed("-999m"));
  CHECK(Parsed("1e3") > Parsed("999"));
}

// Random texts of the grammar. The seed is fixed, so a failure is repeatable; it names the text.
class Texts {
 public:
  std::string Next() {
    std::string text = Pick({"", "", "+", "-"});
    const int shape = Number(0, 3);
    if (shape != 1) text += Digits(1 + Number(0, shape == 2 ? 25 : 9));
    if (shape != 0) text += "." + Digits(1 + Number(0, shape == 2 ? 25 : 9));
    return text + Pick({"",   "n",  "u",  "m",  "k",  "M",  "G",  "T",  "P",   "E",
                        "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0", "e5", "E-7", "e+12"});
  }
  int Number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  std::string Pick(const std::vector<std::string>& choices) {
    return choices[static_cast<size_t>(Number(0, static_cast<int>(choices.size()) - 1))];
  }
  std::string Digits(int count) {
    std::string digits;
    for (int i = 0; i < count; ++i) digits += static_cast<char>('0' + Number(0, 9));
    return digits;
  }
  std::mt19937_64 random_{20260822};
};

TEST_CASE("The canonical text of any quantity means the same and is stable") {
  Texts texts;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = texts.Next();
    CAPTURE(text);
    const Quantity quantity = Parsed(text);
    const std::string canonical = quantity.ToString();
    const Quantity again = Parsed(canonical);
    REQUIRE(again == quantity);
    REQUIRE(again.ToString() == canonical);
    REQUIRE(canonical.find('.') == std::string::npos);
    REQUIRE(quantity.MilliValue() / 1000 <= std::max(quantity.Value(), int64_t{0}));
  }
}

TEST_CASE("Order agrees with differences, and sums with order") {
  Texts texts;
  for (int i = 0; i < 20000; ++i) {
    const Quantity a = Parsed(texts.Next());
    const Quantity b = Parsed(texts.Next());
    CAPTURE(a.ToString(), b.ToString());
    REQUIRE((a < b) == (b > a));
    REQUIRE((a - b).Sign() == (a < b ? -1 : a == b ? 0 : 1));
    REQUIRE(a + b == b + a);
    REQUIRE((a.Value() <= b.Value()) >= (a <= b));
  }
}

// A second, slow reading of the grammar: decimal digit strings, shifted and doubled by hand.
std::string SlowNanos(const std::string& digits_in, int power2, int shift, bool& capped) {
  std::string digits = digits_in;
  for (int i = 0; i < power2; ++i) {
    int carry = 0;
    for (size_t k = digits.size(); k-- > 0;) {
      const int twice = (digits[k] - '0') * 2 + carry;
      digits[k] = static_cast<char>('0' + twice % 10);
      carry = twice / 10;
    }
    if (carry > 0) digits.insert(digits.begin(), static_cast<char>('0' + carry));
  }
  bool rest = false;
  for (; shift < 0; ++shift) {
    if (digits.empty()) break;
    rest = rest || digits.back() != '0';
    digits.pop_back();
  }
  for (; shift > 0; --shift) digits += '0';
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (rest) {
    size_t k = digits.size();
    while (k > 0 && digits[k - 1] == '9') digits[--k] = '0';
    if (k == 0) {
      digits.insert(digits.begin(), '1');
    } else {
      ++digits[k - 1];
    }
  }
  const std::string most = "9223372036854775807000000000";
  capped = digits.size() > most.size() || (digits.size() == most.size() && digits > most);
  return capped ? most : digits.empty() ? "0" : digits;
}

std::string Text(Quantity::Nanos value) {
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value > 0);
  return text;
}

TEST_CASE("The exact value agrees with arithmetic on digit strings") {
  Texts texts;
  int capped_count = 0;
  for (int i = 0; i < 5000; ++i) {
    const int whole = texts.Number(1, 22);
    const int fraction = texts.Number(1, 22);
    std::string digits;
    for (int k = 0; k < whole + fraction; ++k) {
      digits += static_cast<char>('0' + texts.Number(0, 9));
    }
    const int binary = texts.Number(0, 6);
    static const char* const kSuffix[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    const std::string text = digits.substr(0, static_cast<size_t>(whole)) + "." +
                             digits.substr(static_cast<size_t>(whole)) + kSuffix[binary];
    bool capped = false;
    const std::string expected = SlowNanos(digits, binary * 10, 9 - fraction, capped);
    capped_count += capped ? 1 : 0;
    CAPTURE(text);
    REQUIRE(Text(Parsed(text).nanos()) == expected);
  }
  CHECK(capped_count > 100);
  CHECK(capped_count < 4900);
}

}  // namespace
}  // namespace sluice
