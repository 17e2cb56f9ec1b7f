"""Versions of a library that its adapter does not know."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from torch import nn

from flowref import registry
from flowref.loading import recognition
from flowref.model import USER


class Shift(nn.Module):
    """x -> x + 1, as a library's layer of another version."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x + 1, x.new_zeros(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z - 1, z.new_zeros(len(z))


def another_version(obj: Any) -> Any:
    """An adapter that looks for what this version does not have."""
    raise ImportError("cannot import name 'LazyTransform'")


def test_objects_of_an_unknown_version_are_heard_like_code_of_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An adapter that cannot import what it looks for leaves the object to the protocol of user code."""
    adapter = dataclasses.replace(registry.adapters()["nflows"], recognizes=another_version)
    monkeypatch.setattr(recognition, "libraries", lambda obj: [adapter])
    found, dialect = recognition.adapter_of(Shift(), "a layer", backend="torch")
    assert found.name == USER and dialect.inverse is not None
