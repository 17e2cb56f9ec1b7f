"""Programs: each shows its violation where flowref cannot be imported, on a page, and is silent once
the flow is mended.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.model import Status, Verdict
from flowref.reporting.text import plain
from flowref.scripting import LONGEST, script
from flowref.scripting.torch import TEMPLATES
from flowref.scripting.trying import Outcome, alone, shows
from rows import one_of_each
from scripting.alone import Alone

QUICK = checking.Settings("quick")
ACCUSED = (Status.VIOLATED, Status.ADVICE, Status.ERROR)
SPECIMENS = Path(str(importlib.util.find_spec("flowref_zoo.specimens").submodule_search_locations[0]))  # type: ignore[union-attr, index]  # it is a package  # fmt: skip
SLIPS = Path(__file__).with_name("slips.py")
COUPLING = "zoo_coupling.py:affine_coupling?defect="
MASKED = "zoo_masked_coupling.py:masked_coupling?defect="
RUNNING = "zoo_batch_norm.py:running_normalization?defect="
ACTNORM = "zoo_batch_norm.py:actnorm?defect="
PLANE = "zoo_density.py:plane_flow?defect="
SCALING = "slips.py:scaling?defect="
DENSITY = "slips.py:density?defect="
NORM = "slips.py:batch_norm?defect="

# A flow with a defect, and the law that its program is about.
PAIRS = (
    (f"{COUPLING}log-det-sign", "bijection/log-det"),
    (f"{COUPLING}log-det-over-batch", "bijection/log-det"),
    (f"{ACTNORM}pixels-missing", "bijection/log-det"),
    ("zoo_linear.py:channel_mixing?defect=height-squared", "bijection/log-det"),
    (f"{COUPLING}inverse-log-det-sign", "bijection/inverse-log-det"),
    (f"{COUPLING}inverse-log-det-sign", "bijection/log-det-antisymmetry"),
    (f"{COUPLING}inverse-order", "bijection/inverse-roundtrip"),
    ("zoo_linear.py:lu_linear?defect=bias-added-back", "bijection/forward-roundtrip"),
    (f"{COUPLING}inverse-detached", "bijection/jacobian-inverse-product"),
    (f"{COUPLING}log-det-column", "bijection/log-det-shape"),
    (f"{COUPLING}log-det-detached", "bijection/log-det-parameter-gradient"),
    (f"{COUPLING}input-mutated", "conduct/input-not-mutated"),
    (f"{COUPLING}float32-inside", "conduct/dtype-follow"),
    (f"{COUPLING}hidden-noise", "conduct/deterministic"),
    (f"{SCALING}viewed", "conduct/strides-accepted"),
    (f"{SCALING}squeezed", "conduct/batch-one"),
    (f"{SCALING}averaged-nan", "conduct/nan-containment"),
    (f"{SCALING}constant-value", "conduct/value-gradient"),
    (f"{SCALING}cached", "conduct/cache-coherent"),
    (f"{SCALING}left-behind", "conduct/device-follow"),
    (f"{SCALING}one-feature", "conduct/wrong-shape-refused"),
    (f"{SCALING}idle", "conduct/no-dead-parameters"),
    (f"{SCALING}logarithm", "conduct/extremes"),
    (f"{SCALING}talkative", "conduct/no-printing"),
    (f"{SCALING}random", "conduct/no-random-numbers"),
    (f"{DENSITY}score-detached", "conduct/score"),
    (f"{COUPLING}batch-statistics-in-conditioner", "mode/rows-independent"),
    (f"{RUNNING}updated-in-eval", "mode/eval-is-pure"),
    (f"{SCALING}first-call", "mode/first-call-in-eval"),
    (f"{SCALING}grad-mode", "mode/grad-modes-agree"),
    (f"{SCALING}trained-log-det", "mode/train-log-det"),
    (f"{SCALING}trained-inverse", "mode/train-inverse"),
    (f"{RUNNING}statistics-not-saved", "state/reload-equals"),
    (f"{ACTNORM}flag-not-saved", "state/resume-equals-continue"),
    (f"{RUNNING}graph-in-buffers", "state/no-graph-in-buffers"),
    (f"{SCALING}shared", "state/copies-independent"),
    (f"{PLANE}two-pi-missing", "density/integrates-to-one"),
    (f"{PLANE}temperature-in-samples", "density/samples-consistent"),
    (f"{DENSITY}other-constant", "density/change-of-variables"),
    (f"{SCALING}numpy", "bijection/log-det-by-differences"),
    (f"{SCALING}hole", "bijection/finite"),
    ("slips.py:promising?defect=volume", "bijection/volume-preserving"),
    ("slips.py:promising?defect=constant", "bijection/constant-jacobian"),
    ("slips.py:promising?defect=order", "bijection/monotone"),
    (f"{DENSITY}trained-constant", "mode/train-density"),
    (f"{DENSITY}mirrored", "sampling/rows-independent"),
    (f"{DENSITY}clamped", "sampling/no-piling-up"),
    (f"{DENSITY}repeated", "sampling/rows-differ"),
    (f"{DENSITY}seeded", "conduct/samples-differ"),
    (f"{DENSITY}squeezed", "sampling/sample-shape"),
    (f"{DENSITY}not-summed", "density/log-prob-shape"),
    ("slips.py:likelihood?defect=one-constant", "density/mass-at-most-one"),
    ("slips.py:likelihood?defect=one-constant", "density/normal-constant"),
    ("slips.py:from_base?defect=colder", "sampling/sample-then-inverse"),
    ("slips.py:beside?defect=left-out", "density/beside-samples"),
    ("zoo_surjective.py:absolute?defect=one-entry", "contribution/integral"),
    ("zoo_surjective.py:drop?defect=scale-missing", "contribution/integral"),
    ("zoo_surjective.py:variational_layer?defect=posterior-added", "contribution/integral"),
    ("slips.py:estimated?defect=sign", "bijection/log-det-estimate"),
    ("slips.py:estimated?defect=inverse-sign", "bijection/inverse-log-det-estimate"),
    ("zoo_conduct.py:well_behaved?defect=scale-detached", "conduct/parameter-gradient"),
    ("zoo_conduct.py:well_behaved?defect=log-prob-without-graph", "conduct/parameter-gradient"),
    (f"{MASKED}log-det-mean", "coupling/log-det-sum"),
    (f"{MASKED}kept-part-through-log", "coupling/identity-part"),
    (f"{MASKED}conditioner-sees-all", "coupling/conditioner-blind"),
    (f"{MASKED}square-added", "coupling/closed-form"),
    ("zoo_lived.py:standardize?defect=spread-of-zero", "state/degenerate-batch"),
    ("zoo_conduct.py:well_behaved?defect=layers-in-a-list", "state/registered"),
    ("zoo_conduct.py:well_behaved?defect=answers-the-last-tensor", "conduct/same-tensor"),
    ("zoo_conduct.py:well_behaved?defect=sampling-ends-training", "mode/kept"),
    ("zoo_conduct.py:well_behaved?defect=samples-sometimes-infinite", "sampling/finite"),
    ("zoo_conduct.py:well_behaved?defect=sampler-seeds", "conduct/no-global-settings"),
    ("zoo_pointwise.py:cubic?defect=turns-far-out", "bijection/orientation"),
    ("zoo_pointwise.py:bent?defect=clamped-for-safety", "bijection/honest-zero"),
    ("zoo_pointwise.py:bent?defect=clamped-for-safety", "bijection/injective"),
    (f"{NORM}eps-outside", "batch-norm/matches-reference"),
    (f"{NORM}slow-variance", "batch-norm/running-update"),
    (f"{NORM}keeps", "batch-norm/momentum-convention"),
    (f"{NORM}unbiased", "batch-norm/variance-convention"),
    (f"{NORM}starts-at-zero", "batch-norm/initial-values"),
    (f"{NORM}single", "batch-norm/single-value-refused"),
    (f"{NORM}any-channels", "batch-norm/channel-count"),
    (f"{NORM}detached", "batch-norm/backward-closed-form"),
    (f"{NORM}counts-twice", "batch-norm/batch-counter"),
)
LIBRARIES = (
    ("nflows:GatedLinearUnit[ctx]", "bijection/log-det"),
    ("nflows:LULinear[cache]", "conduct/dtype-follow"),
    ("FrEIA:AllInOneBlock{'permute_soft': True}", "bijection/forward-roundtrip"),
    ("normflows:transforms.Shift", "conduct/input-not-mutated"),
    ("pyro:BatchNorm", "bijection/log-det-shape"),
    ("pyro:MatrixExponential", "bijection/log-det-narrow"),
    ("torchflows:Flow[RealNVP]", "density/beside-samples"),
    ("normflows:GaussianPCA", "density/normal-constant"),
    ("torch:AffineTransform[0-d tensor,event_dim=1]", "bijection/log-det"),
)


@dataclass(frozen=True)
class Shown:
    """A verdict, the program written for it, and how that ended."""

    verdict: Verdict
    text: str
    outcome: Outcome


def flow_and_family(pair: tuple[str, str]) -> tuple[str, str]:
    """The flow without its slip, and the family of the law, whose templates are in one file."""
    target, law = pair
    return target.partition("?")[0], law.partition("/")[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: the specimens of the zoo, which import nothing of flowref here, and others."""
    home = tmp_path_factory.mktemp("user")
    shutil.copy(SLIPS, home / "slips.py")
    for path in SPECIMENS.glob("*.py"):
        name = path.name if path.name == "specimen.py" else f"zoo_{path.name}"
        text = path.read_text().replace("from flowref_zoo.specimens.specimen", "from specimen")
        (home / name).write_text(text)
    return home


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Alone]:
    """A process that runs programs in the user's folder."""
    process = Alone(folder, "numpy", "torch", "torch.distributions")
    yield process
    process.close()


def shown(target: str, law: str, run: Alone, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """The program for a pair, written in the user's folder."""
    monkeypatch.chdir(run.folder)
    verdict = checking.check(target, law, QUICK)
    if verdict.status not in ACCUSED:  # it shows in other states
        verdict = checking.check(target, law)
    assert verdict.status in ACCUSED, verdict
    text = script(verdict, run)
    return Shown(verdict, text, run(text))


def on_a_page(found: Shown) -> None:
    """What every program is: short, free of flowref, named after its law, and wrong by what was
    seen.
    """
    modules = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(found.text))
        for name in [getattr(node, "module", None), *(a.name for a in getattr(node, "names", ()))]
        if isinstance(node, ast.Import | ast.ImportFrom) and name
    }
    law, lines = found.verdict.law, found.text.splitlines()
    assert 15 <= len(lines) <= LONGEST, found.text
    assert max(map(len, lines)) <= 100, found.text
    assert "flowref" not in modules
    assert found.outcome.code == 1, found.outcome
    assert found.outcome.out.splitlines()[-1] == f"VIOLATED {law}"
    statement = plain(registry.find_law(law).statement)
    assert statement[:30] in " ".join(found.text.split())
    within = max(template.within for template in TEMPLATES[law])
    assert shows(found.outcome, found.verdict, 100 * within)


@pytest.mark.parametrize(("target", "law"), one_of_each(PAIRS, flow_and_family))
def test_a_program_shows_a_slip_until_it_is_mended(
    target: str, law: str, run: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exits with 1 for the flow with a defect, and with 0 for the healthy twin."""
    found = shown(target, law, run, monkeypatch)
    on_a_page(found)
    mended = re.sub(r'defect="[^"]+"', 'defect=""', found.text)
    assert mended != found.text
    healthy = run(mended)
    assert healthy.code == 0, healthy
    assert healthy.out.splitlines()[-1] == "holds"


@pytest.mark.parametrize(("target", "law"), LIBRARIES)
def test_a_program_needs_the_library_alone(
    target: str, law: str, run: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A construction of a library is written as a user of that library writes it."""
    pytest.importorskip(target.partition(":")[0])
    on_a_page(shown(target, law, run, monkeypatch))


def test_a_program_of_an_error_ends_with_it(run: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that could not be measured, because the flow raised, is a program that raises the same;
    it exits with 0 where the flow does not.
    """
    target = "slips.py:picky?defect=refused&domain=real"
    found = shown(target, "bijection/inverse-roundtrip", run, monkeypatch)
    assert found.verdict.status is Status.ERROR
    assert found.outcome.code == 1
    assert found.outcome.err.splitlines()[-1] == "ValueError: no inverse for you"
    assert run(found.text.replace('defect="refused"', 'defect=""')).code == 0


def test_a_users_options_are_keywords(run: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options after the question mark reach the factory; those that speak to flowref do not."""
    target = "slips.py:scaling?factor=0.5&event=3&defect=viewed"
    found = shown(target, "conduct/strides-accepted", run, monkeypatch)
    assert 'scaling(defect="viewed", factor=0.5)' in found.text
    assert found.outcome.code == 1


def test_by_default_a_program_is_tried_where_flowref_cannot_be_imported() -> None:
    """The trial is a process of its own: what imports flowref fails there, whatever else runs."""
    assert alone("import flowref").code == 1
    assert alone("import sys; print('off by 3'); sys.exit(1)").off == 3.0
    assert alone("import sys; sys.exit(0)").code == 0
