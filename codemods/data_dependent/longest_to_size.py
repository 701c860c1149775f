"""Masks of lengths: their width is a size of what they are used with, and Python knows that."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.mask_widths import mask_widths
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import function_scope, import_map
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.assertions import size_assertion
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..control_flow.handed import argument_of
from ..operator.pieces import Level, levels

_LONGEST = words("max amax")
#: Leave a tensor of one number a tensor of one number.
_KEEPS = words("long int to type cpu cuda detach clone")
#: A size may be more than the others can hold: what is compared with them would be another number.
_WIDE = words("torch.int32 torch.int64")
_HARMLESS_DECORATORS = ("staticmethod", "classmethod", "torch.no_grad()")


def _near_miss(
    why: str,
    *,
    made: str = "",
    mask: str = "torch.arange(longest)[None] < lengths[:, None]",
    last: str = "x * mask[..., None]",
    facts: Mapping[str, Fact] | None = None,
) -> NearMiss:
    source = (
        "import torch\n\n\ndef f(x, y, lengths):\n"
        f"    longest = lengths.max().item(){made}\n    mask = {mask}\n    return {last}\n"
    )
    known = {
        "x": tensor(3, 7, 4),
        "lengths": tensor(3, dtype="torch.int64"),
        "lengths.max()": tensor(dtype="torch.int64"),
        "torch.arange(longest)": tensor(7, dtype="torch.int64"),
    }
    return NearMiss(source, at="lengths.max().item()", why=why, facts={**known, **(facts or {})})


class LongestToSize(Codemod):
    """*What it does.*  Takes the width of a mask of lengths from the tensor that the mask is used
    with, not from the longest length.

    ```python
    width = x.shape[1]
    torch._assert_async(lengths.max() == width, "...")
    mask = torch.arange(width) < lengths[:, None]
    ```
    Where a helper makes the mask and has a parameter for the width, its call passes the size;
    where it has none, it gets one.

    *When it applies.*  A function counts with ``torch.arange`` to the longest of some lengths and
    asks which places lie below (or above) the lengths, and in the recorded run exactly one
    dimension of a tensor that is there has that size.

    *Fix safety.*  What the mask is used with has as many columns, or else the original raises an
    error; so does the assertion, which a graph holds.  Where the mask or the tensor has one column
    and the other has more, the original repeats it, and the assertion raises an error: the patch
    says so.  A mask that is used in another way (returned, or cut to fit) may have any width: such
    a patch fails where it is compared on other lengths.

    *Refuses.*  Lengths that are no integers, helpers with parameters by star or with decorators of
    their own, runs in which the batch is as large as the mask is wide, and calls whose lengths are
    computed after something else.
    """

    name = "longest-to-size"
    codes = ("GB0124", "GB0033", "data-dependent-guard", "data-dependent-other")

    examples = (
        Example(
            title="in the function that uses the mask",
            before="""
            import torch


            def f(x, lengths):
                longest = lengths.max().item()
                mask = torch.arange(longest, device=x.device)[None] < lengths[:, None]
                return x * mask[..., None]
            """,
            after="""
            import torch


            def f(x, lengths):
                torch._assert_async(lengths.max() == x.shape[1], "sizes do not fit: the longest of `lengths` is not `x.shape[1]`")
                longest = x.shape[1]
                mask = torch.arange(longest, device=x.device)[None] < lengths[:, None]
                return x * mask[..., None]
            """,  # noqa: E501
            at="lengths.max().item()",
            facts={
                "x": tensor(3, 7, 4),
                "lengths": tensor(3, dtype="torch.int64"),
                "lengths.max()": tensor(dtype="torch.int64"),
                "torch.arange(longest, device=x.device)": tensor(7, dtype="torch.int64"),
            },
        ),
    )
    near_misses = (
        _near_miss("two dimensions of `x` have that size", facts={"x": tensor(3, 7, 7)}),
        _near_miss(
            "`x` is longer than the mask is wide",
            last="x[:, :longest] * mask[..., None]",
            facts={"x": tensor(3, 9, 4)},
        ),
        _near_miss(
            "`arange` counts up to a fraction, too",
            facts={
                "lengths": tensor(3),
                "lengths.max()": tensor(),
                "torch.arange(longest)": tensor(7),
            },
        ),
        _near_miss(
            "in another call, `x` and `y` may be of other widths",
            last="(x @ y.mT).masked_fill(mask[:, None], 0)",
            facts={"y": tensor(3, 7, 4)},
        ),
        _near_miss("it is not always computed", made=" if x.shape[0] > 1 else 1"),
        _near_miss(
            "a size may be more than such a length can be",
            facts={
                "lengths": tensor(3, dtype="torch.uint8"),
                "lengths.max()": tensor(dtype="torch.uint8"),
            },
        ),
        _near_miss("no mask of the lengths", mask="torch.arange(longest)[None]"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        longest = _found(site)
        if longest is None:
            return
        function = site.function
        assert function is not None
        parameters = [param.name.value for param in params_of(function.params)]
        chain = levels(site)
        passed = longest.name in parameters
        if longest.chosen and not passed:
            return
        if not longest.chosen and (not passed or len(chain) == 1) and _is_line(site, longest.node):
            size = _size_of(site, longest.node, longest)
            if size is not None:
                yield _in_place(site, longest, size)
                return
        if len(chain) > 1:
            made = _at_the_call(site, longest, chain[1], passed=passed)
            if made is not None:
                yield made


@dataclasses.dataclass(frozen=True)
class _Longest:
    """The expression that gives the longest length as a number, and what it is called.

    ``count`` is the text of the same as a tensor of no dimensions, ``lengths`` that of the lengths;
    ``width`` is what the run recorded; ``chosen`` says that it is one side of a conditional
    expression.
    """

    node: cst.BaseExpression
    name: str
    count: str
    lengths: str
    width: int
    chosen: bool


def _found(site: Site) -> _Longest | None:
    """What decides on the width of a mask, where the break stands."""
    function = site.function
    line = site.span(site.node).line
    if function is None or not _has_torch(site) or line not in mask_widths(site.source):
        return None
    nodes = [node for node in walk(function.body) if site.function_of(node) is function]
    for node in nodes:
        counted = _counted_to(node)
        fact = site.fact(node) if counted is not None else None
        if counted is None or fact is None or not fact.shape or len(fact.shape) != 1:
            continue
        width = fact.shape[0]
        if width is None or width < 2:
            continue
        if not isinstance(counted, cst.Name):
            value, name, chosen = counted, "", False
        else:
            name = counted.value
            bound = [it.value for it in nodes if isinstance(it, cst.Assign) and _binds(it, name)]
            stores = [it for it in nodes if _stores(it, name)]
            if len(bound) != 1 or len(stores) != 1:
                continue
            value = bound[0]
            chosen = isinstance(value, cst.IfExp)
            if isinstance(value, cst.IfExp):
                arms = [arm for arm in (value.body, value.orelse) if _count(site, arm)]
                value = arms[0] if len(arms) == 1 else value
        made = _count(site, value)
        if made is None or line not in {
            *range(site.span(value).line, site.span(value).end_line + 1),
            site.span(node).line,
        }:
            continue
        count, lengths = made
        return _Longest(value, name, count, lengths, width, chosen)
    return None


def _counted_to(node: cst.CSTNode) -> cst.BaseExpression | None:
    """``n`` in ``torch.arange(n)``, ``torch.arange(0, n)`` and ``torch.arange(int(n))``."""
    if not isinstance(node, cst.Call) or code(node.func) != "torch.arange":
        return None
    plain = [arg.value for arg in node.args if arg.keyword is None]
    if any(arg.star for arg in node.args) or len(plain) not in (1, 2, 3):
        return None
    end = plain[0] if len(plain) == 1 else plain[1]
    match end:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=cst.Name() as inner)]):
            return inner
    return end


def _binds(node: cst.Assign, name: str) -> bool:
    return [code(target.target) for target in node.targets] == [name]


def _stores(node: cst.CSTNode, name: str) -> bool:
    """Whether a node binds the name, in whatever way."""
    match node:
        case cst.AssignTarget(target=target) | cst.NamedExpr(target=target):
            return name in names_in(target)
        case cst.AugAssign(target=target) | cst.AnnAssign(target=target):
            return name in names_in(target)
        case cst.For(target=target) | cst.CompFor(target=target):
            return name in names_in(target)
        case cst.Del():
            return name in names_in(node)
    return False


def _count(site: Site, node: cst.BaseExpression) -> tuple[str, str] | None:
    """The longest length as a tensor, and the lengths, in ``int(lengths.max().item())``."""
    match node:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=inner, keyword=None)]):
            return _count(site, inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
            return _count(site, inner)
        case cst.Call(func=cst.Name("max"), args=[cst.Arg(value=lengths, keyword=None, star="")]):
            fact = site.fact(lengths)
            if fact is None or fact.dtype not in _WIDE or len(fact.shape or ()) != 1:
                return None
            return f"{site.text(lengths)}.max()", site.text(lengths)
    fact = site.fact(node)
    if fact is None or not fact.is_tensor or fact.shape != ():
        return None
    if fact.dtype not in _WIDE:
        return None
    lengths_of = _lengths(node)
    return (site.text(node), site.text(lengths_of)) if lengths_of is not None else None


def _lengths(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The lengths in ``lengths.max().long()`` and ``torch.max(lengths)``."""
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.Name("torch"), attr=cst.Name(name)),
            args=[cst.Arg(value=lengths, keyword=None, star="")],
        ) if name in _LONGEST:
            return lengths
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            if name in _LONGEST and not args:
                return inner
            return _lengths(inner) if name in _KEEPS else None
    return None


def _size_of(view: Site, node: cst.CSTNode, longest: _Longest) -> str | None:
    """The size of a tensor that is bound there which the width of the mask was: ``x.shape[1]``.

    What the mask is made for must be used with it, or with what is made of it, and no other tensor
    that the function is given may have such a size: in another call, that may be another one.
    """
    statement = view.statement_of(node)
    function = view.function_of(node)
    if function is None:
        return None
    found: dict[str, int] = {}
    for name, fact in view.locals_before(statement).items():
        if not fact.is_tensor or fact.shape is None or "." in name:
            continue
        dims = [dim for dim, size in enumerate(fact.shape) if size == longest.width]
        if len(dims) > 1 or (dims and len(fact.shape) == 1):
            return None
        if dims:
            found[name] = dims[0]
    lines = [it for it in walk(function.body) if isinstance(it, cst.SimpleStatementLine)]
    roots = [
        name
        for name in found
        if not any(name in _derived(lines, other) for other in found if other != name)
    ]
    if len(roots) != 1 or found[roots[0]] == 0:
        return None  # of the first dimension: that is the batch
    (name,) = roots
    masks = _alone(function, lines, set(activity(statement).binds))
    own = _derived(lines, name)
    for line in lines:
        does = activity(line)
        makes = line is statement
        if (makes or does.reads & masks) and does.reads & own:
            return f"{name}.shape[{found[name]}]"
    return None


def _alone(
    function: cst.FunctionDef, lines: Sequence[cst.SimpleStatementLine], masks: set[str]
) -> set[str]:
    """The names, and those that lines bind to what is made of them and of nothing else."""
    local = set(function_scope(function).locals)
    for line in lines:
        does = activity(line)
        if does.reads & masks and not (does.reads & local) - masks:
            masks |= does.binds
    return masks


def _derived(lines: Sequence[cst.SimpleStatementLine], *names: str) -> set[str]:
    """The names, and those that the lines bind to what is made of them."""
    found = set(names)
    for line in lines:
        does = activity(line)
        if does.reads & found:
            found |= does.binds
    return found


def _is_line(view: Site, node: cst.CSTNode) -> bool:
    """Whether a node is computed wherever its statement is, which has a line of its own."""
    statement = view.statement_of(node)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    if not isinstance(view.parent(statement), cst.IndentedBlock):
        return False
    for outer in view.ancestors(node):
        if outer is statement:
            return True
        if isinstance(outer, cst.BaseComp | cst.Lambda | cst.IfExp | cst.BooleanOperation):
            return False
    return False


def _has_torch(view: Site) -> bool:
    return import_map(view.module).get("torch") == "torch"


def _assertion(count: str, size: str, lengths: str) -> str:
    return size_assertion(
        "torch", f"{count} == {size}", f"the longest of `{lengths}` is not `{size}`"
    )


def _notes(lengths: str, size: str) -> list[str]:
    return [
        f"if exactly one of `max({lengths})` and `{size}` is 1, the original broadcasts it; the"
        " patch raises an error",
        "on a GPU, an assertion that fails ends the process' use of the device",
    ]


def _in_place(site: Site, longest: _Longest, size: str) -> Rewrite:
    splice = Splice(site)
    statement = site.statement_of(longest.node)
    splice.insert_line_before(
        statement,
        _assertion(longest.count, size, longest.lengths),
        above_comments=False,
    )
    splice.replace(longest.node, size)
    return splice.rewrite(
        f"take the width of the mask from `{size.partition('.')[0]}`",
        safety=Safety.SAFE,
        notes=_notes(longest.lengths, size),
        rank=44,
    )


def _at_the_call(site: Site, longest: _Longest, level: Level, *, passed: bool) -> Rewrite | None:
    """The width handed to the function that makes the mask, by the call that the run recorded."""
    view, call, function = level.site, level.site.node, site.function
    assert function is not None
    if not isinstance(call, cst.Call) or not _has_torch(view) or not _is_plain(function):
        return None
    size = _size_of(view, call, longest)
    lengths = _given(view, call, function, longest)
    if size is None or lengths is None:
        return None
    own, caller = Splice(site), Splice(view)
    if view.path == site.path:
        own = caller
    name = longest.name
    if passed:
        given = argument_of(view, call, function, name)
        if given is not None and code(given) != "None":
            return None
        if not _only_stands_in(site, function, longest):
            return None
        if given is not None:
            caller.replace(given, size)
    else:
        name = fresh("width", names_in(function))
        last = function.params.params[-1]
        part = last.annotation.annotation if last.annotation is not None else last.name
        own.insert_behind(last.default or part, f", {name}=None")
        own.replace(longest.node, f"{site.text(longest.node)} if {name} is None else {name}")
        given = None
    if given is None:
        caller.insert_behind(call.args[-1].value, f", {name}={size}")
    text, node = lengths
    statement = view.statement_of(call)
    if node is not None:
        hoisted = fresh("lengths", names_in(level.function))
        caller.insert_line_before(statement, f"{hoisted} = {text}", above_comments=False)
        caller.replace(node, hoisted)
        text = hoisted
    count = _renamed(longest.count, longest.lengths, text)
    caller.insert_line_before(
        statement,
        _assertion(count, size, text),
        above_comments=False,
    )
    made = caller.rewrite(
        f"take the width of the mask from `{size.partition('.')[0]}`",
        safety=Safety.SAFE,
        notes=_notes(text, size),
        rank=44,
    )
    if own is caller:
        return made
    other = own.rewrite("")
    if not passed:
        made = dataclasses.replace(
            made,
            edits={**made.edits, **other.edits},
            touched={**made.touched, **other.touched},
        )
    return made


def _only_stands_in(site: Site, function: cst.FunctionDef, longest: _Longest) -> bool:
    """Whether a given width does no more than to stand in for the longest length."""
    name = longest.name
    inside = set(walk(site.statement_of(longest.node)))
    holder = site.parent(site.parent(site.statement_of(longest.node)) or function)
    tested: set[cst.CSTNode] = set()
    if isinstance(holder, cst.If):
        # ``if width is None: width = lengths.max()``
        if longest.chosen or holder.orelse is not None or len(holder.body.body) != 1:
            return False
        tested = set(walk(holder.test))
    for place in site.places_of(name, function.body):
        if place in inside or place in tested:
            continue
        if isinstance(site.parent(place), cst.Comparison | cst.ComparisonTarget):
            return False
        for outer in site.ancestors(place):
            if outer is function or isinstance(outer, cst.SimpleStatementLine):
                break
            if isinstance(outer, cst.If | cst.While | cst.Assert | cst.IfExp):
                return False
            if isinstance(outer, cst.BooleanOperation | cst.BaseComp | cst.Lambda):
                return False
    return True


def _is_plain(function: cst.FunctionDef) -> bool:
    """Whether a parameter may be added at the end, or passed by its name."""
    params = function.params
    known = [code(item.decorator) for item in function.decorators]
    return (
        not params.posonly_params
        and not isinstance(params.star_arg, cst.Param)
        and not params.kwonly_params
        and params.star_kwarg is None
        and bool(params.params)
        and all(text in _HARMLESS_DECORATORS for text in known)
    )


def _given(
    view: Site, call: cst.Call, function: cst.FunctionDef, longest: _Longest
) -> tuple[str, cst.BaseExpression | None] | None:
    """The text of the lengths in the caller; with it the argument, where it has to get a name.

    The helper must ask the parameter itself, and not bind it anew.
    """
    name = longest.lengths
    parameters = [param.name.value for param in params_of(function.params)]
    if name not in parameters or any(_stores(node, name) for node in walk(function.body)):
        return None
    if name in activity(function.body).mutates:
        return None  # the assertion would ask for them as they were before
    given = argument_of(view, call, function, name)
    statement = view.statement_of(call)
    if given is None or not isinstance(statement, cst.SimpleStatementLine):
        return None
    # Everything before it in the statement has to be no more than names.
    if not _is_line(view, call) or not _is_first(view, call, statement):
        return None
    text = view.text(given)
    if isinstance(given, cst.Name):
        return text, None
    return (text, given) if given is call.args[0].value else None


def _is_first(view: Site, call: cst.Call, statement: cst.SimpleStatementLine) -> bool:
    """Whether nothing that the statement does comes before the call's arguments."""
    around: list[cst.CSTNode] = []
    for outer in view.ancestors(call):
        if outer is statement:
            break
        around.append(outer)
    inside = set(walk(call))
    if len(statement.body) != 1 or any(isinstance(node, cst.Call) for node in walk(call.func)):
        return False
    begins = (view.span(call).line, view.span(call).column)
    return all(
        node in inside or node in around or (view.span(node).line, view.span(node).column) > begins
        for node in walk(statement)
        if isinstance(node, cst.Call | cst.Subscript | cst.Await | cst.NamedExpr)
    )


def _renamed(text: str, old: str, new: str) -> str:
    """An expression in which a name is another text."""
    return re.sub(rf"(?<![\w.]){re.escape(old)}\b", lambda _: new, text)
