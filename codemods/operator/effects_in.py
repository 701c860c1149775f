"""Whether code does more than compute: it draws numbers, asks the clock, prints, logs, keeps."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .inputs import local_names
from .reached import called

_OTHER_DRAWS = ("random.", "numpy.random.", "secrets.", "uuid.", "time.", "datetime.", "logging.")
#: Draws that keep their order among operators with ordered effects, whatever else runs between.
_STREAMS = ("random.", "numpy.random.")
#: What a profiler shows: a backward that computes again would show it again.
_RANGES = ("torch.cuda.nvtx.", "nvtx.", "torch.profiler.", "torch.autograd.profiler.")
_EFFECTS = words(
    """builtins.print builtins.open builtins.input warnings.warn torch.save numpy.save
    warnings.filterwarnings warnings.simplefilter warnings.resetwarnings"""
)
_TORCH_DRAWS = words(
    """torch.rand torch.randn torch.randint torch.randperm torch.normal torch.bernoulli
    torch.multinomial torch.rand_like torch.randn_like torch.randint_like torch.poisson
    torch.dropout torch.nn.functional.dropout torch.nn.functional.dropout1d
    torch.nn.functional.dropout2d torch.nn.functional.dropout3d torch.nn.functional.alpha_dropout
    torch.nn.functional.gumbel_softmax torch.nn.functional.feature_alpha_dropout
    torch.nn.functional.rrelu torch.rrelu torch.randn_like torch.manual_seed
    torch.random.manual_seed torch.seed torch.random.seed torch.set_rng_state
    torch.random.set_rng_state torch.get_rng_state torch.random.get_rng_state
    torch.cuda.manual_seed torch.cuda.manual_seed_all torch.cuda.set_rng_state
    torch.cuda.get_rng_state torch.initial_seed torch.random.initial_seed"""
)
#: Of these, what does not draw, but reads or sets where the next draw begins.
_SETS_DRAWS = re.compile(r"seed|rng_state")
#: Methods of tensors and distributions that draw.
_METHODS = words(
    """multinomial bernoulli bernoulli_ normal_ uniform_ exponential_ geometric_ cauchy_ log_normal_
    random_ sample rsample"""
)
#: What objects may be asked without a change: nothing else is known of them.
_ASKS = words(
    """get items keys values index count copy lower upper strip split format encode decode match
    search fullmatch findall startswith endswith"""
)
_CHANGES = words("append add update extend insert pop remove clear setdefault discard popitem")
_LOGGERS = re.compile(r"(log|logger|logging|_logger|LOG|LOGGER)\.")
_SHOWS = re.compile(
    r"(?:print|open|input)$|(?:np|numpy|torch)\.rand|(?:np|numpy)\.random\.|(?:random|secrets|uuid|time"
    r"|datetime|warnings|log|logger|logging|_logger|LOG|LOGGER)\."
)


class Activity(enum.Flag):
    """What code does besides computing."""

    NOTHING = 0
    #: It draws from torch's own generators, and sets them to nothing.
    DRAWS = enum.auto()
    #: Anything else: other generators, output, a clock, changes of what is not its own.
    MORE = enum.auto()


def acts(
    site: Site,
    nodes: Sequence[cst.CSTNode],
    inside: Collection[str],
    *,
    beside_draws: bool = False,
) -> Activity:
    """What code does besides computing.

    ``inside`` are names that are the code's own, or passed to it: changing these shows there.
    ``beside_draws`` asks what else it does than drawing from Python's and NumPy's generators.
    """
    functions = called(site, nodes)
    found = Activity.NOTHING
    for node in (*nodes, *(f.body for f in functions)):
        private = _private_draws(site, node)
        for inner in walk(node):
            if isinstance(inner, cst.Global):
                return Activity.MORE
            if not isinstance(inner, cst.Call):
                continue
            name = resolve(site.module, inner.func) or ""
            if beside_draws and name.startswith(_STREAMS):
                continue
            if name in _EFFECTS or name.startswith((*_OTHER_DRAWS, *_RANGES)):
                return Activity.MORE
            method = inner.func.attr.value if isinstance(inner.func, cst.Attribute) else ""
            if name in _TORCH_DRAWS or method in _METHODS:
                own = any(a.keyword is not None and a.keyword.value == "generator"
                          for a in inner.args)  # fmt: skip
                if own or (name in _TORCH_DRAWS and _SETS_DRAWS.search(name)):
                    if own or id(inner) not in private:
                        return Activity.MORE
                elif id(inner) not in private:
                    found |= Activity.DRAWS
            elif (
                _LOGGERS.match(code(inner.func))
                or _may_change_object(site, inner.func)
                or _acts_elsewhere(site, inner.func)
            ):
                return Activity.MORE
    for function in functions:
        does = activity(function.body)
        given = {p.name.value for p in walk(function.params) if isinstance(p, cst.Param)}
        if does.mutates - does.bound - given:
            return Activity.MORE
    own_names = activity(*nodes)
    if inside and own_names.mutates - own_names.bound - set(inside):
        return Activity.MORE
    return found


def _private_draws(site: Site, top: cst.CSTNode) -> set[int]:
    """Calls that draw from a seed of their own, in a block that puts torch's generators back::

    with torch.random.fork_rng():
        torch.manual_seed(seed)
    """
    found: set[int] = set()
    for node in walk(top):
        if not isinstance(node, cst.With) or not isinstance(node.body, cst.IndentedBlock):
            continue
        forks = [item.item for item in node.items if _forks(site, item.item)]
        if forks and _seeds_first(site, node.body):
            # What the seed is made of is computed before there is one.
            first, *rest = node.body.body
            seeds = [part for part in walk(first) if isinstance(part, cst.Call)][:1]
            inside = [part for line in rest for part in walk(line) if isinstance(part, cst.Call)]
            found |= {id(part) for part in (*seeds, *inside)}
    return found


def _forks(site: Site, item: cst.BaseExpression) -> bool:
    """``torch.random.fork_rng()``, on whatever devices; not one that is switched off."""
    return (
        isinstance(item, cst.Call)
        and resolve(site.module, item.func) == "torch.random.fork_rng"
        and all(arg.keyword is None or arg.keyword.value == "devices" for arg in item.args)
        and len(item.args) <= 1
    )


def _seeds_first(site: Site, block: cst.IndentedBlock) -> bool:
    match block.body[0]:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=func, args=[_]))]):
            return resolve(site.module, func) in ("torch.manual_seed", "torch.random.manual_seed")
    return False


def _may_change_object(site: Site, func: cst.BaseExpression) -> bool:
    """A method of an object that the file makes: ``RNG.integers``, ``TOKENIZER.add``."""
    if not isinstance(func, cst.Attribute):
        return False
    root: cst.BaseExpression = func.value
    while isinstance(root, cst.Attribute | cst.Subscript):
        root = root.value
    if not isinstance(root, cst.Name) or root.value in local_names(site, root):
        return False
    made = [
        line.value
        for line in module_bindings(site.module).get(root.value, ())
        if isinstance(line, cst.Assign | cst.AnnAssign) and isinstance(line.value, cst.Call)
    ]
    if func.attr.value in _ASKS:
        # A class of the project may do anything when it is asked.
        return any(_is_of_project(site, call.func) for call in made)
    return any(
        not (resolve(site.module, call.func) or "").startswith(("torch.", "ctypes."))
        for call in made
    )


def _is_of_project(site: Site, func: cst.BaseExpression) -> bool:
    """Whether a class that is called is one that the project's own files define."""
    name = re.escape(code(func).rpartition(".")[2])
    texts = {site.source, *site.sources.values()}
    return any(re.search(rf"^\s*class {name}\b", text, re.MULTILINE) for text in texts)


def _acts_elsewhere(site: Site, func: cst.BaseExpression) -> bool:
    """Whether a function of another file of the project does more than compute."""
    name = code(func).rpartition(".")[2]
    if not isinstance(func, cst.Name | cst.Attribute) or re.search(
        rf"^def {re.escape(name)}\(", site.source, re.MULTILINE
    ):
        return False
    return any(
        _does_more(text, name)
        for path, text in site.sources.items()
        if path != site.path and f"def {name}(" in text
    )


def _does_more(text: str, name: str) -> bool:
    """Whether a function at the text's module level shows, draws, asks the clock or keeps."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    functions = {line.name: line for line in tree.body if isinstance(line, ast.FunctionDef)}
    seen: set[str] = set()
    queue = [name]
    while queue:
        function = functions.get(queue.pop())
        if function is None or function.name in seen:
            continue
        seen.add(function.name)
        if any("cache" in ast.unparse(item) for item in function.decorator_list):
            return True
        local = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)} | {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Global) or _keeps(node, local):
                return True
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if _SHOWS.match(called):
                    return True
                queue.append(called)
    return False


def _keeps(node: ast.AST, local: Collection[str]) -> bool:
    """``SEEN[v] = n``, ``SEEN.add(v)``: a change of what is not the function's own."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value if node.func.attr in _CHANGES else None
    elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
        target = node.value
    else:
        return False
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and target.id not in local
