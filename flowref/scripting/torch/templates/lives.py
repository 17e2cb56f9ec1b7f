"""State over several calls: effects of batches, saving, casting and earlier calls."""

from __future__ import annotations

from flowref.scripting.template import Template
from flowref.scripting.torch.templates.conduct import APART

# Measured after a train-mode batch without spread.
DEGENERATE = """
ordinary = $ordinary
$train
$normalizing($batch_without_spread)
spoilt = [name for name, one in flow.state_dict().items() if not one.isfinite().all()]
print("after a batch $kind, not finite:", spoilt)
$eval
y = $normalizing(ordinary)[0]
# The law: such a batch is rejected, or the object still works on the next one.
print("the result of an ordinary batch is then finite:", y.isfinite().all().item())
wrong = bool(spoilt) or not y.isfinite().all().item()
"""


def degenerate(kind: str, batch: str) -> Template:
    """The template of one kind of batch."""
    text = DEGENERATE.replace("$batch_without_spread", batch).replace("$kind", kind)
    return Template(text, when=f"a train batch {kind}")


FIRST_LOG_DET = """
$train
value, first = forward(x)
$eval
again, then = forward(x)
# The law: if the value is the same, so is the log-det.
print("first and later value differ by:", (value - again).abs().max().item())
print("log-det at first:", first.tolist(), " then:", then.tolist())
off = (first - then).abs().max().item()
"""

TRAIN_ROUNDTRIP = """
x = $ordinary
$train
forward($ordinary)
back = inverse(forward(x)[0].detach())[0]
axes = [0, *range(2, x.dim())]
# The law: in train mode the inverse restores the spread of a batch, if it does its mean.
print("spread of the batch:   ", x.std(axes).flatten()[:4].tolist())
print("spread after inverse:  ", back.std(axes).flatten()[:4].tolist())
wrong = (back - x).abs().max().item() > 1e-6 * x.abs().max().item()
"""

MODES_KEPT = """
$setup
moved = []
for mode in (True, False):
    flow.train(mode)
    before = {name: part.training for name, part in flow.named_modules()}
    try:
        $which($at)
    except Exception as error:
        print("in this mode it raises", type(error).__name__)
    moved += [(mode, name) for name, part in flow.named_modules() if part.training != before[name]]
# The law: a call does not change the mode of any part.
print("train mode before the call, and parts whose mode changed:", moved)
wrong = bool(moved)
"""

MOVE = """for parameter in flow.parameters():
    parameter.data += 0.25"""

RESTORED = f"""
$setup
first, saved = $results, copy.deepcopy(flow.state_dict())
$train
{MOVE}
flow.load_state_dict(saved)
$eval
second = $results
# The law: loading a state_dict restores the results of when it was saved.
print("saved:     ", *(result.tolist() for result in first))
print("restored:  ", *(result.tolist() for result in second))
off = {APART}
"""

RESTORED_WARM = f"""
$setup
torch.set_grad_enabled(False)
first, saved = $results, copy.deepcopy(flow.state_dict())
{MOVE}
$results  # a call with other parameters
flow.load_state_dict(saved)
second = $results
# The law: loading a state_dict restores the results of when it was saved.
print("saved:     ", *(result.tolist() for result in first))
print("restored:  ", *(result.tolist() for result in second))
off = {APART}
"""

CAST_AND_BACK = f"""
$setup
original = flow
flow = copy.deepcopy(original).float().double()
first = $results
flow = original
$results  # a call before the cast
flow.float()
flow.double()
second = $results
# The law: a cast to float32 and back only rounds parameters and buffers.
print("rounded:          ", *(result.tolist() for result in first))
print("called, then cast:", *(result.tolist() for result in second))
off = {APART}
"""

REGISTERED = """
registered = {id(parameter) for parameter in flow.parameters()}
hidden, seen, stack = [], set(), [("flow", flow)]
while stack:
    path, one = stack.pop()
    seen.add(id(one))
    if isinstance(one, torch.Tensor):
        hidden += [path] if one.requires_grad and one.is_leaf and id(one) not in registered else []
        continue
    inside = dict(enumerate(one)) if isinstance(one, (list, tuple)) else one
    inside = inside if isinstance(inside, dict) else getattr(inside, "__dict__", {})
    for name, value in inside.items():
        held = isinstance(value, torch.nn.Module) or not callable(value)
        stack += [(f"{path}.{name}", value)] if held and id(value) not in seen else []
# The law: tensors that require a gradient are in parameters(), to be trained, saved and moved.
print("require a gradient, but are not in parameters():", hidden)
wrong = bool(hidden)
"""

EARLIER = f"""
$setup
others, original = $at.roll(1, 0), flow
flow = copy.deepcopy(original)
first = $over(others$end
flow = original
$earlier
second = $over(others$end
# The law: results do not depend on earlier calls.
print("alone:            ", *(result.tolist() for result in first))
print("after other calls:", *(result.tolist() for result in second))
off = {APART}
"""

SAME_TENSOR = f"""
$setup
others, original = $at.roll(1, 0).clone(), flow
flow = copy.deepcopy(original)
first = $over(others$end
flow, held = original, $at.clone()
$over(held$end
held.copy_(others)  # in place, as data loaders do
second = $over(held$end
# The law: a call uses the current values of its tensor.
print("these values:                  ", *(result.tolist() for result in first))
print("the same, written into a tensor:", *(result.tolist() for result in second))
off = {APART}
"""

SAME_TENSOR_STEP = f"""
$setup
original = flow
flow = copy.deepcopy(original)
{MOVE}
first = $results
flow = original
$results
{MOVE}
second = $results
# The law: a call uses the current parameters.
print("with these parameters:             ", *(result.tolist() for result in first))
print("with the same, after another call:", *(result.tolist() for result in second))
off = {APART}
"""

CONTENT = f"""
$setup
first = [result[:1] for result in $results]
others = [torch.cat([$at, 30.0 * (1 + $at[:1].abs())]), $at[:1].repeat($copies)]
found = []
for batch in others:
    second = [result[:1] for result in $over(batch$end]
    print("the first point in another batch:", *(result.tolist() for result in second))
    found.append({APART})
# The law: the result of a point does not depend on the rest of its batch.
print("in its own batch:                ", *(result.tolist() for result in first))
off = max(found)
"""

GRADIENTS = """
$loss
flow.zero_grad()
value = nll($batch)
value.backward()
gradients = {name: one.grad for name, one in flow.named_parameters() if one.grad is not None}
broken = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
# The law: if the loss is finite, so is its gradient.
print("loss:", value.item(), " gradients that are not finite:", broken)
wrong = value.isfinite().item() and bool(broken)
"""

GRADIENTS_AT_ENDS = """
for value in (0.0, 1.0):
    x = torch.full_like(x[:1], value).requires_grad_()
    z, ladj = forward(x)
    total = z.sum() + (0 if ladj is None else ladj.sum())
    (gradient,) = torch.autograd.grad(total, x)
    # The law: the gradient of a smooth map is finite.
    print(f"gradient where all entries are {value}:", gradient.tolist())
    wrong = not gradient.isfinite().all()
    if wrong:
        break
"""

GLOBALS = """
$setup
def settings():
    return {
        "default dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "seed": torch.initial_seed(),
    }

wrong = False
for default in (torch.float64, torch.float32):
    torch.set_default_dtype(default)
    before = settings()
    $which($at)
    after = settings()
    # The law: no call changes these global settings.
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    print("set by $which:", changed)
    wrong |= bool(changed)
"""

# The replacement for a call without points.
SAMPLING = ("$which($at)", "sample(8)")
ANY = 1e9  # residuals of exact laws are flags

TEMPLATES = {
    "state/degenerate-batch": (
        degenerate("of one row", "ordinary[:1]"),
        degenerate("of equal rows", "ordinary[:1].expand_as(ordinary).clone()"),
        degenerate(
            "with a constant feature",
            "torch.cat([ordinary[:1, ..., :1].expand_as(ordinary[..., :1]), ordinary[..., 1:]], -1)",
        ),
    ),
    "same/train-mode[first-call]": (
        Template(FIRST_LOG_DET, which="forward", whole=True, within=ANY),
        Template(FIRST_LOG_DET, which="forward", within=ANY),
    ),
    "map/inverse[batch-spread]": (Template(TRAIN_ROUNDTRIP, which="forward"),),
    "effects/state[mode]": (
        Template(MODES_KEPT.replace(*SAMPLING), when="by sample"),
        Template(MODES_KEPT),
    ),
    "same/rows[large-batch]": (
        Template(CONTENT.replace("$copies", "$wide_copies"), whole=True, within=ANY),
    ),
    "same/saved[restore]": (
        Template(RESTORED, within=ANY),
        Template(RESTORED_WARM, within=ANY),
        Template(RESTORED, whole=True, within=ANY),
    ),
    "same/saved[cast]": (Template(CAST_AND_BACK, within=ANY),),
    "state/registered": (Template(REGISTERED),),
    "same/history[other-calls]": (
        Template(EARLIER.replace("$earlier", "$over($at$end"), whole=True, within=ANY),
        Template(
            EARLIER.replace("$earlier", "forward(x)"), whole=True, which="inverse", within=ANY
        ),
        Template(
            EARLIER.replace("$earlier", "inverse(forward(x)[0].detach())"),
            whole=True,
            which="forward",
            within=ANY,
        ),
    ),
    "same/history[same-tensor]": (
        Template(SAME_TENSOR, whole=True, within=ANY, when="other values"),
        Template(SAME_TENSOR_STEP, whole=True, within=ANY, when="optimizer"),
    ),
    "gradient/finite": (
        Template(GRADIENTS),
        Template(GRADIENTS, whole=True),
        Template(GRADIENTS_AT_ENDS),
    ),
    "effects/process[settings]": (
        Template(GLOBALS.replace(*SAMPLING).replace("$which", "sample"), when="by sample"),
        Template(GLOBALS),
    ),
}
