"""Behaviour of calls: side effects, dtypes and devices, shapes and layouts, gradients."""

from __future__ import annotations

from flowref.scripting.template import Template

JACOBIAN = "torch.autograd.functional.jacobian"
# The difference between two results of one call, relative to their size.
APART = "max(((a - b).abs().max() / (1 + a.abs().max())).item() for a, b in zip(first, second))"

DTYPE = """
$setup
torch.set_default_dtype(torch.float32)  # as users have it; flow and $at are float64
dtypes = [result.dtype for result in $results]
# The law: float64 in, float64 out.
print("$which of", $at.dtype, "returned", dtypes)
wrong = any(dtype != torch.float64 for dtype in dtypes)
"""

DTYPE_REFUSED = """
$setup
torch.set_default_dtype(torch.float32)  # as users have it; flow and $at are float64
try:
    $which($at)
    wrong = False
except RuntimeError as error:
    print("$which of", $at.dtype, "raised", error)
    wrong = True
"""

DTYPE_TORN = """
gaps = []
for default in (torch.float64, torch.float32):  # flow and x are float64
    torch.set_default_dtype(default)
    y, there = forward(x)
    back, again = inverse(y.detach())
    gaps.append(max((back - x).abs().max().item(), (there + again).abs().max().item()))
    print("default dtype", default, " value and log-det of the round trip are off by", gaps[-1])
# The law: a float64 object computes in float64, whatever the default dtype is.
wrong = gaps[1] > 1e-9 > gaps[0]
"""

DTYPE_TORN_LOG_DET = f"""
gaps = []
for default in (torch.float64, torch.float32):  # flow and x are float64
    torch.set_default_dtype(default)
    _, reported = forward(x)
    jacobian = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])
    gaps.append(abs(reported.sum() - torch.linalg.slogdet(jacobian$square).logabsdet).item())
    print("default dtype", default, " the log-det is off by", gaps[-1])
# The law: a float64 object computes in float64, whatever the default dtype is.
wrong = gaps[1] > 1e-9 > gaps[0]
"""

DTYPE_INSIDE = """
$setup
step = torch.full_like($at, 1e-10)
wrong = False
for place, name in enumerate(("value", "log-det")):
    _, slope = torch.autograd.functional.jvp(lambda v: $which(v)[place], $at, step)
    moved = $which($at + step)[place] - $which($at)[place]
    apart = (moved - slope).abs().max().item()
    # The law: float64 distinguishes points that are 1e-10 apart; float32 does not.
    print(f"{name}: its change in a step of 1e-10 differs by {apart:.1e} from its slope")
    wrong |= apart > 1e-12
"""

# Without a GPU, "meta" rejects CPU tensors as a GPU does; it has no numbers.
DEVICE = """
$setup
device = "cuda" if torch.cuda.is_available() else "meta"
$moved
wrong = False
try:
    results = $there
    wrong = any(one.device.type == "cpu" for one in results if one is not None and one.dim())
    # The law: results stay on the device of their inputs.
    print("returned on:", [str(one.device) for one in results if one is not None])
except (RuntimeError, TypeError) as error:
    # The law: flow.to(device) moves all tensors that the module uses.
    print(f"after flow.to({device!r}):", error)
    wrong = "device" in str(error)
"""
AFTER_USE = DEVICE.replace(
    "$setup\n", "$setup\n$results  # on the CPU, where it may cache results\n"
)

FLOAT32 = """
$setup
$at = $at.float().double()  # numbers that float32 has
exact, unit, offs = $results, 2.0**-24, []
signs = [torch.randn_like($at).sign() for _ in range(6)]
moved = [$over($at * (1 + 2 * unit * sign)$end for sign in signs]
torch.set_default_dtype(torch.float32)
$float
for k, single in enumerate($over($at.float()$end):
    errors = [one - exact[k] for one in (single, *(result[k] for result in moved))]
    error, *spread = [one.reshape(len($at), -1).abs().amax(1) for one in errors]
    size = exact[k].reshape(len($at), -1).abs().amax(1).clamp(min=1)
    offs.append((error / (64 * (torch.stack(spread).amax(0) + unit * size))).max().item())
    print(("value", "log-det")[k], "in float32 is off by up to", error.max().item())
# The law: at most 64 times the effect of one float32 unit in inputs and results.
off = max(offs)
"""

DIGITS = """
$setup
$at = $at.float().double()  # numbers that float32 has
exact = $results
torch.set_default_dtype(torch.float32)
$float
single, wrong = $over($at.float()$end, False
for one, other in zip(single, exact):
    print("in float32:", one.tolist(), "in float64:", other.tolist())
    # The law: two digits agree with float64, if float32 rounding of the input leaves them.
    wrong |= not ((one - other).abs() <= 0.01 * (1 + other.abs())).all()
"""

DIGITS_REFUSED = """
$setup
torch.set_default_dtype(torch.float32)
$float
try:  # The law: a call that works in float64 works in float32.
    wrong = print("in float32:", $over($at.float()$end)
except Exception as error:
    wrong = not print("in float32 it raises", type(error).__name__, error)
"""

AUTOCAST = """
$setup
torch.set_default_dtype(torch.float32)
$float
exact, wrong = $over($at.float()$end, False
print("in float32:", exact)
# The law: finite, with some digits. On a GPU more operators stay in float32 than here.
for dtype in (torch.float16, torch.bfloat16):
    try:
        with torch.autocast("cpu", dtype):
            half = $over($at.float()$end
        print("in autocast to", dtype, half)
        wrong |= not all(((a - b).abs() <= 0.5 * (1 + b.abs())).all() for a, b in zip(half, exact))
    except Exception as error:
        print("in autocast to", dtype, "it raises", type(error).__name__, error)
        wrong = True
"""

WIDE_SUMS = """
$setup
from torch.utils._python_dispatch import TorchDispatchMode


class WideSums(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        half = isinstance(out, torch.Tensor) and out.dtype in (torch.float16, torch.bfloat16)
        if func.overloadpacket.__name__ in ("sum", "mean", "logsumexp") and half and out.numel() == len($at):
            return func(args[0].double(), *args[1:])
        return out


narrow = $results[-1]
with WideSums():
    wide = $results[-1]
# The law: half-precision numbers are not summed in half precision.
print("log-det as it is:", narrow.tolist(), "with sums in float64:", wide.tolist())
wrong = ((narrow - wide).abs() > 1e-3).any()
"""

WRONG_SHAPE = """
wrong = False
for points in (x[..., :1], torch.cat([x, x[..., :1]], -1)):
    try:
        y, _ = forward(points)
    except Exception as error:
        print("shape", tuple(points.shape), "is rejected:", type(error).__name__)
        continue
    # The law: points with the wrong number of features are rejected, or keep their shape.
    print("shape", tuple(points.shape), "is mapped to shape", tuple(y.shape))
    wrong |= y.shape != points.shape
"""

EXTREMES = """
wrong = False
for number in (0.0, -0.0, 1e-30, 1e30, 5e-324, 1e308 / 4):
$beyond
    try:
        results = $over(torch.full((1, $sizes), number)$end
    except Exception as error:
        print("at", number, "it raises", type(error).__name__)
        continue
    # The law: no nan is returned for finite inputs (infinity is allowed).
    print("at", number, "it returns", *(result.tolist() for result in results))
    wrong |= any(result.isnan().any().item() for result in results)
"""

OUTSIDE = """
results = $results
# The law: outside the domain a call raises, or returns a number.
print("x outside the domain:", x.tolist())
print("forward returned:    ", *(result.tolist() for result in results))
wrong = any(result.isnan().any().item() for result in results)
"""

MUTATED = """
$setup
before = $at.clone()
$which($at)
# The law: a call does not modify its input.
print("before $which:", before.tolist())
print("after $which: ", $at.tolist())
wrong = $at._version > 0  # how often it was written to
"""

TWICE = f"""
$setup
torch.manual_seed(1)
first = $results
torch.manual_seed(2)
second = $results
# The law: in eval mode repeated calls return the same.
print("first call: ", *(result.tolist() for result in first))
print("second call:", *(result.tolist() for result in second))
off = {APART}
"""

ALONE = """
$setup
pair = $over(torch.cat([$at, $at])$end
shapes = [(1, *result.shape[1:]) if result.dim() else () for result in pair]
try:
    found = [tuple(result.shape) for result in $results]
except Exception as error:
    found = f"{type(error).__name__}: {error}"
# The law: one point gets results of the same shape as two.
print("expected of a single point:", shapes)
print("got:                       ", found)
wrong = found != shapes
"""

SPOILT = """
$setup
spoilt = $at.clone()
spoilt[$nan_row] = float("nan")
others = torch.arange(len($at)) != $nan_row
clean = [result[others].isfinite().all().item() for result in $results]
dirty = [result[others].isfinite().all().item() for result in $over(spoilt$end]
# The law: a nan in point $nan_row does not affect other points.
print("other points are finite without it:", clean, " with it:", dirty)
wrong = clean != dirty
"""

STRIDES = """
$setup
axes = tuple(reversed(range($at.dim())))
$at = torch.cat([$at, $at])
other = $at.permute(axes).contiguous().permute(axes)
assert torch.equal($at, other) and not other.is_contiguous()
try:
    $which(other)
    wrong = False
except RuntimeError as error:
    # The law: an input is not rejected for its memory layout.
    print("$which of a transposed input raised:", error)
    wrong = "view size is not compatible" in str(error)
"""

STRIDES_AGREE = f"""
$setup
$at = torch.cat([$at, $at])
axes = tuple(reversed(range($at.dim())))
first, second = $over($at$end, $over($at.permute(axes).contiguous().permute(axes)$end
# The law: the same numbers in another memory layout give the same results.
print("contiguous:", *(result.tolist() for result in first))
print("transposed:", *(result.tolist() for result in second))
off = {APART}
"""

VALUE_GRADIENT = f"""
gradient = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])$square
steps = 1e-5 * torch.eye($size).reshape($size, 1, $sizes)
columns = [(forward(x + h)[0] - forward(x - h)[0]).reshape(-1) / 2e-5 for h in steps]
differences = torch.stack(columns, 1)
# The law: autograd agrees with finite differences.
print("autograd:   ", gradient.tolist())
print("differences:", differences.tolist())
off = (gradient - differences).abs().max().item()
"""

SCALAR_GRADIENT = f"""
gradient = {JACOBIAN}(lambda v: $scalar(v[None])$entry.sum(), x[0]).reshape(-1)
steps = 1e-5 * torch.eye($size).reshape($size, 1, $sizes)
differences = torch.stack([($scalar(x + h)$entry.sum() - $scalar(x - h)$entry.sum()) / 2e-5 for h in steps])
# The law: autograd agrees with finite differences.
print("autograd:   ", gradient.tolist())
print("differences:", differences.tolist())
off = (gradient - differences).abs().max().item()
"""

ALONG_PARAMETERS = """
parameters = [parameter for parameter in flow.parameters() if parameter.requires_grad]
steps = [1e-5 * torch.randn_like(parameter) for parameter in parameters]


def total():
    return $scalar_of_parameters


none, totals = [None for _ in parameters], [total()]
leads = totals[0].requires_grad  # to the parameters
gradients = torch.autograd.grad(totals[0], parameters, allow_unused=True) if leads else none
slope = sum((g * step).sum().item() for g, step in zip(gradients, steps) if g is not None)
for side in (1, -2):  # to one side, then to the other
    for parameter, step in zip(parameters, steps):
        parameter.data += side * step
    totals.append(total())
expected = (totals[1] - totals[2]).item() / 2
# The law: autograd along the parameters agrees with finite differences.
print("autograd:", slope / 1e-5, " differences:", expected / 1e-5)
off = abs(slope - expected) / 1e-5
"""
PARAMETER_GRADIENT = ALONG_PARAMETERS.replace("$scalar_of_parameters", "$which(x)[1].sum()")
VALUE_OF_PARAMETERS = ALONG_PARAMETERS.replace("$scalar_of_parameters", "$which(x)[0].sum()")
DENSITY_OF_PARAMETERS = ALONG_PARAMETERS.replace("$scalar_of_parameters", "log_prob(x).sum()")

DEAD = """
$loss
named, alive = {name: p for name, p in flow.named_parameters() if p.requires_grad}, set()
for scale in (0.0, 0.0, 0.5, 0.5, 0.5, 0.5):  # in both modes as built, then perturbed
    flow.train(not flow.training)
    for _ in range(3):
        gradients = torch.autograd.grad(nll($batch), [*named.values()], allow_unused=True)
        for (name, parameter), gradient in zip(named.items(), gradients):
            if gradient is not None and gradient.any():
                alive.add(name)
                parameter.data -= 1e-2 * gradient
            parameter.data += scale * torch.randn_like(parameter)
# The law: every parameter tensor gets a gradient that is not zero.
print("without any gradient:", sorted({*named} - alive))
wrong = alive != {*named}
"""

PRINTED = """
$setup
printed = io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
    $which($at)
# The law: a call prints nothing.
print("$which printed", repr(printed.getvalue()))
wrong = bool(printed.getvalue().strip())
"""

RANDOM = """
$setup
before = torch.get_rng_state()
$which($at)
# The law: in eval mode a call draws no random numbers.
print("the state of torch's generator is as before:", torch.equal(before, torch.get_rng_state()))
wrong = not torch.equal(before, torch.get_rng_state())
"""

CACHED = f"""
$setup
kept = copy.deepcopy(flow)
$which($at)  # fills whatever is cached
results = []
for flow in (flow, kept):
    torch.manual_seed(1)
    for parameter in flow.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    results.append($results)
first, second = results
# The law: results after a parameter update do not depend on calls before it.
print("with an earlier call:   ", *(result.tolist() for result in first))
print("without an earlier call:", *(result.tolist() for result in second))
off = {APART}
"""

CACHED_BY_BATCH = f"""
kept = copy.deepcopy(flow)
$which($at)  # fills whatever is cached
results = []
for flow in (flow, kept):
    flow.train()
    $which($at)
    flow.eval()
    results.append($results)
first, second = results  # independent of calls before the train-mode batch
print("with an earlier call:   ", *(result.tolist() for result in first))
print("without an earlier call:", *(result.tolist() for result in second))
off = {APART}
"""

CAST = """
flow.to(torch.float32)
state = [*flow.named_parameters(), *flow.named_buffers()]
left = [name for name, one in state if one.is_floating_point() and one.dtype != torch.float32]
# The law: all floating-point state is cast.
print("after flow.to(torch.float32) still in another dtype:", left)
wrong = bool(left)
"""

FUNCTIONAL = f"""
first = $results
values = {{name: parameter.detach().clone() for name, parameter in flow.named_parameters()}}
with torch.no_grad():
    for parameter in flow.parameters():
        parameter += 1.0
second = torch.func.functional_call(flow, values, (x,))
# The law: parameters passed in have the effect of stored ones.
print("stored:   ", *(result.tolist() for result in first))
print("passed in:", *(result.tolist() for result in second))
off = {APART}
"""

ELSEWHERE = (
    Template(DEVICE, whole=True),
    Template(DEVICE.replace("$setup\n", "").replace("$there", "[sample(3)]"), when="sample"),
)

TEMPLATES = {
    "dtype/follows": (
        Template(DTYPE, when="the (value|log-det) of"),
        Template(DTYPE_REFUSED, when="raised"),
        Template(DTYPE_TORN, when="part ways"),
        Template(DTYPE_TORN_LOG_DET, when="part ways"),
        Template(DTYPE_INSIDE, when="float32 arithmetic"),
        Template(DTYPE, when="^it raises"),
    ),
    "dtype/follows[device]": ELSEWHERE,
    "dtype/follows[unmentioned-device]": ELSEWHERE,
    "dtype/follows[device-after-use]": (Template(AFTER_USE, whole=True),),
    "dtype/accurate": (Template(FLOAT32, whole=True, within=100),),
    "dtype/accurate[digits]": (
        Template(DIGITS, whole=True, when=" is "),
        Template(DIGITS_REFUSED, whole=True, when=" raises "),
    ),
    "dtype/accurate[autocast]": (Template(AUTOCAST, whole=True),),
    "dtype/accurate[sums]": (Template(WIDE_SUMS, whole=True),),
    "shape/wrong-refused[features]": (Template(WRONG_SHAPE),),
    "map/finite-far-out[extremes]": (Template(EXTREMES, which="forward"),),
    "map/finite-far-out[outside]": (Template(OUTSIDE, which="forward"),),
    "effects/process[input]": (Template(MUTATED, when="wrote to (x|context)"),),
    "same/history[repeat]": (Template(TWICE, within=1e3),),
    "shape/any-batch[one-row]": (Template(ALONE),),
    "map/finite[nan-row]": (Template(SPOILT, whole=True),),
    "same/manner-accepted": (Template(STRIDES),),
    "same/manner[strides]": (Template(STRIDES_AGREE, within=1e3),),
    "gradient/input[value]": (Template(VALUE_GRADIENT, within=1e3),),
    "gradient/input[log-det]": (Template(SCALAR_GRADIENT, within=1e3),),
    "gradient/input[log-prob]": (Template(SCALAR_GRADIENT, within=1e3),),
    "gradient/parameters[log-det]": (Template(PARAMETER_GRADIENT, within=1e3),),
    "gradient/parameters[value]": (
        Template(DENSITY_OF_PARAMETERS, when="log_prob", within=1e3, whole=True),
        Template(VALUE_OF_PARAMETERS, when="forward|inverse", within=1e3, whole=True),
    ),
    "gradient/reaches-parameters": (Template(DEAD), Template(DEAD, whole=True)),
    "effects/process[output]": (Template(PRINTED),),
    "random/seeded[global-streams]": (Template(RANDOM),),
    "same/history[optimizer-step]": (
        Template(CACHED, within=1e3),
        Template(CACHED_BY_BATCH, within=1e3),
    ),
    "dtype/follows[cast]": (Template(CAST),),
    "same/manner[functional-call]": (Template(FUNCTIONAL, within=1e3, which="forward"),),
}
