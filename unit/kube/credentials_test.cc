// Credentials from kubeconfig files, good and broken, from plugins and from a pod's files.
#include "kube/credentials.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "api/json.h"
#include "kube/exec_plugin.h"
#include "unit/catch.h"
#include "unit/kube/certificate.h"

namespace sluice::kube {
namespace {

std::string ToBase64(const std::string& text) {
  std::string encoded((text.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  encoded.resize(static_cast<size_t>(size));
  return encoded;
}

struct TempDir {
  TempDir() {
    char pattern[] = "/tmp/sluice-kube-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~TempDir() {
    const std::string command = "rm -rf '" + path + "'";
    if (std::system(command.c_str()) != 0) WARN("cannot remove " << path);
  }
  std::string Write(const std::string& name, const std::string& text, bool program = false) const {
    const std::string file = path + "/" + name;
    std::ofstream(file) << text;
    if (program) chmod(file.c_str(), 0755);
    return file;
  }
  std::string path;
};

// Sets a variable for the life of the object.
struct ScopedEnv {
  ScopedEnv(const char* name_in, const std::string& value) : name(name_in) {
    if (const char* old = std::getenv(name)) before = old;
    if (value.empty()) {
      unsetenv(name);
    } else {
      setenv(name, value.c_str(), 1);
    }
  }
  ~ScopedEnv() {
    if (before.has_value()) {
      setenv(name, before->c_str(), 1);
    } else {
      unsetenv(name);
    }
  }
  const char* name;
  std::optional<std::string> before;
};

std::string Config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]\n"
         "clusters:\n- name: k\n  cluster: " +
         cluster + "\nusers:\n- name: u\n  user: " + user + "\n";
}

std::string ErrorOf(const std::string& text, const KubeconfigOptions& options = {}) {
  auto credentials = CredentialsFromText("/dir/config", text, options);
  if (credentials.ok()) return "";
  return std::string(credentials.status().message());
}

struct BadRow {
  const char* name;
  std::string text;
  const char* error;
};

TEST_CASE("broken kubeconfigs are refused with one line that names the field") {
  const Certificate pair = SelfSigned("127.0.0.1");
  const Certificate other = SelfSigned("127.0.0.1");
  const std::string server = "server: 'https://h:1'";
  const auto row = GENERATE_COPY(values<BadRow>({
      {"empty", "", "/dir/config: current-context is not set"},
      {"a list", "[1, 2]", "/dir/config: this is not a kubeconfig"},
      {"another kind", "kind: Pod", "/dir/config: kind is \"Pod\", not Config"},
      {"not yaml", "a: [", "/dir/config: line 1: "},
      {"unknown context", "current-context: x", "/dir/config: there is no context \"x\""},
      {"unknown cluster",
       "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]",
       "/dir/config: context \"c\": there is no cluster \"k\""},
      {"unknown user",
       "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
       "clusters: [{name: k, cluster: {server: 'https://h:1'}}]",
       "/dir/config: context \"c\": there is no user \"u\""},
      {"clusters is a map", "current-context: c\ncontexts: {c: d}",
       "/dir/config: contexts is not a list"},
      {"no server", Config("{}", "{}"), "/dir/config: cluster \"k\": server is missing"},
      {"strange server", Config("{server: 'ftp://h'}", "{}"),
       "/dir/config: context \"c\": server \"ftp://h\" is not an http or https address"},
      {"proxy", Config("{" + server + ", proxy-url: 'http://p'}", "{}"),
       "/dir/config: cluster \"k\": proxy-url is not supported"},
      {"flag", Config("{" + server + ", insecure-skip-tls-verify: perhaps}", "{}"),
       "insecure-skip-tls-verify is not true or false"},
      {"insecure with CA",
       Config("{" + server + ", insecure-skip-tls-verify: true, certificate-authority-data: " +
                  ToBase64(pair.cert_pem) + "}",
              "{}"),
       "insecure-skip-tls-verify together with certificate-authority"},
      {"CA not base64", Config("{" + server + ", certificate-authority-data: '%%%'}", "{}"),
       "/dir/config: cluster \"k\": certificate-authority-data is not base64"},
      {"CA no PEM", Config("{" + server + ", certificate-authority-data: aGVsbG8=}", "{}"),
       "/dir/config: context \"c\": certificate-authority-data holds no PEM certificate"},
      {"CA file missing", Config("{" + server + ", certificate-authority: ca.crt}", "{}"),
       "certificate-authority: cannot read /dir/ca.crt: No such file or directory"},
      {"certificate without key",
       Config("{" + server + "}", "{client-certificate-data: " + ToBase64(pair.cert_pem) + "}"),
       "client-certificate is given without client-key"},
      {"key without certificate",
       Config("{" + server + "}", "{client-key-data: " + ToBase64(pair.key_pem) + "}"),
       "client-key is given without client-certificate"},
      {"key of another certificate",
       Config("{" + server + "}", "{client-certificate-data: " + ToBase64(pair.cert_pem) +
                                      ", client-key-data: " + ToBase64(other.key_pem) + "}"),
       "client-key-data does not belong to client-certificate-data"},
      {"broken key",
       Config("{" + server + "}", "{client-certificate-data: " + ToBase64(pair.cert_pem) +
                                      ", client-key-data: aGVsbG8=}"),
       "client-key-data holds no PEM private key"},
      {"password", Config("{" + server + "}", "{username: a, password: b}"),
       "/dir/config: user \"u\": username and password are not supported"},
      {"auth-provider", Config("{" + server + "}", "{auth-provider: {name: gcp}}"),
       "/dir/config: user \"u\": auth-provider is not supported"},
      {"token file missing", Config("{" + server + "}", "{tokenFile: t}"),
       "tokenFile: cannot read /dir/t: No such file or directory"},
      {"token is a map", Config("{" + server + "}", "{token: {a: b}}"), "token is not a text"},
      {"exec version", Config("{" + server + "}", "{exec: {apiVersion: v9, command: x}}"),
       "user \"u\": exec.apiVersion \"v9\" is not supported"},
      {"exec without command",
       Config("{" + server + "}", "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
       "user \"u\": exec.command is missing"},
      {"exec without mode",
       Config("{" + server + "}",
              "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x}}"),
       "user \"u\": exec.interactiveMode must be"},
      {"exec that asks",
       Config("{" + server + "}",
              "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
              "interactiveMode: Always}}"),
       "user \"u\": exec.interactiveMode Always cannot work"},
  }));
  DYNAMIC_SECTION(row.name) {
    const std::string error = ErrorOf(row.text);
    CHECK_THAT(error, Catch::Contains(row.error));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("a kubeconfig from a foreign source may be kept from files and programs") {
  const KubeconfigOptions strict = {.context = "", .allow_exec = false, .allow_files = false};
  const std::string server = "{server: 'https://h:1'}";
  CHECK_THAT(ErrorOf(Config(server, "{tokenFile: /etc/passwd}"), strict),
             Catch::Contains("tokenFile refers to a local file"));
  CHECK_THAT(ErrorOf(Config("{server: 'https://h:1', certificate-authority: /x}", "{}"), strict),
             Catch::Contains("certificate-authority refers to a local file"));
  CHECK_THAT(ErrorOf(Config(server,
                            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                            "interactiveMode: Never}}"),
                     strict),
             Catch::Contains("exec plugins are not allowed here"));
  CHECK(ErrorOf(Config(server, "{token: t}"), strict).empty());
}

TEST_CASE("the first definition of a name wins and paths are relative to their file") {
  TempDir dir;
  const Certificate pair = SelfSigned("127.0.0.1");
  mkdir((dir.path + "/sub").c_str(), 0755);
  dir.Write("sub/ca.pem", pair.cert_pem);
  dir.Write("sub/token", "from-file\n");
  const std::string first = dir.Write("sub/first",
                                      "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                                      "users: [{name: u, user: {tokenFile: token, token: no}}]\n");
  const std::string second =
      dir.Write("second",
                "current-context: c\n"
                "clusters: [{name: k, cluster: {server: 'https://h:1/', "
                "certificate-authority: sub/ca.pem, tls-server-name: api}}]\n"
                "users: [{name: u, user: {token: other}}]\n");
  ScopedEnv env("KUBECONFIG", first + "::" + dir.path + "/missing:" + second);
  auto credentials = LoadCredentials({});
  REQUIRE(credentials.ok());
  CHECK((*credentials)->server() == "https://h:1");
  CHECK((*credentials)->tls_server_name() == "api");
  CHECK((*credentials)->default_namespace() == "default");
  CHECK((*credentials)->Tls()->ca == pair.cert_pem);
  CHECK(*(*credentials)->AuthHeaders() == HeaderList{{"Authorization", "Bearer from-file"}});

  // An explicit path is the only file, and a context can be chosen.
  const std::string error =
      std::string(LoadCredentials({.kubeconfig = second, .kubeconfig_options = {.context = "z"}})
                      .status()
                      .message());
  CHECK(error == second + ": there is no context \"z\"");
  const std::string missing = dir.path + "/none";
  CHECK(std::string(LoadCredentials({.kubeconfig = missing}).status().message()) ==
        missing + ": the kubeconfig cannot be read");
  CHECK(std::string(LoadCredentials({.kubeconfig = dir.path}).status().message()) ==
        dir.path + ": this is a directory, not a kubeconfig");
}

TEST_CASE("without any setting the home directory is used, in a pod its own files") {
  TempDir dir;
  ScopedEnv no_list("KUBECONFIG", "");
  ScopedEnv no_host("KUBERNETES_SERVICE_HOST", "");
  ScopedEnv home("HOME", dir.path);
  CHECK(std::string(LoadCredentials({}).status().message()) ==
        dir.path + "/.kube/config: the kubeconfig cannot be read");
  mkdir((dir.path + "/.kube").c_str(), 0755);
  dir.Write(".kube/config", Config("{server: 'https://home:1'}", "{token: t}"));
  auto credentials = LoadCredentials({});
  REQUIRE(credentials.ok());
  CHECK((*credentials)->server() == "https://home:1");
  CHECK((*credentials)->default_namespace() == "team");

  const Certificate pair = SelfSigned("127.0.0.1");
  dir.Write("ca.crt", pair.cert_pem);
  dir.Write("token", "first");
  dir.Write("namespace", "sluice-system\n");
  auto config = InClusterConfig({.directory = dir.path, .host = "fd00::1", .port = "443"});
  REQUIRE(config.ok());
  CHECK(config->server == "https://[fd00::1]:443");
  auto pod = Credentials::Make(*config);
  REQUIRE(pod.ok());
  CHECK((*pod)->default_namespace() == "sluice-system");
  CHECK((*pod)->Tls()->ca == pair.cert_pem);
  CHECK((*pod)->Fresh());
  dir.Write("token", "second");
  CHECK((*pod)->AuthHeaders()->front().second == "Bearer first");
  CHECK((*pod)->Invalidate());
  CHECK_FALSE((*pod)->Fresh());
  CHECK((*pod)->AuthHeaders()->front().second == "Bearer second");
  CHECK(std::string(InClusterConfig({}).status().message()) ==
        "in-cluster credentials: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
}

ExecPlugin Plugin(const std::string& command) {
  ExecPlugin plugin;
  plugin.api_version = "client.authentication.k8s.io/v1";
  plugin.command = command;
  plugin.timeout = absl::Seconds(10);
  return plugin;
}

std::string Answer(const std::string& status) {
  return R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)" +
         status + "}";
}

TEST_CASE("an exec plugin runs once until its credential expires or is refused") {
  TempDir dir;
  const std::string program =
      dir.Write("plugin",
                "#!/bin/sh\necho run >> \"$LOG\"\necho \"$KUBERNETES_EXEC_INFO\" > \"$LOG.info\"\n"
                "n=$(wc -l < \"$LOG\")\n"
                "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'$1$n'\"'$2'}}'\n",
                true);
  const std::string past = ",\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"";
  const std::string future = ",\"expirationTimestamp\":\"2999-01-01T00:00:00Z\"";
  CredentialConfig config;
  config.source = "test";
  config.server = "https://h:1";
  config.exec = Plugin(program);
  config.exec->env = {{"LOG", dir.path + "/log"}};
  config.exec->cluster_info = R"({"server":"https://h:1"})";
  SECTION("kept") {
    config.exec->args = {"tok", future};
    auto credentials = Credentials::Make(config);
    REQUIRE(credentials.ok());
    CHECK_FALSE((*credentials)->Fresh());
    CHECK((*credentials)->AuthHeaders()->front().second == "Bearer tok1");
    CHECK((*credentials)->Fresh());
    CHECK((*credentials)->AuthHeaders()->front().second == "Bearer tok1");
    CHECK((*credentials)->Invalidate());
    CHECK((*credentials)->AuthHeaders()->front().second == "Bearer tok2");
    std::ifstream info(dir.path + "/log.info");
    std::string line;
    std::getline(info, line);
    CHECK(line == R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
                  R"("spec":{"interactive":false,"cluster":{"server":"https://h:1"}}})");
  }
  SECTION("expired") {
    config.exec->args = {"tok", past};
    auto credentials = Credentials::Make(config);
    REQUIRE(credentials.ok());
    CHECK((*credentials)->AuthHeaders()->front().second == "Bearer tok1");
    CHECK((*credentials)->AuthHeaders()->front().second == "Bearer tok2");
  }
}

TEST_CASE("failures of a plugin say what happened") {
  TempDir dir;
  auto error = [&](const ExecPlugin& plugin) {
    return std::string(RunExecPlugin(plugin, "cfg").status().message());
  };
  ExecPlugin missing = Plugin(dir.path + "/none");
  missing.install_hint = "install it";
  CHECK_THAT(error(missing), Catch::Contains("cfg: exec: cannot run") &&
                                 Catch::Contains("No such file") && Catch::Contains("install it"));
  CHECK_THAT(
      error(Plugin(dir.Write("fails", "#!/bin/sh\necho 'not logged in' >&2\nexit 3\n", true))),
      Catch::Contains("failed (exit code 3): not logged in"));
  ExecPlugin slow = Plugin(dir.Write("slow", "#!/bin/sh\nsleep 100\n", true));
  slow.timeout = absl::Milliseconds(100);
  CHECK_THAT(error(slow), Catch::Contains("did not end within 100ms"));
  const ExecPlugin any = Plugin("x");
  auto parse = [&](const std::string& text) {
    return std::string(ParseExecCredential(any, text).status().message());
  };
  CHECK_THAT(parse("hello"), Catch::Contains("is not an ExecCredential"));
  CHECK_THAT(parse("{}"), Catch::Contains("has kind \"\""));
  CHECK_THAT(parse(R"({"kind":"ExecCredential","apiVersion":"v0"})"),
             Catch::Contains("answered with apiVersion \"v0\""));
  CHECK_THAT(parse(Answer("{}")), Catch::Contains("neither a token nor a client certificate"));
  CHECK_THAT(parse(Answer(R"({"clientKeyData":"k"})")), Catch::Contains("only one of"));
  CHECK_THAT(parse(Answer(R"({"token":"t","expirationTimestamp":"soon"})")),
             Catch::Contains("status.expirationTimestamp"));
}

}  // namespace
}  // namespace sluice::kube
