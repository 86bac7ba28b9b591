// From the file to what decisions need.
#pragma once

#include "config/file.h"
#include "state/settings.h"

namespace sluice::config {

// Of a valid file with its defaults.
state::Settings MakeSettings(const ConfigurationFile& file, const state::FeatureGates& gates);

}  // namespace sluice::config
