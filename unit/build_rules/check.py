#!/usr/bin/env python3
"""Checks the rules of this repository that no compiler checks.

Usage: check.py [ROOT] [--no-format]

Prints every violation as "file:line: rule: text" and exits with 1 when there is one. The rules:

  layout         the top level and the rooms are exactly the ones that the README describes
  arrows         a room includes only rooms that stand below it
  third-party    a library is seen only by the rooms that own it
  banned         calls and types that break the laws of lib/ or have bitten others
  gates          a feature gate that users can switch is asked for, and every name asked for exists
  size           files stay under 600 lines and functions under 60
  header         a header starts with a comment that says its purpose, and has #pragma once
  file-name      files of C++ are snake_case
  machine-path   no path of a developer's machine
  format         clang-format-14, where it is installed

An exception needs an entry in ALLOWED with its reason; an entry that nothing needs is a violation.
"""

import os
import re
import shutil
import subprocess
import sys

# ---------------------------------------------------------------- what is allowed

TOP_REQUIRED = {"CMakeLists.txt", "README.md", "controller", "crds", "lib", "charts", "e2e", "unit",
                "examples"}
TOP_OPTIONAL = {"CMakePresets.json", "LICENSE", ".ci", ".clang-format", ".clang-tidy", ".gitignore",
                ".git"}
# Made by builds and tools, and ignored by git.
TOP_IGNORED = {"build", ".cache", "compile_commands.json"}

# Room -> the rooms right below it; what those may include it may include too.
LIB_BELOW = {
    "base": [],
    "resource": ["base"],
    "api": ["resource"],
    "quota": ["resource"],
    "topology": ["resource"],
    "queueing": ["quota", "topology", "api"],
    "flavor": ["quota", "topology", "api"],
    "preemption": ["flavor", "queueing"],
    "admission": ["preemption"],
    "state": ["admission"],
    "jobs": ["state"],
    "webhook": ["state", "jobs"],
    "reconcile": ["jobs", "webhook"],
    "sim": ["reconcile"],
}
# All of lib is below every room of the controller; these are the others.
CONTROLLER_BELOW = {
    "loop": [],
    "kube": [],
    "serve": [],
    "metrics": [],
    "config": [],
    "cli": ["config", "kube"],
}
# Folders of unit/ that are not a room's mirror.
UNIT_EXTRA = {"build", "build_rules", "scenarios", "bench", "fuzz", "tools", "data", "properties"}

# Prefix of an <include> -> folders that may use it (and their mirrors below unit/).
THIRD_PARTY = [
    ("cpprest/", ["controller/kube"]),
    ("pplx/", ["controller/kube"]),
    ("boost/beast", ["controller/serve"]),
    ("boost/", ["controller/serve", "controller/kube"]),  # kube: the TLS hook of cpprest is Asio's
    ("openssl/", ["controller/serve", "controller/kube"]),
    ("prometheus/", ["controller/metrics"]),
    ("rapidjson/", ["lib/api"]),
    ("yaml-cpp/", ["controller/config", "controller/cli", "controller/kube", "lib/sim"]),
    ("spdlog/", ["controller"]),
    ("CLI/", ["controller/config", "controller/cli"]),
    ("catch2/", ["unit/catch.h", "unit/catch_main.cc"]),
    ("benchmark/", ["unit/bench"]),
    ("absl/flags", []),
    ("absl/log", []),
]

LIB = r"^lib/"
CXX = r"^(lib|controller|unit)/"
EXACT = r"^lib/(quota|flavor|preemption|admission|queueing)/"
# (rule, files, pattern in code without comments and texts, why)
BANNED = [
    ("regex", CXX, r"\bstd::regex\b|#include <regex>", "std::regex is slow and overflows the stack"),
    ("web-json", CXX, r"\bweb::json\b", "JSON is parsed in lib/api only"),
    ("using-namespace", CXX, r"\busing\s+namespace\b", "name what is used"),
    ("rapidjson-dom", CXX, r"\brapidjson::(Value|Document|GenericValue|GenericDocument)\b"
     r"|#include <rapidjson/(document|pointer|schema)\.h>",
     "comparing rapidjson values recurses for ever in C++20; use api::Json"),
    ("strcat", CXX, r"\babsl::(StrCat|StrAppend|StrFormat|Substitute|SubstituteAndAppend)\b",
     "does not take std::string_view here; use fmt::format"),
    ("sleep", r"^unit/", r"\b(sleep_for|sleep_until|usleep|nanosleep|absl::SleepFor)\b|\bsleep\s*\(",
     "tests do not sleep"),
    ("clock", LIB, r"\b(system_clock|steady_clock|high_resolution_clock|gettimeofday|clock_gettime)\b"
     r"|\babsl::(Now|GetCurrentTimeNanos)\b|\bstd::time\b|\btime\s*\(\s*(nullptr|NULL|0)\s*\)",
     "the instant is a parameter"),
    ("thread", LIB, r"\bstd::(thread|jthread|async|future|promise|atomic\w*)\b|\bpthread_\w+"
     r"|#include <(thread|future|atomic|stop_token)>", "one thread runs lib/"),
    ("lock", LIB, r"\bstd::(\w*mutex|lock_guard|unique_lock|scoped_lock|condition_variable\w*)\b"
     r"|\babsl::(Mutex\w*|CondVar|Notification)\b"
     r"|#include <(mutex|shared_mutex|condition_variable)>|absl/synchronization",
     "one thread runs lib/"),
    ("random", LIB, r"\bstd::(random_device|mt19937\w*|rand|srand|uniform_\w+)\b|\bs?rand\s*\("
     r"|#include <random>|absl/random", "a decision is a function of its inputs"),
    ("io", LIB, r"#include <(iostream|fstream|cstdio|filesystem|unistd\.h|sys/\w+\.h)>"
     r"|\bstd::(cout|cerr|clog|cin|ifstream|ofstream|fstream)\b|\b(f?printf|fopen|fputs)\s*\(",
     "lib/ does no input or output"),
    ("environment", LIB, r"\b(secure_)?getenv\b|\bsetenv\b", "lib/ sees no environment"),
    ("hash-order", LIB, r"\b(flat|node)_hash_(map|set)\b|\bstd::unordered_\w+",
     "the order of hash tables shows; use btree_map, or list the file as look-up only"),
    ("double", EXACT, r"\b(double|float)\b", "quota and shares are exact integers"),
]

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

MACHINE_PATHS = re.compile(r"/home/(?!a/|user/)[a-z_][\w-]*/|/Users/[A-Za-z]|(?<![\w.])/root[/]|/work[/](main|shared)\b"
                           r"|/tmp/bash_jobs")

# (rule, file) -> reason.
ALLOWED = {
    ("banned:hash-order", "lib/api/parse_object.cc"): "first place of a key in a large object, looked up only",
    ("banned:hash-order", "lib/queueing/queue_manager.h"): "look-up of entries by key only",
    ("banned:hash-order", "lib/preemption/search.h"): "costs of workloads by address, look-up only",
    ("banned:hash-order", "lib/queueing/topology_encoding.cc"): "counts of names, looked up only",
    ("banned:io", "lib/base/check.cc"): "a broken invariant says so before it stops the process",
    ("third-party", "lib/jobs/workload_name.cc"): "SHA-1 of a name is pure, and libcrypto has it",
    ("third-party", "lib/jobs/role_hash.cc"): "SHA-256 of a shape is pure, and libcrypto has it",
    ("banned:sleep", "unit/kube/client_test.cc"): "waits for a real socket, within a bound",
    ("banned:sleep", "unit/kube/leader_elector_test.cc"): "waits for another thread, within a bound",
    ("banned:sleep", "unit/kube/reflector_test.cc"): "waits for a real socket, within a bound",
    ("banned:sleep", "unit/kube/transport_test.cc"): "waits for a real socket, within a bound",
    ("banned:sleep", "unit/serve/server_test.cc"): "a slow client or handler is what is tested",
    ("size", "unit/kube/client_test.cc"): "one table of answers and what is done about them",
    ("size", "unit/metrics/metrics_test.cc"): "one whole page of metrics, compared as it is",
    ("machine-path", "unit/build_rules/check.py"): "names the patterns",
    ("machine-path", "unit/build_rules/check_test.py"): "breaks the rule on purpose",
}

SOURCE_ENDS = (".h", ".cc")
TEXT_ENDS = SOURCE_ENDS + (".py", ".sh", ".go", ".txt", ".cmake", ".md", ".yaml", ".yml", ".json",
                           ".tpl", ".scn", ".mod")
CODE_ENDS = SOURCE_ENDS + (".py", ".sh", ".go")


def closure(room, below):
    """The rooms that `room` may include, without itself."""
    seen = set()
    todo = list(below[room])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(below[name])
    return seen


def is_composition_root(path):
    return re.fullmatch(r"controller/\w+\.(h|cc)", path) is not None


# ---------------------------------------------------------------- reading C++ and Go

def strip(text):
    """The text with comments and the insides of literals blanked; lines and columns stay."""
    out = []
    i = 0
    length = len(text)

    def blank(part):
        out.append(re.sub(r"[^\n]", " ", part))

    while i < length:
        two = text[i:i + 2]
        char = text[i]
        if two == "//":
            end = text.find("\n", i)
            end = length if end < 0 else end
            blank(text[i:end])
            i = end
        elif two == "/*":
            end = text.find("*/", i + 2)
            end = length if end < 0 else end + 2
            blank(text[i:end])
            i = end
        elif two == 'R"' and not (i > 0 and (text[i - 1].isalnum() or text[i - 1] == "_")):
            bar = text.find("(", i)
            close = ")" + text[i + 2:bar] + '"'
            end = text.find(close, bar)
            end = length if end < 0 else end + len(close)
            out.append('""')
            blank(text[i + 2:end])
            i = end
        elif char == '"' or (char == "'" and not (i > 0 and text[i - 1].isalnum())):
            end = i + 1
            while end < length and text[end] not in (char, "\n"):
                end += 2 if text[end] == "\\" else 1
            end = min(end + 1, length)
            out.append(char)
            blank(text[i + 1:end - 1])
            if end - 1 > i:
                out.append(text[end - 1])
            i = end
        elif char == "`":
            end = text.find("`", i + 1)
            end = length if end < 0 else end + 1
            out.append("`")
            blank(text[i + 1:end - 1])
            out.append("`")
            i = end
        else:
            out.append(char)
            i += 1
    return "".join(out)


_SCOPE = re.compile(r"^\s*(?:template\s*<[^{]*>\s*)?(?:typedef\s+)?(?:inline\s+)?"
                    r"(?:namespace|class|struct|union|enum|extern|concept|type|import|const|var)\b")
_CONTROL = re.compile(r"^\s*(?:else|if|for|while|switch|do|try|catch|case|default|select)\b")
# A capture list that is no subscript, then perhaps parameters and a return type.
_LAMBDA = re.compile(r"(?:^|[^\w\s\])]|\breturn)\s*\[[^\[\]]*\]\s*(?:\([^{}]*\))?[\s\w:>&*\-<,]*$")


def functions(code, go=False):
    """Yields (name, first line, lines of code) for each function of stripped C++ or Go.

    Rows of a braced initializer that spans lines are data and do not count.
    """
    stack = []         # the open braces: (kind, line of the brace)
    parens = []        # for each open round bracket, how many braces are around it
    head = ""          # what stands before the next brace, since the last end of a statement
    head_line = None
    line = 1
    current = None     # [name, first line, lines of data]
    data = None        # (line, depth) of the outermost initializer in the function
    for char in code:
        inside_call = bool(parens) and parens[-1] == len(stack)
        if char == "{":
            kind = _classify(head, current is not None, inside_call, go)
            if kind == "function":
                current = [_name_of(head), head_line or line, 0]
            if kind == "data" and current is not None and data is None:
                data = (line, len(stack))
            stack.append(kind)
            head, head_line = "", None
        elif char == "}":
            kind = stack.pop() if stack else "scope"
            if data is not None and data[1] == len(stack):
                current[2] += max(0, line - data[0] - 1)
                data = None
            if kind == "function":
                yield current[0], current[1], line - current[1] + 1 - current[2]
                current = None
            # After a lambda or an initializer the statement goes on.
            head, head_line = ("x", line) if kind in ("data", "lambda") else ("", None)
        elif (char == ";" or go and char == "\n") and not inside_call and not (
                go and char == ";" and _CONTROL.match(head)):
            head, head_line = "", None
        else:
            if char == "(":
                parens.append(len(stack))
            elif char == ")" and parens:
                parens.pop()
            if head_line is None and not char.isspace():
                head_line = line
            head += char
        if char == "\n":
            line += 1


def _classify(head, in_function, inside_call, go):
    """What the brace after `head` opens: function, lambda, block, data, or scope (namespace, type)."""
    text = head.strip()
    if in_function:
        if go and re.search(r"\bfunc\s*\([^{}]*$", text) or not go and _LAMBDA.search(text):
            return "lambda"
        if go and re.search(r"\]\*?[\w.]+$", text):
            return "data"  # []Row{...}, also as what a loop ranges over
        if not text or _CONTROL.match(text) or text.endswith(")") and not inside_call:
            return "block"
        return "block" if re.match(r"(struct|class|enum|union)\b", text) else "data"
    if _SCOPE.match(text) and not re.search(r"\)\s*(const|noexcept|override|final|\s)*$", text):
        return "scope"
    if not text or re.search(r"=\s*$", text) or "(" not in text:
        return "data"
    return "function"


def _name_of(head):
    match = re.search(r"([~\w:]+(?:\s*operator\S+)?)\s*\(", head)
    return match.group(1) if match else head.strip()[:40]


# ---------------------------------------------------------------- the checks

class Checker:
    def __init__(self, root, allowed=None):
        self.root = root
        self.allowed = ALLOWED if allowed is None else allowed
        self.used = set()
        self.violations = []
        self.files = sorted(self._walk())
        self.texts = {}
        self.codes = {}

    def _walk(self):
        for folder, folders, names in os.walk(self.root):
            relative = os.path.relpath(folder, self.root)
            if relative == ".":
                folders[:] = [f for f in folders if f not in TOP_IGNORED and f != ".git"]
            folders[:] = [f for f in folders if f not in ("__pycache__", "node_modules")]
            for name in names:
                path = os.path.normpath(os.path.join(relative, name)).replace(os.sep, "/")
                if path not in TOP_IGNORED and not os.path.islink(os.path.join(folder, name)):
                    yield path

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as stream:
                self.texts[path] = stream.read()
        return self.texts[path]

    def code(self, path):
        if path not in self.codes:
            self.codes[path] = strip(self.text(path))
        return self.codes[path]

    def sources(self):
        return [p for p in self.files
                if p.endswith(SOURCE_ENDS) and p.split("/")[0] in ("lib", "controller", "unit")]

    def report(self, path, line, rule, text):
        key = (rule, path)
        if key in self.allowed:
            self.used.add(key)
            return
        self.violations.append((path, line, rule, text))

    def run(self, with_format=True):
        self.check_layout()
        for path in self.sources():
            self.check_includes(path)
            self.check_banned(path)
            self.check_header(path)
        for path in self.files:
            self.check_size(path)
            self.check_machine_paths(path)
        self.check_hash_iteration()
        self.check_gates()
        if with_format:
            self.check_format()
        for rule, path in sorted(set(self.allowed) - self.used):
            self.violations.append(("unit/build_rules/check.py", 1, "allowed",
                                    f"nothing needs the exception {rule} for {path}"))
        self.violations.sort(key=lambda v: (v[0], v[1], v[2], v[3]))
        return self.violations

    # -- layout

    def check_layout(self):
        present = set(os.listdir(self.root))
        for name in sorted(TOP_REQUIRED - present):
            self.report(name, 1, "layout", "is missing at the top level")
        for name in sorted(present - TOP_REQUIRED - TOP_OPTIONAL - TOP_IGNORED):
            self.report(name, 1, "layout", "does not belong at the top level")
        self._check_rooms("lib", set(LIB_BELOW), set())
        # Files beside the rooms are the composition root, which sees everything.
        root_files = {p.split("/")[1] for p in self.files if is_composition_root(p)}
        self._check_rooms("controller", set(CONTROLLER_BELOW), root_files)
        rooms = set(LIB_BELOW) | set(CONTROLLER_BELOW) | UNIT_EXTRA
        self._check_rooms("unit", rooms, {"unit.cmake", "catch.h", "catch_main.cc"})

    def _check_rooms(self, top, rooms, files):
        folder = os.path.join(self.root, top)
        if not os.path.isdir(folder):
            return
        for name in sorted(set(os.listdir(folder)) - rooms - files):
            self.report(f"{top}/{name}", 1, "layout", f"is no room of {top}/")

    # -- includes

    def check_includes(self, path):
        for number, line in enumerate(self.text(path).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if not match:
                continue
            if match.group(1):
                self._check_own_include(path, number, match.group(1))
            else:
                self._check_third_party(path, number, match.group(2))

    def _check_own_include(self, path, number, target):
        room = target.split("/")[0]
        if room == "unit":
            if not path.startswith("unit/"):
                self.report(path, number, "arrows", f'"{target}": only tests include unit/')
            return
        if is_composition_root(path) and f"controller/{target}" in self.files:
            return
        if "/" not in target or room not in LIB_BELOW and room not in CONTROLLER_BELOW:
            self.report(path, number, "arrows", f'"{target}" does not start with a room')
            return
        top = "lib" if room in LIB_BELOW else "controller"
        if not os.path.exists(os.path.join(self.root, top, target)):
            self.report(path, number, "arrows", f'"{target}" does not exist')
            return
        if not self._may_include(path, room):
            self.report(path, number, "arrows",
                        f"{'/'.join(path.split('/')[:2])} must not include {room}")

    @staticmethod
    def _may_include(path, room):
        parts = path.split("/")
        if is_composition_root(path):
            return True
        own = parts[1] if len(parts) > 2 else ""
        if own == room:
            return True
        if own in CONTROLLER_BELOW:
            return room in LIB_BELOW or room in closure(own, CONTROLLER_BELOW)
        if parts[0] == "unit":
            # Tests of a room may drive it through the simulator; the shell stays out of them.
            return room in LIB_BELOW
        return own in LIB_BELOW and room in closure(own, LIB_BELOW)

    def _check_third_party(self, path, number, target):
        for prefix, owners in THIRD_PARTY:
            if not target.startswith(prefix):
                continue
            homes = list(owners) + ["unit/" + o.split("/", 1)[1] for o in owners if "/" in o]
            if not any(path == home or path.startswith(home + "/") for home in homes):
                where = ", ".join(owners) or "nowhere"
                self.report(path, number, "third-party", f"<{target}> is for {where}")
            return

    # -- banned things

    def check_banned(self, path):
        code = self.code(path)
        lines = None
        for rule, files, pattern, why in BANNED:
            if not re.search(files, path) or not re.search(pattern, code):
                continue
            lines = lines or code.split("\n")
            for number, line in enumerate(lines, 1):
                match = re.search(pattern, line)
                if match:
                    self.report(path, number, f"banned:{rule}", f"{match.group(0).strip()}: {why}")

    def check_hash_iteration(self):
        """Files may be allowed to have a hash table, but none may walk through it."""
        declared = re.compile(r"\b(?:(?:flat|node)_hash_|unordered_)(?:multi)?(?:map|set)\s*<[^;(){}]*>"
                              r"\s+(\w+)\s*(?:;|=|\{)")
        for path in [p for p in self.sources() if p.startswith("lib/")]:
            stem = path.rsplit(".", 1)[0]
            names = {m.group(1) for m in declared.finditer(self.code(path))}
            for name in sorted(names):
                walk = re.compile(rf"\bfor\s*\([^;()]*:\s*(?:\w+(?:\.|->))*{name}\s*\)"
                                  rf"|\b{name}(?:\.|->)c?begin\s*\(")
                for other in (stem + ".h", stem + ".cc"):
                    if other not in self.files or (other.endswith(".h") and path.endswith(".cc")):
                        continue
                    for match in walk.finditer(self.code(other)):
                        line = self.code(other).count("\n", 0, match.start()) + 1
                        self.report(other, line, "hash-iteration", f"walks through {name}")

    # -- headers and names

    def check_header(self, path):
        if not re.fullmatch(r"[a-z0-9_]+\.(h|cc)", os.path.basename(path)):
            self.report(path, 1, "file-name", "must be snake_case")
        if path.endswith(".h"):
            if not self.text(path).startswith("//"):
                self.report(path, 1, "header", "must start with a comment that says its purpose")
            if not re.search(r"^#pragma once$", self.text(path), re.M):
                self.report(path, 1, "header", "#pragma once is missing")

    # -- sizes

    def check_size(self, path):
        if not path.endswith(CODE_ENDS):
            return
        count = self.text(path).count("\n")
        if count >= MAX_FILE_LINES:
            self.report(path, count, "size", f"{count} lines; must stay under {MAX_FILE_LINES}")
        if not path.endswith(SOURCE_ENDS + (".go",)):
            return
        for name, first, length in functions(self.code(path), path.endswith(".go")):
            if length >= MAX_FUNCTION_LINES:
                self.report(path, first, "size",
                            f"{name} has {length} lines; must stay under {MAX_FUNCTION_LINES}")

    # -- feature gates

    def check_gates(self):
        table = "lib/state/feature_gates.cc"
        if table not in self.files:
            return
        rows = {}
        for number, line in enumerate(self.text(table).split("\n"), 1):
            match = re.match(r'\s*\{"(\w+)", Stage::\w+, \w+, Support::(\w+)', line)
            if match:
                rows[match.group(1)] = (match.group(2), number)
        asked = set()
        for path in self.sources():
            if path == table or path.startswith("unit/"):
                continue
            text = self.text(path)
            for match in re.finditer(r'\b(?:Enabled|GateOn)\(\s*"([A-Z]\w+)"', text):
                asked.add(match.group(1))
                if match.group(1) not in rows:
                    self.report(path, text.count("\n", 0, match.start()) + 1, "gates",
                                f"there is no feature gate {match.group(1)}")
        for name, (support, number) in sorted(rows.items()):
            if support == "kSwitch" and name not in asked:
                self.report(table, number, "gates", f"{name} can be switched but nothing asks for it")

    # -- paths of a machine

    def check_machine_paths(self, path):
        if not path.endswith(TEXT_ENDS) and "." in os.path.basename(path):
            return
        own = os.path.abspath(self.root)
        for number, line in enumerate(self.text(path).split("\n"), 1):
            match = MACHINE_PATHS.search(line)
            if match or (own.count("/") > 1 and own in line):
                self.report(path, number, "machine-path", (match.group(0) if match else own))

    # -- format

    def check_format(self):
        tool = shutil.which("clang-format-14")
        if tool is None:
            print("clang-format-14 is not installed: the format is not checked", file=sys.stderr)
            return
        sources = self.sources()
        for start in range(0, len(sources), 50):
            result = subprocess.run(
                [tool, "--dry-run", "--style=file"] + sources[start:start + 50],
                cwd=self.root, capture_output=True, text=True, check=False)
            seen = set()
            for match in re.finditer(r"^(\S+?):(\d+):\d+: warning: code should be", result.stderr, re.M):
                if match.group(1) not in seen:
                    seen.add(match.group(1))
                    self.report(match.group(1), int(match.group(2)), "format",
                                "differs from clang-format-14 from here on")
            if result.returncode != 0:
                self.report(sources[start], 1, "format", f"clang-format-14 failed: {result.stderr.strip()}")


def main(arguments):
    with_format = "--no-format" not in arguments
    places = [a for a in arguments if not a.startswith("--")]
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    root = os.path.abspath(places[0] if places else default)
    violations = Checker(root).run(with_format)
    for path, line, rule, text in violations:
        print(f"{path}:{line}: {rule}: {text}")
    if violations:
        print(f"{len(violations)} violations", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
