// Descriptions of the kinds of sluice.dev/v1alpha1; the text of each is in credit_fields.cc.
#pragma once

#include "api/core_fields.h"
#include "api/credit_types.h"
#include "api/fields.h"

namespace sluice::api {

void Describe(Fields<CreditResource>& f);
void Describe(Fields<BurstLimit>& f);
void Describe(Fields<CreditPolicySpec>& f);
void Describe(Fields<CreditPolicyStatus>& f);
void Describe(Fields<CreditPolicy>& f);
void Describe(Fields<CreditAccountRules>& f);
void Describe(Fields<CreditAccountStatus>& f);
void Describe(Fields<CreditAccount>& f);

// An optional time with milliseconds.
const TypeInfo& MilliTimeType();
// A duration as Go writes it ("1h30m"), or 0.
const TypeInfo& DurationType();

}  // namespace sluice::api
