"""Run the experiments of Real NVP, and write `reports/real-nvp.md` from what they measured.

Usage: `python reports/tools/real_nvp.py E4 | E5 | E7 | E8 | E9 | E10 | E11 | all | page`. An experiment writes
its numbers as JSON and its pictures into `reports/real-nvp/`, then the page; `page` writes the page
alone. All take about a quarter of an hour on one core. A run that was killed goes on where it was,
and finished seeds are not trained again. Exit codes: 0, 1 if a hard check is not met, 130 if
interrupted.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums depend on it; before torch is imported

from experiments.command import Page, main
from real_nvp_page import EXPERIMENTS

HEAD = """# Training Real NVP: what notes claim, measured

Two sets of teaching notes describe experiments with Real NVP (Dinh et al., arXiv:1605.08803). The
first build flows from couplings, batch normalization and 1x1 convolutions; the second implement the
paper and say what was needed to train it. Their claims are paraphrased and measured again, as far as
a single core can, with several seeds. Where a claim is not seen, the page says so: that is no
refutation, since models and trainings here are smaller.

Each experiment is one command, such as `python reports/tools/real_nvp.py E5`; `all` runs the seven.
Numbers, settings and seeds are in [real-nvp/](real-nvp), one JSON file per experiment, and this
page is written from these files alone. The models are those of `flowref.reference`, trained by
`flowref.training` with Adam along half a cosine; what is measured are the weights with the best
validation value, on points or images that training has not seen. NLL is the mean negative
log-density, in nats; lower is better."""
PAGE = Page("real-nvp", "real_nvp.py", HEAD, EXPERIMENTS)

if __name__ == "__main__":
    sys.exit(main(PAGE))
