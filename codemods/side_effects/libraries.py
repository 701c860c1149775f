"""What is known of builtins, libraries and methods inside an operator: THE table of effects."""

from __future__ import annotations

import re

from gbfix.analysis.tree import words

#: Builtins that neither change what they are given nor look at its autograd.
BUILTINS = words(
    """abs all any ascii bool bytes chr dict divmod enumerate filter float format frozenset getattr
    hasattr hash hex int isinstance issubclass iter len list map max min next oct ord pow range
    repr reversed round set sorted str sum tuple type zip id super
    ValueError TypeError RuntimeError UserWarning DeprecationWarning FutureWarning
    RuntimeWarning PendingDeprecationWarning Warning Exception"""
)
EFFECT_BUILTINS = words("print open")
#: Library functions by prefix: fine inside an operator, and whether they have an effect.
PURE = tuple(
    sorted(
        words(
            """math. json.dumps json.loads pprint.pformat textwrap. string. statistics. os.path.
            os.getpid os.getenv os.environ time.strftime time.time time.perf_counter
            time.monotonic time.process_time time.gmtime time.localtime datetime.
            pathlib. collections. itertools. operator. io. csv. logging.getLogger
            sys.stdout sys.stderr platform. re. functools.reduce dataclasses.asdict
            copy.copy numpy.mean numpy.std numpy.asarray numpy.array numpy.histogram
            numpy.percentile numpy.isnan numpy.isfinite numpy.round numpy.abs
            numpy.max numpy.min numpy.sum traceback.format_stack tracemalloc.
            resource.getrusage hashlib. torch.cuda.memory_allocated
            torch.cuda.max_memory_allocated torch.cuda.is_available"""
        )
    )
)
EFFECTS = tuple(
    sorted(
        words(
            """print pprint.pprint logging. warnings.warn warnings.filterwarnings
            warnings.simplefilter json.dump pickle.dump os.makedirs os.mkdir os.replace
            os.rename os.remove os.unlink shutil. sys.stdout. sys.stderr.
            time.sleep torch.save numpy.save torch.cuda.nvtx. nvtx.
            torch.cuda.synchronize wandb.log mlflow.log_metric tqdm.tqdm.write
            ctypes. gc.collect safetensors.torch.save_file"""
        )
    )
)
#: torch functions that draw, differentiate, or set how torch works.
NO_TORCH = words(
    """rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal
    poisson dropout manual_seed seed set_default_dtype set_grad_enabled set_num_threads compile
    matmul mm bmm addmm einsum linear conv1d conv2d set_rng_state use_deterministic_algorithms
    set_default_device"""
)
LOG = words(
    """debug info warning warn error exception critical fatal log warning_once info_once log_every_n
    isEnabledFor getEffectiveLevel"""
)
#: Methods that add to a container or a meter.
ADDING = words(
    """append extend add update insert appendleft extendleft setdefault push record log clear pop
    popleft increment observe"""
)
#: Methods of strings, numbers, containers, files and tensors that change nothing but a file.
PLAIN = words(
    """format join items keys values get split rsplit splitlines strip lstrip rstrip upper lower
    title capitalize replace startswith endswith zfill ljust rjust center count index find encode
    decode copy write writelines flush close writerow writerows writeheader read readline open
    mkdir exists
    write_text write_bytes unlink touch is_file is_dir isoformat strftime total_seconds timestamp
    item tolist size dim numel nelement element_size detach cpu float double half int long bool
    abs all any amax amin argmax argmin clamp clone count_nonzero eq ne lt gt le ge exp log log2
    log10 sqrt square pow norm mean median min max std var sum prod quantile kthvalue topk sort
    flatten reshape view permute transpose unsqueeze squeeze t numpy isnan isinf isfinite
    logical_and logical_or nonzero unique round diff cumsum softmax sigmoid tanh relu sub
    mul div histc bincount contiguous to type expand stride nanmean sign
    most_common total __len__ __contains__ hexdigest fileno isatty gather index_select masked_select
    elapsed_time"""
)
FILE_METHODS = words(
    """write writelines flush writerow writerows writeheader write_text write_bytes unlink touch
    mkdir"""
)
#: Objects of these types do with a call what they do with it outside an operator.
SINKS = (
    "logging.", "_io.", "tqdm.", "torch.utils.tensorboard.", "tensorboardX.", "wandb.", "loguru.",
    "rich.", "_csv.", "csv.", "pathlib.", "torch.cuda.",
)  # fmt: skip
CONTAINERS = words("list dict set deque Counter defaultdict OrderedDict")
HIDDEN = words("grad grad_fn requires_grad is_leaf data requires_grad_ retain_grad backward")
SCALARS = words("item tolist size dim numel nelement element_size")
#: Methods of an array that give one number, where they are given nothing.
REDUCTIONS = words("min max mean sum std var prod argmin argmax item ptp all any")
#: Results that never have a gradient.
NO_GRADIENT = words(
    """detach argmax argmin eq ne lt le gt ge isnan isinf isfinite bool long int nonzero
    count_nonzero"""
)
#: Functions of Python that look at what they are given, and keep nothing of it.
LOOKS = words(
    """print len sum min max list dict sorted set str repr any all enumerate float int bool round
    abs format isinstance"""
)
SHOWS = re.compile(r"%[^%a-zA-Z]*[sra]")
