// Reading and writing of the configuration file's structs as Json.
//
// Contract: reading is strict. A field that is not known (in that version), a value of the wrong
// type and a number out of range are errors, all of them collected with their paths
// ("waitForPodsReady.timeout: ..."). An explicit null is the same as an absent field. Writing
// leaves out what is absent or empty, in the order of the reference. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "config/file.h"

namespace sluice::config {

enum class FileVersion { kV1beta1, kV1beta2 };

// Reads all but apiVersion and kind, which are skipped here. Errors are appended.
ConfigurationFile ReadConfiguration(const api::Json& document, FileVersion version,
                                    std::vector<std::string>* errors);

// The file in version v1beta2, with apiVersion and kind.
api::Json WriteConfiguration(const ConfigurationFile& file);

}  // namespace sluice::config
