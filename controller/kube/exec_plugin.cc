#include "kube/exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "api/json.h"
#include "base/status.h"
#include "base/time.h"
#include "kube/executor.h"

extern char** environ;

namespace sluice::kube {
namespace {

constexpr size_t kMaxOutput = size_t{1} << 20;

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
      read_end = ends[0];
      write_end = ends[1];
    }
  }
  ~Pipe() {
    CloseWrite();
    if (read_end >= 0) close(read_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void CloseWrite() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

std::string ExecInfo(const ExecPlugin& plugin) {
  api::Json spec = api::Json::MakeObject({{"interactive", false}});
  if (!plugin.cluster_info.empty()) {
    if (auto cluster = api::ParseJson(plugin.cluster_info); cluster.ok()) {
      spec.Set("cluster", *std::move(cluster));
    }
  }
  return api::Json::MakeObject({{"kind", "ExecCredential"},
                                {"apiVersion", plugin.api_version},
                                {"spec", std::move(spec)}})
      .Text();
}

// Our environment, then what the kubeconfig adds, then the information for the plugin.
std::vector<std::string> Environment(const ExecPlugin& plugin) {
  std::vector<std::string> added;
  for (const auto& [name, value] : plugin.env) added.push_back(name + "=" + value);
  added.push_back("KUBERNETES_EXEC_INFO=" + ExecInfo(plugin));
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : added) replaced |= other.compare(0, name.size(), name) == 0;
    if (!replaced) result.push_back(text);
  }
  result.insert(result.end(), added.begin(), added.end());
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> Spawn(const ExecPlugin& plugin, int out, int err) {
  std::vector<std::string> args = {plugin.command};
  args.insert(args.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> env = Environment(plugin);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Its own process group, so that a timeout ends the children of a script too.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, plugin.command.c_str(), &actions, &attributes,
                                   Pointers(args).data(), Pointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    return Unavailable("cannot run \"{}\": {}{}", plugin.command, std::strerror(failure),
                       plugin.install_hint.empty() ? "" : " (" + plugin.install_hint + ")");
  }
  return pid;
}

// Reads what is there; false at the end of the pipe.
bool ReadSome(int fd, std::string& into) {
  std::array<char, 4096> buffer;
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  if (into.size() < kMaxOutput) into.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

// False when the deadline came first.
bool Collect(const Pipe& out, const Pipe& err, std::string& output, std::string& errors,
             absl::Time deadline) {
  std::array<pollfd, 2> fds = {pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - SteadyNow());
    if (left <= 0) return false;
    if (poll(fds.data(), fds.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (fds[0].revents != 0 && !ReadSome(fds[0].fd, output)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !ReadSome(fds[1].fd, errors)) fds[1].fd = -1;
  }
  return true;
}

// Waits for the end of the process; kills its group when the deadline comes first.
int Reap(pid_t pid, absl::Time deadline, bool& killed) {
  int state = 0;
  while (true) {
    const pid_t done = waitpid(pid, &state, WNOHANG);
    if (done == pid) return state;
    if (done < 0 && errno != EINTR) return -1;
    if (SteadyNow() >= deadline && !killed) {
      killed = true;
      kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

absl::StatusOr<ExecCredential> ParseExecCredential(const ExecPlugin& plugin,
                                                   const std::string& output) {
  auto parsed = api::ParseJson(output);
  if (!parsed.ok()) {
    return InvalidArgument("the output of \"{}\" is not an ExecCredential: {}", plugin.command,
                           std::string(parsed.status().message()));
  }
  if (parsed->GetString("kind") != "ExecCredential") {
    return InvalidArgument("the output of \"{}\" has kind \"{}\", not ExecCredential",
                           plugin.command, parsed->GetString("kind"));
  }
  if (parsed->GetString("apiVersion") != plugin.api_version) {
    return InvalidArgument("\"{}\" answered with apiVersion \"{}\", the kubeconfig asks for \"{}\"",
                           plugin.command, parsed->GetString("apiVersion"), plugin.api_version);
  }
  ExecCredential credential;
  credential.token = parsed->GetString("status", "token");
  credential.client_cert = parsed->GetString("status", "clientCertificateData");
  credential.client_key = parsed->GetString("status", "clientKeyData");
  if (credential.client_cert.empty() != credential.client_key.empty()) {
    return InvalidArgument("\"{}\" gave only one of clientCertificateData and clientKeyData",
                           plugin.command);
  }
  if (credential.token.empty() && credential.client_cert.empty()) {
    return InvalidArgument("\"{}\" gave neither a token nor a client certificate", plugin.command);
  }
  const std::string expires = parsed->GetString("status", "expirationTimestamp");
  if (!expires.empty()) {
    auto time = ParseTime(expires);
    if (!time.ok()) {
      return InvalidArgument("\"{}\": status.expirationTimestamp: {}", plugin.command,
                             std::string(time.status().message()));
    }
    credential.expires = *time;
  }
  return credential;
}

absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const std::string& source) {
  Pipe out;
  Pipe err;
  if (out.read_end < 0 || err.read_end < 0) {
    return Unavailable("{}: exec: no pipe: {}", source, std::strerror(errno));
  }
  auto pid = Spawn(plugin, out.write_end, err.write_end);
  if (!pid.ok()) return Annotate(pid.status(), source + ": exec");
  out.CloseWrite();
  err.CloseWrite();
  std::string output;
  std::string errors;
  const absl::Time deadline = SteadyNow() + plugin.timeout;
  const bool in_time = Collect(out, err, output, errors, deadline);
  bool killed = false;
  const int state = Reap(*pid, in_time ? deadline : absl::InfinitePast(), killed);
  if (!in_time || killed) {
    return Errorf(absl::StatusCode::kDeadlineExceeded, "{}: exec: \"{}\" did not end within {}",
                  source, plugin.command, sluice::FormatDuration(plugin.timeout));
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return Unavailable("{}: exec: \"{}\" failed ({} {}): {}", source, plugin.command,
                       WIFEXITED(state) ? "exit code" : "signal",
                       WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state),
                       errors.substr(0, std::min<size_t>(errors.find('\n'), 300)));
  }
  auto credential = ParseExecCredential(plugin, output);
  if (!credential.ok()) return Annotate(credential.status(), source + ": exec");
  return credential;
}

}  // namespace sluice::kube
