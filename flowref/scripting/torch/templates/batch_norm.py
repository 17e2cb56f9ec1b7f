"""Batch normalization: outputs, running statistics and gradients against their formulas."""

from __future__ import annotations

from flowref.scripting.template import Template

# Channels with different means and deviations over samples and positions.
BATCH = """
spread = 10.0 ** torch.linspace(-2, 1, $channels).reshape($wide)
x = spread * (3.0 + torch.randn($samples, $sizes))
axes = [0, *range(2, x.dim())]
mean, var = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
"""

MATCHES_TRAIN = f"""
{BATCH.strip()}
flow.train()
y = $call(x)[0]
expected = $weight * (x - mean) / (var + $eps).sqrt() + $bias
# The law: in train mode a batch is normalized by its mean and its biased variance.
print("output:  ", y.flatten()[:4].tolist())
print("expected:", expected.flatten()[:4].tolist())
off = ((y - expected).abs().max() / (1 + expected.abs().max())).item()
"""

MATCHES_EVAL = f"""
{BATCH.strip()}
flow.eval()
y = $call(x)[0]
expected = $weight * (x - $running_mean) / ($running_var + $eps).sqrt() + $bias
# The law: in eval mode a batch is normalized by the running statistics.
print("output:  ", y.flatten()[:4].tolist())
print("expected:", expected.flatten()[:4].tolist())
off = ((y - expected).abs().max() / (1 + expected.abs().max())).item()
"""

UPDATE = f"""
{BATCH.strip()}
before = [$running_mean.clone(), $running_var.clone()]
flow.train()
$call(x)
after, offs = [$running_mean, $running_var], []
for batch in (x.var(axes, keepdim=True), var):  # unbiased and biased
    for share in ($fractions):
        wanted = [old + share * (new - old) for old, new in zip(before, (mean, batch))]
        gaps = [((a - b).abs() / (1 + b.abs())).max().item() for a, b in zip(after, wanted)]
        print(f"by a share of {{share:g}} of the batch, mean and variance are off by", gaps)
        offs.append(max(gaps))
# The law: a batch enters with one share, the momentum or one minus it, by either variance.
off = min(offs)
"""

VARIANCE = f"""
{BATCH.strip()}
flow.train()
y = ($call(x)[0] - $bias) / $weight
expected = (x - mean) / (var + $eps).sqrt()
ratio = ((y - y.mean()).square().mean() / expected.square().mean()).item()
# The law: a batch is normalized by its biased variance, as in algorithm 1 of the paper.
print("variance of the output over that of the formula:", ratio)
print("(n - 1)/n for n values:", (x[:, 0].numel() - 1) / x[:, 0].numel())
wrong = abs(ratio - 1) > 1e-3
"""

RUNNING_VARIANCE = f"""
{BATCH.strip()}
before = $running_var.clone()
flow.train()
$call(x)
n = x[:, 0].numel()
moved = ($running_var - before).flatten()
biased, unbiased = (var - before).flatten(), (var * n / (n - 1) - before).flatten()
# The law: the running variance averages unbiased variances, or is documented otherwise.
print("moved, as a share of the way to the biased variance:  ", (moved / biased).tolist())
print("moved, as a share of the way to the unbiased variance:", (moved / unbiased).tolist())
wrong = (moved / biased).std() < (moved / unbiased).std()
"""

MOMENTUM = f"""
{BATCH.strip()}
before = $running_mean.clone()
flow.train()
$call(x)
share = (($running_mean - before) / (mean - before)).flatten()
# The law: the momentum is the share of the new batch, as in torch, or documented otherwise.
print("momentum:", $momentum, " share with which the batch entered:", share.tolist())
wrong = abs(share[0].item() - $momentum) > abs(share[0].item() - (1 - $momentum))
"""

INITIAL = """
held = {"weight": $weight, "bias": $bias, "running mean": $running_mean, "running variance": $running_var}
usual = {"weight": 1.0, "bias": 0.0, "running mean": 0.0, "running variance": 1.0}
wrong = False
for name, value in held.items():
    value = torch.as_tensor(value).flatten()
    # The law: a new layer has these values.
    print(name, value.tolist(), " usual:", usual[name])
    wrong |= bool((value - usual[name]).abs().max() > 1e-2)
"""

REFUSED = """
$probe
flow.train()
try:
    y = $call(x)[0]
    print("shape", tuple(x.shape), "is accepted in train mode; the output is", y.flatten().tolist())
    wrong = True
except Exception as error:
    print("shape", tuple(x.shape), "is refused:", error)
    wrong = False
"""

EMPTY = """
x = torch.zeros(0, $sizes)
before = [$running_mean.clone(), $running_var.clone()]
flow.train()
try:
    y = $call(x)[0]
    print("an empty batch gives shape", tuple(y.shape))
    wrong = y.shape != x.shape
except Exception as error:
    print("an empty batch is refused:", error)
    wrong = False
after = [$running_mean, $running_var]
# The law: an empty batch does not change the running statistics.
print("running statistics before:", *(one.flatten().tolist() for one in before))
print("running statistics after: ", *(one.flatten().tolist() for one in after))
wrong = wrong or not all(torch.equal(a, b) for a, b in zip(before, after))
"""

CHANNELS = """
wrong = False
for channels in sorted({1, $channels - 1, $channels + 1, 2 * $channels} - {$channels, 0}):
    for mode in (True, False):
        flow.train(mode)
        try:
            y = $call(torch.randn(6, channels$positions_after))[0]
        except Exception:
            continue
        # The law: a layer of $channels channels rejects other numbers of channels.
        print(channels, "channels are accepted, train mode:", mode, " shape:", tuple(y.shape))
        wrong = True
"""

GRADIENT_SUMS = f"""
{BATCH.strip()}
x.requires_grad_()
flow.train()
cotangent = torch.randn(x.shape)
(gradient,) = torch.autograd.grad($call(x)[0], x, cotangent)
# The law: the output does not change with a constant added to a channel.
print("sum of the gradient in each channel:", gradient.sum(axes).tolist())
off = (gradient.sum(axes).abs() / gradient.abs().sum(axes)).max().item()
"""

BACKWARD = f"""
{BATCH.strip()}
x.requires_grad_()
flow.train()
cotangent = torch.randn(x.shape)
(gradient,) = torch.autograd.grad($call(x)[0], x, cotangent)
hat, dhat = ((x - mean) / (var + $eps).sqrt()).detach(), $weight * cotangent
along = (dhat * hat).mean(axes, keepdim=True)
expected = (dhat - dhat.mean(axes, keepdim=True) - hat * along) / (var + $eps).sqrt()
# The law: the gradient passes through the mean and the variance of the batch.
print("gradient:   ", gradient.flatten()[:4].tolist())
print("closed form:", expected.flatten()[:4].tolist())
off = ((gradient - expected).abs().max() / expected.abs().max()).item()
"""

LOG_DET = """
x = torch.randn(5, $sizes)
flow.eval()
_, reported = $call(x)
scale = $weight / ($running_var + $eps).sqrt()
expected = $positions * scale.abs().log().sum().item()
# The law: the log-det is the sum of log|scale| over channels and positions.
print("reported:", reported.tolist())
print("expected:", expected)
off = (reported - expected).abs().max().item()
"""

COUNTER = """
x = torch.randn(8, $sizes)
counts = [int($counter)]
for mode in (True, True, False):
    flow.train(mode)
    $call(x)
    counts.append(int($counter))
# The law: a call in train mode counts one batch, a call in eval mode none.
print("batches counted at first, after two in train mode, and after one in eval mode:", counts)
wrong = [count - counts[0] for count in counts] != [0, 1, 2, 2]
"""

JACOBIAN = """
x = 3 + torch.randn($few, $sizes)
flow.train()
_, reported = $call(x)
jacobian = torch.autograd.functional.jacobian(lambda v: $call(v)[0], x).reshape(x.numel(), x.numel())
expected = torch.linalg.slogdet(jacobian).logabsdet
# The law: in train mode the log-dets of a batch add up to that of the map of the whole batch.
print("sum of the reported log-dets:          ", reported.sum().item())
print("log-det of the map of the whole batch: ", expected.item())
wrong = abs(reported.sum().item() - expected.item()) > 1e-3
"""

SCALES = f"""
{BATCH.strip()}
flow.train()
first, second = $call(x)[0] - $bias, $call(-3 * x)[0] - $bias
ideal = -((9 * (var + $eps)) / (9 * var + $eps)).sqrt() * first
# The law: BN(a x) = sign(a) BN(x), with eps / a^2 for eps.
print("BN(-3 x):", second.flatten()[:4].tolist())
print("expected:", ideal.flatten()[:4].tolist())
off = ((second - ideal).abs().max() / (1 + ideal.abs().max())).item()
"""

INVERSE_TRAIN = """
x = 3 + torch.randn(8, $sizes)
flow.train()
y = $call(x)[0].detach()
try:
    back = $undo(y)[0]
    print("x:        ", x.flatten()[:4].tolist())
    print("came back:", back.flatten()[:4].tolist())
    wrong = (back - x).abs().max().item() > 1e-6
except Exception as error:
    # The law: in train mode the inverse raises, or returns the batch.
    print("the inverse is refused in train mode:", error)
    wrong = False
"""

RANKS = """
wrong = False
for rank in (2, 3, 4, 5):
    accepted = []
    for mode in (True, False):
        flow.train(mode)
        try:
            $call(torch.randn(4 * $channels, *[$channels] * (rank - 1)))
            accepted.append(True)
        except Exception:
            accepted.append(False)
    # The law: both modes accept the same ranks.
    print("rank", rank, "is accepted in train mode:", accepted[0], " in eval mode:", accepted[1])
    wrong |= accepted[0] != accepted[1]
"""

ANY = 1e9  # residuals of these laws have scales of their own


def _batch_norm_templates(*texts: str) -> tuple[Template, ...]:
    return tuple(Template(text, within=ANY) for text in texts)


TEMPLATES = {
    "batch-norm/train-map[reference]": _batch_norm_templates(MATCHES_TRAIN, MATCHES_EVAL),
    "batch-norm/statistics[buffers]": _batch_norm_templates(UPDATE),
    "batch-norm/conventions[variance]": _batch_norm_templates(VARIANCE),
    "batch-norm/conventions[running-variance]": _batch_norm_templates(RUNNING_VARIANCE),
    "batch-norm/conventions[momentum]": _batch_norm_templates(MOMENTUM),
    "batch-norm/as-built[values]": _batch_norm_templates(INITIAL),
    "state/degenerate-batch[single-value]": _batch_norm_templates(
        REFUSED.replace("$probe", "x = torch.randn($single)")
    ),
    "shape/any-batch[batch-norm]": _batch_norm_templates(EMPTY),
    "shape/wrong-refused[ranks]": _batch_norm_templates(RANKS),
    "shape/wrong-refused[channels]": _batch_norm_templates(CHANNELS),
    "batch-norm/gradient[bias-before]": _batch_norm_templates(GRADIENT_SUMS),
    "batch-norm/gradient[closed-form]": _batch_norm_templates(BACKWARD),
    "map/log-det[slopes]": _batch_norm_templates(LOG_DET),
    "batch-norm/statistics[counter]": _batch_norm_templates(COUNTER),
    "map/log-det[batch]": _batch_norm_templates(JACOBIAN),
    "batch-norm/train-map[scale]": _batch_norm_templates(SCALES),
    "map/inverse[batch-norm]": _batch_norm_templates(INVERSE_TRAIN),
}
