"""Functions that ask the machine or the installation, and what could change their answer."""

from __future__ import annotations

import ast

from gbfix.analysis.tree import words
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions, writers

_NOTHING = ""
#: The environment, unless it is only read: `os.environ.get("HOME")`, `"HOME" in os.environ`.
_ENVIRON = r"(?<!in os\.)environ(?!\.get\(|\[[^\]\n]*\](?!\s*[+|]?=(?!=)))|\bdel\s[^\n]*\benviron\["
_PATHS = _ENVIRON + r"|putenv|setenv|load_dotenv|chdir|addsitedir|sys\.path\b"
#: What puts another function in a probe's place, as tests do.
_REPLACES = r"\bmock|[Mm]onkey_?[Pp]atch|\bpatch[.(]|setattr\(|sys\.modules"
#: Where a process has workers, each of them has its own number of threads.
_WORKERS = r"DataLoader|multiprocessing|Thread|\bfork\b|set_num_threads|threadpool_limits"
#: The full name of a probe, and a pattern of what in a project could change its answer.
PROBES = {
    **{
        f"platform.{name}": _NOTHING
        for name in words(
            "architecture libc_ver mac_ver machine node platform processor python_implementation"
            " python_version python_version_tuple release system uname version"
        )
    },
    **{
        f"torch.{name}": _NOTHING
        for name in words(
            "backends.cuda.is_built backends.cudnn.is_available backends.cudnn.version"
            " backends.mkl.is_available backends.mkldnn.is_available backends.mps.is_available"
            " backends.mps.is_built backends.openmp.is_available cpu.is_available"
            " cuda.is_available cuda.is_bf16_supported distributed.is_available"
            " distributed.is_nccl_available distributed.is_gloo_available mps.is_available"
            " xpu.is_available"
        )
    },
    "torch.get_num_threads": _WORKERS,
    "torch.get_num_interop_threads": r"set_num_interop_threads",
    "importlib.metadata.version": _PATHS,
    "importlib.util.find_spec": _PATHS + r"|meta_path|invalidate_caches",
    "shutil.which": _PATHS,
    "socket.gethostname": r"sethostname",
    "socket.getfqdn": r"sethostname",
    "getpass.getuser": _PATHS,
    "os.cpu_count": _NOTHING,
    "os.uname": _NOTHING,
    "os.getlogin": _NOTHING,
    "multiprocessing.cpu_count": _NOTHING,
    "sys.getdefaultencoding": _NOTHING,
    "sys.getfilesystemencoding": _NOTHING,
    "locale.getpreferredencoding": r"setlocale",
    "packaging.version.parse": _NOTHING,
    "packaging.version.Version": _NOTHING,
}


def answers_alike(site: Site, function: str) -> bool:
    """Whether a function is a probe that answers the same in the whole life of the program."""
    pattern = PROBES.get(function)
    if pattern is None:
        return False
    if mentions(site, f"{_REPLACES}|{pattern}" if pattern else _REPLACES):
        return False
    stored = (ast.unparse(node) for _, node in writers(site, function.rpartition(".")[2]))
    return all(text.startswith("self.") for text in stored)
