"""Errors of shapes that a program catches to try something else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety, Span

from .splice import Splice

_CAUGHT = frozenset({"builtins.RuntimeError", "builtins.Exception"})
_OPERATORS = (cst.Add, cst.Multiply, cst.Divide)
_VIEWS = words(
    "t transpose permute unsqueeze squeeze view reshape expand swapaxes movedim flatten contiguous"
)
_FACTS = {"x": tensor(2, 3), "y": tensor(3, 2), "x.T": tensor(3, 2)}
_FIT = '''def {name}(x, y):
    """Whether an operator takes both: tensors on one device, of shapes that broadcast."""
    if not (isinstance(x, {torch}.Tensor) and isinstance(y, {torch}.Tensor)):
{others}
    if x.device != y.device and not any(z.dim() == 0 and z.device.type == "cpu" for z in (x, y)):
        return False
    if not x.layout == y.layout == {torch}.strided:
        return x.layout == y.layout and x.shape == y.shape
    return all(m == n or 1 in (m, n) for m, n in zip(x.shape[::-1], y.shape[::-1]))

'''
_OTHER_ERRORS = (
    "Shapes, devices and layouts are asked for: where the operator fails for another reason, or the"
    " other form fails, too, compiled code raises `TorchRuntimeError`, a kind of `RuntimeError`."
)
_NUMBERS = """        numbers = ({torch}.Tensor, int, float)
        return isinstance(x, numbers) and isinstance(y, numbers)"""


def _source(*lines: str, fit: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    above = f"{_FIT.format(name='fit', torch='torch', others=fit)}\n" if fit else ""
    return f"import torch\n\n\n{above}def f(x, y):\n{body}"


def _tried(tried: str, instead: str, head: str = "except RuntimeError:") -> str:
    return _source("try:", f"    {tried}", head, f"    {instead}", "return z")


class TryShapes(Codemod):
    """*What it does.*  Asks for the shapes where a program waits for an error about them.

    ```python
    try:
        z = x + y
    except RuntimeError:
        z = x + y.t()
    ```
    becomes ``if fit(x, y):``, with a function ``fit`` above that compares the shapes (and lets
    through what is no tensor where the handler would not have caught its error).  While Dynamo
    traces, such an error ends the trace; shapes it knows.  ``view`` with ``reshape`` for
    when it fails becomes ``reshape``, which views wherever that is possible.

    *When it applies.*  The ``try`` holds nothing but a sum, product or quotient of two tensors that
    are named, or ``view`` with the sizes that its handler gives to ``reshape``.

    *Fix safety.*  Safe: two dense tensors on one device can be added if their sizes, counted from
    the last one, are equal or 1.  A note says what is not asked: an operator may fail for another
    reason (no memory), and where the handler's form fails, too, compiled code raises
    ``TorchRuntimeError``, a kind of ``RuntimeError``.  Unsafe where that counts: the handler names
    a class of errors, or tries the same operator on tensors that are only viewed in another way
    (``x + y.t()``).

    *Refuses.*  Anything else in the ``try``, in-place operators, handlers that look at the error or
    raise it again, several handlers, ``else`` and ``finally``.
    """

    name = "try-shapes"
    codes = ("torch-runtime-error", "GB4315")
    examples = (
        Example(
            _tried("z = x + y  # as it comes", "z = x + y.t()"),
            _source(
                "if fit(x, y):",
                "    z = x + y  # as it comes",
                "else:",
                "    z = x + y.t()",
                "return z",
                fit="        return True",
            ),
            at="x + y",
            facts=_FACTS,
            title="a sum",
        ),
        Example(
            _tried("z = x + y", "z = x", "except Exception:"),
            _source(
                "if fit(x, y):",
                "    z = x + y",
                "else:",
                "    z = x",
                "return z",
                fit=_NUMBERS.format(torch="torch"),
            ),
            at="x + y",
            facts=_FACTS,
            title="None and lists are caught, too",
        ),
        Example(
            _tried("z = x + y", "z = x + grown(y, x.shape)", "except:"),
            _source(
                "if fit(x, y):",
                "    z = x + y",
                "else:",
                "    z = x + grown(y, x.shape)",
                "return z",
                fit=_NUMBERS.format(torch="torch"),
            ),
            at="x + y",
            facts=_FACTS,
            title="whatever the error is",
        ),
        Example(
            _tried("z = x.T.view(6)", "z = x.T.reshape(6)", "except Exception:"),
            _source("z = x.T.reshape(6)", "return z"),
            at="x.T.view(6)",
            facts=_FACTS,
            title="a view",
        ),
    )
    near_misses = tuple(
        NearMiss(source, at=at, why=why, facts={**_FACTS, **facts})
        for source, at, why, facts in (
            (_tried("z = x @ y", "z = x @ y.t()"), "x @ y", "another operator", {}),
            (_tried("z = x - y", "z = x"), "x - y", "bools cannot be subtracted", {}),
            (_tried("x += y; z = x", "z = x"), "x += y", "half done where it fails", {}),
            (_tried("z = x + y.sin()", "z = x"), "x + y.sin()", "more that may fail", {}),
            (_tried("z[0] = x + y", "z[0] = x"), "x + y", "the result may not fit", {}),
            (_tried("z = x + y", "raise"), "x + y", "the error is raised again", {}),
            (
                _tried("z = x + y", "z = str(e)", "except RuntimeError as e:"),
                "x + y",
                "the error is looked at",
                {},
            ),
            (_tried("z = x + y", "z = x", "except TypeError:"), "x + y", "another error", {}),
            (
                _tried(
                    "z = x + y",
                    "z = x\nexcept ValueError:\n        z = y".replace("\ne", "\n    e"),
                ),
                "x + y",
                "two handlers",
                {},
            ),
            (
                _tried("z = x + y", "z = x\n    finally:\n        z = y"),
                "x + y",
                "something comes behind",
                {},
            ),
            (
                _tried("z = x + y", "log.exception('shapes'); z = x"),
                "x + y",
                "the traceback is shown",
                {},
            ),
            (_tried("z = x + y", "z = x"), "x + y", "no tensor", {"y": Fact("object", "Masked")}),
            (_tried("z = x.T.view(6)", "z = x.T.reshape(7)"), "x.T.view(6)", "other sizes", {}),
            (_tried("z = x.T.view(6)", "y = x.T.reshape(6)"), "x.T.view(6)", "another name", {}),
            (_tried("z = x.T.view(n())", "z = x.T.reshape(n())"), "x.T.view(n())", "a call", {}),
            (
                _tried("z = x.view(x.dtype)", "z = x.reshape(x.dtype)"),
                "x.view(x.dtype)",
                "a view of another dtype",
                {},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        tried = site.parent(site.parent(site.statement) or site.statement)
        match tried:
            case cst.Try(
                body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[only])]),
                handlers=[handler],
                orelse=None,
                finalbody=None,
            ) if _is_quiet(site, handler):
                pass
            case _:
                return
        if not isinstance(only, cst.Assign | cst.Return) or only.value is None:
            return
        targets = only.targets if isinstance(only, cst.Assign) else ()
        if not all(isinstance(target.target, cst.Name) for target in targets):
            return  # what is put into a tensor may not fit, either
        splice = Splice(site)
        match only.value:
            case cst.BinaryOperation(left=left, operator=operator, right=right) if isinstance(
                operator, _OPERATORS
            ) and _is_tensor(site, left, right):
                torch = next((n for n, of in import_map(site.module).items() if of == "torch"), "")
                if not torch:
                    return
                name = fresh("fit", names_in(site.module))
                test = f"{name}({code(left)}, {code(right)})"
                _define(site, splice, name, torch, everything=_catches_all(site, handler))
                start, head = site.span(tried), site.span(handler)
                # Between `except` and its colon stands the class alone.
                end = head.column + len("except" if handler.type is None else "except ")
                if handler.type is not None:
                    end = site.span(handler.type).end_column
                splice.replace_span(
                    Span(start.line, start.column, start.line, start.column + 3), f"if {test}"
                )
                splice.replace_span(Span(head.line, head.column, head.line, end), "else")
                yield splice.rewrite(
                    "ask whether the shapes broadcast",
                    safety=Safety.UNSAFE if _is_choosy(handler) else Safety.SAFE,
                    rank=20,
                    notes=(_OTHER_ERRORS,),
                )
            case cst.Call(func=cst.Attribute(value=viewed, attr=cst.Name("view"))) as call:
                line = _one_line(handler)
                if line is None or not _is_tensor(site, viewed) or not _has_sizes(site, call):
                    return
                func = cst.ensure_type(call.func, cst.Attribute)
                reshaped = call.with_changes(func=func.with_changes(attr=cst.Name("reshape")))
                wanted = only.with_changes(value=reshaped)
                if code(wanted) != code(line.body[0]) or comments_in(tried):
                    return
                splice.replace_span(site.span(tried), splice.source_of(line.body[0]))
                yield splice.rewrite("reshape, which views wherever it can", rank=20)


def _is_quiet(site: Site, handler: cst.ExceptHandler) -> bool:
    """Whether the handler catches errors of shapes, and does not care what they say."""
    caught = None if handler.type is None else resolve(site.module, handler.type)
    if handler.name is not None or not (handler.type is None or caught in _CAUGHT):
        return False
    if any(isinstance(node, cst.Raise) for node in walk(handler.body)):
        return False
    return re.search(r"exc_info|traceback|exception|sys\.", code(handler.body)) is None


def _is_choosy(handler: cst.ExceptHandler) -> bool:
    """Whether the class of an error counts: the handler names one, or its own form may fail as the
    first one did, as what it combines is only viewed.
    """
    if handler.type is not None:
        return True
    for node in walk(handler.body):
        if isinstance(node, cst.BinaryOperation):
            calls = [part for part in walk(node) if isinstance(part, cst.Call)]
            viewed = all(
                isinstance(part.func, cst.Attribute) and part.func.attr.value in _VIEWS
                for part in calls
            )
            if viewed and not isinstance(node.right, cst.BaseNumber):
                return True
    return False


def _is_tensor(site: Site, *nodes: cst.BaseExpression) -> bool:
    """Whether they are named tensors: reading them again does nothing else."""
    for node in nodes:
        fact = site.fact(node)
        kinds = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.Parameter")
        if dotted(node) is None or fact is None or fact.type not in kinds:
            return False
    return True


def _has_sizes(site: Site, call: cst.Call) -> bool:
    """Whether the arguments are numbers (or rows of them) that can be read at any time."""
    kinds = ("int", "list", "tuple")
    for arg in call.args:
        fact = site.fact(arg.value)
        plain = isinstance(arg.value, cst.Integer | cst.UnaryOperation)
        if arg.keyword is not None or not (plain or (fact is not None and fact.kind in kinds)):
            return False
        if any(isinstance(part, cst.Call | cst.NamedExpr) for part in walk(arg.value)):
            return False
    return not activity(call).mutates


def _catches_all(site: Site, handler: cst.ExceptHandler) -> bool:
    """Whether the handler also catches what comes of values that are no tensors."""
    caught = None if handler.type is None else resolve(site.module, handler.type)
    return caught != "builtins.RuntimeError"


def _define(site: Site, splice: Splice, name: str, torch: str, *, everything: bool) -> None:
    """Put the function that asks above the statement of the module that holds the ``try``."""
    others = _NUMBERS.format(torch=torch) if everything else "        return True"
    text = _FIT.format(name=name, torch=torch, others=others)
    text = text.replace("    ", site.module.default_indent)
    top = site.top_level_statement(site.node)
    splice.insert_line_before(top, text.replace("\n", site.module.default_newline))


def _one_line(handler: cst.ExceptHandler) -> cst.SimpleStatementLine | None:
    match handler.body:
        case cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[_]) as line]):
            return line
    return None
