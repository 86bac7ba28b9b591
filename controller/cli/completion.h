// Shell completion: the script of `completion bash|zsh|fish`, and the words it asks for.
#pragma once

#include <string>
#include <vector>

#include "cli/live.h"

namespace CLI {
class App;
}

namespace sluice::cli {

// "" for a shell that is not known.
std::string CompletionScript(const std::string& shell);
// What may follow the words that were typed, the last of which is unfinished. Names of objects are
// asked of the cluster; without one there are none.
std::vector<std::string> Completions(const CLI::App& app, const std::vector<std::string>& words);
// The unfinished word is the name of a file or directory, which the shell completes.
bool CompletesFiles(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace sluice::cli
