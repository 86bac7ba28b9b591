#include "config/tls.h"

#include <algorithm>
#include <string_view>

namespace sluice::config {
namespace {

struct Suite {
  std::string_view go_name;
  std::string_view openssl_name;  // "": not offered; "*": TLS 1.3, always on and not configurable
};

constexpr Suite kSuites[] = {
    {"TLS_AES_128_GCM_SHA256", "*"},
    {"TLS_AES_256_GCM_SHA384", "*"},
    {"TLS_CHACHA20_POLY1305_SHA256", "*"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
    {"TLS_RSA_WITH_RC4_128_SHA", ""},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", ""},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", ""},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", ""},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", ""},
};

struct Curve {
  int32_t number;
  std::string_view openssl_name;
};
constexpr Curve kCurves[] = {
    {23, "P-256"}, {24, "P-384"}, {25, "P-521"}, {29, "X25519"}, {30, "X448"},
};

const Suite* FindSuite(const std::string& name) {
  const Suite* found = std::find_if(std::begin(kSuites), std::end(kSuites),
                                    [&](const Suite& suite) { return suite.go_name == name; });
  return found == std::end(kSuites) ? nullptr : found;
}

const Curve* FindCurve(int32_t number) {
  const Curve* found = std::find_if(std::begin(kCurves), std::end(kCurves),
                                    [&](const Curve& curve) { return curve.number == number; });
  return found == std::end(kCurves) ? nullptr : found;
}

void AppendTo(std::string* list, std::string_view name) {
  if (!list->empty()) *list += ':';
  *list += name;
}

}  // namespace

void ValidateTls(const TlsFile& tls, Violations* violations) {
  // Values that do not parse are all reported at the block.
  if (tls.min_version != "VersionTLS12" && tls.min_version != "VersionTLS13") {
    violations->Add("tls", "minVersion must be VersionTLS12 or VersionTLS13 (it is \"{}\")",
                    tls.min_version);
  }
  for (const std::string& name : tls.cipher_suites) {
    if (FindSuite(name) == nullptr) violations->Add("tls", "unknown cipher suite \"{}\"", name);
  }
  for (const int32_t number : tls.curve_preferences) {
    if (number < 1 || number > 65535) {
      violations->Add("tls", "curvePreferences must be from 1 to 65535 (one is {})", number);
    }
  }
  if (tls.min_version == "VersionTLS13" && !tls.cipher_suites.empty()) {
    violations->Add("tls.cipherSuites",
                    "must be empty with VersionTLS13, whose cipher suites are not configurable");
  }
}

void UnsupportedTls(const TlsFile& tls, Violations* violations) {
  for (std::size_t i = 0; i < tls.cipher_suites.size(); ++i) {
    const Suite* suite = FindSuite(tls.cipher_suites[i]);
    if (suite != nullptr && suite->openssl_name.empty()) {
      violations->Add(fmt::format("tls.cipherSuites[{}]", i), "{} is not supported",
                      tls.cipher_suites[i]);
    }
  }
  for (std::size_t i = 0; i < tls.curve_preferences.size(); ++i) {
    if (FindCurve(tls.curve_preferences[i]) == nullptr) {
      violations->Add(fmt::format("tls.curvePreferences[{}]", i), "curve {} is not supported",
                      tls.curve_preferences[i]);
    }
  }
}

TlsOptions MakeTlsOptions(const TlsFile& tls) {
  TlsOptions options;
  options.only_tls13 = tls.min_version == "VersionTLS13";
  for (const std::string& name : tls.cipher_suites) {
    const Suite* suite = FindSuite(name);
    if (suite != nullptr && suite->openssl_name != "*") {
      AppendTo(&options.cipher_list, suite->openssl_name);
    }
  }
  for (const int32_t number : tls.curve_preferences) {
    if (const Curve* curve = FindCurve(number)) AppendTo(&options.groups_list, curve->openssl_name);
  }
  return options;
}

}  // namespace sluice::config
