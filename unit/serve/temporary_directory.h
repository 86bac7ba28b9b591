// A directory for files of certificates that change; gone with its owner.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::serve {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  void Write(const std::string& name, const std::string& content) const {
    // By renaming, so that the file's identity changes even within a clock tick.
    std::ofstream(path_ + "/new") << content;
    std::filesystem::rename(path_ + "/new", path_ + "/" + name);
  }

 private:
  std::string path_;
};

}  // namespace sluice::serve
