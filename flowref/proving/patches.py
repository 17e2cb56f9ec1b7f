"""Repairs as patches: edits of the source line of a repair, reported if the edited source is
proved again.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flowref.loading import single_threaded
from flowref.loading.place import defined_at, root_of
from flowref.loading.user_code import target_value
from flowref.model import PROVED_WHOLE, USER, Law, Target, Unsupported
from flowref.model.graph import Graph, renamed_node
from flowref.proving.prover import Most, calls_of, claim_of, clause
from flowref.proving.source_edits import SourceLine
from flowref.proving.statements import STATEMENTS

# The number of source edits that are tried for one repair.
TRIED = 24
REPAIR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): (?P<words>.*) \(proved (?P<clause>.*)\)")
# A factor that may be a count of entries, which is another one in another flow.
COUNTED = re.compile(r".* times (2|0\.5)")
FLOWREF = Path(__file__).resolve().parents[1]


def patch(target: Target, law: Law, repairs: Sequence[str]) -> str:
    """A unified diff of a user's source file with which a law is proved, from the first of its
    ``repairs`` that can be written as source; "" if none can. The map is unchanged, and other
    proofs still hold. The file is not changed: copies of it are edited and loaded.
    """
    if not repairs:
        return ""
    with contextlib.redirect_stdout(io.StringIO()), single_threaded():
        try:
            path, name = _source_file_and_name(target)
            text, before = path.read_bytes().decode(), _patch_invariants(target, law)
            known = clause(target, law)
        except (Exception, SystemExit):  # not the user's code, or changed since
            return ""
        for match in filter(None, map(REPAIR.fullmatch, repairs)):
            words, clauses = match["words"], (match["clause"], PROVED_WHOLE)
            counted = COUNTED.fullmatch(words) and 2 in before.sizes
            if match["file"] != path.name or known in clauses or counted:
                continue
            others = list[str]()
            with contextlib.suppress(SyntaxError, ValueError):
                others += SourceLine(text, int(match["line"])).edited(words)
            for other in others[:TRIED]:
                with (
                    _patched_package_copy(path, other) as copy,
                    contextlib.suppress(Exception, SystemExit),
                ):
                    edited = Target(USER, f"{copy}:{name}", target.options)
                    if clause(edited, law) not in clauses:
                        continue
                    after = _patch_invariants(edited, law)
                    if after.formulas == before.formulas and after.proved >= before.proved:
                        return _diff(_display_path(path), text, other)
    return ""


def _source_file_and_name(target: Target) -> tuple[Path, str]:
    """The file of a user's target, and its name in that; raises `ValueError` if it is not the
    user's code.
    """
    if target.adapter != USER:
        raise ValueError(str(target))
    path = Path(defined_at(target)[0]).resolve()
    if path.suffix != ".py" or FLOWREF in path.parents:
        raise ValueError(str(target))
    typed = target.component.rpartition(":")[2]
    return path, getattr(target_value(target), "__qualname__", typed)


def _enclosing_packages(path: Path) -> list[Path]:
    return list(itertools.takewhile(lambda one: (one / "__init__.py").is_file(), path.parents))


def _display_path(path: Path) -> str:
    """The path relative to the root of the repository, or to the folder of its package."""
    root, above = root_of(Path.cwd()), path.parents[len(_enclosing_packages(path))]
    return path.relative_to(root if root in path.parents else above).as_posix()


@dataclass(frozen=True)
class PatchInvariants:
    """What a patch must not change. ``proved``: proved statements; ``formulas``: of the results of
    the map; ``sizes``: numbers of entries along axes of its arrays.
    """

    proved: frozenset[str]
    formulas: tuple[str, ...]
    sizes: frozenset[int]


def _patch_invariants(target: Target, law: Law) -> PatchInvariants:
    statement = STATEMENTS[law.base]
    calls = calls_of(target, law.condition, statement.mode)
    proved = frozenset(
        name
        for name, one in STATEMENTS.items()
        if (one.mode, one.criterion == "slope") == (statement.mode, False)
        and claim_of(calls, str(target), name, Most()).proof.proved
    )
    # The values of both calls, or all results of the call that is not edited.
    kept = {"forward": 2} if statement.edited_call else {"forward": 1, "inverse": 1}
    formulas, sizes = list[str](), set[int]()
    with calls.recipe.backend.sandbox(0, calls.recipe.dtype):
        for name, results in kept.items():
            with contextlib.suppress(Unsupported):
                points = calls.points if name == "forward" else calls.latents
                graph = calls.part(name, points).graph
                formulas += _formulas(graph)[:results]
                sizes |= {size for shape in graph.shapes.values() for size in shape}
    return PatchInvariants(proved, tuple(formulas), frozenset(sizes))


def _formulas(graph: Graph) -> list[str]:
    """Normal forms of the results: equal if the same operators compute them from the same
    arguments.
    """
    keys: dict[str, str] = {}
    for node in graph.nodes:
        held = graph.constants.get(node.name)
        number = None if held is None else np.asarray(held).tobytes()
        one = renamed_node(node, keys)
        keys[node.name] = f"{hash((one.op, repr(one.args), repr(one.named), one.shape, number)):x}"
    return ["" if ref is None else keys.get(ref.name, ref.name) for ref in graph.outputs]


@contextlib.contextmanager
def _patched_package_copy(path: Path, text: str) -> Iterator[Path]:
    """A copy of a file with another text, in a copy of its package made of links."""
    packages = _enclosing_packages(path)
    modules, places = dict(sys.modules), sys.path.copy()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for package in reversed(packages):
            here /= package.name
            here.mkdir()
            for one in package.iterdir():
                if one not in (path, *packages) and one.name != "__pycache__":
                    (here / one.name).symlink_to(one)
        (here / path.name).write_bytes(text.encode())
        try:
            yield here / path.name
        finally:
            sys.path[:] = places
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", None)).startswith(folder):
                    del sys.modules[name]
            sys.modules.update(
                {name: one for name, one in modules.items() if name not in sys.modules}
            )


def _diff(name: str, text: str, other: str) -> str:
    before, after = (list(io.StringIO(one)) for one in (text, other))
    found = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    ends = "\n\\ No newline at end of file\n"
    return "".join(one if one.endswith("\n") else one + ends for one in found)
