// generate-crds OUTDIR [OUTDIR2]   writes one file per kind into each directory
// generate-crds --reference        prints the reference text
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "api/crd.h"
#include "api/schema.h"

namespace {

bool WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  std::fprintf(stderr, "generate-crds: cannot write %s\n", path.c_str());
  return false;
}

bool WriteAll(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    std::fprintf(stderr, "generate-crds: cannot create %s: %s\n", directory.c_str(),
                 error.message().c_str());
    return false;
  }
  for (const sluice::api::Kind kind : sluice::api::DefinedKinds()) {
    const std::filesystem::path path = directory / sluice::api::CrdFileName(kind);
    if (!WriteFile(path, sluice::api::CrdFileText(kind))) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--reference") {
    std::fputs(sluice::api::ReferenceText().c_str(), stdout);
    return 0;
  }
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr,
                 "usage: generate-crds OUTDIR [OUTDIR2]\n       generate-crds --reference\n");
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    if (!WriteAll(argv[i])) return 1;
  }
  return 0;
}
