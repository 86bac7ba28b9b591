// Defaults of the configuration file, and the step from version v1beta1 to v1beta2.
//
// The two versions differ: without a waitForPodsReady block the feature is on (30 minutes) in
// v1beta2 and off in v1beta1, and blockAdmission is false in v1beta2 and true in v1beta1.
#pragma once

#include <string>

#include "config/file.h"
#include "config/file_codec.h"

namespace sluice::config {

// Fills in the defaults of that version; the result reads as v1beta2. The namespace of the mounted
// service account ("" outside a pod) is where the controller is installed unless the file says so.
void ApplyDefaults(FileVersion version, const std::string& service_account_namespace,
                   ConfigurationFile* file);

}  // namespace sluice::config
