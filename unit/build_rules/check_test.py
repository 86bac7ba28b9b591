#!/usr/bin/env python3
"""Tests of check.py on small made-up trees: every rule sees its violation, and good trees pass."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import check  # noqa: E402

HEADER = "// A header.\n#pragma once\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        for name in check.TOP_REQUIRED:
            path = os.path.join(self.root, name)
            if "." in name:
                self.write(name, "")
            else:
                os.makedirs(path, exist_ok=True)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)

    def found(self, allowed=None, with_format=False):
        """The violations as "file:line: rule" texts."""
        checker = check.Checker(self.root, allowed or {})
        return [f"{path}:{line}: {rule}" for path, line, rule, _ in checker.run(with_format)]

    def expect(self, *expected):
        self.assertEqual(self.found(), list(expected))


class Layout(Tree):
    def test_the_exact_tree_passes(self):
        self.write(".ci/run", "")
        self.write("build/anything.cc", "using namespace std;\n")
        self.expect()

    def test_missing_and_extra_entries(self):
        os.remove(os.path.join(self.root, "README.md"))
        self.write("docs/a.md", "")
        self.write("notes.txt", "")
        self.expect("README.md:1: layout", "docs:1: layout", "notes.txt:1: layout")

    def test_an_unknown_room(self):
        self.write("lib/util/a.h", HEADER)
        self.write("controller/misc/a.h", HEADER)
        self.write("unit/other/a.py", "")
        self.expect("controller/misc:1: layout", "lib/util:1: layout", "unit/other:1: layout")

    def test_an_exception_that_nothing_needs(self):
        self.assertEqual(self.found({("layout", "lib/gone"): "why"}),
                         ["unit/build_rules/check.py:1: allowed"])

    def test_an_exception_that_is_needed(self):
        self.write("lib/util/a.h", HEADER)
        self.assertEqual(self.found({("layout", "lib/util"): "why"}), [])


class Arrows(Tree):
    def setUp(self):
        super().setUp()
        for room in check.LIB_BELOW:
            self.write(f"lib/{room}/a.h", HEADER)
        for room in check.CONTROLLER_BELOW:
            self.write(f"controller/{room}/a.h", HEADER)
        self.write("unit/catch.h", HEADER)

    def include(self, path, target):
        self.write(path, f'#include "{target}"\n')

    def test_down_is_fine(self):
        self.include("lib/sim/b.cc", "base/a.h")
        self.include("lib/admission/b.cc", "quota/a.h")
        self.include("lib/quota/b.cc", "quota/a.h")
        self.include("controller/serve/b.cc", "webhook/a.h")
        self.include("controller/cli/b.cc", "kube/a.h")
        self.write("controller/parts.h", HEADER)
        self.write("controller/main.cc", '#include "serve/a.h"\n#include "parts.h"\n')
        self.include("unit/quota/b_test.cc", "sim/a.h")
        self.include("unit/kube/b_test.cc", "kube/a.h")
        self.include("unit/state/b_test.cc", "unit/catch.h")
        self.expect()

    def test_up_and_across_is_not(self):
        self.include("lib/base/b.cc", "resource/a.h")
        self.include("lib/quota/b.cc", "api/a.h")
        self.include("lib/flavor/b.cc", "queueing/a.h")
        self.include("lib/state/b.cc", "jobs/a.h")
        self.include("lib/sim/b.cc", "loop/a.h")
        self.include("controller/kube/b.cc", "serve/a.h")
        self.include("controller/loop/b.cc", "config/a.h")
        self.include("unit/quota/b_test.cc", "kube/a.h")
        self.expect("controller/kube/b.cc:1: arrows", "controller/loop/b.cc:1: arrows",
                    "lib/base/b.cc:1: arrows", "lib/flavor/b.cc:1: arrows",
                    "lib/quota/b.cc:1: arrows", "lib/sim/b.cc:1: arrows",
                    "lib/state/b.cc:1: arrows", "unit/quota/b_test.cc:1: arrows")

    def test_paths_are_rooted_and_exist(self):
        self.write("lib/quota/b.cc", '#include "a.h"\n#include "quota/none.h"\n#include "../base/a.h"\n')
        self.include("lib/quota/c.cc", "unit/catch.h")
        self.include("controller/main.cc", "none.h")
        self.expect("controller/main.cc:1: arrows", "lib/quota/b.cc:1: arrows",
                    "lib/quota/b.cc:2: arrows", "lib/quota/b.cc:3: arrows",
                    "lib/quota/c.cc:1: arrows")

    def test_third_party_at_home(self):
        self.write("controller/kube/b.cc", "#include <cpprest/http_client.h>\n#include <yaml-cpp/yaml.h>\n")
        self.write("controller/serve/b.cc", "#include <boost/beast/core.hpp>\n")
        self.write("controller/metrics/b.cc", "#include <prometheus/registry.h>\n")
        self.write("lib/api/b.cc", "#include <rapidjson/reader.h>\n")
        self.write("unit/serve/b_test.cc", "#include <boost/beast/core.hpp>\n")
        self.write("controller/loop/b.cc", "#include <spdlog/logger.h>\n#include <absl/time/time.h>\n")
        self.expect()

    def test_third_party_elsewhere(self):
        self.write("lib/sim/b.cc", "#include <rapidjson/reader.h>\n#include <spdlog/spdlog.h>\n")
        self.write("controller/kube/b.cc", "#include <boost/beast/core.hpp>\n")
        self.write("controller/serve/b.cc", "#include <pplx/pplxtasks.h>\n#include <yaml-cpp/yaml.h>\n")
        self.write("controller/config/b.cc", "#include <absl/flags/flag.h>\n")
        self.write("unit/quota/b_test.cc", "#include <catch2/catch.hpp>\n")
        self.expect("controller/config/b.cc:1: third-party", "controller/kube/b.cc:1: third-party",
                    "controller/serve/b.cc:1: third-party", "controller/serve/b.cc:2: third-party",
                    "lib/sim/b.cc:1: third-party", "lib/sim/b.cc:2: third-party",
                    "unit/quota/b_test.cc:1: third-party")


class Banned(Tree):
    # rule, file, line of code that breaks it
    ROWS = [
        ("regex", "lib/base/a.cc", "std::regex r;"),
        ("regex", "controller/loop/a.cc", "#include <regex>"),
        ("web-json", "controller/kube/a.cc", "web::json::value v;"),
        ("using-namespace", "unit/quota/a_test.cc", "using namespace std;"),
        ("rapidjson-dom", "lib/api/a.cc", "rapidjson::Document d;"),
        ("rapidjson-dom", "lib/api/a.cc", "#include <rapidjson/document.h>"),
        ("strcat", "controller/loop/a.cc", "auto s = absl::StrCat(a, b);"),
        ("sleep", "unit/kube/a_test.cc", "std::this_thread::sleep_for(x);"),
        ("sleep", "unit/kube/a_test.cc", "usleep(5);"),
        ("clock", "lib/sim/a.cc", "auto t = absl::Now();"),
        ("clock", "lib/sim/a.cc", "auto t = std::chrono::steady_clock::now();"),
        ("clock", "lib/sim/a.cc", "auto t = time(nullptr);"),
        ("thread", "lib/sim/a.cc", "std::thread t;"),
        ("thread", "lib/sim/a.cc", "std::atomic<int> t;"),
        ("lock", "lib/state/a.cc", "std::mutex m;"),
        ("lock", "lib/state/a.cc", "absl::Mutex m;"),
        ("random", "lib/state/a.cc", "std::mt19937_64 m;"),
        ("io", "lib/state/a.cc", "#include <iostream>"),
        ("io", "lib/state/a.cc", "std::cerr << 1;"),
        ("io", "lib/state/a.cc", "printf(x);"),
        ("environment", "lib/state/a.cc", "auto e = getenv(x);"),
        ("hash-order", "lib/state/a.cc", "absl::flat_hash_map<int, int> m;"),
        ("hash-order", "lib/state/a.cc", "std::unordered_set<int> m;"),
        ("double", "lib/quota/a.cc", "double d = 0;"),
    ]

    def test_each_rule_sees_its_violation(self):
        for rule, path, line in self.ROWS:
            with self.subTest(line=line):
                self.write(path, "// x\n" + line + "\n")
                found = self.found()
                os.remove(os.path.join(self.root, path))
                self.assertIn(f"{path}:2: banned:{rule}", found)

    def test_comments_texts_and_likenesses_are_fine(self):
        self.write("lib/quota/a.cc", "\n".join([
            "// std::mutex, double, getenv and absl::Now() are banned here",
            "/* using namespace std;",
            "   double */",
            'const char* a = "double std::thread";',
            'const char* b = R"(using namespace std; // double)";',
            "const char c = '\"'; int doubled = 0; int RunTime(int);",
            "std::string s = fmt::format(x); int million = 1'000'000;",
            ""]))
        self.write("controller/loop/a.cc", "std::mutex m; double d; auto t = absl::Now();\n")
        self.expect()

    def test_walking_through_a_hash_table(self):
        allowed = {("banned:hash-order", "lib/state/a.h"): "look-up"}
        self.write("lib/state/a.h", HEADER + "absl::flat_hash_map<int, std::vector<int>> cells_;\n")
        self.write("lib/state/a.cc", "void F() {\n  cells_.find(1);\n}\n")
        self.assertEqual(self.found(allowed), [])
        self.write("lib/state/a.cc", "void F() {\n  for (auto& c : cells_) G(c);\n  cells_.begin();\n}\n")
        self.assertEqual(self.found(allowed),
                         ["lib/state/a.cc:2: hash-iteration", "lib/state/a.cc:3: hash-iteration"])


class Sizes(Tree):
    @staticmethod
    def lines(count, text="  G();"):
        return "\n".join([text] * count)

    def test_files(self):
        self.write("lib/base/a.cc", "int a;\n" * 600)
        self.write("lib/base/b.cc", "int a;\n" * 599)
        self.write("e2e/a.go", "var a int\n" * 600)
        self.write("e2e/go.sum", "x\n" * 5000)
        self.expect("e2e/a.go:600: size", "lib/base/a.cc:600: size")

    def test_functions(self):
        self.write("lib/base/a.cc",
                   "namespace a {\nint Short(int x) {\n" + self.lines(57) + "\n}\n"
                   "struct S {\n  int Long() const {\n" + self.lines(58) + "\n  }\n};\n}\n")
        self.expect("lib/base/a.cc:62: size")

    def test_a_constructor_with_an_initializer_list(self):
        self.write("lib/base/a.cc", "A::A(int x)\n    : a_(x), b_(1) {\n" + self.lines(60) + "\n}\n")
        self.expect("lib/base/a.cc:1: size")

    def test_blocks_and_lambdas_count(self):
        self.write("lib/base/a.cc", "void F() {\n  if (x) {\n" + self.lines(30) +
                   "\n  } else {\n    auto f = [&](int y) {\n" + self.lines(30) + "\n    };\n  }\n}\n")
        self.expect("lib/base/a.cc:1: size")

    def test_rows_of_a_table_do_not_count(self):
        self.write("unit/quota/a_test.cc", 'TEST_CASE("x") {\n  auto row = GENERATE(values<Row>({\n' +
                   self.lines(100, '      {"name", 1, {2, 3}},') + "\n  }));\n  CHECK(row);\n}\n")
        self.write("lib/base/a.cc", "const Row kRows[] = {\n" + self.lines(100, "  {1, 2},") + "\n};\n")
        self.expect()

    def test_go(self):
        self.write("e2e/a.go", "func F(a int) error {\n" + self.lines(60) + "\n}\n")
        self.write("e2e/b.go", "func F(t *T) {\n\tt.Run(\"a\", func(t *T) {\n\t\tif x := G(); x != nil {\n" +
                   self.lines(60) + "\n\t\t}\n\t})\n}\n")
        self.write("e2e/c.go", "func F(t *T) {\n\tG(t, []row{\n" + self.lines(60, '\t\t{"a", H(1)},') +
                   "\n\t})\n\tfor _, r := range []row{\n" + self.lines(60, "\t\t{1},") +
                   "\n\t} {\n\t\tG(r)\n\t}\n}\n")
        self.expect("e2e/a.go:1: size", "e2e/b.go:1: size")


class Small(Tree):
    def test_headers_and_names(self):
        self.write("lib/base/BadName.cc", "")
        self.write("lib/base/a.h", "#pragma once\n")
        self.write("lib/base/b.h", "// b\nint b;\n")
        self.expect("lib/base/BadName.cc:1: file-name", "lib/base/a.h:1: header",
                    "lib/base/b.h:1: header")

    def test_machine_paths(self):
        self.write("e2e/run.sh", "cd /home/jane/sluice\ncd /Users/jane\ncd /home/user/x\n")
        self.write("examples/a.yaml", f"path: {self.root}/x\n")
        self.expect("e2e/run.sh:1: machine-path", "e2e/run.sh:2: machine-path",
                    "examples/a.yaml:1: machine-path")

    def test_gates(self):
        self.write("lib/state/feature_gates.cc",
                   '    {"Used", Stage::kBeta, true, Support::kSwitch, ""},\n'
                   '    {"Unused", Stage::kBeta, true, Support::kSwitch, ""},\n'
                   '    {"Later", Stage::kAlpha, false, Support::kNotYet, ""},\n')
        self.write("lib/jobs/a.cc", 'bool a = gates.Enabled("Used");\nbool b = gates.Enabled("Typo");\n')
        self.expect("lib/jobs/a.cc:2: gates", "lib/state/feature_gates.cc:2: gates")

    @unittest.skipIf(shutil.which("clang-format-14") is None, "clang-format-14 is not installed")
    def test_format(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("lib/base/a.cc", "int a;\nint  b;\n")
        self.write("lib/base/b.cc", "int a;\n")
        self.assertEqual(self.found(with_format=True), ["lib/base/a.cc:2: format"])


class Program(Tree):
    def run_program(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
        return subprocess.run([sys.executable, program, self.root, "--no-format"],
                              capture_output=True, text=True, check=False)

    def test_violations_are_lines_and_exit_code_1(self):
        self.write("lib/base/a.cc", "int a;\nusing namespace std;\n")
        result = self.run_program()
        self.assertEqual(result.returncode, 1)
        self.assertIn("lib/base/a.cc:2: banned:using-namespace: using namespace: name what is used\n",
                      result.stdout)


if __name__ == "__main__":
    unittest.main()
