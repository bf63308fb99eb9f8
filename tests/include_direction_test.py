"""Checks that the folders of trireme/ see only what they may.

The truth is the DEPENDS of each folder's CMakeLists.txt; this test holds the #includes to it, holds
DEPENDS to the order of the data path, and holds a few folders to less than that. It also refuses the
two things that would undo the design without any include: knowledge of single ops outside of their records,
kernels and fusions, and features chosen by #if. Run by ctest; alone: python3 tests/include_direction_test.py [ROOT].
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

# Folders in the order of the data path. A folder may depend only on folders before it.
ORDER = ["base", "collective", "ir", "ops", "onnx", "mesh", "plan", "schedule", "exchange", "passes", "program", "comm",
         "kernels", "runtime", "sim", "planner", "place", "data", "models", "optim", "checkpoint", "chaos",
         "train", "run", "bench", "http", "dashboard", "serve", "placed", "reproduce", "cli"]

# Folders that may depend on these alone, so that they can be used alone.
ONLY = {"collective": {"base"}, "comm": {"base", "collective"}, "kernels": {"base", "ir"}}

# Folders inside of a library, in their order; "" is what lies in its own folder. A file sees its own and those before.
ROOMS = {"comm": ["wire", "transport", "engine", "launch", ""]}

# What the planner and the simulator never include: a laptop must be able to plan for a cluster.
NO_DEVICE = ("trireme/kernels/", "trireme/runtime/", "trireme/comm/transport/", "cuda", "nccl", "mpi.h", "cublas")
FORBIDDEN = {"planner": NO_DEVICE, "sim": NO_DEVICE}

# What an #if may ask about: debug builds, the instruction set, and Highway's own way of compiling a file for many,
# with the guards (…_INL_H_, …_ONCE) of files that are included once per instruction set.
ALLOWED_IF = re.compile(r"\bNDEBUG\b|\bHWY_\w+|\bTRIREME_\w+_(INL_H_|ONCE)\b|\b__(x86_64|aarch64)__\b")

LIBRARY = re.compile(r"trireme_library\s*\(\s*(\w+)([^)]*)\)")
KEYWORDS = {"SIMD", "LIGHT", "ALONE", "DEPENDS", "LINK", "TEST_DEPENDS", "EXCLUDE", "READERS", "READERS_DEPEND", "HEADERS",
            "FAST"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
IF = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
OP_CASE = re.compile(r"\bcase\s+[\w:]*\bOp(?:Kind|Code|Type|Id)?::\w+")
COMMENT = re.compile(r"//.*")

# Where an op may be told apart by its name: its record, its kernels, its cases, and the passes that make fused ops, with what
# they share; and in onnx/, whose nodes say "tanh", "add" and "mean" of other things.
KNOWS_OPS = re.compile(r"^trireme/(ops|kernels|bench/cases|onnx)/|^trireme/passes/(fuse|device_fuse|node_joiner)\.")
# Names of ops that are words of settings and layouts too.
HOMONYMS = {"sum", "max", "sqrt", "sgd", "momentum", "adam", "lars"}
OP_ROW = re.compile(r"^\| `([a-z0-9_ ]+)` \|", re.MULTILINE)
# The name of a node's op compared or taken apart, and its record compared with a certain one.
OP_NAME = r"\bop(?:\(\))?(?:->|\.)name\b"
OP_COMPARED = re.compile(rf"{OP_NAME}\s*(?:[=!]=|\.(?:starts_with|ends_with|find|rfind|compare|substr)\b)"
                         rf"|[=!]=\s*[\w.>()\[\]-]*{OP_NAME}|\bop\s*[=!]=\s*&")


def read_op_names(root):
    """The names of all ops, as docs/ops.md lists them; another test holds that to the table of records."""
    document = root / "docs" / "ops.md"
    return {name for row in OP_ROW.findall(document.read_text()) for name in row.split()} if document.exists() else set()


def literal_compared(names):
    """A comparison with one of these names in quotes."""
    quoted = "|".join(sorted(map(re.escape, names - HOMONYMS)))
    return re.compile(rf'[=!]=\s*"(?:{quoted})"|"(?:{quoted})"\s*[=!]=') if quoted else re.compile(r"(?!)")


def read_libraries(root):
    """({library: libraries that it names in DEPENDS}, {folder below trireme/: library}). A library has the name of its
    folder; one may lie inside another's folder, as comm/collective does, and is no part of that one."""
    depends, folders = {}, {}
    for path in sorted(root.glob("trireme/**/CMakeLists.txt")):
        text = re.sub(r"#.*", "", path.read_text())
        for name, rest in LIBRARY.findall(text):
            folders[path.parent.relative_to(root / "trireme").as_posix()] = name
            keyword = None
            named = set()
            for word in rest.split():
                if word in KEYWORDS:
                    keyword = word
                elif keyword == "DEPENDS":
                    named.add(word)
            depends[name] = named
    return depends, folders


def library_of(path, folders):
    """Of a path below trireme/: the library of the innermost folder that has one; None where there is none."""
    for folder in Path(path).parents:
        if folder.as_posix() in folders:
            return folders[folder.as_posix()]
    return None


def closure(depends, folder):
    seen, todo = set(), list(depends.get(folder, ()))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(depends.get(name, ()))
    return seen


def check_depends(depends):
    problems = []
    for folder, named in depends.items():
        where = f"trireme/{folder}/CMakeLists.txt"
        if folder not in ORDER:
            problems.append(f"{where}: '{folder}' is not in the order of the data path")
            continue
        for name in sorted(named):
            if name not in depends:
                problems.append(f"{where}: DEPENDS {name}, which is no library")
            elif name not in ORDER or ORDER.index(name) >= ORDER.index(folder):
                problems.append(f"{where}: DEPENDS {name}, which comes after {folder} in the data path")
        extra = closure(depends, folder) - ONLY[folder] if folder in ONLY else ()
        for name in sorted(extra):
            problems.append(f"{where}: sees {name}; {folder} may see only {sorted(ONLY[folder])}")
    return problems


def room_of(path, folders):
    """(library, room) of a path below trireme/, where its library has rooms; else None."""
    parts, library = Path(path).parts, library_of(path, folders)
    return (library, parts[1] if len(parts) > 2 else "") if library in ROOMS else None


def check_room(relative, target, folders):
    """What is wrong with a file below trireme/ that includes another one, or None."""
    own, other = room_of(relative, folders), room_of(target, folders)
    if own is None or other is None or own[0] != other[0]:
        return None
    order = ROOMS[own[0]]
    if own[1] not in order:
        return f"{own[0]}/{own[1]} is not in the order of {own[0]}: {order}"
    if other[1] not in order[:order.index(own[1]) + 1]:
        return f'includes "trireme/{target}", which comes after it in the order of {own[0]}: {order}'
    return None


def check_file(path, relative, allowed, forbidden, folders, is_test, op_literal):
    problems = []
    knows_ops = is_test or KNOWS_OPS.match(relative.as_posix())
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        where = f"{relative}:{number}"
        include = INCLUDE.match(line)
        if include:
            target = include.group(1)
            seen = library_of(target.removeprefix("trireme/"), folders) if target.startswith("trireme/") else None
            if not is_test and target.startswith("trireme/") and seen not in allowed:
                problems.append(f'{where}: includes "{target}", but its folder sees only {sorted(allowed)}')
            wrong_room = target.startswith("trireme/") and check_room(relative.relative_to("trireme"),
                                                                      target.removeprefix("trireme/"), folders)
            if not is_test and wrong_room:
                problems.append(f"{where}: {wrong_room}")
            if target.startswith(forbidden):
                problems.append(f'{where}: includes "{target}", which this folder must never see')
        condition = IF.match(line)
        if condition and not ALLOWED_IF.search(condition.group(1)):
            problems.append(f"{where}: '{line.strip()}'; features are chosen by the source file that CMake takes")
        code = COMMENT.sub("", line)
        if OP_CASE.search(code):
            problems.append(f"{where}: a case over op kinds; put the knowledge in the op's record")
        if not knows_ops and (OP_COMPARED.search(code) or op_literal.search(code)):
            problems.append(f"{where}: '{line.strip()}' tells ops apart by name; ask a field of the op's record")
    return problems


def check_tree(root):
    """All problems of the tree at `root`, one line of text each."""
    depends, folders = read_libraries(root)
    problems = check_depends(depends)
    op_literal = literal_compared(read_op_names(root))
    for path in sorted(root.glob("trireme/**/*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
            continue
        relative = path.relative_to(root)
        if len(relative.parts) == 2:
            continue  # trireme/trireme.h, which is for programs outside; nothing here may include it
        library = library_of(relative.relative_to("trireme"), folders)
        if library is None:
            # A folder on its way in: has sources, but its CMakeLists.txt builds no library yet.
            problems.append(f"{relative}: trireme/{relative.parts[1]} has sources but no trireme_library()")
            continue
        allowed = closure(depends, library) | {library}
        is_test = path.stem.endswith("_test")
        problems += check_file(path, relative, allowed, FORBIDDEN.get(library, ()), folders, is_test, op_literal)
    return problems


class SelfCheck(unittest.TestCase):
    """The checker itself, on small trees that are right or wrong in one way each."""

    GOOD = {
        "trireme/base/CMakeLists.txt": "trireme_library(base LINK fmt::fmt)",
        "trireme/base/a.h": "#pragma once\n#include <vector>\n",
        "trireme/ir/CMakeLists.txt": "trireme_library(ir DEPENDS base)",
        "trireme/ir/b.cc": '#include "trireme/ir/b.h"\n#include "trireme/base/a.h"\n',
        "trireme/ops/CMakeLists.txt": "trireme_library(ops DEPENDS ir)",
        "trireme/ops/c.cc": '#include "trireme/base/a.h"\n',
        "trireme/kernels/CMakeLists.txt": "trireme_library(kernels SIMD\n  DEPENDS ir LINK hwy)",
        "trireme/kernels/k.cc": "#if HWY_ONCE\n#endif\n",
        "trireme/comm/collective/CMakeLists.txt": "trireme_library(collective DEPENDS base)",
        "trireme/comm/collective/s.cc": '#include "trireme/base/a.h"\n',
        "trireme/comm/CMakeLists.txt": "trireme_library(comm DEPENDS collective)",
        "trireme/comm/g.cc": '#include "trireme/comm/collective/s.h"\n',
        "trireme/sim/CMakeLists.txt": "trireme_library(sim DEPENDS ops collective)",
        "trireme/sim/c.cc": '#include "trireme/comm/collective/s.h"\n',
        "docs/ops.md": "| op | rule |\n|---|---|\n| `matmul` | … |\n| `sum mean` | … |\n",
    }

    def problems(self, files={}):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**self.GOOD, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_tree(root)

    def expect(self, part, files):
        found = self.problems(files=files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_a_good_tree_has_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_an_include_against_the_direction(self):
        self.expect("trireme/base/a.h:1", {"trireme/base/a.h": '#include "trireme/ir/b.h"\n'})

    def test_an_include_of_a_folder_that_is_not_named(self):
        self.expect("trireme/kernels/k.cc:1", {"trireme/kernels/k.cc": '#include "trireme/ops/c.h"\n'})

    def test_a_test_may_see_more(self):
        self.assertEqual(self.problems(files={"trireme/ir/b_test.cc": '#include "trireme/ops/c.h"\n'}), [])

    def test_depends_against_the_order(self):
        self.expect("comes after", {"trireme/ops/CMakeLists.txt": "trireme_library(ops DEPENDS ir sim)"})

    def test_depends_on_nothing_known(self):
        self.expect("no library", {"trireme/ops/CMakeLists.txt": "trireme_library(ops DEPENDS ir spirits)"})

    def test_kernels_see_base_and_ir_only(self):
        self.expect("may see only", {"trireme/kernels/CMakeLists.txt": "trireme_library(kernels DEPENDS ops)"})

    def test_the_simulator_sees_no_device_even_in_its_tests(self):
        self.expect("must never see", {"trireme/sim/s_test.cc": '#include "trireme/kernels/k.h"\n'})
        self.expect("must never see", {"trireme/sim/s.cc": "#include <cuda_runtime.h>\n"})

    def test_a_library_inside_a_folder_is_no_part_of_it(self):
        self.expect("trireme/comm/collective/s.cc:1", {"trireme/comm/collective/s.cc": '#include "trireme/comm/g.h"\n'})
        self.expect("trireme/sim/c.cc:1", {"trireme/sim/c.cc": '#include "trireme/comm/g.h"\n'})

    def test_rooms_inside_a_folder_have_an_order(self):
        for file, target in [("wire/w.h", "transport/t.h"), ("transport/tcp/t.cc", "engine/e.h"), ("engine/e.cc", "group.h"),
                             ("launch/l.h", "context.h")]:
            wrong = {f"trireme/comm/{file}": f'#include "trireme/comm/{target}"\n'}
            self.expect(f"trireme/comm/{file}:1: includes", wrong)
            right = {f"trireme/comm/{target}": f'#include "trireme/comm/{file}"\n'}
            self.assertEqual(self.problems(files=right), [])
        self.expect("not in the order of comm", {"trireme/comm/attic/a.h": '#include "trireme/comm/g.h"\n'})

    def test_a_switch_over_op_kinds(self):
        self.expect("op kinds", {"trireme/ir/b.cc": "switch (op) {\n  case OpKind::matmul: break;\n}\n"})

    def test_an_op_told_apart_by_its_name(self):
        for line in ['if (node.op->name == "anything") return;', 'if (name == "matmul") return;',
                     'return "mean" != kind;', 'bool wait = node.op->name.ends_with("_wait");',
                     "same = other == graph.nodes[n].op->name;", 'if (node.op == &ops.at("x")) return;',
                     'std::string_view stem = n.op->name.substr(0, 3);']:
            self.expect("trireme/sim/s.cc:1", {"trireme/sim/s.cc": line + "\n"})

    def test_ops_that_are_built_printed_or_known_where_they_may_be(self):
        for line in ['b.op("matmul", {x});  // == "matmul"', 'text += fmt::format("{}", node.op->name);',
                     'if (reduction == "sum") return;', "same = first.op == other.op;"]:
            self.assertEqual(self.problems(files={"trireme/sim/s.cc": line + "\n"}), [], line)
        for file in ["trireme/ops/m.cc", "trireme/kernels/m.cc", "trireme/sim/s_test.cc"]:
            self.assertEqual(self.problems(files={file: 'if (name == "matmul") return;\n'}), [], file)

    def test_a_feature_by_if(self):
        self.expect("#ifdef TRIREME_CUDA", {"trireme/ir/b.cc": "#ifdef TRIREME_CUDA\n#endif\n"})

    def test_sources_without_a_library(self):
        self.expect("no trireme_library", {"trireme/exchange/ring.cc": ""})


class Tree(unittest.TestCase):
    root = Path(__file__).resolve().parent.parent

    def test_includes_follow_the_direction(self):
        problems = check_tree(self.root)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_something_was_checked(self):
        self.assertLessEqual({"base", "ir"}, set(read_libraries(self.root)[0]))
        self.assertLessEqual({"matmul", "all_reduce_start"}, read_op_names(self.root))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Tree.root = Path(sys.argv.pop(1)).resolve()
    unittest.main()
