"""Text files that are written atomically."""

from __future__ import annotations

from pathlib import Path

from flowref.model import ReportError


def replace_file(path: Path, text: str) -> None:
    """Replace a file's text in one step, so that readers never see a partial file. Pipes and
    devices are written to.

    Raises: `ReportError` if that fails.
    """
    part = path.with_name(path.name + ".part")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None


def read_file_text(path: Path) -> str:
    """Return the text of a file.

    Raises: `ReportError` in one sentence.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ReportError(f"{path} cannot be read: {reason}") from None
