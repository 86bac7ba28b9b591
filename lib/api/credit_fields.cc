// Descriptions of CreditPolicy and CreditAccount.
#include "api/credit_fields.h"

#include <fmt/format.h>

#include "api/codec.h"
#include "api/codec_impl.h"
#include "api/rules.h"
#include "base/time.h"

namespace sluice::api {
namespace {

class DurationTypeImpl final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    auto& duration = *static_cast<absl::Duration*>(value);
    const bool zero = json.IsInt() && json.AsInt() == 0;
    if (zero || (json.IsString() && json.AsString() == "0")) {
      duration = absl::ZeroDuration();
      return true;
    }
    const absl::StatusOr<absl::Duration> parsed = json.IsString()
                                                      ? sluice::ParseDuration(json.AsString())
                                                      : absl::InvalidArgumentError("it is no text");
    if (!parsed.ok() || *parsed < absl::ZeroDuration()) {
      return context.Fail(json.Text() + " is no duration such as 15m or 1h30m");
    }
    duration = *parsed;
    return true;
  }
  Json Encode(const void* value) const override {
    return sluice::FormatDuration(*static_cast<const absl::Duration*>(value));
  }
  bool IsEmpty(const void*) const override { return false; }
  Json Schema() const override {
    return Json::MakeObject({{"anyOf", Json::MakeArray({Json::MakeObject({{"type", "integer"}}),
                                                        Json::MakeObject({{"type", "string"}})})},
                             {"maxLength", 32},
                             {"pattern", kDurationPattern},
                             {"x-kubernetes-int-or-string", true}});
  }
};

class MilliTimeTypeImpl final : public TypeInfo {
 public:
  bool Decode(void* value, const Json& json, DecodeContext& context) const override {
    return MicroTimeType().Decode(value, json, context);
  }
  Json Encode(const void* value) const override {
    const auto& time = *static_cast<const std::optional<absl::Time>*>(value);
    if (!time.has_value()) return Json();
    return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", *time, absl::UTCTimeZone());
  }
  bool IsEmpty(const void* value) const override {
    return !static_cast<const std::optional<absl::Time>*>(value)->has_value();
  }
  Json Schema() const override { return MicroTimeType().Schema(); }
};

constexpr char kDurationRule[] =
    "type(self) == string ? (self == '0' || duration(self) <= duration('87600h')) : self == 0";
constexpr char kDurationText[] = "must be 0 or a duration of at most 87600h, such as 15m or 1h30m";

Rules& Duration(Rules& rules) { return rules.Cel(kDurationRule, kDurationText); }

}  // namespace

const TypeInfo& DurationType() {
  static const DurationTypeImpl kType;
  return kType;
}

const TypeInfo& MilliTimeType() {
  static const MilliTimeTypeImpl kType;
  return kType;
}

void Describe(Fields<CreditResource>& f) {
  f.Field("name", &CreditResource::name).Required().MinLength(1).MaxLength(317);
  f.Field("weight", &CreditResource::weight)
      .Default("1")
      .MaxLength(64)
      .Doc("What one unit counts in the sum; 0 leaves the resource out.")
      .Cel("quantity(string(self)).compareTo(quantity('0')) >= 0", "a weight must not be negative")
      .Cel("quantity(string(self)).isLessThan(quantity('1G'))", "a weight must be below 1G");
}

void Describe(Fields<BurstLimit>& f) {
  Reference(f.Field("flavor", &BurstLimit::flavor).Required().MinLength(1));
  f.Field("resource", &BurstLimit::resource).Required().MinLength(1).MaxLength(317);
  f.Field("limit", &BurstLimit::limit)
      .Required()
      .MaxLength(64)
      .Doc("Takes the place of a smaller borrowingLimit while the balance is above zero.")
      .Cel("quantity(string(self)).compareTo(quantity('0')) >= 0", "a limit must not be negative");
}

void Describe(Fields<CreditPolicySpec>& f) {
  f.Group("selector", [](Fields<CreditPolicySpec>& g) {
     Reference(g.Field("cohort", &CreditPolicySpec::cohort).Required().MinLength(1))
         .Doc("Root of the governed quota subtree; all below it get accounts, it gets none.");
   }).Required();
  f.Field("resources", &CreditPolicySpec::resources)
      .KeyedBy({"name"})
      .MinItems(1)
      .MaxItems(16)
      .Default(Json::MakeArray({Json::MakeObject({{"name", "nvidia.com/gpu"}, {"weight", "1"}})}))
      .Doc("The weighted sum of resources that is banked.")
      .Cel(
          "self.exists(r, !has(r.weight) || quantity(string(r.weight)).compareTo(quantity('0')) > "
          "0)",
          "at least one weight must be above zero");
  Duration(f.Field("horizon", &CreditPolicySpec::horizon, DurationType()))
      .Default("1h")
      .Doc("Over what time a bank is meant to be spent: turns credits into extra entitlement.")
      .Cel("type(self) == string && self != '0' && duration(self) >= duration('1s')",
           "must be at least 1s");
  Duration(f.Field("halfLife", &CreditPolicySpec::half_life, DurationType()))
      .Default("168h")
      .Doc("Banked credits halve in that time; 0 means never.");
  Duration(f.Field("maxBank", &CreditPolicySpec::max_bank, DurationType()))
      .Default("24h")
      .Doc("A bank never holds more than so many hours of the entitlement.");
  Duration(f.Field("maxDebt", &CreditPolicySpec::max_debt, DurationType()))
      .Default("0")
      .Doc("How far below zero over-use may push a balance, in hours of the entitlement.");
  f.Field("effect", &CreditPolicySpec::effect)
      .Enum({"Order", "Protect"})
      .Default("Order")
      .Doc(
          "Order: credits decide who goes first. Protect: lenders also wait for borrowers that "
          "are within their standing entitlement.");
  Duration(f.Field("maxLenderDelay", &CreditPolicySpec::max_lender_delay, DurationType()))
      .Default("15m")
      .Doc("With Protect: how long a lender may be kept waiting for its own nominal quota.");
  f.Field("burstLimit", &CreditPolicySpec::burst_limit)
      .KeyedBy({"flavor", "resource"})
      .MaxItems(64)
      .Doc("Borrowing limits for the time in which a balance is above zero.");
}

void Describe(Fields<CreditPolicyStatus>& f) {
  ConditionList(f.Field("conditions", &CreditPolicyStatus::conditions));
}

void Describe(Fields<CreditPolicy>& f) {
  f.Root(Kind::kCreditPolicy);
  f.Field("metadata", &CreditPolicy::metadata);
  f.Field("spec", &CreditPolicy::spec).Required();
  f.Field("status", &CreditPolicy::status);
}

void Describe(Fields<CreditAccountRules>& f) {
  f.Field("resources", &CreditAccountRules::resources).KeyedBy({"name"}).MaxItems(16);
  f.Field("halfLife", &CreditAccountRules::half_life, DurationType());
  f.Field("maxBank", &CreditAccountRules::max_bank, DurationType());
  f.Field("maxDebt", &CreditAccountRules::max_debt, DurationType());
}

void Describe(Fields<CreditAccountStatus>& f) {
  f.Field("balance", &CreditAccountStatus::balance)
      .MaxLength(64)
      .Doc("Banked credit-hours at lastSettled; below zero is a debt.");
  f.Field("entitlement", &CreditAccountStatus::entitlement)
      .MaxLength(64)
      .Doc("Weighted nominal quota of the queue, or of the subtree of the cohort.");
  f.Field("usage", &CreditAccountStatus::usage)
      .MaxLength(64)
      .Doc("Weighted quota that is reserved now.");
  f.Field("rate", &CreditAccountStatus::rate)
      .MaxLength(64)
      .Doc("Credit-hours an hour; below zero while it spends.");
  f.Field("bankLimit", &CreditAccountStatus::bank_limit)
      .MaxLength(64)
      .Doc("What the balance never exceeds.");
  f.Field("emptyAt", &CreditAccountStatus::empty_at)
      .Doc("When the balance reaches zero at this rate; absent when it does not.");
  f.Field("lastSettled", &CreditAccountStatus::last_settled, MilliTimeType())
      .Doc("The instant for which the balance holds.");
  f.Field("lifetimeEarned", &CreditAccountStatus::lifetime_earned)
      .MaxLength(64)
      .Doc("Credit-hours earned or granted since the account was made.");
  f.Field("lifetimeSpent", &CreditAccountStatus::lifetime_spent)
      .MaxLength(64)
      .Doc("Credit-hours spent since the account was made.");
  f.Field("lifetimeExpired", &CreditAccountStatus::lifetime_expired)
      .MaxLength(64)
      .Doc("Credit-hours lost to the half-life or to the limit of the bank.");
  f.Field("adjustments", &CreditAccountStatus::adjustments)
      .Doc("How many adjustments by annotation the balance contains.");
  f.Field("lastAdjustment", &CreditAccountStatus::last_adjustment)
      .MaxLength(64)
      .Doc("The last of them.");
  f.Field("rules", &CreditAccountStatus::rules)
      .Doc("What the policy says, by which the balance goes on from lastSettled.");
  ConditionList(f.Field("conditions", &CreditAccountStatus::conditions));
}

void Describe(Fields<CreditAccount>& f) {
  f.Root(Kind::kCreditAccount);
  f.Field("metadata", &CreditAccount::metadata);
  f.Field("status", &CreditAccount::status);
}

SLUICE_CODEC(CreditPolicySpec);
SLUICE_CODEC(CreditPolicyStatus);
SLUICE_CODEC(CreditPolicy);
SLUICE_CODEC(CreditAccountStatus);
SLUICE_CODEC(CreditAccount);

}  // namespace sluice::api
