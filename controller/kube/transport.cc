#include "kube/transport.h"

#include <strings.h>

namespace sluice::kube {

std::string HttpResponse::Header(std::string_view name) const {
  const std::string wanted(name);
  for (const auto& [key, value] : headers) {
    if (strcasecmp(key.c_str(), wanted.c_str()) == 0) return value;
  }
  return "";
}

}  // namespace sluice::kube
