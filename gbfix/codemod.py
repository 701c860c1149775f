"""The codemod contract: what a codemod gets (`Site`), and what it returns (`Rewrite`, `Advice`).

A codemod is a class in a file of its own.  It names the registry codes (or gbfix families) that it
answers, and its `propose` yields rewrites for a site, best first, or advice where no rewrite is
right.  It reads concrete syntax (LibCST) and recorded facts, runs no user code and imports no
torch.  It decides on facts: where a fact that it needs is missing, it refuses.

>>> class DropGraphBreak(Codemod):
...     name = "drop-graph-break"
...     codes = ("GB0025",)
...     def propose(self, site):
...         edit = site.edit()
...         edit.remove(site.statement)
...         yield edit.rewrite("remove the call")
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import gc
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import ClassVar, Literal, Protocol, cast

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from gbfix.analysis.tree import parents_in, walk
from gbfix.schema import Fact, Frame, FrameFacts, GraphBreak, Region, Safety, Span, Told

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]


class SiteError(Exception):
    """The break's position could not be matched to a node of the source text."""


class Facts(Protocol):
    """Where a site's facts come from: a recorded run, or the statements of an example."""

    def expression(self, span: Span, text: str) -> Fact | None: ...
    def locals_before(self, line: int) -> Mapping[str, Fact]: ...
    def executed(self, line: int) -> int | None: ...


@dataclasses.dataclass(frozen=True)
class RecordedFacts:
    """Facts of a recorded run, looked up by position."""

    frame: FrameFacts

    def expression(self, span: Span, text: str) -> Fact | None:
        return self.frame.expressions.get(span)

    def locals_before(self, line: int) -> Mapping[str, Fact]:
        return self.frame.locals.get(line, {})

    def executed(self, line: int) -> int | None:
        """How often the statement that starts on this line ran; None if it was not observed."""
        if not self.frame.executed:
            return None
        return self.frame.executed.get(line, 0)


@dataclasses.dataclass(frozen=True)
class StatedFacts:
    """Facts stated by source text, for a codemod's own examples: ``{"x": tensor(3)}``."""

    by_text: Mapping[str, Fact]

    def expression(self, span: Span, text: str) -> Fact | None:
        return self.by_text.get(text)

    def locals_before(self, line: int) -> Mapping[str, Fact]:
        return {name: fact for name, fact in self.by_text.items() if name.isidentifier()}

    def executed(self, line: int) -> int | None:
        return None


def tensor(
    *shape: int | None,
    dtype: str = "torch.float32",
    requires_grad: bool = False,
    device: str = "cpu",
) -> Fact:
    """A tensor fact for an example, contiguous; ``tensor()`` is 0-dimensional."""
    return Fact(
        "tensor",
        "torch.Tensor",
        shape=shape,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        is_leaf=True,
    )


def scalar(value: bool | int | float | str | None, *, constant: bool = True) -> Fact:
    """A Python scalar fact for an example."""
    kind = "none" if value is None else type(value).__name__
    return Fact(kind, type(value).__name__, value=value, constant=constant)


def function(qualname: str, *, in_project: bool = False) -> Fact:
    """A fact for a name that is a function: ``function("torch.serialization.save")``."""
    return Fact("function", "function", qualname=qualname, in_project=in_project)


#: By the name of an operator of the rewrite.
Settle = Callable[[Mapping[str, Told]], "Rewrite | None"]
#: What is said of a rewrite that no better one replaces, though these contradict it.
OTHER_SIZES = "runs with arguments of other sizes gave results of other sizes than the fake says"


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """A codemod's proposal: whole new texts by path, to be validated before anyone sees them.

    ``rank`` orders proposals for one break over all codemods, smallest first (by convention 10
    keeps semantics and is cheap, 20 the usual lowering, 50 wrapping, 80 configuration, 90 only for
    ``--unsafe-fixes``).  ``safety`` is the codemod's own ceiling: validation can lower it, never
    raise it.  ``touched`` holds, by path, the spans of the original text that the rewrite means to
    change; rung 1 refuses a rewrite that changes anything else.

    ``assumes`` names what the codemod has proved from the source, and what the ladder therefore
    need not (or could not) hold against the rewrite:

    - ``arguments-change``: callers pass a list where they passed an iterator;
    - ``state-is-constant``: module-level state that the rewrite reads earlier never changes;
    - ``reads-once``: nothing in the project changes what the rewrite reads earlier, or less often,
      than the original;
    - ``asks-at-import``: what the original's first call did once (start a program), and never
      again, is done when the file is imported;
    - ``one-sided``: where the rewrite acts, its condition has one truth value whatever the data;
    - ``same-questions``: conditions are asked in another order, and neither what they ask nor what
      follows from the answers changes;
    - ``flags-unasked``: nothing in the project asks an argument whether it requires a gradient, or
      for its gradient;
    - ``keeps-graph``: what a backward pass uses up in the original is still there, so that a second
      one works;
    - ``unset-at-errors``: what is set before a check that fails is not set then, and nothing in the
      project goes on after such an error;
    - ``text-of-numbers``: a number becomes text; for a tensor in its place, the text would be that
      of its value;
    - ``inner-tests-idle``: the first condition that the rewrite changes is the only one that
      decides about its values; removing those below it changes nothing;
    - ``exception-type-changes``, ``zero-gradients`` (results depend on more parameters than before)
      and ``texts-only-in-eager`` (compiled code prints, logs or warns less): a rewrite with one of
      these must be unsafe, and its notes must say so.

    ``shows`` names what validation must have seen before the rewrite may be called safe: ``sizes``
    (of each size that the data decides, the cases 0 and 1, compiled, and that no two of them are
    taken to be equal), ``widths`` (the same, but that the width of a mask of lengths is that of
    what the mask is used with), ``twins`` (inputs in which different tensors hold the same
    numbers), ``shortcut`` (that calls took both ways of the condition that the rewrite leaves out).

    ``settle`` makes a better rewrite of this one, once its trial has told how large the results of
    its operators are: they are run with inputs of other sizes (see `gbfix.worker.fakesizes`).
    ``asks`` is what it wants to know: ``sizes`` (and dtypes), or ``dtypes`` alone, which is quick.

    ``prepares`` says that the rewrite may leave the break where it is and makes it one that others
    can remove.  It is part of the result only where one of them then does.

    ``waits`` says that the rewrite helps some inputs alone: it is tried once nothing is known for
    the other breaks of the region either.
    """

    title: str
    edits: Mapping[str, str]
    touched: Mapping[str, tuple[Span, ...]]
    codemod: str = ""
    safety: Safety = Safety.SAFE
    notes: tuple[str, ...] = ()
    rank: int = 20
    assumes: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    prepares: bool = False
    waits: bool = False
    settle: Settle | None = dataclasses.field(default=None, compare=False)
    asks: Literal["sizes", "dtypes"] = "sizes"


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to do by hand, or why no rewrite was proposed: one or two plain sentences."""

    text: str


class Site:
    """The place of a graph break: syntax around it and facts about it.

    `node` is the expression (or statement) that broke, `statement` the statement that holds it,
    `function` the innermost ``def`` around it (None at module level or inside a lambda).
    """

    def __init__(
        self,
        path: str,
        source: str,
        graph_break: GraphBreak,
        facts: Facts,
        *,
        region: Region | None = None,
        sources: Mapping[str, str] | None = None,
        entry: str = "",
        elsewhere: Mapping[str, Facts] | None = None,
    ) -> None:
        if graph_break.site is None:
            raise SiteError("the break has no frame inside the project")
        self.path = path
        self.source = source
        self.graph_break = graph_break
        self.code = graph_break.code
        self.frame: Frame = graph_break.site
        self.facts = facts
        self.region = region
        #: Texts of the project's files, by path: first those that the program loaded, then those
        #: that import one of these and did not run (no rewrite may change them).
        self.sources: Mapping[str, str] = sources or {path: source}
        #: The script that the user started (where configuration belongs), or "".
        self.entry = entry
        #: Facts about the functions that led to the break, by path (see `callers`).
        self.elsewhere: Mapping[str, Facts] = elsewhere or {}
        self.module, self._positions, self._parents = _parsed(source)
        self.node = self._locate()

    # -- syntax ------------------------------------------------------------------------------

    def span(self, node: cst.CSTNode) -> Span:
        """The node's span in the original text, without surrounding whitespace or comments."""
        where = self._positions[node]
        return Span(where.start.line, where.start.column, where.end.line, where.end.column)

    def text(self, node: cst.CSTNode) -> str:
        """The node's own source text."""
        return self.module.code_for_node(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The node's parents, innermost first, up to and including the module."""
        current = self.parent(node)
        while current is not None:
            yield current
            current = self.parent(current)

    def statement_of(self, node: cst.CSTNode) -> Statement:
        """The innermost statement that holds the node (the node itself if it is one)."""
        for candidate in (node, *self.ancestors(node)):
            if isinstance(candidate, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return candidate
        raise SiteError("the node is in no statement")

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The ``def`` whose body holds the node; None at module level, in a class or lambda."""
        child = node
        for candidate in self.ancestors(node):
            if isinstance(candidate, cst.FunctionDef) and child is candidate.body:
                return candidate
            if isinstance(candidate, cst.ClassDef | cst.Lambda) and child is candidate.body:
                return None
            child = candidate
        return None

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The class in whose body (however deep) the node stands, if any."""
        return next((p for p in self.ancestors(node) if isinstance(p, cst.ClassDef)), None)

    def places_of(self, name: str, block: cst.CSTNode) -> Iterator[cst.Name]:
        """Where a variable of that name stands in a block: no attributes, no keywords of calls."""
        for node in walk(block):
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            holder = self.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            yield node

    def top_level_statement(self, node: cst.CSTNode) -> Statement:
        """The statement of the module's own body that holds the node."""
        chain = [node, *self.ancestors(node)]
        return cast(Statement, chain[-2])

    def block_of(self, statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """The statements among which this statement stands, itself included."""
        parent = self.parent(statement)
        body = getattr(parent, "body", ())
        return cast(Sequence[cst.CSTNode], body) if isinstance(body, Sequence) else (statement,)

    @functools.cached_property
    def statement(self) -> Statement:
        return self.statement_of(self.node)

    @functools.cached_property
    def function(self) -> cst.FunctionDef | None:
        return self.function_of(self.node)

    # -- facts -------------------------------------------------------------------------------

    def fact(self, node: cst.CSTNode) -> Fact | None:
        """What the expression evaluated to in the recorded run; None if that was not seen."""
        return self.facts.expression(self.span(node), self.text(_unparenthesised(node)))

    def locals_before(self, statement: cst.CSTNode) -> Mapping[str, Fact]:
        """Facts of the local names just before the statement ran."""
        return self.facts.locals_before(self.span(statement).line)

    def executed(self, statement: cst.CSTNode) -> int | None:
        """How often the statement ran in the recorded calls; None if that was not observed."""
        return self.facts.executed(self.span(statement).line)

    # -- edits -------------------------------------------------------------------------------

    def edit(self) -> Edit:
        return Edit(self)

    def callers(self) -> Iterator[Site]:
        """The same break seen from the calls that led to it, the innermost call first."""
        frames = self.graph_break.frames
        inner = max((n for n, frame in enumerate(frames) if frame == self.frame), default=0)
        for frame in reversed(frames[:inner]):
            view = self.at(frame) if frame.in_project else None
            if view is not None:
                yield view

    def at(self, frame: Frame) -> Site | None:
        """The place of another frame of the break's call chain, with the facts seen there."""
        facts, source = self.elsewhere.get(frame.path), self.sources.get(frame.path)
        if source is None or facts is None:
            return None
        try:
            return Site(
                frame.path,
                source,
                dataclasses.replace(self.graph_break, site=frame),
                facts,
                region=self.region,
                sources=self.sources,
                entry=self.entry,
                elsewhere=self.elsewhere,
            )
        except (cst.ParserSyntaxError, SiteError):
            return None

    def other(self, path: str) -> Site | None:
        """A site-less view of another project file, for edits that belong elsewhere (the entry).

        Its `node` is the module; None when the file is not known or does not parse.
        """
        source = self.sources.get(path)
        if source is None:
            return None
        frame = Frame(path, 1, "<module>")
        try:
            return Site(
                path,
                source,
                dataclasses.replace(self.graph_break, site=frame),
                StatedFacts({}),
                region=self.region,
                sources=self.sources,
                entry=self.entry,
            )
        except (cst.ParserSyntaxError, SiteError):
            return None

    def _locate(self) -> cst.CSTNode:
        frame = self.frame
        if frame.column is None:
            return self._statement_on(frame.line)
        start = (frame.line, frame.column)
        starting: list[tuple[tuple[int, int], cst.CSTNode]] = []
        for node, where in self._positions.items():
            if (where.start.line, where.start.column) != start:
                continue
            if isinstance(node, cst.BaseExpression | cst.BaseSmallStatement | Statement):
                starting.append(((where.end.line, where.end.column), node))
        if not starting:
            return self._statement_on(frame.line)
        if frame.end_column is not None:
            # Dynamo gives the end column, seldom the end line: prefer a full match.
            for end, node in starting:
                same_line = frame.end_line is None or end[0] == frame.end_line
                full = end[1] == frame.end_column and same_line
                if full and isinstance(node, cst.BaseExpression):
                    return node
        expressions = [
            (end, node) for end, node in starting if isinstance(node, cst.BaseExpression)
        ]
        return max(expressions or starting, key=lambda pair: pair[0])[1]

    def _statement_on(self, line: int) -> cst.CSTNode:
        best: tuple[int, int, cst.CSTNode] | None = None
        for node, where in self._positions.items():
            if not isinstance(node, Statement):
                continue
            if where.start.line <= line <= where.end.line:
                size = where.end.line - where.start.line
                key = (abs(where.start.line - line), size)
                if best is None or key < best[:2]:
                    best = (*key, node)
        if best is None:
            return self.module
        return best[2]


_Positions = Mapping[cst.CSTNode, CodeRange]
_Parents = Mapping[cst.CSTNode, cst.CSTNode]


@functools.lru_cache(maxsize=4)
def _parsed(source: str) -> tuple[cst.Module, _Positions, _Parents]:
    """A module with positions and parents: a second or more for a large file, so shared by sites.

    Safe to share: LibCST nodes are immutable, and edits build a new module.
    """
    collects = gc.isenabled()
    gc.disable()  # hundreds of thousands of nodes, all of them kept
    try:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        return wrapper.module, wrapper.resolve(PositionProvider), parents_in(wrapper.module)
    finally:
        if collects:
            gc.enable()


def _unparenthesised(node: cst.CSTNode) -> cst.CSTNode:
    """A copy without its parentheses: LibCST keeps them inside the node, positions do not."""
    if isinstance(node, cst.Tuple) and not node.elements:
        return node  # its parentheses are all that it has
    if isinstance(node, cst.BaseExpression) and node.lpar:
        return node.with_changes(lpar=(), rpar=())
    return node


class Edit:
    """Collects changes of one file and turns them into a `Rewrite`.

    Nodes are named by identity: pass the very nodes of ``site.module``.  Where both a node and one
    of its descendants are changed, give the outer one a replacement built with `updated`.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._replace: dict[cst.CSTNode, Replacement] = {}
        self._before: dict[cst.CSTNode, list[cst.BaseStatement]] = {}
        self._after: dict[cst.CSTNode, list[cst.BaseStatement]] = {}
        self._imports: list[tuple[str, str | None, str | None]] = []
        self._touched: list[Span] = []

    def replace(self, node: cst.CSTNode, *new: cst.CSTNode) -> None:
        """Replace an expression by one, or a statement by any number of nodes.

        The comments and blank lines above a replaced statement belong to it: carry them over with
        ``leading_lines`` (see `gbfix.analysis.build`), or they are lost.
        """
        self._touch(node)
        old_lines, new_lines = (getattr(part, "leading_lines", ()) for part in (node, new[0]))
        kept = [line for line in new_lines if line.comment]
        if old_lines and [line for line in old_lines if line.comment] == kept:
            line = self._whole(node).line  # blank lines may go, comments may not
            self._touched.append(Span(line - len(old_lines), 0, line, 0))
        self._replace[node] = new[0] if len(new) == 1 else cst.FlattenSentinel(new)

    def remove(self, node: cst.CSTNode) -> None:
        """Remove a statement; a block that becomes empty gets ``pass``."""
        self._touch(node)
        above = getattr(node, "leading_lines", ())
        if above and not any(line.comment for line in above):
            line = self._whole(node).line  # blank lines may go, comments may not
            self._touched.append(Span(line - len(above), 0, line, 0))
        self._replace[node] = cst.RemoveFromParent()

    def moved(self, statement: cst.BaseStatement) -> None:
        """Remove a statement that stands elsewhere now, with the comments above it."""
        span = self._whole(statement)
        above = len(getattr(statement, "leading_lines", ()))
        self._touched.append(Span(span.line - above, 0, span.line, 0))
        self.remove(statement)

    def insert_before(self, statement: cst.CSTNode, *new: cst.BaseStatement) -> None:
        self._touch_start(statement)
        self._before.setdefault(statement, []).extend(new)

    def insert_after(self, statement: cst.CSTNode, *new: cst.BaseStatement) -> None:
        self._touch_end(statement)
        self._after.setdefault(statement, []).extend(new)

    def add_import(self, module: str, name: str | None = None, alias: str | None = None) -> None:
        """``import module`` or ``from module import name [as alias]``, once, where imports live."""
        self._imports.append((module, name, alias))

    def apply(self) -> cst.Module:
        """The changed module."""
        changed = [*self._replace, *self._before, *self._after]
        # Of a large file, little is on the way to what changes.
        on_way = {above for node in changed for above in (node, *self._site.ancestors(node))}
        transformer = _Apply(self._replace, self._before, self._after, on_way)
        module = self._site.module.visit(transformer) if changed else self._site.module
        assert isinstance(module, cst.Module)
        return _with_imports(module, self._imports) if self._imports else module

    def rewrite(
        self,
        title: str,
        *,
        safety: Safety = Safety.SAFE,
        notes: Sequence[str] = (),
        rank: int = 20,
        also: Sequence[Rewrite] = (),
        assumes: Sequence[str] = (),
        shows: Sequence[str] = (),
        prepares: bool = False,
    ) -> Rewrite:
        """The rewrite of these changes; ``also`` merges rewrites of *other* files into it."""
        path = self._site.path
        edits = {path: _code_of(self.apply(), self._site.module)}
        touched = {path: tuple(self._touched)}
        for other in also:
            overlap = edits.keys() & other.edits.keys()
            if overlap:
                raise ValueError(f"two rewrites of the same file cannot be merged: {overlap}")
            edits.update(other.edits)
            touched.update(other.touched)
        return Rewrite(
            title,
            edits,
            touched,
            safety=safety,
            notes=tuple(notes),
            rank=rank,
            assumes=tuple(assumes),
            shows=tuple(shows),
            prepares=prepares,
        )

    def _touch(self, node: cst.CSTNode) -> None:
        self._touched.append(self._whole(node))

    def _whole(self, node: cst.CSTNode) -> Span:
        """The node's span with its decorators, which LibCST leaves out."""
        span = self._site.span(node)
        decorators = getattr(node, "decorators", ())
        return (
            dataclasses.replace(span, line=self._site.span(decorators[0]).line)
            if decorators
            else span
        )

    def _touch_start(self, node: cst.CSTNode) -> None:
        span = self._whole(node)
        self._touched.append(Span(span.line, 0, span.line, 0))

    def _touch_end(self, node: cst.CSTNode) -> None:
        span = self._site.span(node)
        self._touched.append(Span(span.end_line + 1, 0, span.end_line + 1, 0))


def _with_imports(
    module: cst.Module, imports: Sequence[tuple[str, str | None, str | None]]
) -> cst.Module:
    """The module with what it lacks of the imports.

    LibCST reads a module several times for that (seconds, for a large one), and takes an import
    inside a function for one of the module: it is shown names in place of functions and classes.
    """
    context = CodemodContext()
    for name, obj, alias in imports:
        AddImportsVisitor.add_needed_import(context, name, obj, alias)
    stands_for: dict[str, cst.FunctionDef | cst.ClassDef] = {}
    body: list[cst.BaseStatement] = []
    for item in module.body:
        if isinstance(item, cst.FunctionDef | cst.ClassDef):
            short = f"_gbfix_{len(stands_for)}"
            stands_for[short] = item
            stub = cst.SimpleStatementLine([cst.Expr(cst.Name(short))])
            body.append(stub.with_changes(leading_lines=item.leading_lines))
        else:
            body.append(item)
    made = AddImportsVisitor(context).transform_module(module.with_changes(body=body))
    new: list[cst.BaseStatement] = []
    for line in made.body:
        whole = stands_for.get(_name_of(line))
        above = getattr(line, "leading_lines", ())
        new.append(line if whole is None else whole.with_changes(leading_lines=above))
    return made.with_changes(body=new)


def _name_of(line: cst.CSTNode) -> str:
    match line:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Name(name))]):
            return name
    return ""


@functools.lru_cache(maxsize=16)
def _texts_of(module: cst.Module) -> Mapping[int, str]:
    """The text of each statement of the module's own block, by the statement's identity."""
    return {id(statement): module.code_for_node(statement) for statement in module.body}


def _code_of(module: cst.Module, original: cst.Module) -> str:
    """The text of a changed module: of what did not change, it is made once for all rewrites."""
    if not module.body or not module.has_trailing_newline:
        return module.code
    known = _texts_of(original)
    parts = [module.code_for_node(line) for line in module.header]
    parts += [known.get(id(node)) or module.code_for_node(node) for node in module.body]
    parts += [module.code_for_node(line) for line in module.footer]
    return "".join(parts)


class _Apply(cst.CSTTransformer):
    def __init__(
        self,
        replace: Mapping[cst.CSTNode, Replacement],
        before: Mapping[cst.CSTNode, list[cst.BaseStatement]],
        after: Mapping[cst.CSTNode, list[cst.BaseStatement]],
        on_way: Set[cst.CSTNode],
    ) -> None:
        super().__init__()
        self._on_way = on_way
        self._replace = replace
        self._before = before
        self._after = after

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Whether a change lies below: a large file is not walked for the sake of one line."""
        return node in self._on_way

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> Replacement:
        new: Replacement = self._replace.get(original_node, updated_node)
        before = self._before.get(original_node, [])
        after = self._after.get(original_node, [])
        if before or after:
            middle: list[cst.CSTNode] = []
            if isinstance(new, cst.FlattenSentinel):
                middle = list(new)
            elif isinstance(new, cst.CSTNode):
                middle = [new]
            return cst.FlattenSentinel([*before, *middle, *after])
        if isinstance(new, cst.IndentedBlock) and not new.body:
            return new.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])
        if isinstance(new, cst.SimpleStatementSuite) and not new.body:
            return new.with_changes(body=[cst.Pass()])
        return new


@dataclasses.dataclass(frozen=True)
class Example:
    """A rewrite shown and tested: the first proposal for ``before`` is ``after``.

    ``at`` is the text of the expression that breaks (its ``nth`` occurrence, counted from 0),
    ``facts`` what the run knows, by source text; ``code`` defaults to the codemod's first code.
    Both texts are dedented.
    """

    before: str
    after: str
    at: str
    facts: Mapping[str, Fact] = dataclasses.field(default_factory=dict)
    code: str = ""
    nth: int = 0
    title: str = ""


@dataclasses.dataclass(frozen=True)
class NearMiss:
    """Source that looks like a case and is not: the codemod must propose nothing for it."""

    source: str
    at: str
    why: str
    facts: Mapping[str, Fact] = dataclasses.field(default_factory=dict)
    code: str = ""
    nth: int = 0


class Codemod(abc.ABC):
    """One kind of rewrite.  Subclasses live one a file and are found by entry point.

    The class docstring is the codemod's documentation page; keep the heads *What it does*,
    *When it applies*, *Fix safety* and *Refuses*.  ``codes`` must be a literal tuple of strings:
    `gbfix codes` reads it without importing the file.
    """

    name: ClassVar[str]
    codes: ClassVar[tuple[str, ...]]
    examples: ClassVar[Sequence[Example]] = ()
    near_misses: ClassVar[Sequence[NearMiss]] = ()
    #: Its rewrites hand no value on in another form.  What breaks behind such a rewrite was hidden
    #: by the break that it removed, and is not that break in another place.
    uncovers: ClassVar[bool] = False

    @abc.abstractmethod
    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        """Yield rewrites for the site, best first; nothing (or advice) where none is right."""


def example_site(case: Example | NearMiss, code: str) -> Site:
    """The site of a codemod's own example or near miss, without any run."""
    source = textwrap.dedent(case.before if isinstance(case, Example) else case.source).lstrip("\n")
    offset = -1
    for _ in range(case.nth + 1):
        offset = source.find(case.at, offset + 1)
        if offset < 0:
            raise ValueError(f"example text has no occurrence {case.nth} of {case.at!r}")
    line = source.count("\n", 0, offset) + 1
    column = offset - (source.rfind("\n", 0, offset) + 1)
    end = offset + len(case.at)
    end_line = source.count("\n", 0, end) + 1
    end_column = end - (source.rfind("\n", 0, end) + 1)
    frame = Frame("example.py", line, "f", column, end_line, end_column, case.at)
    graph_break = GraphBreak(case.code or code, "", "", "", (), (frame,), "f", frame)
    return Site("example.py", source, graph_break, StatedFacts(case.facts), entry="example.py")


def discover() -> list[Codemod]:
    """All installed codemods, found through the entry-point group ``gbfix.codemods``.

    An entry point names a package or module; every concrete `Codemod` subclass defined in it or
    below it counts.  A module that fails to import is skipped with a warning, never fatal.
    """
    import importlib
    import importlib.metadata
    import inspect
    import pkgutil
    import warnings

    def imported(name: str) -> list[ModuleType]:
        try:
            return [importlib.import_module(name)]
        except Exception as error:
            warnings.warn(f"codemods in {name} skipped: {error!r}", stacklevel=3)
            return []

    found: dict[str, Codemod] = {}
    entries = importlib.metadata.entry_points(group="gbfix.codemods")
    for entry in sorted(entries, key=lambda item: (item.name, item.value)):
        modules = imported(entry.value.partition(":")[0])
        for root in list(modules):
            for info in pkgutil.walk_packages(getattr(root, "__path__", []), root.__name__ + "."):
                modules += imported(info.name)
        for module in modules:
            for item in vars(module).values():
                if (
                    inspect.isclass(item)
                    and issubclass(item, Codemod)
                    and not inspect.isabstract(item)
                    and item.__module__ == module.__name__
                ):
                    found.setdefault(item.name, item())
    return list(found.values())
