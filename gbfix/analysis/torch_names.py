"""What torch's functions and tensor methods do, by name: tables for `kinds` and `purity`.

Only names are listed here whose behaviour holds for every argument that they accept, unless a
comment says otherwise.  Read from the documentation and source of torch 2.13; every name is checked
against the installed torch by ``tests/analysis/test_torch_names.py``.
"""

from __future__ import annotations

from gbfix.analysis.tree import words

#: Element-wise with one tensor: a tensor of the same shape, and of the same dtype if floating.
ELEMENTWISE = words(
    """abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
    ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10
    log1p log2 logit neg negative positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign sin
    sinc sinh sqrt square tan tanh trunc nan_to_num"""
)
#: Same shape, dtype, device as the tensor that it is called on.
IDENTITY_METHODS = words("clone detach contiguous cpu cuda flip roll tril triu fliplr flipud rot90")
#: Give a tensor of bools; with one tensor argument, of its shape.
PREDICATES = words(
    "isnan isinf isfinite isneginf isposinf isreal signbit logical_not isclose isin eq ne lt le gt"
    " ge less less_equal greater greater_equal not_equal logical_and logical_or logical_xor"
)
UNARY_PREDICATES = words("isnan isinf isfinite isneginf isposinf isreal signbit logical_not")
#: Give a 0-dimensional tensor without arguments (beyond the tensor itself).
FULL_REDUCTIONS = words(
    "sum mean prod std var norm max min amax amin median nanmedian nansum nanmean argmax argmin"
    " logsumexp all any count_nonzero"
)
BOOL_REDUCTIONS = words("all any")
INDEX_REDUCTIONS = words("argmax argmin count_nonzero")
#: With ``dim`` these give a named tuple of tensors.
PAIR_REDUCTIONS = words("max min median nanmedian mode kthvalue sort topk cummax cummin aminmax")
#: Always give one tensor (or the name's reductions with arguments); shapes are not followed.
TENSOR_RESULTS = words(
    """add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow
    float_power maximum minimum fmax fmin where clamp clip clamp_min clamp_max lerp addcmul addcdiv
    matmul mm bmm mv dot outer inner baddbmm addmm addbmm addmv addr einsum tensordot kron cross
    cumsum cumprod logcumsumexp softmax log_softmax gather scatter scatter_add index_select
    index_add index_copy index_fill masked_fill masked_select masked_scatter take take_along_dim
    view reshape flatten unflatten squeeze unsqueeze transpose swapaxes swapdims permute movedim t
    expand expand_as view_as reshape_as repeat repeat_interleave narrow select tile diag diagonal
    diag_embed trace argsort bincount histc bucketize searchsorted unfold cat concat concatenate
    stack hstack vstack dstack atan2 hypot copysign nextafter bitwise_and bitwise_or bitwise_xor
    bitwise_not type_as dist cdist renorm bitwise_left_shift bitwise_right_shift nonzero
    count_nonzero real conj angle polygamma logaddexp logaddexp2 ldexp gcd lcm xlogy sum mean prod
    std var norm amax amin argmax argmin logsumexp all any nansum nanmean one_hot cosine_similarity
    zeros ones empty full arange linspace logspace eye tensor as_tensor zeros_like ones_like
    empty_like full_like new_zeros new_ones new_empty new_full new_tensor cartesian_prod
    broadcast_to det"""
)
#: Always give tensors with memory of their own (``relu`` unless it is told ``inplace``).
NEW_MEMORY = words(
    """clone zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones
    new_full new_empty arange linspace eye tensor rand randn sort topk argsort softmax log_softmax
    cumsum cumprod where gather scatter index_select masked_fill cat stack one_hot cdist outer
    matmul mm bmm sum mean exp log log1p expm1 sqrt rsqrt square abs sigmoid tanh relu clamp add
    sub mul div pow maximum minimum norm cosine_similarity"""
)
#: The data decides on what they give: numbers, or tensors of a size that it decides on.
DECIDED_BY_DATA = words(
    "item tolist nonzero unique unique_consecutive argwhere masked_select bincount"
)
#: Give several tensors.
TUPLE_RESULTS = words(
    "split chunk unbind tensor_split broadcast_tensors meshgrid std_mean var_mean"
)
#: In-place methods ``<name>_`` that leave the shape as it is.
KEEPING_SHAPE = words(
    "add sub mul div clamp fill zero copy pow fmod remainder lerp masked_fill index_fill uniform"
    " normal"
)
INT_METHODS = words("dim numel nelement ndimension element_size storage_offset get_device data_ptr")
BOOL_METHODS = words(
    "is_contiguous is_floating_point is_complex is_signed equal allclose is_inference is_pinned"
)
CASTS = {
    "float": "torch.float32",
    "double": "torch.float64",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
    "int": "torch.int32",
    "long": "torch.int64",
    "short": "torch.int16",
    "char": "torch.int8",
    "byte": "torch.uint8",
    "bool": "torch.bool",
}
FLOAT_DTYPES = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
INT_DTYPES = words("torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")
TENSOR_ATTRIBUTES = words("T mT H mH data real imag grad")
INT_ATTRIBUTES = words("ndim itemsize nbytes output_nr")
BOOL_ATTRIBUTES = words(
    "requires_grad is_leaf is_cuda is_cpu is_sparse is_quantized is_meta is_mps is_nested"
)

#: ``torch.nn.functional`` functions without state or randomness (``inplace=`` is looked at apart).
PURE_FUNCTIONAL = words(
    """relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardswish
    hardsigmoid hardshrink softshrink tanhshrink logsigmoid threshold glu prelu softmax softmin
    log_softmax sigmoid tanh linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d layer_norm group_norm rms_norm local_response_norm normalize avg_pool1d
    avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d
    lp_pool2d max_unpool1d max_unpool2d max_unpool3d fold unfold pad interpolate upsample
    grid_sample affine_grid pixel_shuffle pixel_unshuffle one_hot cosine_similarity pdist
    pairwise_distance cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss
    binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss
    gaussian_nll_loss cosine_embedding_loss margin_ranking_loss hinge_embedding_loss
    triplet_margin_loss soft_margin_loss multi_margin_loss multilabel_margin_loss ctc_loss"""
)
#: ``torch.linalg``, ``torch.fft`` and ``torch.special`` are pure as a whole.
PURE_NAMESPACES = ("torch.linalg.", "torch.fft.", "torch.special.", "math.", "operator.", "cmath.")

#: Compute and nothing else, and are seldom met; nothing more is said of them (see `SHARING` for
#: those that may give a view).
SELDOM_METHODS = words(
    """quantile nanquantile diff stft istft scatter_reduce inverse pinverse cholesky cholesky_solve
    cholesky_inverse slogdet logdet vdot cov corrcoef frexp heaviside prelu igamma igammac mvlgamma
    msort histogram matrix_exp matrix_power svd qr lu_solve triangular_solve argwhere ger i0
    index_put index_reduce put select_scatter slice_scatter diagonal_scatter hardshrink diagflat
    arctan2 ravel moveaxis hsplit vsplit dsplit adjoint resolve_conj resolve_neg sum_to_size"""
)
SELDOM = (SELDOM_METHODS - words("sum_to_size")) | words(
    """block_diag trapezoid trapz cumulative_trapezoid lu_unpack vander gradient pairwise_distance
    rms_norm channel_shuffle pixel_unshuffle conv_transpose1d conv_transpose2d conv_transpose3d
    max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d hann_window hamming_window
    blackman_window bartlett_window kaiser_window chain_matmul triplet_margin_loss
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss kl_div poisson_nll_loss
    column_stack row_stack atleast_1d atleast_2d atleast_3d"""
)
PURE_TORCH = (
    SELDOM
    | ELEMENTWISE
    | PREDICATES
    | FULL_REDUCTIONS
    | PAIR_REDUCTIONS
    | TENSOR_RESULTS
    | TUPLE_RESULTS
    | words(
        """is_tensor is_floating_point is_complex is_grad_enabled numel equal allclose promote_types
        result_type can_cast finfo iinfo Size device is_inference_mode_enabled get_default_dtype
        clone detach from_numpy tril triu tril_indices triu_indices flip roll fliplr flipud rot90
        conv1d conv2d conv3d layer_norm group_norm is_nonzero is_same_size complex polar
        view_as_real view_as_complex broadcast_shapes unique unique_consecutive combinations
        bilinear celu selu threshold pixel_shuffle"""
    )
)
PURE_METHODS = (
    SELDOM_METHODS
    | ELEMENTWISE
    | IDENTITY_METHODS
    | PREDICATES
    | FULL_REDUCTIONS
    | PAIR_REDUCTIONS
    | TENSOR_RESULTS
    | TUPLE_RESULTS
    | INT_METHODS
    | BOOL_METHODS
    | frozenset(CASTS)
    | words("size stride item tolist to numpy type is_shared unique unique_consecutive is_nonzero")
)

RNG_FUNCTIONS = words(
    """rand rand_like randn randn_like randint randint_like randperm bernoulli multinomial normal
    poisson binomial dropout alpha_dropout feature_alpha_dropout feature_dropout native_dropout
    dropout1d dropout2d dropout3d rrelu gumbel_softmax manual_seed seed initial_seed set_rng_state
    get_rng_state multi_head_attention_forward fractional_max_pool2d fractional_max_pool3d"""
)
RNG_METHODS = words(
    "bernoulli multinomial uniform_ normal_ random_ exponential_ cauchy_ geometric_ log_normal_"
    " bernoulli_"
)
RNG_NAMESPACES = (
    "random.",
    "np.random.",
    "numpy.random.",
    "torch.random.",
    "torch.distributions.",
    "torch.cuda.manual_seed",
    "secrets.",
)
#: Modules that draw random numbers in training, and modules that only compute (forward hooks and
#: parametrizations aside).  Activations are left out: they may have been made with ``inplace``.
RNG_MODULES = words(
    "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout RReLU"
    " FractionalMaxPool2d FractionalMaxPool3d"
)
PURE_MODULES = words(
    """Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    LayerNorm GroupNorm RMSNorm Identity Flatten Unflatten Tanh Sigmoid Softmax LogSoftmax GELU
    Softplus MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d
    AdaptiveAvgPool2d AdaptiveAvgPool3d Upsample PixelShuffle MSELoss L1Loss CrossEntropyLoss
    NLLLoss BCELoss BCEWithLogitsLoss SmoothL1Loss HuberLoss KLDivLoss CosineSimilarity"""
)

IO_FUNCTIONS = words("print input open breakpoint help exit quit")
IO_NAMESPACES = (
    "logging.",
    "warnings.",
    "sys.stdout.",
    "sys.stderr.",
    "os.",
    "shutil.",
    "subprocess.",
    "time.",
    "pdb.",
    "torch.save",
    "torch.load",
    "torch.serialization.",
    "torch.distributed.",
    "torch.cuda.synchronize",
    "tqdm.",
    "pathlib.",
    "socket.",
    "pickle.dump",
    "json.dump",
)
IO_METHODS = words(
    "debug info warning warn error exception critical log write writelines flush add_scalar"
)
