"""Data of a user's: whatever file they are in, the rows that are asked for are read, and no others;
what cannot be read is one sentence.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowref.loading.data import data_digest, open_rows, vet_data
from flowref.model import DataError, FlowrefError

POINTS = np.random.default_rng(0).standard_normal((1000, 2, 3)).astype(np.float32)
FLAT = POINTS.reshape(1000, 6)
SETS = """
import numpy as np

values = np.load("points.npy")


class Pairs:
    def __len__(self):
        return len(values)

    def __getitem__(self, index):
        return values[index], index


class Named(Pairs):
    def __getitem__(self, index):
        return {"x": values[index], "context": values[index, 0]}


class Broken(Pairs):
    def __getitem__(self, index):
        raise OSError("no such image")


def make():
    return Pairs()


stream = iter(values)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A folder with the same points in files of several kinds, the working folder."""
    os.chdir(tmp_path)
    np.save("points.npy", POINTS)
    np.save("columns.npy", np.asfortranarray(POINTS))
    np.savez("only.npz", anything=POINTS)
    np.savez("several.npz", train=POINTS[:10], test=POINTS)
    np.savez("given.npz", x=POINTS, context=POINTS[:, 0])
    np.savez_compressed("packed.npz", x=POINTS)
    np.savetxt("plain.csv", FLAT, delimiter=",", header="a,b,c,d,e,f", comments="", fmt="%.17g")
    np.savetxt("spaces.txt", FLAT, fmt="%.17g")
    (tmp_path / "sets.py").write_text(SETS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, POINTS) for name in ("points.npy", "columns.npy", "only.npz", "packed.npz")],
        *[(name, POINTS) for name in ("several.npz:test", "given.npz", "given.npz:x")],
        *[(f"sets.py:{name}", POINTS) for name in ("values", "Pairs", "make", "Named")],
        *[(name, FLAT) for name in ("plain.csv", "spaces.txt")],
    ],
)
def test_rows_are_those_that_are_asked_for(name: str, expected: Any) -> None:
    """Rows by number are the same numbers, as float64, in every kind of file and data set."""
    rows, numbers = open_rows(name), np.array([0, 3, 500, 999])
    assert (rows.count, rows.shape) == (1000, expected.shape[1:])
    taken = rows.take(numbers)
    assert taken.dtype == np.float64
    np.testing.assert_array_equal(taken, expected[numbers].astype(np.float64))


@pytest.mark.parametrize("name", ["given.npz", "sets.py:Named"])
def test_contexts_stand_beside_their_points(name: str) -> None:
    """An array named context, or an entry of that name, gives the context of each point."""
    context = open_rows(name).context
    assert context is not None and context.name.endswith(("context", "point"))
    np.testing.assert_array_equal(context.take(np.array([7])), POINTS[7:8, 0].astype(float))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_file_is_never_held(folder: Path, compressed: bool) -> None:
    """A few rows of a file take a small part of the memory that all of it would."""
    import tracemalloc

    large = np.zeros((1000, 40_000), np.float32)
    large[700] = 1.0
    save: Callable[..., Any] = np.savez_compressed if compressed else np.savez
    save("large.npz", x=large)
    del large
    tracemalloc.start()
    taken = open_rows("large.npz").take(np.array([1, 700]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken[1].all() and not taken[0].any()
    assert peak < 40 * 2**20


def array(*values: Any, **options: Any) -> Callable[[], None]:
    """A file of an array."""
    return lambda: np.save("bad.npy", np.array(*values, **options))


def cut() -> None:
    """A file without its second half."""
    content = Path("points.npy").read_bytes()
    Path("bad.npy").write_bytes(content[: len(content) // 2])


def text(content: str, name: str = "bad.csv") -> Callable[[], Any]:
    """A file of text."""
    return lambda: Path(name).write_text(content, encoding="utf-8")


def everything(name: str) -> Any:
    """All rows of a file."""
    rows = open_rows(name)
    return rows.take(np.arange(rows.count))


NOTHING: Callable[[], None] = lambda: None  # noqa: E731  # as the others


@pytest.mark.parametrize(
    ("name", "words", "write"),
    [
        ("bad.npy", "holds complex128; expected real numbers", array([[1j]])),
        ("bad.npy", "holds Python objects", array([[{}]], dtype=object)),
        ("bad.npy", "has no rows", array([])),
        ("bad.npy", "is one number", array(1.0)),
        ("bad.npy", "cannot be read", cut),
        ("bad.npy", "is empty", text("", "bad.npy")),
        ("bad.csv", "'two' in its column 'b' where numbers", text("a,b\n1,two\n")),
        ("bad.csv", "has 'two' where numbers are expected", text("one,2\n3,two\n")),
        ("bad.csv", "row 2 is '1,2,3'; expected 2 numbers", text("1,2\n1,2,3\n1,2\n")),
        ("several.npz", "holds 2 arrays, train, test; say which", NOTHING),
        ("several.npz:tset", "did you mean test?", NOTHING),
        ("point.npy", "did you mean points.npy", NOTHING),
        ("bad.pt", r"save a tensor with np.save", text("PK", "bad.pt")),
        (".", "it is a folder", NOTHING),
        ("sets.py:Broken", "entry 0 cannot be read .OSError: no such image", NOTHING),
        ("sets.py:stream", "expected an array, or a data set with a length", NOTHING),
        ("sets.py:valuse", "did you mean values", NOTHING),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    name: str, words: str, write: Callable[[], Any]
) -> None:
    """Other numbers, shapes, files and names: a sentence that says what was given and expected."""
    write()
    with pytest.raises(FlowrefError, match=words) as caught:
        everything(name)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_contexts_are_as_many_as_points() -> None:
    """An archive whose contexts are fewer than its points is refused."""
    np.savez("bad.npz", x=POINTS, context=POINTS[:5])
    with pytest.raises(DataError, match="1000 points and 5 contexts"):
        open_rows("bad.npz")


def test_parquet_rows_are_read_by_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a parquet file the groups of the rows that are asked for are read, column by column."""
    groups, asked = [FLAT[:400], FLAT[400:]], []

    class Table:
        def __init__(self, values: Any) -> None:
            self.values = values
            self.schema = types.SimpleNamespace(names=list("abcdef"))
            self.columns = [types.SimpleNamespace(to_pylist=v.tolist) for v in values.T]

        def take(self, rows: Any) -> Table:
            return Table(self.values[rows])

    class File:
        num_row_groups = 2
        metadata = types.SimpleNamespace(
            row_group=lambda k: types.SimpleNamespace(num_rows=len(groups[k]))
        )

        def __init__(self, path: Path, memory_map: bool) -> None:
            assert memory_map

        def iter_batches(self, batch_size: int) -> Any:
            return iter([Table(groups[0][:batch_size])])

        def read_row_group(self, group: int) -> Table:
            asked.append(group)
            return Table(groups[group])

    Path("points.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", types.SimpleNamespace(ParquetFile=File))
    rows = open_rows("points.parquet")
    np.testing.assert_array_equal(rows.take(np.array([399])), FLAT[399:400].astype(float))
    assert asked == [0]
    np.testing.assert_array_equal(rows.take(np.array([1, 400])), FLAT[[1, 400]].astype(float))


def test_columns_of_several_sizes_are_refused_with_their_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A column of lists beside one of numbers is no point; which is which is said."""
    columns = [FLAT[:1, :2].tolist(), FLAT[:1, 0].tolist()]
    table = types.SimpleNamespace(
        schema=types.SimpleNamespace(names=["x", "y"]),
        columns=[types.SimpleNamespace(to_pylist=values.copy) for values in columns],
    )
    file = types.SimpleNamespace(num_row_groups=0, iter_batches=lambda batch_size: iter([table]))
    module = types.SimpleNamespace(ParquetFile=lambda path, memory_map: file)
    Path("points.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    with pytest.raises(DataError, match=r"several sizes \(x 2, y 1\)"):
        open_rows("points.parquet")


def test_a_file_is_told_from_another() -> None:
    """The digest of data follows the content of a file, and not its name."""
    before = data_digest("points.npy")
    assert before == data_digest("points.npy") != data_digest("columns.npy")
    np.save("points.npy", POINTS + 1)
    assert before != data_digest("points.npy")
    vet_data("sets.py:Broken")  # nothing of a user's is run before there are workers
