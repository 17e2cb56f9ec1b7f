"""Contents of weight files of torch.save or safetensors, read without running code."""

from __future__ import annotations

import argparse
import functools
import importlib
import pickle
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowref.model import TargetError, one_line
from flowref.model.extras import import_optional

AGAIN = "copy or save it again"
# Non-tensor contents of checkpoints that run no code: numpy numbers, and options of argparse.
HARMLESS: list[Any] = [
    argparse.Namespace, np.dtype, *{type(np.dtype(kind)) for kind in "?bhilqefd"},
    np.float64(0).__reduce__()[0],
]  # fmt: skip
# Exceptions of torch for truncated files.
DAMAGED = RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError, struct.error


def content_of(path: Path) -> Any:
    """The contents of a file, cached while it is unchanged. Raises `TargetError`."""
    stat = path.stat()
    return _content(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _content(path: Path, size: int, changed: int) -> Any:
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise TargetError(f"{path} is empty; {AGAIN}")
    if head[:2] == b"PK":
        return _archive(path)
    if path.suffix == ".safetensors" or (
        head[8:9] == b"{" and _safetensors_header_length(head) <= size
    ):
        return _safetensors(path)
    if head[:1] == b"\x80":
        return _pickled(path)
    raise TargetError(
        f"{path} is no file of weights: it begins with {head[:8]!r}; expected one that torch.save "
        "or safetensors wrote"
    )


def _safetensors_header_length(head: bytes) -> int:
    return int.from_bytes(head[:8], "little")


def _archive(path: Path) -> Any:
    """Reads a zip file, which torch.save writes; raises `TargetError` for others."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            damaged = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError, ValueError):
        raise TargetError(f"{path} was cut off or damaged: its end is missing; {AGAIN}") from None
    if damaged is not None:
        raise TargetError(f"{path} was damaged: the checksum of {damaged} is wrong; {AGAIN}")
    if any(name.endswith("constants.pkl") for name in names):
        raise TargetError(
            f"{path} is a TorchScript program, and code in files is not run here; save the state "
            "dict alone: torch.save(model.state_dict(), path)"
        )
    if all(name.endswith(".npy") for name in names):
        raise TargetError(
            f"{path} is an archive of numpy arrays; expected weights that torch.save or safetensors "
            "wrote"
        )
    return _pickled(path)


def _pickled(path: Path) -> Any:
    """Reads a file of torch.save: tensors and plain values only."""
    try:
        with torch.serialization.safe_globals(HARMLESS):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named is None:
            raise TargetError(
                f"{path} is no file of weights, or was cut off ({_brief(error)}); {AGAIN}"
            ) from None
        raise TargetError(
            f"{path} holds code besides tensors ({named[1]}), and code in files is not run here; "
            "save the state dict alone: torch.save(model.state_dict(), path)"
        ) from None
    except DAMAGED as error:
        raise TargetError(f"{path} was cut off or damaged ({_brief(error)}); {AGAIN}") from None


def _safetensors(path: Path) -> Any:
    package = import_optional("safetensors", "weights", f"the file {path}", TargetError)
    importlib.import_module("safetensors.torch")
    try:
        with package.safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # no mapping
    except (package.SafetensorError, OSError, ValueError) as error:
        raise TargetError(
            f"{path} is no whole file of safetensors ({_brief(error)}); {AGAIN}"
        ) from None


def _brief(error: BaseException) -> str:
    return re.split(r"\.\s|\n", one_line(error, 200))[0][:120].rstrip(".")
