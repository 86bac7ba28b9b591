#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "kube/client.h"

namespace sluice::cli {
namespace {

constexpr char kBash[] = R"(_kubectl_sluice() {
  local IFS=$'\n'
  COMPREPLY=($(kubectl-sluice __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _kubectl_sluice kubectl-sluice
)";
constexpr char kZsh[] = R"(#compdef kubectl-sluice
_kubectl_sluice() {
  if kubectl-sluice __files "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null; then
    _files
    return
  fi
  local -a found
  found=("${(@f)$(kubectl-sluice __complete "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
  compadd -a found
}
compdef _kubectl_sluice kubectl-sluice
)";
constexpr char kFish[] = R"(function __kubectl_sluice
  set -l words (commandline -opc) (commandline -ct)
  kubectl-sluice __complete $words[2..-1] 2>/dev/null
end
function __kubectl_sluice_files
  set -l words (commandline -opc) (commandline -ct)
  kubectl-sluice __files $words[2..-1] 2>/dev/null
end
complete -c kubectl-sluice -f -n 'not __kubectl_sluice_files' -a '(__kubectl_sluice)'
complete -c kubectl-sluice -F -n __kubectl_sluice_files
)";

// Names of Workloads or Jobs in the namespace that was typed.
std::vector<std::string> Names(const std::vector<std::string>& words) {
  ConnectOptions options;
  bool jobs = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-n" || words[i] == "--namespace") options.ns = words[i + 1];
    if (words[i] == "--kubeconfig") options.kubeconfig = words[i + 1];
    if (words[i] == "--context") options.context = words[i + 1];
    if (words[i] == "job") jobs = true;
  }
  std::vector<std::string> names;
  auto connection = Connection::Open(options);
  if (!connection.ok()) return names;
  kube::ListOptions list;
  list.ns = options.ns.empty() ? (*connection)->default_namespace() : options.ns;
  const auto objects =
      (*connection)->client().List(jobs ? api::Kind::kJob : api::Kind::kWorkload, list);
  if (!objects.ok()) return names;
  for (const api::Json& object : *objects) names.push_back(object.GetString("metadata", "name"));
  return names;
}

// The command of the words, nullptr while its own word is typed or there is none of that name.
const CLI::App* CommandOf(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.size() < 2) return nullptr;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == words.front()) return sub;
  }
  return nullptr;
}

// Whose value is typed; nullptr: none.
const CLI::Option* OptionOf(const CLI::App& command, const std::vector<std::string>& words) {
  const std::string& before = words[words.size() - 2];
  if (words.back().starts_with("-") || !before.starts_with("-")) return nullptr;
  const CLI::Option* option = command.get_option_no_throw(before);
  return option != nullptr && option->get_items_expected_max() > 0 ? option : nullptr;
}

// Options whose values are files or directories.
constexpr const char* kFiles[] = {"--filename",     "--from",    "--config",        "--kubeconfig",
                                  "--measure",      "--trace",   "--csv",           "--html",
                                  "--explain-json", "--against", "--against-config"};

}  // namespace

bool CompletesFiles(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = CommandOf(app, words);
  if (command == nullptr || words.back().starts_with("-")) return false;
  const CLI::Option* option = OptionOf(*command, words);
  if (option == nullptr) return command->get_name() == "simulate";
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [&](const char* name) { return option->check_name(name); });
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : "";
}

std::vector<std::string> Completions(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> found;
  const CLI::App* command = CommandOf(app, words);
  if (command == nullptr && words.size() > 1) return found;
  if (command == nullptr) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      if (!sub->get_group().empty()) found.push_back(sub->get_name());
    }
  } else if (last.starts_with("-")) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) found.push_back("--" + name);
    }
  } else if (const CLI::Option* option = OptionOf(*command, words)) {
    if (option->check_name("--output")) found = {"wide", "json", "yaml"};
  } else if (command->get_name() == "explain" || command->get_name() == "forecast") {
    if (words.size() == 2) found = {"job", "workload"};
    for (std::string& name : Names(words)) found.push_back(std::move(name));
  } else if (command->get_name() == "completion") {
    found = {"bash", "fish", "zsh"};
  }
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(last); });
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace sluice::cli
