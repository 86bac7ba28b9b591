#include "state/fence.h"

#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Json;
using api::Kind;
using Type = ObjectEvent::Type;

ObjectEvent At(Type type, const std::string& version, Kind kind = Kind::kWorkload) {
  return {type, kind,
          Json::MakeObject({{"metadata", Json::MakeObject({{"resourceVersion", version}})}})};
}

TEST_CASE("An event shows all up to its version, and so do a bookmark and the end of a list") {
  const Type type = GENERATE(Type::kUpsert, Type::kDelete, Type::kBookmark, Type::kListEnd);
  CAPTURE(static_cast<int>(type));
  Fence fence;
  fence.Note(At(type, "99"));
  CHECK(fence.Reached({}));
  CHECK(fence.Reached({{Kind::kWorkload, "98"}}));
  CHECK(fence.Reached({{Kind::kWorkload, "99"}}));
  CHECK_FALSE(fence.Reached({{Kind::kWorkload, "100"}}));
  CHECK_FALSE(fence.Reached({{Kind::kWorkload, "99"}, {Kind::kCreditAccount, "1"}}));
  fence.Note(At(Type::kBookmark, "7", Kind::kCreditAccount));
  CHECK(fence.Reached({{Kind::kWorkload, "99"}, {Kind::kCreditAccount, "1"}}));
}

TEST_CASE("What a list that runs shows, and the answer to a request, show nothing else") {
  Fence fence;
  fence.Note({Type::kListBegin, Kind::kWorkload, {}});
  fence.Note(At(Type::kUpsert, "50"));
  CHECK_FALSE(fence.Reached({{Kind::kWorkload, "40"}}));
  fence.Note(At(Type::kListEnd, "60"));
  CHECK(fence.Reached({{Kind::kWorkload, "60"}}));
  ObjectEvent reply = At(Type::kUpsert, "70");
  reply.by_reply = true;
  fence.Note(reply);
  CHECK_FALSE(fence.Reached({{Kind::kWorkload, "70"}}));
  fence.Note(At(Type::kUpsert, "65"));
  CHECK(fence.Reached({{Kind::kWorkload, "65"}}));
}

}  // namespace
}  // namespace sluice::state
