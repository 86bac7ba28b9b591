// TypeInfo of the values that are not built from other described values.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "api/core_types.h"
#include "api/json.h"
#include "api/meta_types.h"
#include "api/type_info.h"
#include "resource/quantity.h"

namespace sluice::api {

template <typename T>
struct HasLeafType : std::false_type {};
template <>
struct HasLeafType<std::string> : std::true_type {};
template <>
struct HasLeafType<bool> : std::true_type {};
template <>
struct HasLeafType<int32_t> : std::true_type {};
template <>
struct HasLeafType<int64_t> : std::true_type {};
template <>
struct HasLeafType<Quantity> : std::true_type {};
template <>
struct HasLeafType<absl::Time> : std::true_type {};
template <>
struct HasLeafType<ConditionStatus> : std::true_type {};
template <>
struct HasLeafType<Json> : std::true_type {};
template <>
struct HasLeafType<PodTemplate> : std::true_type {};

template <typename T>
std::unique_ptr<const TypeInfo> MakeLeafType();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<std::string>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<bool>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<int32_t>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<int64_t>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<Quantity>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<absl::Time>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<ConditionStatus>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<Json>();
template <>
std::unique_ptr<const TypeInfo> MakeLeafType<PodTemplate>();

}  // namespace sluice::api
