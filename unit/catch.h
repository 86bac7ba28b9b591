// The only include of Catch in tests: a later move to Catch 3 is an edit of this file.
#pragma once

#include <catch2/catch.hpp>
