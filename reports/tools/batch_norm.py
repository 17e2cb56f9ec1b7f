"""Write `reports/batch-norm.md` and its pictures: every claim of two sets of notes on batch
normalization, measured.

Usage: `python reports/tools/batch_norm.py`. Every number on the page is computed by this run; it
takes less than a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from batch_norm_page import ideas, numerics, pictures, running, shapes
from batch_norm_page.claim import CONVENTION, MISSING, UNSOUND, Claim
from flowref import registry
from flowref.model import ADVICE, CONTRACT
from flowref_zoo.seeds.batch_norm_rows import ROWS

REPORTS = Path(__file__).parents[1]
FOLDER = "batch-norm"
# What follows the number of the claims that have a verdict, where it is not "are" and the verdict.
PLURAL = {CONVENTION: "are conventions", MISSING: "are gaps", UNSOUND: "are unsound as code"}

HEAD = """# Batch normalization, claim by claim

Two sets of common teaching notes on Ioffe and Szegedy's paper (arXiv:1502.03167), claim by claim.
The first (claims 000-1 to 000-21) derives the idea and two layers for images; the second (002-1 to
002-16) gives the backward pass and a layer for vectors and images. Each claim is paraphrased, with
whether it is true, why, a measured number, and the law that checks it. Of {total}
claims {counts}.

`flowref explain batch-norm/train-map` explains a law. The code of the notes can be audited with one
bug at a time, under the number of its claim:

    flowref audit 'flowref_zoo.seeds.batch_norm:AveragingBatchNorm?rows={example}'

The correct layers are in `flowref.reference`: `BatchNorm`, `batch_norm_backward` and
`InvertibleBatchNorm`. The page and its pictures are written by `python
reports/tools/batch_norm.py`. Where no law is named, the claim is not about what a layer computes.

Throughout, $n$ (or $m$, as in the paper) values per channel have mean $\\mu$, biased variance $v =
\\sigma^2$ and $\\hat x = (x - \\mu) / \\sqrt{{v + \\epsilon}}$; $dx$ is short for $\\partial L /
\\partial x$; $u = 2^{{-24}}$ is the unit of roundoff of float32; "the reference" is
`flowref.reference.BatchNorm`, and "torch" is `nn.BatchNorm1d` and its like in torch {torch}.
"""


class Picture(NamedTuple):
    """A picture, with the text for those who do not see it and what stands below."""

    name: str
    shows: str
    caption: str


class Section(NamedTuple):
    """Claims of one theme, in the order in which they are read."""

    title: str
    claims: tuple[Claim, ...]
    picture: Picture | None = None


SECTIONS = (
    Section("Why normalize", (ideas.sigmoid_saturates, ideas.flat_parts)),
    Section(
        "Centering, and the bias before it",
        (ideas.stop_gradient, ideas.sign_of_the_update, ideas.derivative_of_centering),
        Picture(
            "bias",
            "Two panels: the bias grows on a straight line where the gradient stops at the mean, "
            "and stays at 0 where it passes; "
            "the loss is constant and the same in both.",
            "A bias before centering, under gradient descent. Left, the bias: it runs away where "
            "the mean is taken for a constant. "
            "Right, the loss: the same in both cases, since the output does not depend on the "
            "bias.",
        ),
    ),
    Section(
        "What the layer computes",
        (
            ideas.the_transform,
            ideas.which_mean,
            ideas.the_example,
            ideas.eps_inside,
            ideas.identity_recovery,
            ideas.not_gaussian,
            ideas.not_standard_normal,
            ideas.scale_invariance,
        ),
        Picture(
            "scale",
            "Against the scale of the input on logarithmic axes, the change of the output grows "
            "to 3 below the square root of "
            "epsilon, while the exact law holds to rounding everywhere.",
            "Scale invariance and its exact form, in float64. The paper's $BN(ax) = BN(x)$ is "
            "good only while $a\\sigma$ is far "
            "above $\\sqrt\\epsilon$; with $\\epsilon / a^2$ on the other side it holds to "
            "rounding at every scale.",
        ),
    ),
    Section(
        "The variance in floating point",
        (numerics.one_pass_variance, numerics.two_pass_variance),
        Picture(
            "variance",
            "Relative error of a float32 variance against the ratio of mean and standard "
            "deviation: one pass follows its "
            "square and reaches 1 near 2000, two passes stay near roundoff up to some thousand.",
            "Variance of 1024 float32 values, the worst of 30 draws; the truth is computed in "
            "extended precision from the same "
            "rounded inputs. The error of one pass grows with the square of $\\mu / \\sigma$. Two "
            "passes lose digits only where "
            "the rounding of the mean is seen beside $\\sigma$, and the reference puts that right "
            "too.",
        ),
    ),
    Section(
        "The backward pass by hand",
        (
            numerics.gradients_of_the_affine_part,
            numerics.exponent,
            numerics.missing_eps,
            numerics.vanishing_term,
            numerics.three_terms,
            numerics.closed_form,
        ),
    ),
    Section(
        "Running statistics",
        (
            running.averages_keep_the_graph,
            running.detached_by_data,
            running.biased_in_averages,
            running.momentum_keeps,
            running.plain_attributes,
            running.two_policies,
        ),
        Picture(
            "gap",
            "Difference of train and eval outputs against momentum after 10, 100 and 1000 "
            "batches: large for small momentum until "
            "the averages have arrived, then near the floor, and larger again towards momentum 1.",
            "Train mode against eval mode on a new batch of 32, for data with mean 3 and standard "
            "deviation 2 and averages that "
            "start at 0 and 1. Towards the left the averages have not arrived, towards the right "
            "they are those of a few "
            "batches. What remains at the dotted line is the noise of the batch in train mode, "
            "which no momentum removes.",
        ),
    ),
    Section("Modes", (running.train_is_hidden, running.mode_is_gradients)),
    Section(
        "Shapes, odd batches, and what is missing",
        (
            shapes.shapes_of_images,
            shapes.rank_in_training_only,
            shapes.one_value,
            shapes.one_value_again,
            shapes.prints,
            shapes.buffers,
            shapes.missing_options,
            shapes.fixed_options,
        ),
    ),
)


def named(law_id: str) -> str:
    """A law by its id, with its force where that is not a claim."""
    law = registry.find_law(law_id)
    return f"`{law.id}`" + (f" ({law.force})" if law.force in (ADVICE, CONTRACT) else "")


def paragraphs(claim: Claim) -> Iterator[str]:
    """A claim as the page has it."""
    laws = ", ".join(named(law) for law in dict.fromkeys(claim.laws))
    judged = f"*Law:* {laws}." if claim.laws else "*Law:* none."
    yield claim.heading
    yield f"> {claim.says}"
    yield claim.why
    yield f"*Measured:* {claim.measure()} {judged}"


def page() -> str:
    """The whole page."""
    claims = [claim for section in SECTIONS for claim in section.claims]
    counts = Counter(claim.verdict for claim in claims)
    verdicts = [
        f"{count} {PLURAL.get(verdict, 'are ' + verdict.lower())}"
        for verdict, count in counts.most_common()
    ]
    listed = f"{', '.join(verdicts[:-1])} and {verdicts[-1]}"
    example = "000-16"
    assert example in ROWS
    parts = [
        HEAD.format(
            total=len(claims),
            counts=listed,
            example=example,
            torch=torch.__version__.partition("+")[0],
        )
    ]
    for section in SECTIONS:
        parts.append(f"## {section.title}")
        for claim in section.claims:
            parts += paragraphs(claim)
        if section.picture:
            name, shows, caption = section.picture
            parts += [f"![{shows}]({FOLDER}/{name}.svg)", f"*{caption}*"]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    """Write the page and its pictures."""
    torch.set_num_threads(1)
    (REPORTS / "batch-norm.md").write_text(page(), encoding="utf-8")
    pictures.draw(REPORTS / FOLDER)


if __name__ == "__main__":
    main()
