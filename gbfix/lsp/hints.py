"""Likely graph breaks, told from the syntax tree alone: nothing is run or imported.

A hint is no finding: it says where a function that runs inside a region does what breaks graphs,
as far as names, annotations and torch's own functions tell.  The calls and codes in the tables were
tried one by one on torch 2.13 (``backend="eager"``, ``fullgraph=False``).
"""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Sequence

from gbfix.analysis import torch_names as names
from gbfix.analysis.tree import words
from gbfix.lsp.index import Index, Key, Root
from gbfix.lsp.summary import DISABLED, Function, Summary, dotted, function_nodes
from gbfix.lsp.syntax import FunctionNode, Parsed
from gbfix.schema import Span

TENSOR = "tensor"
#: A parameter without annotation that is most likely a tensor.
LIKELY = "likely tensor"
#: Certainly no tensor, nor a number out of one.
PLAIN = "plain"
UNKNOWN = ""

_RNN = ("torch.nn.RNN", "torch.nn.GRU", "torch.nn.LSTM")
_DYNAMIC_FUNCTIONS = words("nonzero masked_select unique unique_consecutive argwhere bincount"
                           " combinations")  # fmt: skip
_CONSTANT_ANNOTATIONS = words("int bool float str bytes None list dict tuple set")
_LOG_METHODS = words("debug info warning warn error exception critical log")
_PLAIN_BUILTINS = words("len isinstance issubclass hasattr callable id hash type str repr range")
_RANDOM_FACTORIES = words(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal"
    " from_numpy asarray tril triu flip roll"
)

_DRAWS = words("random shuffle sample choice choices gauss normalvariate betavariate getrandbits")
#: Calls that break wherever they stand in a region: dotted name -> code, what to say.
CALLS = {
    "torch._dynamo.graph_break": ("GB0025", "asks for a graph break"),
    "torch._dynamo.skip_frame": ("GB4297", "asks for the frame to be skipped"),
    "print": ("GB0059", "printing is an effect that a graph cannot hold"),
    "open": ("GB0059", "files cannot be opened inside a graph"),
    "exec": ("GB0059", "text cannot be run as code inside a graph"),
    "globals": ("GB0059", "cannot be traced"),
    "time.time": ("GB0007", "the clock cannot be read inside a graph"),
    "time.sleep": ("GB0007", "cannot wait inside a graph"),
    "time.perf_counter": ("GB0007", "the clock cannot be read inside a graph"),
    "time.monotonic": ("GB0007", "the clock cannot be read inside a graph"),
    "datetime.datetime.now": ("GB0156", "the clock cannot be read inside a graph"),
    **{
        f"random.{name}": ("GB0007", "draws from Python's own random stream")
        for name in sorted(_DRAWS)
    },
    "os.path.exists": ("GB0007", "looks at files"),
    "uuid.uuid4": ("GB0007", "cannot be traced"),
    "gc.collect": ("GB0007", "cannot be traced"),
    "copy.copy": ("GB0007", "cannot be traced"),
    "pickle.dumps": ("GB0007", "cannot be traced"),
    "json.dumps": ("GB0156", "cannot be traced"),
    "torch.save": ("GB0007", "files cannot be written inside a graph"),
    "torch.manual_seed": ("GB0007", "random streams cannot be seeded inside a graph"),
    "torch.autograd.Variable": ("GB0007", "the old Variable class cannot be traced"),
    "warnings.warn": ("GB0007", "a warning is an effect that a graph cannot hold"),
    "warnings.catch_warnings": ("GB0007", "cannot be traced"),
    "sys.stderr.write": ("GB0156", "writing is an effect that a graph cannot hold"),
    "sys.stdout.write": ("GB0156", "writing is an effect that a graph cannot hold"),
    "torch.nn.utils.rnn.pack_padded_sequence": ("GB0007", "packed rows depend on the lengths"),
    "torch.nn.utils.rnn.pad_packed_sequence": ("GB0007", "packed rows depend on the lengths"),
    "torch.equal": ("GB0033", "gives a Python bool that depends on the values"),
    "torch.allclose": ("GB0033", "gives a Python bool that depends on the values"),
}


#: Tests that no compiled code passes.
_EAGER = ("not torch.compiler.is_compiling()", "not is_compiling()")


@dataclasses.dataclass(frozen=True)
class Hint:
    """A statement that is likely to break the graph of the region ``root``, and why."""

    code: str
    span: Span
    reason: str
    function: str
    root: Root

    def region(self, path: str) -> str:
        """The region's name as one reads it in a file."""
        name = self.root.qualname
        return name if path == self.root.path else f"{os.path.basename(self.root.path)}::{name}"


@dataclasses.dataclass
class _Scan:
    """One function being looked at, with what its names are taken for.

    ``notes`` are codes, places and reasons; ``passed`` what it gives to functions of its file.
    """

    node: FunctionNode
    function: Function
    kinds: dict[str, str]
    notes: list[tuple[str, ast.expr, str]] = dataclasses.field(default_factory=list)
    passed: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Memory:
    """What was found in each function of a file, while all that it depends on stays the same."""

    around: object = None
    scans: dict[FunctionNode, tuple[dict[str, str], _Scan]] = dataclasses.field(
        default_factory=dict
    )


def hints(
    path: str,
    parsed: Parsed,
    lines: Sequence[str],
    index: Index,
    memory: Memory | None = None,
) -> list[Hint]:
    """The hints of one file, whose text (in ``lines``) is known to the index, in its order.

    With the ``memory`` of the last time, only functions that were edited are looked at again.
    """
    reached = index.reached()
    summary = index.summary(path)
    wanted = {key[1] for key in reached if key[0] == path}
    if summary is None:
        return []
    # Dynamo passes over their own frames, though perhaps not over what they call.
    wanted -= {name for name, item in summary.functions.items() if item.opaque in DISABLED}
    if not wanted:
        return []
    reader = _Reader(
        path, lines, index, summary, wanted, reached_parents(index, path), memory or Memory()
    )
    found = reader.read(function_nodes(parsed))
    unique = {
        (code, span): Hint(code, span, reason, name, reached[path, name].root)
        for name, code, span, reason in found
    }
    return sorted(unique.values(), key=lambda hint: (hint.span.line, hint.span.column))


def reached_parents(index: Index, path: str) -> dict[str, Key | None]:
    """Who calls each reached function of a file; None for the regions themselves."""
    return {key[1]: entry.parent for key, entry in index.reached().items() if key[0] == path}


_Found = tuple[str, str, Span, str]


class _Reader:
    def __init__(
        self,
        path: str,
        lines: Sequence[str],
        index: Index,
        summary: Summary,
        wanted: set[str],
        parents: dict[str, Key | None],
        memory: Memory,
    ) -> None:
        self._path = path
        self._lines = lines
        self._index = index
        self._summary = summary
        self._wanted = wanted
        self._parents = parents
        self._found: list[_Found] = []
        self._passed: dict[str, dict[str, str]] = {}
        self._nodes: dict[str, tuple[FunctionNode, int]] = {}
        self._memory = memory
        self._allows_rnn = any("allow_rnn" in line for line in lines)
        around = (
            index.elsewhere(path),
            summary.imports,
            summary.made,
            summary.classes,
            {name: (item.opaque, item.owner) for name, item in summary.functions.items()},
            self._allows_rnn,
        )
        if memory.around != around:
            memory.around = around
            memory.scans.clear()

    def read(self, nodes: dict[str, tuple[FunctionNode, int]]) -> list[_Found]:
        self._nodes = nodes
        # Callers first: what they pass tells what the callee's parameters are.
        done: set[str] = set()
        order = sorted(self._wanted, key=lambda name: (self._depth(name), name))
        for name in order:
            node = nodes.get(name)
            if node is not None and name not in done:
                done.add(name)
                self._function(name, *node)
        present = {node for node, _ in nodes.values()}
        for gone in [node for node in self._memory.scans if node not in present]:
            del self._memory.scans[gone]
        return self._found

    def _depth(self, name: str) -> int:
        depth, parent = 0, self._parents.get(name)
        while parent is not None and parent[0] == self._path and depth < 50:
            depth += 1
            parent = self._parents.get(parent[1])
        return depth

    def _function(self, name: str, node: FunctionNode, shift: int) -> None:
        function = self._summary.functions[name]
        entered = self._parents.get(name) is None or node.name in ("forward", "__call__")
        kinds: dict[str, str] = {}
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: dict[str, ast.expr | None] = dict(
            zip([arg.arg for arg in reversed(positional)], reversed(arguments.defaults),
                strict=False)
        )  # fmt: skip
        defaults.update(
            zip([arg.arg for arg in arguments.kwonlyargs], arguments.kw_defaults, strict=True)
        )
        for arg in [*positional, *arguments.kwonlyargs]:
            if arg.arg in ("self", "cls"):
                continue
            kinds[arg.arg] = self._parameter(arg, defaults.get(arg.arg), entered)
        for parameter, kind in self._passed.get(name, {}).items():
            if kinds.get(parameter) == UNKNOWN:
                kinds[parameter] = kind
        before, scan = self._memory.scans.get(node, (None, None))
        if scan is None or before != kinds:
            scan = _Scan(node, function, dict(kinds))
            for statement in node.body:
                self._statement(statement, scan)
            self._memory.scans[node] = (kinds, scan)
        for code, place, reason in scan.notes:
            self._found.append((name, code, span_of(place, self._lines, shift), reason))
        for callee, parameter, kind in scan.passed:
            self._passed.setdefault(callee, {})[parameter] = kind

    def _parameter(self, arg: ast.arg, default: ast.expr | None, entered: bool) -> str:
        if arg.annotation is not None:
            text = ast.unparse(arg.annotation)
            if "Tensor" in text and "[" not in text.replace("Optional[", ""):
                return TENSOR
            head = text.strip("'\"").partition("[")[0].partition(" |")[0]
            return PLAIN if head in _CONSTANT_ANNOTATIONS else UNKNOWN
        if isinstance(default, ast.Constant) and default.value is not None:
            return PLAIN
        return LIKELY if entered and default is None else UNKNOWN

    # -- statements --------------------------------------------------------------------------

    def _statement(self, node: ast.stmt, scan: _Scan) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.Assign(targets=targets, value=value):
                kind = self._kind(value, scan)
                for target in targets:
                    self._bind(target, kind, scan, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._kind(value, scan), scan, value)
            case ast.AugAssign(target=target, value=value):
                kind = self._kind(value, scan)
                if isinstance(target, ast.Name):
                    before = scan.kinds.get(target.id, UNKNOWN)
                    scan.kinds[target.id] = _joined(before, kind)
            case ast.If(test=test, body=body, orelse=orelse):
                self._test(test, scan)
                eager = ast.unparse(test) in _EAGER
                self._blocks(scan, [] if eager else body, orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                self._test(test, scan)
                self._blocks(scan, body, orelse)
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                kind = self._kind(source, scan)
                self._bind(target, kind if kind in (TENSOR, LIKELY) else UNKNOWN, scan, None)
                self._blocks(scan, body, orelse)
            case ast.Assert(test=ast.BoolOp() | ast.UnaryOp() as test):
                # An assertion on one tensor compiles; what it calls, negates or joins may not.
                self._test(test, scan)
            case ast.Assert(test=test):
                self._kind(test, scan)
            case _:
                self._parts(node, scan)

    def _parts(self, node: ast.stmt, scan: _Scan) -> None:
        """A statement that binds nothing that is followed: each of its parts on its own."""
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.stmt():
                    self._statement(child, scan)
                case ast.expr():
                    self._kind(child, scan)
                case ast.withitem():
                    self._kind(child.context_expr, scan)
                case ast.ExceptHandler() | ast.match_case():
                    self._blocks(scan, child.body)

    def _blocks(self, scan: _Scan, *blocks: Sequence[ast.stmt]) -> None:
        """Alternatives: a name is a tensor afterwards where it is one at the end of some block."""
        before = dict(scan.kinds)
        after: list[dict[str, str]] = []
        for block in blocks:
            scan.kinds = dict(before)
            for statement in block:
                self._statement(statement, scan)
            after.append(scan.kinds)
        joined = after[0]
        for other in after[1:]:
            joined = {
                name: joined[name] if joined.get(name) == other.get(name) else UNKNOWN
                for name in {*joined, *other}
            }
        scan.kinds = joined

    def _bind(self, target: ast.expr, kind: str, scan: _Scan, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            scan.kinds[target.id] = kind
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for number, element in enumerate(target.elts):
                same = len(parts) == len(target.elts)
                inner = self._kind(parts[number], scan) if same else UNKNOWN
                self._bind(element, inner, scan, None)

    def _test(self, node: ast.expr, scan: _Scan) -> None:
        """An expression whose truth decides what runs next."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self._test(value, scan)
            return
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = node.operand
            if isinstance(inner, ast.BoolOp):
                self._test(inner, scan)
                return
            kind = self._kind(inner, scan)
        else:
            kind = self._kind(node, scan)
        if kind in (TENSOR, LIKELY):
            doubt = "" if kind == TENSOR else ", if it is a tensor"
            self._note(scan, "GB0170", node, f"which way to go depends on a tensor's value{doubt}")

    # -- expressions -------------------------------------------------------------------------

    def _kind(self, node: ast.expr, scan: _Scan) -> str:
        """What an expression gives; notes what breaks on the way."""
        match node:
            case ast.Name(id=name):
                return scan.kinds.get(name, UNKNOWN)
            case ast.Constant():
                return PLAIN
            case ast.Attribute():
                return self._attribute(node, scan)
            case ast.Call():
                return self._call(node, scan)
            case ast.BinOp(left=left, right=right):
                return _joined(self._kind(left, scan), self._kind(right, scan))
            case ast.UnaryOp(op=op, operand=operand):
                kind = self._kind(operand, scan)
                return UNKNOWN if isinstance(op, ast.Not) else kind
            case ast.Compare():
                return self._comparison(node, scan)
            case ast.BoolOp(values=values):
                for value in values[:-1]:
                    self._test(value, scan)
                return self._kind(values[-1], scan)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._test(test, scan)
                one, other = self._kind(body, scan), self._kind(orelse, scan)
                return one if one == other else UNKNOWN
            case ast.Subscript(value=value, slice=part):
                return self._subscript(node, value, part, scan)
            case ast.NamedExpr(target=target, value=value):
                kind = self._kind(value, scan)
                self._bind(target, kind, scan, value)
                return kind
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, scan)
            case ast.Lambda():
                pass
            case _:
                self._look_inside(node, scan)
        return UNKNOWN

    def _look_inside(self, node: ast.expr, scan: _Scan) -> None:
        """Notes what breaks in the parts of an expression of which nothing else is known."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._kind(child, scan)

    def _comparison(self, node: ast.Compare, scan: _Scan) -> str:
        kinds = [self._kind(item, scan) for item in (node.left, *node.comparators)]
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return PLAIN
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            return UNKNOWN
        return _joined(*kinds)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scan: _Scan
    ) -> None:
        before = dict(scan.kinds)
        for generator in node.generators:
            kind = self._kind(generator.iter, scan)
            self._bind(generator.target, kind if kind in (TENSOR, LIKELY) else UNKNOWN, scan, None)
            for condition in generator.ifs:
                self._test(condition, scan)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            self._kind(part, scan)
        scan.kinds = before

    def _attribute(self, node: ast.Attribute, scan: _Scan) -> str:
        base = node.value
        if isinstance(base, ast.Name) and base.id == "self" and scan.function.owner:
            made = self._part(scan, node.attr)
            if made in ("torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter"):
                return TENSOR
            return TENSOR if _gives_tensor(made) else UNKNOWN
        kind = self._kind(base, scan)
        if kind in (TENSOR, LIKELY):
            return kind if node.attr in names.TENSOR_ATTRIBUTES else PLAIN
        return UNKNOWN

    def _part(self, scan: _Scan, attribute: str) -> str:
        """The dotted name of what made ``self.<attribute>``, or an empty text."""
        known = self._summary.classes.get(scan.function.owner)
        made = known.parts.get(attribute, "") if known else ""
        return self._summary.meaning(made) if made else ""

    def _subscript(self, node: ast.Subscript, value: ast.expr, part: ast.expr, scan: _Scan) -> str:
        kind = self._kind(value, scan)
        by = self._kind(part, scan)
        if kind not in (TENSOR, LIKELY):
            return UNKNOWN
        masked = by in (TENSOR, LIKELY) and isinstance(part, ast.Compare)
        if masked and isinstance(node.ctx, ast.Load):
            self._note(scan, "GB0036", node, "the shape depends on how many elements are true")
        return kind

    def _call(self, node: ast.Call, scan: _Scan) -> str:
        arguments = [self._kind(item, scan) for item in node.args]
        for keyword in node.keywords:
            self._kind(keyword.value, scan)
        written = dotted(node.func)
        head = written.partition(".")[0]
        shadowed = head in scan.kinds or ("." not in written and written in self._summary.functions)
        name = "" if shadowed else self._summary.meaning(written)
        if name == "warnings.catch_warnings" and any(k.arg == "action" for k in node.keywords):
            return PLAIN  # this form compiles
        if name in CALLS:
            code, why = CALLS[name]
            self._note(scan, code, node, why)
            return PLAIN
        if name in ("int", "float", "bool") and arguments and arguments[0] in (TENSOR, LIKELY):
            self._note(scan, "GB0124", node, "a tensor's value becomes a Python number")
            return UNKNOWN
        if name == "copy.deepcopy" and arguments and arguments[0] in (TENSOR, LIKELY):
            self._note(scan, "GB4198", node, "a tensor cannot be deep-copied inside a graph")
            return TENSOR
        if name in ("str", "repr") and arguments and arguments[0] == TENSOR:
            self._note(scan, "GB0059", node, "a tensor's values become text")
        if name in _PLAIN_BUILTINS:
            return PLAIN
        if name.startswith("torch."):
            return self._torch_call(node, name, arguments, scan)
        if self._made(written) in _RNN:
            self._recurrent(node, scan)
            return UNKNOWN
        if isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func, arguments, scan)
            if found is not None:
                return found
        self._follow(node, written, arguments, scan)
        return UNKNOWN

    def _torch_call(self, node: ast.Call, name: str, arguments: Sequence[str], scan: _Scan) -> str:
        short = name.removeprefix("torch.")
        if short in _DYNAMIC_FUNCTIONS or (short == "where" and len(node.args) == 1):
            self._note(scan, "GB0036", node, "the shape of the result depends on the values")
            return TENSOR
        if any(kind in (TENSOR, LIKELY) for kind in arguments) and short in names.TUPLE_RESULTS:
            return UNKNOWN
        return TENSOR if _gives_tensor(name) else UNKNOWN

    def _method(
        self, node: ast.Call, func: ast.Attribute, arguments: Sequence[str], scan: _Scan
    ) -> str | None:
        """A method call: of a tensor, a logger, a part of the module; None when it is none."""
        if isinstance(func.value, ast.Name) and func.value.id == "self" and scan.function.owner:
            made = self._part(scan, func.attr)
            if made in _RNN:
                self._recurrent(node, scan)
                return UNKNOWN
            if made.startswith("torch.nn."):
                return TENSOR
            return None
        kind = self._kind(func.value, scan)
        attribute = func.attr
        if kind in (TENSOR, LIKELY):
            doubt = "" if kind == TENSOR else ", if it is a tensor"
            if attribute == "item":
                self._note(scan, "GB0124", node, f"a tensor's value becomes a Python number{doubt}")
                return UNKNOWN
            if attribute == "tolist":
                self._note(scan, "GB0109", node, f"a tensor's values become a list{doubt}")
                return UNKNOWN
            if attribute == "equal" or attribute == "allclose":
                self._note(scan, "GB0033", node, f"a bool that depends on the values{doubt}")
                return UNKNOWN
            if attribute in _DYNAMIC_FUNCTIONS:
                self._note(scan, "GB0036", node, f"the shape depends on the values{doubt}")
                return kind
            if attribute in names.INT_METHODS | names.BOOL_METHODS or attribute == "size":
                return PLAIN
            if attribute in names.PAIR_REDUCTIONS and (node.args or node.keywords):
                return UNKNOWN
            if attribute in names.TUPLE_RESULTS:
                return UNKNOWN
            known = attribute in names.PURE_METHODS or attribute.endswith("_")
            return kind if known and attribute not in ("numpy", "type", "is_nonzero") else UNKNOWN
        if attribute in _LOG_METHODS and self._is_logger(func.value):
            root = self._summary.meaning(dotted(func.value)) == "logging"
            why = "a log record is an effect that a graph cannot hold"
            self._note(scan, "GB4841" if root else "GB0291", node, why)
            return PLAIN
        return None

    def _made(self, written: str) -> str:
        """The dotted name of what made a variable of this file, or an empty text."""
        made = self._summary.made.get(written, "") if "." not in written else ""
        return self._summary.meaning(made) if made else ""

    def _recurrent(self, node: ast.Call, scan: _Scan) -> None:
        if not self._allows_rnn:
            self._note(scan, "GB0014", node, "recurrent layers need torch's `allow_rnn`")

    def _is_logger(self, node: ast.expr) -> bool:
        written = dotted(node)
        if self._summary.meaning(written) == "logging":
            return True
        return self._made(written) == "logging.getLogger"

    def _follow(self, node: ast.Call, written: str, arguments: Sequence[str], scan: _Scan) -> None:
        """A call of the project's own code: tell the callee what it is given."""
        if not written:
            return
        for path, qualname in self._index.resolve(self._path, scan.function, written):
            summary = self._index.summary(path)
            callee = summary.functions.get(qualname) if summary else None
            if callee is not None and callee.opaque in DISABLED:
                self._note(scan, "GB0098", node, f"`{callee.qualname}` is kept from being compiled")
            target = self._nodes.get(qualname) if path == self._path else None
            if target is None:
                continue
            parameters = [*target[0].args.posonlyargs, *target[0].args.args]
            if parameters and parameters[0].arg in ("self", "cls"):
                parameters = parameters[1:]
            for parameter, kind in zip(parameters, arguments, strict=False):
                if kind in (TENSOR, LIKELY):
                    scan.passed.append((qualname, parameter.arg, kind))

    def _note(self, scan: _Scan, code: str, node: ast.expr, reason: str) -> None:
        scan.notes.append((code, node, reason))


def span_of(node: ast.expr | ast.stmt, lines: Sequence[str], shift: int = 0) -> Span:
    """A node's span with columns in characters (`ast` counts bytes of UTF-8)."""
    line = node.lineno + shift
    end_line = (node.end_lineno or node.lineno) + shift
    end = node.end_col_offset or node.col_offset
    return Span(
        line,
        _characters(lines, line, node.col_offset),
        end_line,
        _characters(lines, end_line, end),
    )


def _characters(lines: Sequence[str], line: int, column: int) -> int:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if text.isascii():
        return column
    return len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


def _joined(*kinds: str) -> str:
    """The kind of an operation on several values: a tensor makes it a tensor."""
    for kind in (TENSOR, LIKELY, UNKNOWN):
        if kind in kinds:
            return kind
    return PLAIN


def _gives_tensor(name: str) -> bool:
    """Whether a function of torch, by its dotted name, gives one tensor."""
    short = name.removeprefix("torch.")
    if name.startswith("torch.nn.functional."):
        return name.rpartition(".")[2] in names.PURE_FUNCTIONAL | names.RNG_FUNCTIONS
    if not name.startswith("torch.") or "." in short:
        return False
    return short in (
        names.TENSOR_RESULTS
        | names.ELEMENTWISE
        | names.PREDICATES
        | names.IDENTITY_METHODS
        | names.FULL_REDUCTIONS
        | _RANDOM_FACTORIES
    )
