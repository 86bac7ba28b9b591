#include "serve/certificate_follower.h"

#include <absl/time/clock.h>

#include <filesystem>

#include "serve/server.h"
#include "unit/catch.h"
#include "unit/serve/temporary_directory.h"
#include "unit/serve/test_client.h"

namespace sluice::serve {
namespace {

// A server that follows a directory, as the visibility API does.
struct Following {
  Following() {
    ServerOptions options;
    options.host = "127.0.0.1";
    options.certificate = files.First(stand_in);
    server = *Server::Start(std::move(options), Router());
  }
  void Look() {
    files.Look([this](const ServingCertificate& next) { return server->SetCertificate(next); });
  }
  bool Presents(const ServingCertificate& certificate) const {
    return TestClient(server->port(), ClientTls{certificate.ca_bundle_pem}).ok();
  }
  void Write(const ServingCertificate& certificate) const {
    directory.Write("tls.crt", certificate.cert_pem);
    directory.Write("tls.key", certificate.key_pem);
  }

  static ServingCertificate New() {
    return *SelfSigned({"localhost"}, absl::Now(), absl::Hours(1));
  }

  TemporaryDirectory directory;
  ServingCertificate stand_in = New();
  std::vector<std::string> complaints;
  CertificateFollower files{directory.path(), [this](const absl::Status& status) {
                              complaints.emplace_back(status.message());
                            }};
  std::unique_ptr<Server> server;
};

TEST_CASE("a certificate that comes after the start replaces the stand-in") {
  Following at;
  CHECK(at.Presents(at.stand_in));
  at.Look();
  CHECK(at.Presents(at.stand_in));
  REQUIRE(at.complaints.size() == 1);  // once, not each time
  CHECK(at.complaints[0].find("/tls.crt") != std::string::npos);

  const ServingCertificate first = Following::New();
  at.Write(first);
  at.Look();
  CHECK(at.Presents(first));
  CHECK_FALSE(at.Presents(at.stand_in));
  CHECK(at.complaints.size() == 1);
}

TEST_CASE("a renewed certificate is served without a restart") {
  Following at;
  const ServingCertificate first = Following::New();
  at.Write(first);
  at.Look();
  REQUIRE(at.Presents(first));

  const ServingCertificate renewed = Following::New();
  at.directory.Write("tls.crt", renewed.cert_pem);
  at.complaints.clear();
  at.Look();  // half of it
  at.Look();
  CHECK(at.Presents(first));
  CHECK(at.complaints.size() == 1);
  at.directory.Write("tls.key", renewed.key_pem);
  at.Look();
  CHECK(at.Presents(renewed));
  CHECK_FALSE(at.Presents(first));

  // What goes away again is served on.
  std::filesystem::remove(at.directory.path() + "/tls.key");
  at.Look();
  CHECK(at.Presents(renewed));
  CHECK(at.complaints.size() == 2);
}

TEST_CASE("files that are there at the start are served from the start") {
  const TemporaryDirectory directory;
  const ServingCertificate given = Following::New();
  directory.Write("tls.crt", given.cert_pem);
  directory.Write("tls.key", given.key_pem);
  CertificateFollower files(directory.path(), [](const absl::Status&) { FAIL("a complaint"); });
  CHECK(files.First(Following::New()).cert_pem == given.cert_pem);
  files.Look([](const ServingCertificate&) -> absl::Status {
    FAIL("no change");
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace sluice::serve
