"""Programs: each shows its violation where flowref cannot be imported, on a page, and is silent once
the flow is repaired.
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
from flowref.reporting.text import plain_statement
from flowref.scripting import LONGEST, script
from flowref.scripting.torch import TEMPLATES
from flowref.scripting.trial_run import ProgramOutcome, run_standalone, shows
from rows import one_of_each
from scripting.alone import Alone

QUICK = checking.Settings("quick")
ACCUSED = (Status.VIOLATED, Status.ADVICE, Status.ERROR)
SPECIMENS = Path(str(importlib.util.find_spec("flowref_zoo.specimens").submodule_search_locations[0]))  # type: ignore[union-attr, index]  # it is a package  # fmt: skip
BUGS = Path(__file__).with_name("buggy_flows.py")
COUPLING = "zoo_coupling.py:affine_coupling?defect="
MASKED = "zoo_masked_coupling.py:masked_coupling?defect="
RUNNING = "zoo_batch_norm.py:running_normalization?defect="
ACTNORM = "zoo_batch_norm.py:actnorm?defect="
PLANE = "zoo_density.py:plane_flow?defect="
SCALING = "buggy_flows.py:scaling?defect="
DENSITY = "buggy_flows.py:density?defect="
NORM = "buggy_flows.py:batch_norm?defect="

# A flow with a defect, and the law that its program is about.
PAIRS = (
    (f"{COUPLING}log-det-sign", "map/log-det"),
    (f"{COUPLING}log-det-over-batch", "map/log-det"),
    (f"{ACTNORM}pixels-missing", "map/log-det"),
    ("zoo_linear.py:channel_mixing?defect=height-squared", "map/log-det"),
    (f"{COUPLING}inverse-log-det-sign", "map/log-det[inverse]"),
    (f"{COUPLING}inverse-log-det-sign", "map/log-det[antisymmetry]"),
    (f"{COUPLING}inverse-order", "map/inverse"),
    ("zoo_linear.py:lu_linear?defect=bias-added-back", "map/inverse[latents]"),
    (f"{COUPLING}inverse-detached", "map/inverse-jacobian"),
    (f"{COUPLING}log-det-column", "shape/one-number-per-point[log-det]"),
    (f"{COUPLING}log-det-detached", "gradient/parameters[log-det]"),
    (f"{COUPLING}input-mutated", "effects/process[input]"),
    (f"{COUPLING}float32-inside", "dtype/follows"),
    (f"{COUPLING}hidden-noise", "same/history[repeat]"),
    (f"{SCALING}viewed", "same/manner-accepted"),
    (f"{SCALING}squeezed", "shape/any-batch[one-row]"),
    (f"{SCALING}averaged-nan", "map/finite[nan-row]"),
    (f"{SCALING}constant-value", "gradient/input[value]"),
    (f"{SCALING}cached", "same/history[optimizer-step]"),
    (f"{SCALING}left-behind", "dtype/follows[device]"),
    (f"{SCALING}left-by-a-call", "dtype/follows[device-after-use]"),
    (f"{SCALING}one-feature", "shape/wrong-refused[features]"),
    (f"{SCALING}idle", "gradient/reaches-parameters"),
    (f"{SCALING}logarithm", "map/finite-far-out[extremes]"),
    (f"{SCALING}talkative", "effects/process[output]"),
    (f"{SCALING}random", "random/seeded[global-streams]"),
    (f"{DENSITY}score-detached", "gradient/input[log-prob]"),
    ("zoo_scores.py:mixture?defect=half", "density/score"),
    *(
        (f"zoo_processes.py:{defect.replace(' ', '?defect=')}", f"process/{law}")
        for defect, law in (
            ("tokens sign", "rates"),
            ("tokens mask-leaves", "rates"),
            ("tokens lost", "transitions"),
            ("preserving no-root", "moments"),
            ("preserving variance", "moments"),
            ("steps one-step-late", "schedule"),
            ("steps no-root", "schedule"),
            ("steps undivided", "conversions"),
            ("steps sign-of-v", "conversions"),
            ("path not-divided", "conversions"),
            ("tokens whole-square", "kolmogorov"),
            ("path chain-rule", "schedule[functions]"),
            ("path inverted", "schedule[functions]"),
            ("path away", "schedule[functions]"),
            ("denoiser no-root", "preconditioning"),
            ("denoiser sum-in-weight", "preconditioning[weight]"),
            ("preserving one-constant", "prior"),
        )
    ),
    ("zoo_evidence.py:explained?defect=constant-missing", "density/evidence-bound"),
    (f"{COUPLING}batch-statistics-in-conditioner", "same/rows"),
    (f"{RUNNING}updated-in-eval", "effects/state[eval]"),
    (f"{SCALING}first-call", "effects/state[first-call]"),
    (f"{SCALING}grad-mode", "same/manner[grad-modes]"),
    (f"{SCALING}trained-log-det", "same/train-mode[log-det]"),
    (f"{SCALING}trained-inverse", "same/train-mode[inverse]"),
    (f"{RUNNING}statistics-not-saved", "same/saved[reload]"),
    (f"{ACTNORM}flag-not-saved", "same/saved[resume]"),
    (f"{RUNNING}graph-in-buffers", "effects/graphs"),
    (f"{SCALING}shared", "same/copied[independence]"),
    (f"{PLANE}two-pi-missing", "density/mass"),
    (f"{PLANE}temperature-in-samples", "sampling/follows-density[ratios]"),
    (f"{DENSITY}other-constant", "density/change-of-variables"),
    (f"{SCALING}numpy", "map/log-det[differences]"),
    (f"{SCALING}hole", "map/finite"),
    ("buggy_flows.py:promising?defect=volume", "map/promised-jacobian[volume]"),
    ("buggy_flows.py:promising?defect=constant", "map/promised-jacobian[constant]"),
    ("buggy_flows.py:promising?defect=order", "map/promised-jacobian[monotone]"),
    (f"{DENSITY}trained-constant", "same/train-mode[density]"),
    (f"{DENSITY}mirrored", "random/rows-independent"),
    (f"{DENSITY}clamped", "sampling/follows-density[clamping]"),
    (f"{DENSITY}repeated", "random/rows-independent[duplicates]"),
    (f"{DENSITY}seeded", "random/seeded[two-calls]"),
    (f"{DENSITY}squeezed", "shape/one-number-per-point[samples]"),
    (f"{DENSITY}not-summed", "shape/one-number-per-point[log-prob]"),
    ("buggy_flows.py:likelihood?defect=one-constant", "density/mass[importance]"),
    ("buggy_flows.py:likelihood?defect=one-constant", "density/base-constant[quadratic-form]"),
    ("buggy_flows.py:from_base?defect=colder", "sampling/base-through-inverse"),
    ("buggy_flows.py:beside?defect=left-out", "density/change-of-variables[samples]"),
    ("zoo_surjective.py:absolute?defect=one-entry", "density/mass[contribution]"),
    ("zoo_surjective.py:drop?defect=scale-missing", "density/mass[contribution]"),
    ("zoo_surjective.py:variational_layer?defect=posterior-added", "density/mass[contribution]"),
    ("buggy_flows.py:estimated?defect=sign", "map/log-det[estimate]"),
    ("buggy_flows.py:estimated?defect=inverse-sign", "map/log-det[inverse, estimate]"),
    ("zoo_conduct.py:well_behaved?defect=scale-detached", "gradient/parameters[value]"),
    ("zoo_conduct.py:well_behaved?defect=log-prob-without-graph", "gradient/parameters[value]"),
    (f"{MASKED}log-det-mean", "coupling/closed-form"),
    (f"{MASKED}kept-part-through-log", "coupling/pattern[kept-part]"),
    (f"{MASKED}conditioner-sees-all", "coupling/pattern[conditioner]"),
    (f"{MASKED}square-added", "coupling/closed-form"),
    ("zoo_lived.py:standardize?defect=spread-of-zero", "state/degenerate-batch"),
    ("zoo_conduct.py:well_behaved?defect=layers-in-a-list", "state/registered"),
    ("zoo_conduct.py:well_behaved?defect=answers-the-last-tensor", "same/history[same-tensor]"),
    ("zoo_conduct.py:well_behaved?defect=sampling-ends-training", "effects/state[mode]"),
    ("zoo_conduct.py:well_behaved?defect=samples-sometimes-infinite", "map/finite[samples]"),
    ("zoo_conduct.py:well_behaved?defect=sampler-seeds", "effects/process[settings]"),
    ("zoo_pointwise.py:cubic?defect=turns-far-out", "map/one-to-one[orientation]"),
    ("zoo_pointwise.py:bent?defect=clamped-for-safety", "map/singular-jacobian"),
    ("zoo_pointwise.py:bent?defect=clamped-for-safety", "map/one-to-one"),
    (f"{NORM}eps-outside", "batch-norm/train-map[reference]"),
    (f"{NORM}slow-variance", "batch-norm/statistics[buffers]"),
    (f"{NORM}keeps", "batch-norm/conventions[momentum]"),
    (f"{NORM}unbiased", "batch-norm/conventions[variance]"),
    (f"{NORM}starts-at-zero", "batch-norm/as-built[values]"),
    (f"{NORM}single", "state/degenerate-batch[single-value]"),
    (f"{NORM}any-channels", "shape/wrong-refused[channels]"),
    (f"{NORM}detached", "batch-norm/gradient[closed-form]"),
    (f"{NORM}counts-twice", "batch-norm/statistics[counter]"),
)
LIBRARIES = (
    ("nflows:GatedLinearUnit[ctx]", "map/log-det"),
    ("nflows:LULinear[cache]", "dtype/follows"),
    ("FrEIA:AllInOneBlock{'permute_soft': True}", "map/inverse[latents]"),
    ("normflows:transforms.Shift", "effects/process[input]"),
    ("pyro:BatchNorm", "shape/one-number-per-point[log-det]"),
    ("pyro:MatrixExponential", "shape/one-number-per-point[one-feature]"),
    ("torchflows:Flow[RealNVP]", "density/change-of-variables[samples]"),
    ("normflows:GaussianPCA", "density/base-constant[quadratic-form]"),
    ("torch:AffineTransform[0-d tensor,event_dim=1]", "map/log-det"),
)


@dataclass(frozen=True)
class Shown:
    """A verdict, the program written for it, and how that ended."""

    verdict: Verdict
    text: str
    outcome: ProgramOutcome


def flow_and_family(pair: tuple[str, str]) -> tuple[str, str]:
    """The flow without its bug, and the family of the law, whose templates are in one file."""
    target, law = pair
    return target.partition("?")[0], law.partition("/")[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: the specimens of the zoo, which import nothing of flowref here, and others."""
    home = tmp_path_factory.mktemp("user")
    shutil.copy(BUGS, home / "buggy_flows.py")
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
    verdict = checking.pair_verdict(target, law, QUICK)
    if verdict.status not in ACCUSED:  # it shows in other states
        verdict = checking.pair_verdict(target, law)
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
    statement = plain_statement(registry.find_law(law).statement)
    assert statement[:30] in " ".join(found.text.split())
    within = max(template.within for template in TEMPLATES[law])
    assert shows(found.outcome, found.verdict, 100 * within)


@pytest.mark.parametrize(("target", "law"), one_of_each(PAIRS, flow_and_family))
def test_a_program_shows_a_bug_until_it_is_mended(
    target: str, law: str, run: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exits with 1 for the flow with a defect, and with 0 for the healthy twin."""
    found = shown(target, law, run, monkeypatch)
    on_a_page(found)
    repaired = re.sub(r'defect="[^"]+"', 'defect=""', found.text)
    assert repaired != found.text
    healthy = run(repaired)
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
    target = "buggy_flows.py:picky?defect=refused&domain=real"
    found = shown(target, "map/inverse", run, monkeypatch)
    assert found.verdict.status is Status.ERROR
    assert found.outcome.code == 1
    assert found.outcome.err.splitlines()[-1] == "ValueError: no inverse for you"
    assert run(found.text.replace('defect="refused"', 'defect=""')).code == 0


def test_a_users_options_are_keywords(run: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options after the question mark reach the factory; those that speak to flowref do not."""
    target = "buggy_flows.py:scaling?factor=0.5&event=3&defect=viewed"
    found = shown(target, "same/manner-accepted", run, monkeypatch)
    assert 'scaling(defect="viewed", factor=0.5)' in found.text
    assert found.outcome.code == 1


def test_by_default_a_program_is_tried_where_flowref_cannot_be_imported() -> None:
    """The trial is a process of its own: what imports flowref fails there, whatever else runs."""
    assert run_standalone("import flowref").code == 1
    assert run_standalone("import sys; print('off by 3'); sys.exit(1)").off == 3.0
    assert run_standalone("import sys; sys.exit(0)").code == 0
