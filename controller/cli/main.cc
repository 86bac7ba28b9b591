#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // https://no-color.org
  const char* no_colours = std::getenv("NO_COLOR");
  const bool colours = isatty(STDOUT_FILENO) == 1 && (no_colours == nullptr || *no_colours == '\0');
  return sluice::cli::Run(argc, argv, std::cout, std::cerr, colours);
}
