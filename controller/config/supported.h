// What the configuration file can say and this program cannot do yet.
//
// Contract: an option that asks for more than the program does is an error that names the path; it
// is never ignored. Values equal to the default, or that switch a feature off, are fine. A few
// tuning options of Kueue concern the way it works inside: they are accepted with a notice for the
// log.
#pragma once

#include <string>
#include <vector>

#include "config/file.h"
#include "config/violations.h"
#include "state/feature_gates.h"

namespace sluice::config {

// Of a valid file with its defaults.
void CheckSupported(const ConfigurationFile& file, const state::FeatureGates& gates,
                    Violations* violations);

// One sentence for each accepted option without effect. `raw` is the file before its defaults.
std::vector<std::string> NoEffectNotices(const ConfigurationFile& raw,
                                         const state::FeatureGates& gates);

}  // namespace sluice::config
