"""Which calls and attributes give the same value inside an operator as outside.

Inside an operator there is no autograd, no autocast and (behind the compiler) no in-place history:
``x.grad_fn``, ``x.requires_grad`` or ``x.data_ptr()`` would answer differently there.  These are
lists of what is known to answer the same; everything else is refused.
"""

from __future__ import annotations

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
AUTOCAST_METHODS = words("cumsum exp log mean norm nanmean prod sqrt square std sum var")
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
