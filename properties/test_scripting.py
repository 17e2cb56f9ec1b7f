"""Scripts: a recorded violation is a program that shows it where flowref is not installed."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from flowref import checking, loading, registry
from flowref.checking.examples import Example
from flowref.checking.points import points
from flowref.model import Condition, Counterexample, Evidence, FlowrefError, Status, Verdict
from flowref.reporting.text import plain
from flowref.scripting import script

# Runs files as programs in a process where flowref cannot be imported; tells each one's exit code
# and output.
ALONE = """
import contextlib, io, json, runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "flowref":
            raise ModuleNotFoundError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
ends = {}
for path in sys.argv[1:]:
    said, code = io.StringIO(), None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            code = end.code
        except Exception as error:
            print(f"the program itself raised {error!r}")
    ends[path] = code, said.getvalue()
print(json.dumps(ends))
"""

FLOWS = '''
import math
import torch
from torch import nn


class Scaled(nn.Module):
    """A scaling whose log-det forgets one coordinate."""

    event_shape = (3,)

    def __init__(self, factor=2.0):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((3,), math.log(factor)))

    def forward(self, x):
        return x * self.log_scale.exp(), self.log_scale[:2].sum().expand(len(x))

    def inverse(self, z):
        return z * (-self.log_scale).exp(), -self.log_scale[:2].sum().expand(len(z))


class Sloppy:
    """A normal density with a wrong constant."""

    event_shape = (1,)

    def log_prob(self, x):
        return -0.5 * x.square().sum(-1) - 0.9

    def sample(self, n):
        return torch.randn(n, 1)


class Forgetful(nn.Module):
    """Centers the first batch that it sees, and keeps where in an attribute that no state_dict holds."""

    event_shape = (2,)

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2))
        self.center = None

    def forward(self, x):
        if self.center is None:
            self.center = x.detach().mean(0)
        return x - self.center + self.shift, x.new_zeros(len(x))

    def inverse(self, z):
        return z + self.center - self.shift, z.new_zeros(len(z))


class Picky(Scaled):
    def inverse(self, z):
        raise ValueError("no inverse for you")


class Narrow(Scaled):
    def forward(self, x):
        return (x.float() / 3).to(x.dtype), x.new_full((len(x),), -3 * math.log(3))

    def inverse(self, z):
        return 3 * z, z.new_full((len(z),), 3 * math.log(3))


ready = Scaled(3.0)
'''

VIOLATIONS = (
    ("nflows:PiecewiseLinearCDF", "bijection/inverse-roundtrip"),
    ("nflows:GatedLinearUnit[ctx]", "bijection/log-det"),
    ("normflows:transforms.Shift", "conduct/input-not-mutated"),
    ("FILE:ready", "bijection/log-det"),
    ("FILE:Sloppy", "density/integrates-to-one"),
    ("FILE:Forgetful", "state/reload-equals"),
    ("FILE:Narrow", "conduct/dtype-follow"),
    ("FILE:Scaled?factor=0.5", "bijection/log-det"),
)
ERROR = ("FILE:Picky?domain=real", "bijection/inverse-roundtrip")
MENDED = ("mended", "bijection/log-det")
HALF_MENDED = ("half mended", "bijection/log-det")
# Healthy pairs of a library's target and a law: what a program measures is what flowref measures,
# to the last bit.
MEASURED = (
    ("nflows:CompositeTransform", "composition/associative", 0.3),
    ("zuko:NSF[context=2]", "density/change-of-variables", 0.3),
    ("torch:ComposeTransform", "bijection/jacobian-inverse-product", 0.0),
    ("FrEIA:GraphINN", "conduct/cache-coherent", 0.3),
    ("normflows:Residual[brute_force]", "bijection/log-det", 0.3),
    ("nflows:ActNorm", "conduct/dtype-follow", 0.1),
    ("pyro:AffineAutoregressive", "conduct/value-gradient", 0.3),
)


@dataclass(frozen=True)
class Shown:
    """A verdict, the program written for it, and how that ended."""

    verdict: Verdict
    text: str
    code: int | None
    said: str

    @property
    def last(self) -> str:
        """The last line printed."""
        return self.said.splitlines()[-1]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Shown]:
    """Every program that these tests write, run in one process without flowref."""
    folder = tmp_path_factory.mktemp("scripts")
    flows, mended, half = folder / "flows.py", folder / "mended.py", folder / "half_mended.py"
    flows.write_text(FLOWS)
    mended.write_text(FLOWS.replace("log_scale[:2]", "log_scale"))
    half.write_text(FLOWS.replace("log_scale[:2].sum()", "log_scale.sum().mul(0.995)"))
    pairs = [
        pair for pair in (*VIOLATIONS, ERROR) if pair[0].startswith("FILE") or installed(pair[0])
    ]
    verdicts = {
        pair: checking.check(pair[0].replace("FILE", str(flows)), pair[1]) for pair in pairs
    }
    texts = {pair: script(verdict) for pair, verdict in verdicts.items()}
    texts[MENDED] = texts[VIOLATIONS[-1]].replace(str(flows), str(mended))
    texts[HALF_MENDED] = texts[VIOLATIONS[-1]].replace(str(flows), str(half))
    verdicts[MENDED] = verdicts[HALF_MENDED] = verdicts[VIOLATIONS[-1]]
    paths = {pair: folder / f"repro_{place}.py" for place, pair in enumerate(texts)}
    for pair, path in paths.items():
        path.write_text(texts[pair])
    command = [sys.executable, "-c", ALONE, *map(str, paths.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    return {
        pair: Shown(verdicts[pair], texts[pair], *ends[str(path)]) for pair, path in paths.items()
    }


def installed(target: str) -> bool:
    """Whether the library of a target can be imported."""
    return importlib.util.find_spec(target.partition(":")[0]) is not None


def verdict_on(target: str, law: str, scale: float) -> tuple[Verdict, np.ndarray]:
    """A verdict that is made up, on three points, and what flowref measures at them."""
    chosen, place = registry.find_law(law), checking.as_target(target)
    condition = Condition(scale=scale, history=chosen.history)
    subject = loading.load(place, condition)
    batch = points(subject, Example(scale, 3, "near", 5), chosen.given)
    context = None if batch.context is None else batch.context.tolist()
    case = Counterexample(
        batch.x.tolist(), context, batch.seed, replace(condition, dtype=subject.dtype)
    )
    with np.errstate(all="ignore"):
        size = chosen.measure(subject, batch).per_row()
    worst = float(size.max())
    return Verdict(
        target, law, Status.VIOLATED, evidence=Evidence(worst, worst), counterexample=case
    ), size


@pytest.mark.parametrize("pair", VIOLATIONS, ids=" ".join)
def test_a_script_shows_the_violation_without_flowref(
    pair: tuple[str, str], shown: dict[tuple[str, str], Shown]
) -> None:
    """It exits with 1 and a last line VIOLATED, prints the law in words, and is off by what the
    verdict recorded.
    """
    if pair not in shown:
        pytest.skip("the library is not installed")
    found, evidence = shown[pair], shown[pair].verdict.evidence
    assert found.verdict.status is Status.VIOLATED
    assert not re.search(r"^\s*(import|from) flowref", found.text, re.MULTILINE)
    assert found.code == 1, found.said
    assert found.last.startswith(f"VIOLATED {pair[1]}"), found.said
    assert plain(registry.find_law(pair[1]).statement)[:40] in found.said
    assert evidence is not None
    assert f"off by {evidence.residual!r}, allowed" in found.said


@pytest.mark.parametrize(("target", "law", "scale"), MEASURED)
def test_a_script_measures_what_flowref_measures(target: str, law: str, scale: float) -> None:
    """The residual of every point is the same, bit for bit."""
    pytest.importorskip(target.partition(":")[0])
    verdict, size = verdict_on(target, law, scale)
    names: dict[str, object] = {"__name__": "repro"}
    text = (
        script(verdict)
        .replace("residual = ", "residual = names['residual'] = ")
        .replace("def main", "names = {}\n\ndef main")
    )
    exec(compile(text, "repro", "exec"), names)
    assert names["main"]() == 0  # type: ignore[operator]  # the program's own function
    assert np.array_equal(names["names"]["residual"].per_row(), size)  # type: ignore[index]  # a dictionary of results


def test_a_script_says_when_the_law_holds_again(shown: dict[tuple[str, str], Shown]) -> None:
    """With the user's file mended, the same program exits with 0."""
    assert shown[MENDED].code == 0, shown[MENDED].said
    assert shown[MENDED].last == "the law holds here"


def test_a_script_does_not_decide_what_only_noise_can_tell(
    shown: dict[tuple[str, str], Shown],
) -> None:
    """A small part of the error that was seen may be rounding or may not: no word that the law
    holds, and exit code 2.
    """
    assert shown[HALF_MENDED].code == 2, shown[HALF_MENDED].said
    assert shown[HALF_MENDED].last.startswith("NOT DECIDED")


def test_a_script_of_an_error_shows_the_exception(shown: dict[tuple[str, str], Shown]) -> None:
    """A law that could not be measured because the target raised is written down as well."""
    found = shown[ERROR]
    assert found.verdict.status is Status.ERROR
    assert found.code == 1, found.said
    assert "Traceback" in found.said
    assert found.last == "RAISED ValueError: no inverse for you"


def test_inputs_keep_every_bit() -> None:
    """Signed zeros, subnormal, infinite and undefined inputs are written so that they read back the
    same.
    """
    from flowref.scripting.wording import array

    values = [[0.1, -0.0, 5e-324, np.inf], [-np.inf, np.nan, 1e300, 2.0**-53 + 1]]
    again = eval(array(values), {"np": np})
    assert again.tobytes() == np.array(values).tobytes()
    assert eval(array([[0.0, 0.0]]), {"np": np}).shape == (1, 2)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("object:Scaled#12345678", "file.py:factory"),
        ("torch:ExpTransform?mutant=bijection/log-det#sign", "only inside flowref"),
    ],
)
def test_what_no_program_can_build_is_refused_in_a_sentence(target: str, advice: str) -> None:
    """Live objects and mutants exist only in flowref's processes."""
    case = Counterexample([[0.0]], None, 0, Condition())
    with pytest.raises(FlowrefError, match=advice):
        script(Verdict(target, "bijection/log-det", Status.VIOLATED, counterexample=case))
    with pytest.raises(FlowrefError, match="no case"):
        script(Verdict("torch:ExpTransform", "bijection/log-det", Status.TIMEOUT))
