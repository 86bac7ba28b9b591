// The rules that a configuration file must keep, once defaults are applied.
//
// Every violation is reported with the path of its field, in the order of the reference. Pure.
// Source: "Kueue Configuration API" in the reference part of kueue.sigs.k8s.io/docs; Kubernetes
// documentation of names, labels and selectors.
#pragma once

#include <string>

#include "config/file.h"
#include "config/violations.h"
#include "state/feature_gates.h"

namespace sluice::config {

void Validate(const ConfigurationFile& file, const state::FeatureGates& gates,
              Violations* violations);

// Parts of Validate, with files of their own.
void ValidateSelector(const std::string& path, const api::LabelSelector& selector,
                      Violations* violations);
void ValidateMetrics(const MetricsFile& metrics, Violations* violations);
void ValidateMultiKueue(const MultiKueueFile& multi, const IntegrationsFile& integrations,
                        Violations* violations);
void ValidateResources(const ResourcesFile& resources, const state::FeatureGates& gates,
                       Violations* violations);

}  // namespace sluice::config
