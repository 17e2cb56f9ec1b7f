"""From the text after --data to rows."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from flowref.loading.data.arrays import npy, npz
from flowref.loading.data.datasets import dataset
from flowref.loading.data.rows import Rows
from flowref.loading.data.tables import csv, parquet
from flowref.model import DataError
from flowref.registry.definitions import nearest_file

KINDS = {".npy": npy, ".parquet": parquet, ".csv": csv, ".tsv": csv, ".txt": csv}
EXPECTED = "an npy, npz, parquet or csv file, or a data set as module:name or file.py:name"
# Bytes up to which a file is hashed whole; of a larger file only this much of both ends is.
WHOLE, END = 2**28, 2**20


def open_rows(text: str) -> Rows:
    """The rows of a named file or data set; files are read lazily. Raises `DataError` in one sentence."""
    path, name = _file_and_array_name(text)
    if path is None:
        return _dataset(text)
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "there is no such file"
        near = nearest_file(path, (*KINDS, ".npz"))
        raise DataError(f"the data {path} cannot be read: {what}{'' if path.is_dir() else near}")
    stat = path.stat()
    return _opened(path, name, stat.st_size, stat.st_mtime_ns)


def vet_data(text: str) -> None:
    """Raise `DataError` if a data file cannot be read. Data sets in Python are imported by workers only."""
    if text and _file_and_array_name(text)[0] is not None:
        open_rows(text)


def _file_and_array_name(text: str) -> tuple[Path | None, str]:
    """The file and the name of an array in it; the file is None for a data set in Python."""
    path = Path(text).expanduser()
    if path.exists() or (":" not in text and path.suffix != ".py"):
        return path, ""
    place, _, name = text.rpartition(":")
    if place.endswith(".npz"):
        return Path(place).expanduser(), name
    return (None, "") if place else (path, "")


@functools.lru_cache(maxsize=4)
def _dataset(text: str) -> Rows:
    return dataset(text)


@functools.lru_cache(maxsize=4)
def _opened(path: Path, name: str, size: int, changed: int) -> Rows:
    if not size:
        raise DataError(f"{path} is empty; give {EXPECTED}")
    with path.open("rb") as file:
        head = file.read(8)
    if head[:6] == b"\x93NUMPY":
        return npy(path)
    if path.suffix == ".npz":
        return npz(path, name)
    if path.suffix in KINDS:
        return KINDS[path.suffix](path)
    torch = head[:2] == b"PK" or path.suffix in (".pt", ".pth")
    way = "; save a tensor with np.save('points.npy', x.numpy())" if torch else ""
    raise DataError(f"{path} is not a supported kind of data; expected {EXPECTED}{way}")


def data_digest(text: str) -> str:
    """A digest of a data file; of a data set in Python its name."""
    path, _ = _file_and_array_name(text)
    if not text or path is None or not path.is_file():
        return text
    state, size = hashlib.sha256(str(path.stat().st_size).encode()), path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE:
            state.update(hashlib.file_digest(file, "sha256").digest())
        else:
            state.update(file.read(END))
            file.seek(-END, 2)
            state.update(file.read() + str(path.stat().st_mtime_ns).encode())
    return state.hexdigest()[:16]
