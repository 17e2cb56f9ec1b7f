"""Memory-mapped numpy files: one array (npy), or several by name (npz)."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flowref.loading.data.rows import REAL_KINDS, Rows, of_array
from flowref.model import Array, DataError, nearest, one_line

# Names of points and of contexts in an archive of several arrays.
POINTS, CONTEXTS = ("x", "data", "points", "X"), ("context", "contexts", "c")
# Bytes read at a time from a compressed array.
BLOCK = 2**22


def npy(path: Path) -> Rows:
    """The rows of an npy file, memory-mapped."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(_unreadable(path, error)) from None
    return of_array(str(path), array)


def npz(path: Path, name: str) -> Rows:
    """The rows of the array ``name`` of an npz file, or of its only array; ``context`` holds the contexts."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [one[:-4] for one in archive.namelist() if one.endswith(".npy")]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(_unreadable(path, error)) from None
    if not names:
        raise DataError(f"{path} holds no arrays; expected what np.savez writes")
    if name and name not in names:
        raise DataError(f"{path} has no {name!r}{nearest(name, names)}; it has {', '.join(names)}")
    context_name = next((one for one in CONTEXTS if one in names), "")
    others = [one for one in names if one != context_name]
    chosen = name or next((one for one in POINTS if one in others), "")
    if not chosen and len(others) != 1:
        raise DataError(
            f"{path} holds {len(names)} arrays, {', '.join(names)}; say which holds the points: "
            f"--data {path}:{names[0]}"
        )
    chosen = chosen or others[0]
    context = _archive_rows(path, context_name) if context_name and context_name != chosen else None
    if context is not None:
        context = replace(context, name=f"{path}:context")
    points = _archive_rows(path, chosen)
    return Rows(points.name, points.count, points.shape, points.read, context)


def _archive_rows(path: Path, name: str) -> Rows:
    """The rows of one array: memory-mapped if stored uncompressed, else read in blocks."""
    label = f"{path}:{name}"
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file:
                shape, fortran, kind = _shape_order_dtype(file)
                begin = file.tell()
        if info.compress_type == zipfile.ZIP_STORED and kind.kind in REAL_KINDS:
            with path.open("rb") as raw:
                raw.seek(info.header_offset + 26)
                lengths = raw.read(4)
            skip = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            start = info.header_offset + 30 + skip + begin
            if not np.prod(shape):
                return of_array(label, np.zeros(shape, kind))
            mapped = np.memmap(path, kind, "r", start, shape, order="F" if fortran else "C")
            return of_array(label, mapped)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(_unreadable(path, error)) from None
    stand_in = (
        of_array(label, np.zeros((0, *shape[1:]), kind)) if not shape or not shape[0] else None
    )
    if stand_in is not None:
        return stand_in
    if fortran and len(shape) > 1:
        raise DataError(f"{label} is compressed column by column; save it with np.savez")
    if kind.kind not in REAL_KINDS:
        raise DataError(f"{label} holds {kind}; expected real numbers, as float32 or float64")
    return Rows(label, shape[0], shape[1:], lambda rows: _read_compressed_rows(path, name, rows))


def _shape_order_dtype(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, kind = read(file)
    return tuple(shape), bool(fortran), kind


def _read_compressed_rows(path: Path, name: str, rows: Array) -> Array:
    """Some rows ``(len(rows), *shape)`` of a compressed array, read in blocks so that the whole is never in
    memory.
    """
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        shape, _, kind = _shape_order_dtype(file)
        size = int(np.prod(shape[1:], dtype=np.int64)) * kind.itemsize
        step = max(1, BLOCK // max(1, size))
        found = np.zeros((len(rows), *shape[1:]), kind)
        for begin in range(0, shape[0], step):
            count = min(step, shape[0] - begin)
            inside = (rows >= begin) & (rows < begin + count)
            block = file.read(count * size)
            if inside.any():
                values = np.frombuffer(block, kind).reshape(count, *shape[1:])
                found[inside] = values[rows[inside] - begin]
    return found


def _unreadable(path: Path, error: BaseException) -> str:
    if any(sign in str(error) for sign in ("allow_pickle", "Object arrays", "Python objects")):
        return f"{path} holds Python objects, which are not read; save numbers: x.astype('float32')"
    return f"{path} cannot be read ({one_line(error, 150)}); it is truncated, or not such a file"
