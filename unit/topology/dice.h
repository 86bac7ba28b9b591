// Random numbers for tests that try many inventories, and how many of them the environment asks
// for.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace sluice::topology {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t Roll(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(engine_() % static_cast<uint64_t>(to - from + 1));
  }

 private:
  std::mt19937_64 engine_;
};

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoll(text);
}

}  // namespace sluice::topology
