"""What the text of a file says of the flows in it, without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flowref import registry
from flowref.model import FlowrefError, TargetError

HEAD = "import torch\nfrom torch import nn\nimport enum\nimport zuko\nfrom torch.distributions import *\n"
MAP = "    def forward(self, x): return x\n    def inverse(self, z): return z\n"
NEEDS = f"class Flow(nn.Module):\n    def __init__(self, dim, hidden=8): ...\n{MAP}"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with a file that must not be imported."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "flows.py"


FOUND = {
    f"class A:\n{MAP}": "A",
    "class A(nn.Module):\n    def log_prob(self, x): ...\n": "A",
    "class A(nn.Module):\n    def forward(self, x, reverse=False): ...\n": "A",
    "class A(nn.Module):\n    def forward(self, x):\n        return x, x.sum(-1)\n": "A",
    "class A(nn.Module):\n    def forward(self, x): return self.running_mean\n": "A",
    "class A(Transform):\n    pass\n": "A",
    f"class A:\n{MAP}class B(A):\n    pass\n": "A B",
    f"{NEEDS}def make(): return Flow(3)\n": "make",
    f"{NEEDS}def make():\n    flow = Flow(3)\n    return flow\n": "make",
    f"{NEEDS}flow = Flow(3)\n": "flow",
    "def make(): return zuko.flows.NSF(3)\n": "make",
    # A class that needs arguments is given numbers, or found where another one gives them.
    NEEDS: "Flow?dim=3",
    NEEDS.replace("=8", ""): "Flow?dim=3&hidden=8",
    NEEDS.replace("dim", "p: float"): "Flow?p=0.5",
    NEEDS.replace("dim", "loc, scale"): "Flow?loc=0.5&scale=0.75",
    f"@dataclass\nclass Flow:\n    dim: int\n{MAP}": "Flow?dim=3",
    # A size that the code halves is even; two layers are enough.
    NEEDS.replace("...", "self.net = nn.Linear(dim // 2, dim)"): "Flow?dim=4",
    NEEDS.replace("dim, hidden=8", "n_flow, num_layers"): "Flow?n_flow=2&num_layers=2",
    NEEDS.replace("dim, hidden=8", "dim, parity"): "Flow?dim=3&parity=1",
    NEEDS
    + f"class B(Flow):\n    def __init__(self, *args, **kwargs): ...\n{MAP}": "Flow?dim=3 B?dim=3",
    # A way that is named reverses a map.
    "class A(nn.Module):\n    def __init__(self, dim): ...\n    def forward(self, x, mode='direct'): return x, x\n": "A?dim=3",
    f"{NEEDS}def stack(): return [Flow(3)]\nclass B:\n    layers = stack()\n{MAP}": "B?part=Flow B",
    # A pair of a network is no value with its log-det, unless it is called one.
    "class A(nn.Module):\n    def __init__(self, dim): ...\n    def forward(self, x): return x, x\n"
    + NEEDS: "Flow?dim=3",
    "class A(nn.Module):\n    def __init__(self, dim): ...\n    def forward(self, x): return x, self.ldj(x)\n": "A?dim=3",
    # What a class is by default is found once; what is run as a script is not there.
    f"class A:\n{MAP}def make(): return A()\nif __name__ == '__main__':\n    b = A()\n": "A",
    # No flows: helpers, networks, enumerations, abstract classes, what is private.
    f"class A:\n{MAP}def train(): return 3\ndef main(): ...\nnet = nn.Linear(3, 3)\n": "A",
    f"class A:\n{MAP}class Kind(enum.Enum):\n    A = 1\nclass _B(A): ...\n": "A",
    f"class A:\n{MAP}class B(A):\n    @abstractmethod\n    def inverse(self): ...\n": "A",
}


@pytest.mark.parametrize("text", FOUND)
def test_flows_are_found_in_the_text(written: Path, text: str) -> None:
    """By their methods, their bases and what builds them; in the order of the file."""
    written.write_text(HEAD + text)
    names = [str(target).partition(":")[2] for target in registry.listing("flows.py").targets]
    assert names == FOUND[text].split()
    assert registry.expand("flows.py:*") == list(registry.listing("flows.py").targets)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NEEDS.replace("dim", "net"), "needs net: name a factory"),
        ("class Flow(nn.Module):\n    def forward(self, x): return x\n", "no inverse, no log-det"),
        (
            "class Flow(nn.Module):\n    def to_left(self, x): ...\n    def to_right(self, z): ...\n",
            "none of to_left, to_right is a known name: say which, as in 'flows.py:Flow?forward=to_left'",
        ),
        (
            "class Warp:\n    def bend(self, x): ...\nclass Timer:\n    def tick(self): ...\n",
            "Warp, Timer: no method has a known name; ?forward=NAME names the map",
        ),
    ],
)
def test_what_is_left_out_has_a_reason(written: Path, text: str, reason: str) -> None:
    """It says how arguments are given; a file with nothing else is refused with it."""
    written.write_text(HEAD + text)
    with pytest.raises(FlowrefError, match="defines no flow") as refused:
        registry.listing("flows.py")
    assert reason in str(refused.value)


MOODS = f"""
class A:
    def __init__(self, momentum=0.1, eps=1e-5, affine=True, bias=False, inplace=False, context=None):
        if affine and not inplace: ...
        self.bias = bias

    def update(self):
        return self.momentum is None or self.context is None or 0 if self.bias else 1
{MAP}"""


def test_what_the_text_asks_about_makes_variants(written: Path) -> None:
    """A number that may be None, and what is true or false, one at a time; not how something is done."""
    written.write_text(HEAD + MOODS)
    found = registry.listing("flows.py")
    variants = [str(one).partition("?")[2] for one in found.variants]
    assert variants == ["momentum=None", "affine=false", "bias=true"]
    assert list(map(str, found.targets)) == ["flows.py:A"]
    assert [str(one) for one in registry.listing("flows.py?affine=true").variants][1:] == [
        "flows.py:A?affine=true&bias=true"
    ]


def test_what_is_said_of_a_part_can_be_typed(written: Path) -> None:
    """A class of unknown methods that needs arguments is named within what builds it."""
    warp = "class Warp(nn.Module):\n    def __init__(self, a, b): ...\n    def bend(self, x): ...\n"
    written.write_text(f"{HEAD}{warp}class A:\n    warp = Warp(1, 2)\n{MAP}")
    ((name, reason),) = registry.listing("flows.py").left
    assert name == "Warp"
    assert reason.endswith("say which, as in 'flows.py:A?part=Warp&forward=bend'")


def test_a_distribution_is_listed_beside_its_standard_form(written: Path) -> None:
    """Where its location is 0 and its scale 1, what is forgotten of them does not show."""
    log_prob = "    def log_prob(self, x): ...\n"
    written.write_text(
        f"{HEAD}class A:\n    def __init__(self, loc=0.0, scale=1, a=0): ...\n{log_prob}"
    )
    found = registry.listing("flows.py")
    assert list(map(str, found.variants)) == ["flows.py:A?loc=0.5&scale=0.75"]


def test_options_go_to_what_takes_them(written: Path) -> None:
    """Those of flowref to all, others to the classes that have such a parameter."""
    written.write_text(f"{HEAD}{NEEDS}class B:\n{MAP}")
    found = registry.listing("flows.py?dim=3&event=4").targets
    assert list(map(str, found)) == ["flows.py:Flow?dim=3&event=4", "flows.py:B?event=4"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("flow.py:Flow", "no such file: flow.py (did you mean flows.py?)"),
        ("flows.py:Flwo", "flows.py has no 'Flwo' (did you mean Flow?); it defines Flow, make"),
        ("flows:Flwo", "flows has no 'Flwo' (did you mean Flow?)"),
        ("zuk:NSF", "there is no module 'zuk' here (did you mean zuko?)"),
        ("broken.py:make", "broken.py:2: "),
    ],
)
def test_what_is_mistyped_is_refused_before_anything_is_imported(
    written: Path, spec: str, said: str
) -> None:
    """With the nearest names; the file is not run."""
    written.write_text("raise SystemExit\nclass Flow: ...\ndef make(): ...\n")
    Path("broken.py").write_text("x = 1\ndef make(:\n")
    with pytest.raises(TargetError) as refused:
        registry.vet_target(registry.parse_target(spec))
    assert said in str(refused.value)
    assert "flows" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        "from other import *\n",
        "def __getattr__(name): ...\n",
        "globals()['a'] = 1\n",
        "try:\n    a = 1\nexcept ImportError:\n    pass\n",
        "for a, b in []: ...\n",
        "with open('x') as a: ...\n",
        "import zuko as a\n",
        "import sys\nsys.modules[__name__] = 3\n",
        "def set():\n    global a\n    a = 3\n",
        "(a := 3)\n",
    ],
)
def test_what_the_text_leaves_open_is_left_to_the_import(written: Path, text: str) -> None:
    """A name may come about in many ways."""
    written.write_text(text)
    registry.vet_target(registry.parse_target("flows.py:a"))
