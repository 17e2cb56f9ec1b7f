"""Law -> the templates of its programs, in the order of trial."""

from __future__ import annotations

from collections.abc import Mapping

from flowref.scripting.template import Template
from flowref.scripting.torch.templates import (
    batch_norm,
    bijection,
    conduct,
    contribution,
    coupling,
    density,
    lives,
    mode,
    processes,
    sampling,
)

TEMPLATES: Mapping[str, tuple[Template, ...]] = {
    **bijection.TEMPLATES,
    **conduct.TEMPLATES,
    **mode.TEMPLATES,
    **lives.TEMPLATES,
    **density.TEMPLATES,
    **coupling.TEMPLATES,
    **batch_norm.TEMPLATES,
    **sampling.TEMPLATES,
    **contribution.TEMPLATES,
    **processes.TEMPLATES,
}
