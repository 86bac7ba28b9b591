// MostJsonValues: how many values a JSON text can have, told without parsing it.
//
// A parsed value takes forty bytes and more where the text has two, so a text from a stranger is
// looked at before it is parsed. Never less than what ParseJson makes of the text, whether or not
// it is valid. Linear, allocates nothing, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::api {

size_t MostJsonValues(std::string_view text);

}  // namespace sluice::api
