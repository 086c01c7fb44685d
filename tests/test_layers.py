"""Imports go one way: rewriter -> passes -> onnx_ir."""

from __future__ import annotations

import ast
import collections
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "passes").rglob("*.py")) + sorted((ROOT / "rewriter").rglob("*.py"))

# What a package may import beside the standard library and itself.
ALLOWED = {
    "passes": {"google", "ml_dtypes", "numpy", "onnx", "onnx_ir", "onnxscript"},
    "rewriter": {"google", "ml_dtypes", "numpy", "onnx", "onnx_ir", "passes"},
}
# What only these files may import.
ALONE = {
    "onnxruntime": {
        "rewriter/backends/optimized_graph.py",
        "rewriter/backends/providers.py",
    },
    "onnx_graphsurgeon": {"rewriter/model_files/graphsurgeon.py"},
    "openvino": {"rewriter/backends/openvino.py"},
    "tract": {"rewriter/backends/tract.py"},
    "pyarrow": {
        f"rewriter/apply/{name}.py"
        for name in ("arrow", "columns", "ids", "parts", "results", "rows")
    },
    "PIL": {"rewriter/apply/image_rows.py"},
    "ray": {"rewriter/apply/workers.py"},
    "onnxscript.rewriter": {"rewriter/integrations/rule_set.py"},
    "rich": {"rewriter/commands/status_line.py"},
    "shtab": {"rewriter/commands/completion.py"},
    "olive": {"rewriter/integrations/olive_pass.py"},
    "onnx.reference": {
        "rewriter/backends/reference.py",
        "rewriter/evaluator/reference.py",
        "rewriter/evaluator/reference_edges.py",
        "rewriter/evaluator/reference_recurrent.py",
        "rewriter/evaluator/reference_operator.py",
        "rewriter/evaluator/reference_ops.py",
        "rewriter/evaluator/reference_resize.py",
        "rewriter/rule_files.py",
    },
}


@functools.cache
def imports(source: str) -> frozenset[str]:
    """Return the dotted names that a file imports, those inside functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.add(module)
            if not node.level:
                found |= {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def violations(path: str, source: str) -> list[str]:
    """Return the imports of a file, named from the root, that the layout does not allow."""
    package = path.split("/")[0]
    wrong = []
    for name in sorted(imports(source)):
        top = name.split(".")[0]
        alone = next((k for k in ALONE if name == k or name.startswith(k + ".")), None)
        if alone is not None:
            if path not in ALONE[alone]:
                wrong.append(name)
        elif top not in ALLOWED[package] | sys.stdlib_module_names | {package}:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_imports_go_one_way(file):
    assert violations(file.relative_to(ROOT).as_posix(), file.read_text()) == []


@pytest.mark.parametrize(
    ("path", "source", "wrong"),
    [
        ("passes/fuse.py", "import rewriter", ["rewriter"]),
        ("passes/fuse.py", "def f():\n  import onnxruntime as ort", ["onnxruntime"]),
        ("passes/fuse.py", "from . import names", ["."]),
        ("passes/fuse.py", "from onnx import reference", ["onnx.reference"]),
        ("rewriter/run.py", "import onnx_graphsurgeon", ["onnx_graphsurgeon"]),
        ("rewriter/run.py", "import torch", ["torch"]),
        ("rewriter/run.py", "import passes.fuse, os.path, onnx", []),
        ("rewriter/backends/providers.py", "import onnxruntime", []),
    ],
)
def test_a_wrong_import_is_seen(path, source, wrong):
    assert violations(path, source) == wrong


def test_importing_the_face_imports_no_runtime():
    code = f"import sys, rewriter; print([name for name in {list(ALONE)} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = ast.literal_eval(done.stdout)
    assert not {"onnxruntime", "onnx_graphsurgeon"} & set(loaded)


@pytest.mark.parametrize(
    "first",
    ["rewriter.feeding.feed_checks", "rewriter.feeding.feeds", "rewriter.feeding.tensor_io"],
)
def test_a_module_can_be_imported_first(first):
    command = [sys.executable, "-c", f"import {first}"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_the_linter_bans_the_same():
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    passes = tomllib.loads((ROOT / "passes/ruff.toml").read_text())["lint"]
    banned = set(root["flake8-tidy-imports"]["banned-api"])
    assert set(ALONE) <= banned
    assert banned | {"rewriter"} == set(passes["flake8-tidy-imports"]["banned-api"])
    lifted = {k for k, v in root["per-file-ignores"].items() if "TID251" in v}
    assert {k for k in lifted if k.startswith("rewriter/")} == set().union(*ALONE.values())


def dependencies() -> dict[str, set[str]]:
    """Return what each module imports of ours, for type checkers alone or not."""
    modules = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in FILES
    }
    found = {}
    for module, file in modules.items():
        named = imports(file.read_text())
        whole = {name for name in named if name in modules}
        # `from package import module` names the package as well, which it does not need.
        packages = {name.rpartition(".")[0] for name in whole}
        found[module] = (whole - packages) - {module}
    return found


def test_no_module_needs_itself():
    order = list(graphlib.TopologicalSorter(dependencies()).static_order())
    assert len(order) == len(FILES)


def needs_of_rooms(package: str) -> dict[str, set[str]]:
    """Return what each folder of a package, and each file in none, imports of the others."""

    def room(module: str) -> str:
        first = ".".join(module.split(".")[: package.count(".") + 2])
        return first if (ROOT / first.replace(".", "/")).is_dir() else module

    rooms = collections.defaultdict(set)
    for module, needed in dependencies().items():
        if module.startswith(f"{package}."):
            others = {room(one) for one in needed if one.startswith(f"{package}.")}
            rooms[room(module)] |= others - {room(module)}
    return rooms


def test_the_rooms_of_rewriter_need_each_other_one_way():
    rooms = needs_of_rooms("rewriter")
    assert set(graphlib.TopologicalSorter(rooms).static_order()) >= set(rooms)
    assert len(list((ROOT / "rewriter").glob("[!_]*"))) <= 25


def test_the_rooms_of_carried_need_those_in_front_of_them():
    rooms = needs_of_rooms("passes.carried")
    assert set(graphlib.TopologicalSorter(rooms).static_order()) >= set(rooms)
    page = ast.get_docstring(ast.parse((ROOT / "passes/carried/__init__.py").read_text()))
    listed = re.findall(r"`(\w+)`", page.partition("in front of it alone")[2])
    folders = {path.parent.name for path in (ROOT / "passes/carried").glob("*/__init__.py")}
    assert set(listed) == folders
    for place, name in enumerate(listed):
        needed = {one.rpartition(".")[2] for one in rooms[f"passes.carried.{name}"]}
        assert needed & folders <= set(listed[:place]), name


def test_numbers_are_read_of_graphs_and_types_alone():
    needed = needs_of_rooms("passes")["passes.numbers"]
    assert needed == {"passes.graph", "passes.sequence_operators", "passes.typing"}


def test_schemas_are_read_in_one_place():
    reading = [file for file in FILES if "get_schema(" in file.read_text()]
    assert reading == [ROOT / "passes/graph/opsets.py"]


def test_a_name_stands_for_one_class():
    found = collections.Counter(
        node.name
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_at_most_two_files_share_a_name():
    found = collections.Counter(file.name for file in FILES if file.name != "__init__.py")
    assert [name for name, count in found.items() if count > 2] == []


def test_a_short_file_with_one_reader_joins_it():
    """Where both stand in one package, and what they become is not long."""
    readers = collections.defaultdict(set)
    for module, needed in dependencies().items():
        for one in needed:
            readers[one].add(module)
    for name in imports((ROOT / "seqmap.py").read_text()) & readers.keys():
        readers[name].add("seqmap")
    lines = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): file.read_text().count("\n")
        for file in FILES
    }
    alone = {
        module: reader
        for module, (reader, *others) in readers.items()
        if not others
        and module.split(".")[0] == reader.split(".")[0]
        and lines.get(module, _SHORT) < _SHORT
        and lines[module] + lines.get(reader, _LONG) <= _LONG  # an `__init__` gathers files
    }
    assert alone == {}


_SHORT, _LONG = 60, 250
"""Lines of a file."""


def test_a_switch_of_the_caller_is_read_in_few_files():
    reading = [file.name for file in FILES if re.search(r"\.exact\b", file.read_text())]
    assert len(reading) <= 3, reading


def test_nodes_are_taken_back_by_hand_in_few_places():
    undo = re.compile(r"(?<!def )\b(drop_uses|forget|discard_body|rollback)\(")
    calls = [(file.name, call) for file in FILES for call in undo.findall(file.read_text())]
    assert len(calls) <= 8, calls
