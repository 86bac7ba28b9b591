// What fair-share credits change in a cycle (private to this room): the order of those that would
// borrow, shares in the tournament, and who may reclaim from whom.
//
// Everything here is as if it were not there while the snapshot has no credits.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "admission/nominator.h"

namespace sluice::admission {

// The reason of QuotaReserved=False of one that waits for what credits give to others.
inline constexpr char kCreditsBehind[] = "CreditsBehind";

// `sorted` is in the usual order. Of the entries that would borrow below one policy, those whose
// queue stays within its standing entitlement get the first of the places that these entries have;
// nothing else moves.
void OrderByCredits(const Snapshot& snapshot, std::vector<Entry*>& sorted);

// Others of the cycle came first by their credits, and the workload no longer fitted: noted in
// `behind`, by workload with the CreditPolicy. Looked at again, then or later, it lacks nothing but
// the quota that they got; that this was by their credits is what its decision tells, until it is
// within its standing entitlement itself or nobody else below the policy uses more than its own.
void TellOfCredits(const Snapshot& snapshot, absl::btree_map<ObjectKey, std::string>& behind,
                   Decision& decision);
// The end of the message of such a workload.
std::string BehindText(const std::string& policy);

quota::Share CreditedShare(const Snapshot& snapshot, const quota::Node& node);
// Whether the side borrows something that is asked for; use within the standing entitlement is not
// borrowed as far as credits count it.
bool BorrowsBeyondCredits(const Snapshot& snapshot, const quota::Node& node,
                          const quota::CellAmounts& wanted);

// It may not reclaim yet what credits of others protect.
bool HeedsCredits(const Snapshot& snapshot, const api::Workload& workload);
// Until when credits protect `targets` from the workload, which could reclaim them otherwise.
absl::Time ProtectedUntil(const Snapshot& snapshot, const api::Workload& workload,
                          const std::vector<preemption::Target>& targets);
// The end of the message of a workload that is refused for that reason, and the time in it.
std::string ProtectionText(absl::Time until);
std::optional<absl::Time> ProtectionIn(const std::string& message);

}  // namespace sluice::admission
