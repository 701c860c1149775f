"""`print` as torch's own print operator."""

from __future__ import annotations

import ast
import dataclasses
import string
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import Refused, own_parameters
from ..wrap.operator_text import torch_alias
from .effects import effect_statement

#: Calls that read a tensor's value: outside ``fullgraph=True`` they break the graph by themselves.
_READ_VALUES = words("item tolist int float bool numpy")


def _example(title: str, before: str, after: str, facts: dict[str, Fact]) -> Example:
    source = "import torch\n\ndef f(x, n, self):\n    {}\n    return x + 1\n"
    return Example(source.format(before), source.format(after), at=before, facts=facts, title=title)


def _near_miss(call: str, why: str, facts: dict[str, Fact]) -> NearMiss:
    source = f"import torch\n\ndef f(x, n):\n    b = n > 2\n    {call}\n    return x + 1\n"
    return NearMiss(source, at=call, why=why, facts=facts)


_X = tensor(3, 4)
_LOSS = tensor(requires_grad=True)


class PrintToHop(Codemod):
    """*What it does.*  Turns ``print`` into ``torch._higher_order_ops.print``, part of the graph.

    ```python
    print("step", n, x)
    ```
    becomes
    ```python
    torch._higher_order_ops.print("step {} {!s}", n, x)
    ```

    *When it applies.*  The print goes to stdout and ends its line; its arguments are constants,
    Python numbers and strings, and tensors that do not require a gradient.

    *Fix safety.*  Safe.  The text is the same: measured on torch 2.13 under eager, aot_eager and
    inductor.  ``{!s}`` keeps ``tensor(6.)`` for a 0-dimensional tensor, which ``{}`` would print as
    ``6.0``; a brace in a constant is passed as an argument, because inductor prints ``{{`` twice.

    *Refuses.*  ``file``, ``flush``, another ``end`` (see ``print-to-op``); texts that show a
    ``grad_fn``; ``.item()`` and other reads of a tensor's value, which break without
    ``fullgraph=True``; percent formatting; shapes as a whole; values of unknown type.
    """

    name = "print-to-hop"
    codes = ("GB0059",)
    examples = (
        _example("a constant", 'print("step")', 'torch._higher_order_ops.print("step")', {}),
        _example("an empty line", "print()", 'torch._higher_order_ops.print("{}", "")', {}),
        _example(
            "braces are passed",
            "print('a {b} c', 3)",
            "torch._higher_order_ops.print(\"{} 3\", 'a {b} c')",
            {},
        ),
        _example(
            "a tensor and numbers",
            'print("v", n, x, x.shape[0])',
            'torch._higher_order_ops.print("v {} {!s} {}", n, x, x.shape[0])',
            {"n": scalar(3), "x": _X, "x.shape[0]": scalar(3)},
        ),
        _example(
            "a separator and quotes",
            """print("it's", '"x"', n, sep=", ", end=None)""",
            """torch._higher_order_ops.print('it\\'s, "x", {}', n)""",
            {"n": scalar("s")},
        ),
        _example(
            "an f-string, 0-dimensional and formatted",
            'print(f"loss {x.mean():.3f} at {n:>5}")',
            'torch._higher_order_ops.print("loss {:.3f} at {:>5}", x.mean(), n)',
            {"x.mean()": _LOSS, "n": scalar(3)},
        ),
        _example(
            "str.format",
            'print("loss {:.3f} {!r}".format(x, n))',
            'torch._higher_order_ops.print("loss {:.3f} {!r}", x, n)',
            {"x": _LOSS, "n": scalar("s")},
        ),
        _example(
            "a value of an object",
            "print(self.flag, self.step)",
            'torch._higher_order_ops.print("{} {}", self.flag, self.step)',
            {"self.flag": scalar(True), "self.step": scalar(3)},
        ),
    )
    near_misses = (
        _near_miss("print('a', end='')", "another end", {}),
        _near_miss("print('a', flush=True)", "would not flush", {}),
        _near_miss("print('a', file=n)", "another file", {}),
        _near_miss("print('a', sep=n)", "a separator of unknown text", {"n": scalar(",")}),
        _near_miss("print(x)", "the text shows a grad_fn", {"x": _LOSS}),
        _near_miss("print(f'{x!s}')", "a converted one too", {"x": _LOSS}),
        _near_miss("print(x)", "unknown type", {}),
        _near_miss("print(x)", "a parameter prints its class", {"x": Fact("tensor", "Parameter")}),
        _near_miss("print(f'{x}')", "a list", {"x": Fact("list", "list", items=(_X,))}),
        _near_miss("print(x.shape)", "its rank may vary", {"x.shape": Fact("tuple", "torch.Size")}),
        _near_miss("print(x.sum().item())", "a read of a value", {"x.sum().item()": scalar(1.0)}),
        _near_miss("print('%d' % n)", "percent formatting", {"'%d' % n": scalar("3")}),
        _near_miss("print(f'{n:{n}}')", "a nested format", {"n": scalar(3)}),
        _near_miss("print(f'{n=}')", "a debug format", {"n": scalar(3)}),
        _near_miss("print('{0} {0}'.format(n))", "numbered fields", {"n": scalar(3)}),
        _near_miss("print('{{}} {}'.format(n))", "escaped braces", {"n": scalar(3)}),
        _near_miss("print(*x)", "unknown arguments", {"x": _X}),
        _near_miss("print(b)", "a bool made of a tensor fails in inductor", {"b": scalar(True)}),
        _near_miss("n.print('a')", "not the builtin", {}),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = effect_statement(site)
        if call is None or resolve(site.module, call.func) != "builtins.print":
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        try:
            text = _text_of(site, call)
        except Refused:
            return  # `print-to-op` takes it, or says why not
        func = cst.parse_expression(f"{torch}._higher_order_ops.print")
        arguments = [cst.Arg(text.literal()), *(cst.Arg(node) for node in text.arguments)]
        edit.replace(call, cst.Call(func, arguments))
        yield edit.rewrite(
            "print through torch's print operator",
            rank=20,
            notes=("`torch._higher_order_ops.print` is not a documented name of torch",),
        )


@dataclasses.dataclass
class _Text:
    """A format string in the making, with its arguments."""

    pieces: list[str] = dataclasses.field(default_factory=list)
    arguments: list[cst.BaseExpression] = dataclasses.field(default_factory=list)

    def add(self, text: str, node: cst.BaseExpression | None = None) -> None:
        """Constant text; ``node`` is its own spelling where there is one."""
        if "{" in text or "}" in text:
            self.argument("", node or _literal(text))
        else:
            self.pieces.append(text)

    def argument(self, how: str, node: cst.BaseExpression) -> None:
        self.pieces.append("{" + how + "}")
        self.arguments.append(node.deep_clone())

    def literal(self) -> cst.BaseExpression:
        if not "".join(self.pieces):
            self.argument("", _literal(""))
        return _literal("".join(self.pieces))


def _literal(text: str) -> cst.SimpleString:
    quoted = repr(text)
    if quoted[0] == "'" and '"' not in text and "'" not in text:
        quoted = f'"{quoted[1:-1]}"'
    return cst.SimpleString(quoted)


def _text_of(site: Site, call: cst.Call) -> _Text:
    separator = " "
    positional: list[cst.BaseExpression] = []
    for argument in call.args:
        value = argument.value
        if argument.star:
            raise Refused("its arguments are unknown")
        if argument.keyword is None:
            positional.append(value)
        elif argument.keyword.value == "sep":
            given = _constant(value)
            if given is not None and not isinstance(given, str):
                raise Refused("its separator is unknown")
            separator = " " if given is None else given
        elif not _is_default(site, argument.keyword.value, value):
            raise Refused(f"`{argument.keyword.value}` is given")
    text = _Text()
    for number, node in enumerate(positional):
        if number:
            text.add(separator)
        if len(positional) == 1 and _add_format_call(site, text, node):
            continue
        _add(site, text, node)
    return text


def _is_default(site: Site, keyword: str, value: cst.BaseExpression) -> bool:
    if keyword == "end":
        return _constant(value) in (None, "\n")
    if keyword == "flush":
        return _constant(value) is False
    is_none = isinstance(value, cst.Name) and value.value == "None"
    return keyword == "file" and (is_none or resolve(site.module, value) == "sys.stdout")


def _constant(node: cst.BaseExpression) -> object:
    """The value of a literal; an object of its own for anything else."""
    try:
        value: object = ast.literal_eval(code(node))
    except (ValueError, SyntaxError):
        return object()
    return value


def _add(site: Site, text: _Text, node: cst.BaseExpression) -> None:
    """What ``str`` makes of a value."""
    if isinstance(node, cst.FormattedString):
        _add_f_string(site, text, node)
        return
    if isinstance(node, cst.ConcatenatedString):
        _add(site, text, node.left)
        _add(site, text, node.right)
        return
    value = _constant(node)
    if isinstance(value, str):
        text.add(value, node)
    elif value is None or isinstance(value, bool | int | float):
        text.add(str(value))
    else:
        text.argument("!s" if _check(site, node, shown=True).is_tensor else "", node)


def _add_f_string(site: Site, text: _Text, node: cst.FormattedString) -> None:
    quote = node.start.lstrip("fFrRbBuU")
    prefix = "r" if "r" in node.start.lower() else ""
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            raw = part.value.replace("{{", "{").replace("}}", "}")
            text.add(ast.literal_eval(f"{prefix}{quote}{raw}{quote}"))
            continue
        assert isinstance(part, cst.FormattedStringExpression)
        if part.equal is not None:
            raise Refused("a debug format")
        spec = ""
        for inner in part.format_spec or ():
            if not isinstance(inner, cst.FormattedStringText) or "\\" in inner.value:
                raise Refused("a format within a format")
            spec += inner.value
        _add_field(site, text, part.expression, part.conversion, spec)


def _add_field(
    site: Site, text: _Text, node: cst.BaseExpression, conversion: str | None, spec: str
) -> None:
    _check(site, node, shown=conversion is not None)
    how = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
    text.argument(how, node)


def _add_format_call(site: Site, text: _Text, node: cst.BaseExpression) -> bool:
    """``"{:.3f}".format(x)``, where every field takes the next argument."""
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.SimpleString() as template, attr=cst.Name(value="format"))
        ):
            pass
        case _:
            return False
    value = template.evaluated_value
    if not isinstance(value, str) or "{{" in value or "}}" in value:
        raise Refused("escaped braces")
    arguments = list(node.args)
    if any(argument.keyword is not None or argument.star for argument in arguments):
        raise Refused("named fields")
    for constant, field, spec, conversion in string.Formatter().parse(value):
        text.add(constant)
        if field is None:
            continue
        if field or "{" in (spec or "") or not arguments:
            raise Refused("fields that are not simply the next one")
        _add_field(site, text, arguments.pop(0).value, conversion, spec or "")
    if arguments:
        raise Refused("arguments that are not shown")
    return True


def _check(site: Site, node: cst.BaseExpression, *, shown: bool) -> Fact:
    """The fact of a value whose text the operator makes as Python does; ``shown`` by ``str``."""
    reads = any(isinstance(part, cst.Call) and _called(part) in _READ_VALUES for part in walk(node))
    formats = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
    if reads or formats:
        raise Refused(f"`{code(node)}` reads a value or formats one")
    fact = site.fact(node)
    if fact is None and isinstance(node, cst.Name):
        fact = site.locals_before(site.statement_of(node)).get(node.value)
    if fact is None:
        raise Refused(f"the type of `{code(node)}` was not seen")
    if not _prints_the_same(site, node, fact, shown):
        raise Refused(f"`{code(node)}` would not print the same")
    return fact


def _prints_the_same(site: Site, node: cst.BaseExpression, fact: Fact, shown: bool) -> bool:
    if fact.type in ("torch.dtype", "torch.device"):
        return True
    if fact.is_tensor:
        scalar_format = not shown and fact.shape == ()
        return fact.type == "torch.Tensor" and (not fact.requires_grad or scalar_format)
    if fact.type != fact.kind:  # a numpy scalar, an enumeration
        return False
    if fact.kind == "str":
        return not isinstance(node, cst.Call | cst.BinaryOperation)
    if fact.kind == "bool":
        is_parameter = isinstance(node, cst.Name) and node.value in own_parameters(site, node)
        return is_parameter or isinstance(node, cst.Attribute)
    return fact.kind in ("int", "float")


def _called(node: cst.Call) -> str:
    func = node.func
    last = func.attr if isinstance(func, cst.Attribute) else func
    return last.value if isinstance(last, cst.Name) else ""
