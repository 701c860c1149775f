"""Which calls and attributes give the same value inside an operator as outside.

Inside an operator there is no autograd, no autocast and (behind the compiler) no in-place history:
``x.grad_fn``, ``x.requires_grad`` or ``x.data_ptr()`` would answer differently there.  These are
lists of what is known to answer the same; everything else is refused.
"""

from __future__ import annotations

from gbfix.analysis.torch_names import PURE_METHODS, PURE_TORCH, SELDOM
from gbfix.analysis.tree import words

_BUILTINS = words(
    """False None True abs all any ascii bool dict enumerate float format int len list max min
    range repr reversed round set sorted str sum tuple zip"""
)
_METHODS = words(
    """abs all allclose amax amin any argmax argmin bincount bool clamp clone count_nonzero cpu
    cumsum detach diff dim double element_size eq equal exp flatten float ge gt int isclose
    isfinite isinf isnan item le log long lt max mean median min nanmean ne neg nelement
    nonzero norm numel numpy permute prod reshape round size sqrt square squeeze std sum t
    tolist topk transpose unique unsqueeze var view capitalize center count encode endswith
    format get index items join keys ljust lower lstrip removeprefix removesuffix replace
    rjust rstrip split startswith strip title upper values zfill"""
)
#: Methods whose result on float16 or bfloat16 depends on autocast.
AUTOCAST_METHODS = words(
    """acos asin cosh cumprod cumsum dist erfinv exp expm1 log log10 log1p log2 log_softmax logit
    logsumexp mean nanmean nansum norm polygamma pow prod reciprocal rsqrt sinh softmax sqrt square
    std sum tan var"""
)
#: What torch computes alike with the same arguments, and an operator may not: autocast makes
#: products of half precision, new tensors take defaults (a device, a dtype), `empty` is anything.
_UNLIKE = SELDOM | words(
    """matmul mm bmm mv dot outer inner baddbmm addmm addbmm addmv addr einsum tensordot kron cross
    bilinear conv1d conv2d conv3d layer_norm group_norm cdist cosine_similarity renorm det
    zeros ones empty full arange linspace logspace eye tensor as_tensor empty_like new_zeros
    new_ones new_empty new_full new_tensor tril_indices triu_indices from_numpy is_grad_enabled
    is_inference_mode_enabled get_default_dtype cartesian_prod combinations data_ptr is_shared
    is_inference is_pinned storage_offset is_contiguous stride type one_hot"""
)
_TENSOR_STATE = words("T device dtype itemsize mT nbytes ndim shape")
_TORCH = words(
    """all allclose any argmax argmin count_nonzero device equal is_floating_point isclose isfinite
    isinf isnan isneginf isposinf max mean min norm numel ones_like std sum var zeros_like"""
)
_MODULES = ("math.", "string.", "textwrap.")
_CONSTANTS = words(
    """sys.stdout sys.stderr logging.DEBUG logging.INFO logging.WARNING logging.ERROR
    logging.CRITICAL os.sep os.linesep os.path.join os.path.basename"""
)
_TORCH_DTYPES = words(
    """float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 short int
    long bool complex64 complex128"""
)


def is_pure_method(name: str) -> bool:
    return name in _METHODS


def computes_alike(name: str) -> bool:
    """Whether a resolved name is a function of torch that only computes from its arguments."""
    module, _, last = name.rpartition(".")
    return module == "torch" and last in PURE_TORCH - _UNLIKE


def is_computing_method(name: str) -> bool:
    """The same of a tensor's method."""
    return name in PURE_METHODS - _UNLIKE


def is_tensor_state(name: str) -> bool:
    """Whether a tensor's attribute of this name reads the same inside an operator."""
    return name in _TENSOR_STATE


def is_pure_function(name: str) -> bool:
    """Whether a resolved dotted name is a pure function or a constant."""
    module, _, last = name.rpartition(".")
    if module == "builtins":
        return last in _BUILTINS
    if module == "torch":
        return last in _TORCH or last in _TORCH_DTYPES
    return name in _CONSTANTS or name.startswith(_MODULES)
