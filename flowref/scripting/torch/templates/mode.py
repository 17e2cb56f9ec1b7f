"""Modes and state: train and eval, saving, copying and training."""

from __future__ import annotations

from flowref.scripting.template import Template
from flowref.scripting.torch.templates.conduct import APART

ROWS = """
$setup
first = $results
alone = [$over($at[i : i + 1]$ith$end for i in range(len($at))]
second = [torch.cat(rows) for rows in zip(*alone)]
# The law: the result of a point does not depend on the rest of its batch.
print("in one batch:", *(result[:4].tolist() for result in first))
print("one by one:  ", *(result[:4].tolist() for result in second))
off = max(((a - b).abs().max() / (1 + a.abs().max())).item() for a, b in zip(first, second))
"""

REPEATED = f"""
$setup
first = $results
second = [result[: len($at)] for result in $over(torch.cat([$at, $at[:1]])$end]
# The law: the result of a point does not depend on the rest of its batch.
print("in their batch:           ", *(result.tolist() for result in first))
print("with the first one twice: ", *(result.tolist() for result in second))
off = {APART}
"""

REPEATED_IN_TRAINING = f"""
$setup
$train
first = $results
second = [result[: len($at)] for result in $over(torch.cat([$at, $at[:1] + 1.0])$end]
# The law: the result of a point does not depend on the rest of its batch.
print("in their batch:       ", *(result.tolist() for result in first))
print("with another in it:   ", *(result.tolist() for result in second))
off = {APART}
"""

PURE = """
$setup
before = copy.deepcopy(flow.state_dict())
$which($at)
# The law: in eval mode a call changes no parameter and no buffer.
changed = [name for name, one in flow.state_dict().items() if not torch.equal(one, before[name])]
for name in changed:
    print(name, before[name].tolist(), "became", flow.state_dict()[name].tolist())
wrong = bool(changed)
"""

GRAD_MODES = f"""
$setup
first = $results
with torch.no_grad():
    second = $results
# The law: results do not depend on whether gradients are recorded.
print("with gradients:   ", *(result.tolist() for result in first))
print("without gradients:", *(result.tolist() for result in second))
off = {APART}
"""

TRAINED = """
$setup
calm = $results
$train
training = $results
# The law: if train mode does not change the value of forward, it changes nothing else.
for name, first, second in zip(("value", "log-det"), calm, training):
    print(name, "in eval mode:", first.tolist(), " in train mode:", second.tolist())
off = (calm[$part] - training[$part]).abs().max().item()
"""

PROTOCOL = """
returned = [flow.train() is flow, flow.eval() is flow]
stuck = [name for name, part in flow.named_modules() if part.training]
# The law: both return the module, and eval() reaches every part.
print("train() and eval() return the module:", returned, " in train mode after eval():", stuck)
wrong = not all(returned) or bool(stuck)
"""

RELOADED = f"""
$setup
first = $results
saved = flow.state_dict()
flow = build()
flow.load_state_dict(saved)
second = $results
# The law: a new object with the saved state_dict returns what the old one did.
print("saved: ", *(result.tolist() for result in first))
print("loaded:", *(result.tolist() for result in second))
off = {APART}
"""

# Two objects may draw the same by chance.
RELOADED_OFTEN = f"""
$setup
first = $results
saved = flow.state_dict()
for _ in range(4):
    flow = build()
    flow.load_state_dict(saved)
    second = $results
    off = {APART}
    if off != 0:
        break
# The law: every new object with the saved state_dict returns what the old one did.
print("saved: ", *(result.tolist() for result in first))
print("loaded:", *(result.tolist() for result in second))
"""

RESUMED = """
$setup
saved = {name: value.clone() for name, value in flow.state_dict().items()}
flow.train()
first = [*$results, *(value.clone() for value in flow.state_dict().values())]
flow = build()
flow.load_state_dict(saved)
flow.train()
second = [*$results, *flow.state_dict().values()]
# The law: the first training step after loading is the same as without saving.
print("value without saving:", first[0].tolist(), "and after loading:", second[0].tolist())
pairs = [(1.0 * a, 1.0 * b) for a, b in zip(first, second) if a.numel()]
off = max((a - b).abs().max().item() for a, b in pairs)
"""

GRAPH_TWICE = """
$loss
$train
try:
    for _ in range(3):
        nll($batch).backward()
    wrong = False
except RuntimeError as error:
    # The law: no training step uses the graph of an earlier one.
    print("the second step raised:", error)
    wrong = "second time" in str(error)
"""

GRAPH_OF_INPUT = """
$train
$normalizing($batch.clone().requires_grad_())
graphs = [name for name, buffer in flow.named_buffers() if buffer.requires_grad]
# The law: no buffer holds a graph after training.
print("buffers that hold an autograd graph:", graphs)
wrong = bool(graphs)
"""

GRAPH = """
$loss
flow.train()
$steps
graphs = [name for name, buffer in flow.named_buffers() if buffer.requires_grad]
# The law: no buffer holds a graph after training.
print("buffers that hold an autograd graph:", graphs)
wrong = bool(graphs)
"""

COPIED = """
$loss
flow.train()
$steps
try:
    $copying
    wrong = False
except Exception as error:
    # The law: after training steps it can be copied.
    print("$copying raised", type(error).__name__, error)
    wrong = True
"""

COPIED_AS_BUILT = """
try:
    $copying
    wrong = False
except Exception as error:
    # The law: it can be copied.
    print("$copying raised", type(error).__name__, error)
    wrong = True
"""

COPY_EQUAL = f"""
$setup
first = $results
buffer = io.BytesIO()
torch.save(flow, buffer)
copies = [copy.deepcopy(flow), pickle.loads(pickle.dumps(flow))]
off = 0.0
for flow in copies:
    second = $results
    # The law: a copy returns what the original returns.
    print("original:", *(result.tolist() for result in first))
    print("copy:    ", *(result.tolist() for result in second))
    off = max(off, {APART})
"""

FOLDED = f"""
first = $results
flow = flow.$fold() or flow
second = $results
# The law: folding layers does not change the results.
print("before:", *(result.tolist() for result in first))
print("folded:", *(result.tolist() for result in second))
off = {APART}
"""

INDEPENDENT = f"""
$setup
first = $results
for parameter in copy.deepcopy(flow).parameters():
    parameter.data += 0.3
second = $results
# The law: changing the parameters of a copy does not change the original.
print("before:", *(result.tolist() for result in first))
print("after: ", *(result.tolist() for result in second))
off = {APART}
"""

SEEDED = """
states = []
for _ in range(2):
    torch.manual_seed(1)
    np.random.seed(1)
    states.append(build().state_dict())
first, second = states
# The law: one seed, one initialization.
differing = [name for name in first if not torch.equal(first[name], second[name])]
for name in differing:
    print(name, "first:", first[name].flatten()[:3].tolist(), " then:", second[name].flatten()[:3].tolist())
wrong = bool(differing)
"""

TEMPLATES = {
    "same/rows": (
        Template(ROWS, whole=True, within=1e3),
        Template(REPEATED, whole=True, within=1e3),
    ),
    "effects/state[eval]": (Template(PURE),),
    "effects/state[first-call]": (Template(PURE), Template(PURE, whole=True)),
    "same/manner[grad-modes]": (Template(GRAD_MODES, within=1e3),),
    "same/train-mode[log-det]": (Template(TRAINED, which="forward"),),
    "same/train-mode[inverse]": (Template(TRAINED, which="inverse"),),
    "mode/protocol": (Template(PROTOCOL),),
    "same/saved[reload]": (
        Template(RELOADED, within=1e3),
        Template(RELOADED_OFTEN, within=1e3),
    ),
    "same/saved[resume]": (
        Template(RESUMED, within=1e4, which="normalizing"),
        Template(RESUMED, whole=True, within=1e4, which="normalizing"),
    ),
    "effects/graphs": (
        Template(GRAPH_TWICE, when="an earlier one"),
        Template(GRAPH_TWICE, when="an earlier one", whole=True),
        Template(GRAPH_OF_INPUT),
        Template(GRAPH),
        Template(GRAPH, whole=True),
    ),
    "same/copied[after-training]": (Template(COPIED_AS_BUILT), Template(COPIED)),
    "same/copied[folded]": (Template(FOLDED, within=1e3),),
    "same/copied": (Template(COPY_EQUAL, within=1e3),),
    "same/copied[independence]": (Template(INDEPENDENT, within=1e3),),
    "random/seeded[construction]": (Template(SEEDED),),
}
