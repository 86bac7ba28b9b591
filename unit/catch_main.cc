// The one translation unit that compiles Catch's main (it takes long; every test file is short).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
