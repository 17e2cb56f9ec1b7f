"""What stands in a file of weights: of torch.save or of safetensors, read without running code."""

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
# What checkpoints keep beside tensors and that runs no code: numbers of numpy, and options as
# argparse gives them.
HARMLESS: list[Any] = [
    argparse.Namespace, np.dtype, *{type(np.dtype(kind)) for kind in "?bhilqefd"},
    np.float64(0).__reduce__()[0],
]  # fmt: skip
# What torch raises where a file ends too early.
DAMAGED = RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError, struct.error


def content_of(path: Path) -> Any:
    """What a file holds, read once as long as it stays as it is. Raises `TargetError` in one
    sentence.
    """
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
    if path.suffix == ".safetensors" or (head[8:9] == b"{" and _header(head) <= size):
        return _safetensors(path)
    if head[:1] == b"\x80":
        return _pickled(path)
    raise TargetError(
        f"{path} is no file of weights: it begins with {head[:8]!r}; expected one that torch.save "
        "or safetensors wrote"
    )


def _header(head: bytes) -> int:
    """The length of the header that a file of safetensors begins with."""
    return int.from_bytes(head[:8], "little")


def _archive(path: Path) -> Any:
    """A zip file: what torch.save writes, and other things."""
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
    """What torch.save wrote, tensors and plain values only."""
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
    """The tensors of a file of safetensors."""
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
    """The first sentence of an error."""
    return re.split(r"\.\s|\n", one_line(error, 200))[0][:120].rstrip(".")
