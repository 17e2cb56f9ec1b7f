"""Names by which calling conventions are recognized."""

from __future__ import annotations

import re

# Flags of forward for the inverse, False by default.
FLAGS = ("reverse", "rev", "inverse", "invert")
# Values of a parameter ``mode`` that select the inverse.
BACKWARDS = ("inverse", "reverse", "backward", "inv", "rev", "invert", "backwards", "generate", "sample")  # fmt: skip
# Parameters with values 1 and -1 for the direction.
SIGNS = ("direction", "dir", "mode")
# Parameters of forward for the ends of a time interval, and for both in one.
ENDS = (
    ("t0", "t1"), ("t0", "tf"), ("tstart", "tend"), ("starttime", "endtime"), ("tinit", "tfinal"),
    ("ti", "tf"), ("tbegin", "tend"), ("tmin", "tmax"), ("tfrom", "tto"), ("timestart", "timeend"),
)  # fmt: skip
SPANS = ("tspan", "timespan", "integrationtimes", "times", "span", "ts", "interval")
# Methods that are the inverse if there is no `inverse`.
INVERSE_METHODS = ("backward", "reverse")
# Flags of an inverse, False by default: its input is a result of forward, rather than noise from
# which latents are made first.
RECONSTRUCTS = ("reconstruct", "reconstruction", "reconstructing")
# Pairs of map and inverse without the name forward.
PAIRS = (
    ("x_to_z", "z_to_x"), ("forward_and_log_det", "inverse_and_log_det"),
    ("transform_and_log_det", "inverse_and_log_det"), ("forward_and_log_abs_det", "inverse_and_log_abs_det"),
)  # fmt: skip
# A map with a running log-det, where forward returns the value alone or is missing.
TRANSFORMS = "forward_transform"
# A method of a callable map that returns value and log-det; the inverse is another object.
BOTH = "call_and_ladj"
# Methods of a map and of its inverse with separate log-det methods.
BESIDE = {"forward": "forward_log_det_jacobian", "inverse": "inverse_log_det_jacobian"}
# Possible maps: suggested in hints, never used.
FORWARDS = (
    "encode", "normalize", "flow", "to_latent", "analyse", "analyze", "f", "transform", "push", "map",
    "forward_transform", "encoder", "push_forward", "pushforward",
)  # fmt: skip
# Possible inverses: suggested in hints, never used.
LIKELY = (
    "inv", "invert", "inverse_transform", "untransform", "backwards", "undo", "decode", "generate", "unflow", "g",
    "reverse_flow", "backward_pass", "inverse_forward", "forward_inverse", "reversed", "inv_forward",
    "synthesise", "synthesize", "from_latent", "to_data", "pull", "reverse_transform", "decoder",
    "pull_back", "pullback", "untransform",
)  # fmt: skip
# Usual names of log-densities.
USUAL = ("log_prob", "log_probs")
# The name in scikit-learn, accepted with a sampler only, since it may be any score.
SCORES = "score_samples"
# Methods that are the gradient of a log-density in a point, as their names say; others that may be, and words of their
# documentation that say something else: a gradient in parameters, or how unusual a point is.
GRADIENTS = re.compile(
    r"(compute|eval|get)?(grad(ient)?(of)?|nabla)x?log(p|prob|pdf|density|probability)(x|dx)?"
    r"|log(p|prob|pdf|density|probability)grad(ient)?|dlogp(rob)?dx|steinscore"
)
SCORE_METHODS = re.compile(r"(compute|eval|get)?(data|input|x)?score(fn|func|function)?(x|atx)?")
OTHER_SCORES = re.compile(
    r"fisher|(respect to|w\.?r\.?t\.?) *(the |its |all )?(param|theta|weight|mean\b|loc|scale|mu\b)|z-?score|anomal|outlier",
    re.IGNORECASE,
)
# Log-density methods, those with normalized in their names first, and samplers.
NORMALIZED = (
    "logpdf", "log_pdf", "log_density", "logdensity", "log_probability", "logprob", "log_prob_density",
)  # fmt: skip
DENSE = (
    *NORMALIZED, "log_likelihood", "loglikelihood", "loglik", "log_lik", "score_samples", "logp", "log_p", "log_q", "ll",
)  # fmt: skip
# Negative log-densities, possibly without the constant: suggested in hints, never used.
NEGATIVE = (
    "nll", "neg_log_prob", "negative_log_prob", "neg_logp", "neg_log_likelihood", "negative_log_likelihood",
    "neg_loglik", "nll_loss", "minus_log_prob", "neg_log_density", "nlogp",
)  # fmt: skip
DRAWING = (
    "rvs", "samples", "draw", "generate", "simulate", "get_sample", "get_samples", "draw_samples", "generate_samples", "sample_n",
)  # fmt: skip
# Methods that draw points with their log-densities.
BESIDE_SAMPLES = (
    "sample_and_log_prob", "sample_with_log_prob", "sample_log_prob", "rsample_and_log_prob", "rsample_with_log_prob",
)  # fmt: skip
# Methods that recompute state derived from parameters.
SYNCS = (
    "sync", "synchronize", "synchronise", "sync_weights", "sync_inverse", "sync_buffers", "sync_parameters",
    "update_inverse", "update_cache", "update_buffers", "refresh", "refresh_cache", "recompute", "recompute_inverse",
    "precompute", "compute_inverse",
)  # fmt: skip
# Second parameters for a running log-det to which a layer adds.
ADDED = frozenset(
    {
        "logdet", "logdets", "ldj", "sldj", "ladj", "logdetj", "logdetjac", "logdetjacobian", "logabsdet",
        "logabsdetjacobian", "logjac", "logjacobian", "sumlogdet", "sumldj", "sumlogabsdet", "lj", "logj",
    }
)  # fmt: skip
# Further names of it, by determinant, Jacobian or derivative.
DETERMINANT = re.compile(r"log(abs)?(det|jac|d[fyz]d[xz])|ldj")
# Names of a separate log-det method or attribute.
TELLING = re.compile(
    r"(compute|calc|calculate|eval|evaluate|get)?(forward)?(log(abs)?(det|jac)|ladj|s?ldj)(erminant)?"
    r"(j|jac|jacobian|obian|grad|det|determinant|obiandet|obiandeterminant)?"
)
# Attributes with the size of a context.
CONTEXTS = frozenset(
    {
        "contextfeatures", "contextdim", "contextsize", "ncontext", "numcontext", "dimcontext", "ctxdim",
        "nctx", "numctx", "dimctx", "ctxsize", "ctxfeatures", "contextchannels",
        "conddim", "condfeatures", "condsize", "ncond", "numcond", "numcondinputs", "dimcond", "cdim", "dimc",
        "conditiondim", "conditionaldim", "conditionsize", "ydim", "dimy", "labeldim", "nlabels", "condchannels",
    }
)  # fmt: skip
# Context parameters with default None.
OPTIONAL = frozenset(
    {
        "context", "cond", "condition", "conditions", "conditioning", "condinputs", "condy", "y", "c", "h", "g", "ctx",
        "speaker", "spk", "speakeremb", "spkemb",
    }
)  # fmt: skip
# Parameters for masks, and for class labels.
MASKED = re.compile(r".*mask.*")
# Parameters for indices, lengths or graphs.
INDEXED = re.compile(r"edge|adj|graph|ind(ex|ices)|length|ptr$")
# Parameters with default None that assign rows to sets, or to graphs of a batch.
SETS = frozenset({"batch", "batchindex", "batchidx", "batchvector", "graphindex", "graphidx", "setindex", "setidx"})  # fmt: skip
LABELS = frozenset(
    {
        "y", "c", "label", "labels", "cls", "class", "classes", "classid", "classids", "classlabel", "classlabels",
        "category", "target", "targets", "ids", "idx", "k",
    }
)  # fmt: skip
# Methods that are not injective.
LOSSY = re.compile(
    r"(add)?noise|quanti[sz]e|compress|token|embed|blur|mask|round|sample|encode$|crop|resize"
)
# Parts of names of parameters with default None that are no contexts: noise, generators, flags and
# states; and times and scales, which random numbers cannot stand for.
UNRELATED = re.compile(
    r"noise|eps(ilon)?|u|rng|random|gen(erator)?|seeds?|keys?|steps?|hidden|[hc]0|states?|cache|memory|dims?|ax[ie]s|n|num|nr|"
    r"count|sizes?|shapes?|device|dtype|out|outputs?|returns?|batch|base|prior|train(ing)?|modes?|direction|names?|layers?|"
    r"blocks?|ind(ex|ices)|idx|low|high|min|max|tol|solver|options|kw(args)?|callback|verbose|start|end|stop|len(gths?)?"
)
SCALES = re.compile(r"temp(erature)?|t|tau|times?|std|sigma|scales?|alpha|beta|lam(bda?)?|weights?")
# Parameters after a point that are contexts whatever their default.
CONDITIONS = (OPTIONAL | LABELS) - {"target", "targets", "ids", "idx", "k"} | {
    "cond",
    "conditional",
    "theta",
}
# Inverses with other words in their names, normalized.
TURNS: dict[str, tuple[str, ...]] = {
    "encode": ("decode",),
    "normalize": ("denormalise", "unnormalise", "generate", "denorm", "unnorm"),
    "normalise": ("denormalize", "unnormalize", "generate", "denorm", "unnorm"),
    "norm": ("denorm", "unnorm"),
    "analyse": ("synthesise", "synthesize"),
    "analyze": ("synthesise", "synthesize"),
    "push": ("pull", "pullback"),
    "pushforward": ("pullback", "pull", "pullbackward"),
    "flow": ("unflow", "reverseflow", "backflow"),
    "transform": ("invert", "inverse", "untransform", "inversetransform"),
    "apply": ("invert", "inverse", "undo"),
    "map": ("invert", "inverse", "unmap"),
    "tolatent": ("fromlatent", "todata", "tosample"),
    "fwd": ("inv", "inverse", "bwd", "back", "backward", "rev"),
    "tobase": ("frombase", "todata", "tosample"),
    "tonoise": ("fromnoise", "todata", "tosample"),
    "latent": ("data",),
    "whiten": ("color", "colour", "unwhiten", "dewhiten"),
    "squeeze": ("unsqueeze", "expand"),
    "scale": ("unscale", "descale"),
    "standardize": ("unstandardize", "destandardize"),
    "forwardtransform": ("inversetransform", "backwardtransform", "reversetransform"),
    "forwardpass": ("inversepass", "backwardpass", "reversepass"),
    "forwardflow": ("inverseflow", "backwardflow", "reverseflow"),
    "infer": ("generate",),
    "inference": ("generate", "generation"),
}
# Keys of a log-det in a returned mapping.
LOG_DETS = ADDED | {"logdetjacobians", "logabsdetj"}
# Keys of a value in a returned mapping.
VALUES = ("z", "x", "y", "latent", "latents", "value", "out", "output", "sample", "u")


def normalized_name(name: str) -> str:
    """A name in lower case without underscores and hyphens."""
    return name.casefold().replace("_", "").replace("-", "")


def is_context(name: str) -> bool:
    """Whether a parameter with default None is a context by its name."""
    return normalized_name(name) in OPTIONAL | LABELS


def words_of(name: str) -> list[str]:
    """The words in a name.

    >>> words_of("noiseLevel"), words_of("t_end")
    (['noise', 'level'], ['t', 'end'])
    """
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).casefold().split("_")


def is_scale(name: str) -> bool:
    """Whether a parameter with default None is a time or scale by its name."""
    return not is_context(name) and any(map(SCALES.fullmatch, words_of(name)))


def may_be_context(name: str) -> bool:
    """Whether a parameter with default None may be a context: its name is not known for anything else."""
    word = normalized_name(name)
    unrelated = any(map(UNRELATED.fullmatch, words_of(name)))
    known = MASKED.fullmatch(word) or INDEXED.search(word) or unrelated
    return is_context(name) or not (known or sign_of(name) or word in FLAGS)


def sign_of(name: str) -> str:
    """The operation on a running log-det implied by a name: "add", "subtract", or ""."""
    if normalized_name(name) in ADDED or DETERMINANT.search(normalized_name(name)):
        return "add"
    return "subtract" if normalized_name(name).startswith(("logp", "logdens")) else ""
