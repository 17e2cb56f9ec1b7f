"""Every link of a built site followed, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}
# The folder of asv's pages, whose links are built by scripts.
FOREIGN = ("dashboard",)


class _Page(HTMLParser):
    """The anchors and the addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag names or leads to."""
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(str(values[name]))
        address = values.get(ADDRESSES.get(tag, ""))
        if address:
            self.addresses.append(address)


def broken(site: Path, absent: Sequence[str] = ()) -> list[str]:
    """Links that lead nowhere, as "page -> address"; ``absent``: files that are not built on
    purpose. Addresses of other sites are not followed, and neither page nor script may be loaded
    from one.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)} -> {address}"
        for path, page in pages.items()
        if path.relative_to(site).parts[0] not in FOREIGN
        for address in page.addresses
        if not _leads(site, path, address, pages, absent)
    ]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _leads(
    site: Path, path: Path, address: str, pages: dict[Path, _Page], absent: Sequence[str]
) -> bool:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return parts.scheme in ("https", "http", "mailto", "data")
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target = target / "index.html"
    if any(target == (site / one).resolve() for one in absent):
        return True
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


def foreign(site: Path) -> Iterator[str]:
    """Scripts, styles and pictures that would be loaded from elsewhere."""
    for path in sorted(site.rglob("*.html")):
        parser = _Loaded()
        parser.feed(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(site)} loads {one}" for one in parser.loaded)


class _Loaded(HTMLParser):
    """What a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what is loaded without a click."""
        if tag not in ("link", "img", "script", "source", "iframe"):
            return
        address = dict(attrs).get(ADDRESSES.get(tag, "src")) or ""
        if urlsplit(address).netloc and dict(attrs).get("rel") not in ("canonical",):
            self.loaded.append(address)
