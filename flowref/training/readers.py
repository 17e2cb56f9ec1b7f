"""Readers of image sets in their published formats: MNIST, CIFAR-10, CelebA. Each returns unsigned
bytes ``(n, channels, height, width)``, and raises `DataError` for files that it cannot read in
full.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowref.model import DataError
from flowref.training.extras import package

Images = NDArray[np.uint8]

# An IDX file begins with two zero bytes, the type of its numbers, and the number of axes.
IDX_IMAGES, IDX_LABELS, IDX_BYTES = 0x0803, 0x0801, 0x08
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD, CIFAR_CLASSES = 1 + 3 * 32 * 32, 10
# Aligned CelebA images, and the central square that holds the face.
CELEBA_WIDTH, CELEBA_HEIGHT, CELEBA_CROP = 178, 218, 148
PICTURES = (".jpg", ".jpeg", ".png")


def content(path: Path) -> bytes:
    """All bytes of a file, decompressed if it is gzipped. Raises `DataError`."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}; check the path and its permissions"
        ) from None
    if packed[:2] != b"\x1f\x8b":
        return packed
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} is packed by gzip but cannot be unpacked: {error}; fetch the file again"
        ) from None


def folder_of(path: Path) -> Path:
    """Returns the path; raises `DataError` if it is not a folder."""
    if not path.is_dir():
        raise DataError(f"there is no folder {path}; give the folder that holds the data")
    return path


def idx_images(path: Path) -> Images:
    """The images ``(n, 1, height, width)`` of an IDX file: magic number, three sizes, then the
    pixels by row.
    """
    raw = content(path)
    if len(raw) < 16:
        raise DataError(
            f"{path} has {len(raw)} bytes; expected an IDX file, which begins with 16: fetch it "
            "again"
        )
    magic = int.from_bytes(raw[:4], "big")
    if magic != IDX_IMAGES:
        seen = {
            IDX_LABELS: "labels, one number each; give the file of the images",
        }.get(magic, "something else; give a file such as train-images-idx3-ubyte")
        if magic >> 16 == 0 and magic & 0xFF == 3 and magic >> 8 != IDX_BYTES:
            seen = f"numbers of kind 0x{magic >> 8:02x} rather than unsigned bytes; store pixels as levels from 0 to 255"
        raise DataError(
            f"{path} begins with 0x{magic:08x}; expected 0x{IDX_IMAGES:08x}, images of bytes: it "
            f"holds {seen}"
        )
    count, height, width = (int.from_bytes(raw[at : at + 4], "big") for at in (4, 8, 12))
    expected = count * height * width
    if len(raw) - 16 != expected:
        kind = "cut off" if len(raw) - 16 < expected else "too long"
        raise DataError(
            f"{path} is {kind}: it has {len(raw) - 16} bytes of pixels; expected {expected} for "
            f"{count} images of {height} by "
            f"{width}: fetch it again"
        )
    if expected == 0:
        raise DataError(
            f"{path} says that it holds {count} images of {height} by {width}; expected pixels: "
            "fetch it again"
        )
    return np.frombuffer(raw, np.uint8, offset=16).reshape(count, 1, height, width)


def mnist(path: Path, train: bool) -> Images:
    """The training or test images of MNIST in a folder, ``(n, 1, 28, 28)``, gzipped or not."""
    stem = "train" if train else "t10k"
    names = [f"{stem}-images{dash}idx3-ubyte{end}" for dash in "-." for end in ("", ".gz")]
    for folder in (folder_of(path), path / "MNIST" / "raw", path / "raw"):
        for name in names:
            if (folder / name).is_file():
                return idx_images(folder / name)
    raise DataError(
        f"{path} has neither {names[0]} nor {names[1]}; give the folder that holds the files of "
        "MNIST"
    )


def cifar10(path: Path, train: bool) -> Images:
    """The training or test images of CIFAR-10, ``(n, 3, 32, 32)``: one byte for the class, then
    1024 each for red, green and blue.
    """
    folder = folder_of(path)
    if (path / "cifar-10-batches-bin").is_dir():
        folder = path / "cifar-10-batches-bin"
    files = sorted(folder.glob("data_batch_*.bin" if train else "test_batch.bin"))
    if not files:
        wanted = "data_batch_1.bin to data_batch_5.bin" if train else "test_batch.bin"
        python = (
            " (the files without .bin are the version for Python)"
            if (folder / "data_batch_1").is_file()
            else ""
        )
        raise DataError(
            f"{folder} has no {wanted}{python}; give the folder of the binary version of CIFAR-10"
        )
    return np.concatenate([cifar_batch(file) for file in files])


def cifar_batch(path: Path) -> Images:
    """The images ``(n, 3, 32, 32)`` of one batch file."""
    raw = content(path)
    if not raw or len(raw) % CIFAR_RECORD:
        raise DataError(
            f"{path} has {len(raw)} bytes; expected a multiple of {CIFAR_RECORD} (a class and 32 "
            "by 32 pixels in three "
            "colors): the file is cut off or of another kind; fetch the binary version of "
            "CIFAR-10 again"
        )
    records = np.frombuffer(raw, np.uint8).reshape(-1, CIFAR_RECORD)
    if records[:, 0].max() >= CIFAR_CLASSES:
        index = int((records[:, 0] >= CIFAR_CLASSES).argmax())
        raise DataError(
            f"{path} names class {records[index, 0]} in record {index}; expected 0 to "
            f"{CIFAR_CLASSES - 1}: this is not the binary "
            "version of CIFAR-10 (CIFAR-100 has two classes for each image)"
        )
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE)


def celeba(path: Path, size: int, limit: int | None = None) -> Images:
    """Faces from a folder of pictures, in the order of their names, ``(n, 3, size, size)``."""
    folder = folder_of(path)
    if (path / "img_align_celeba").is_dir():
        folder = path / "img_align_celeba"
    files = sorted(file for file in folder.iterdir() if file.suffix.casefold() in PICTURES)[:limit]
    if not files:
        raise DataError(
            f"{folder} has no pictures ({', '.join(PICTURES)}); give the folder of the aligned "
            "images of CelebA"
        )
    images = np.empty((len(files), 3, size, size), np.uint8)
    for index, file in enumerate(files):
        images[index] = picture(file, size)
    return images


def picture(path: Path, size: int) -> Any:
    """One picture as ``(3, size, size)``: the face cropped from an aligned image, or a square one
    whole.
    """
    Image = package("PIL.Image")
    try:
        with Image.open(path) as opened:
            if opened.mode not in ("RGB", "L", "RGBA", "P"):
                raise DataError(
                    f"{path} has pixels of mode {opened.mode}; expected 8 bits for each color, "
                    "levels from 0 to 255: convert it"
                )
            colors = opened.convert("RGB")
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as a picture: {error}; fetch it again, or remove it"
        ) from None
    width, height = colors.size
    if (width, height) == (CELEBA_WIDTH, CELEBA_HEIGHT):
        left, top = (width - CELEBA_CROP) // 2, (height - CELEBA_CROP) // 2
        colors = colors.crop((left, top, left + CELEBA_CROP, top + CELEBA_CROP))
    elif width != height or width < size:
        raise DataError(
            f"{path} is {width} by {height} pixels; expected {CELEBA_WIDTH} by {CELEBA_HEIGHT}, "
            "as the aligned images of CelebA "
            f"are, or squares of at least {size}: crop it"
        )
    resized = colors.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized).transpose(2, 0, 1)
