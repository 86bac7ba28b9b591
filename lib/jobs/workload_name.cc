#include "jobs/workload_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "api/kind.h"

namespace sluice::jobs {
namespace {

constexpr size_t kHashDigits = 5;

}  // namespace

std::string ShortHash(const std::string& text, size_t digits) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, "")).substr(0, digits);
}

std::string WorkloadName(const WorkloadOwner& owner, size_t max_length) {
  std::string prefix = owner.kind + "-" + owner.name;
  std::transform(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(owner.kind.size()),
                 prefix.begin(), [](char c) {
                   return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
                 });
  prefix.resize(std::min(prefix.size(), max_length - kHashDigits - 1));
  std::string hashed = owner.kind + "\n" + owner.group + "\n" + owner.name + "\n" + owner.uid;
  if (!owner.extra.empty()) hashed += "\n" + owner.extra;
  return prefix + "-" + ShortHash(hashed, kHashDigits);
}

std::string VariantName(const std::string& parent, const std::string& parent_uid,
                        const std::string& flavor, size_t max_length) {
  std::string prefix = parent;
  const size_t dash = prefix.rfind('-');
  if (dash != std::string::npos && prefix.size() - dash - 1 == kHashDigits) prefix.resize(dash);
  prefix += "-variant-" + flavor;
  prefix.resize(std::min(prefix.size(), max_length - kHashDigits - 1));
  const std::string hashed =
      fmt::format("Workload\n{}\n{}\n{}\n{}", api::kKueueGroup, parent, parent_uid, flavor);
  return prefix + "-" + ShortHash(hashed, kHashDigits);
}

}  // namespace sluice::jobs
