"""Train a continuous flow, flow matching and a diffusion beside Real NVP, and write
`reports/likelihoods.md` from what their likelihoods are.

Usage: `python reports/tools/likelihoods.py moons | all | page`; half an hour on one core. As
`real_nvp.py`, it goes on where it was killed.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums depend on it; before torch is imported

from experiments.command import Page, main
from likelihoods_page import EXPERIMENTS

HEAD = """# Likelihoods of flow matching and diffusion

A model that is trained by matching has a likelihood by its ODE (Song et al., arXiv:2011.13456; Lipman et
al., arXiv:2210.02747): the log-density of the noise at the end plus the integral of the divergence. It is
what papers publish, and few check it. Here it stands beside that of flows that are trained by
likelihood, with its integral, its truncation, and what the usual mistakes do to it.

Numbers, settings and seeds are in [likelihoods/](likelihoods), one JSON file per experiment, and this page is
written from these files alone, by `python reports/tools/likelihoods.py page`; `all` measures them again. The
models are those of `flowref.reference`, trained by `flowref.training` as `flowref fit moons --flow
matching` does. The usual mistakes of other flows are in
[a guide](../docs/guides/log-det-bugs.md)."""
PAGE = Page("likelihoods", "likelihoods.py", HEAD, EXPERIMENTS)

if __name__ == "__main__":
    sys.exit(main(PAGE))
