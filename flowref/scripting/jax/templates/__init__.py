"""Law -> the templates of its programs, in the order of trial."""

from __future__ import annotations

from collections.abc import Mapping

from flowref.scripting.jax.templates import bijection, density
from flowref.scripting.template import Template

TEMPLATES: Mapping[str, tuple[Template, ...]] = {**bijection.TEMPLATES, **density.TEMPLATES}
