"""``sorted`` of two tensors, and ``max`` and ``min`` of two with a key: the graph compares them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in, ungrouped
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from .layout import statement_line
from .refusal import Refusal
from .sites import depth_of, without_gradients
from .surroundings import SEVERAL, check_later_changes, is_one_of_several
from .texts import with_name
from .vain import stays
from .values import Values


class OrderTwo(Codemod):
    """Turns ``sorted``, ``max`` and ``min`` of two tensors into ``torch.where`` or ``torch.cond``.

    **What it does**

    ``max(a, b, key=torch.norm)`` becomes ``torch.cond(torch.norm(b) > torch.norm(a), lambda:
    b.clone(), lambda: a.clone())``: the comparison that Python makes, so that NaN and equal keys
    come out the same.  ``low, high = sorted((a, b))`` of tensors without dimensions becomes two
    ``torch.where`` on ``b < a``.

    **When it applies**

    Two tensors are given, in two arguments or in a tuple or list; the key, if any, is a lambda or
    a function of torch, and gives tensors of one number.

    **Fix safety**

    The results are copies.  Gradients of what was not chosen are zero instead of none; where a
    derivative may not be finite the patch is unsafe, because zero times that is NaN.

    **Refuses**

    More than two (``torch.sort`` puts NaN last, Python leaves it where it is); ``default=``; keys
    that do more than compute; results that are changed in place; tensors of different dtypes.
    """

    name = "order-two"
    codes = ("GB0193", "GB0207")
    examples = (
        Example(
            """
            import torch

            def f(a, b):
                low, high = sorted((a.sum(), b.sum()))
                return (a - low) / (high - low)
            """,
            """
            import torch

            def f(a, b):
                a_sum, b_sum = a.sum(), b.sum()
                swaps = b_sum < a_sum
                low, high = torch.where(swaps, b_sum, a_sum), torch.where(swaps, a_sum, b_sum)
                return (a - low) / (high - low)
            """,
            at="sorted((a.sum(), b.sum()))",
            facts={"a": tensor(3), "b": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(a, b):
                return a / sorted((a.sum(), b.sum()))[-1]
            """,
            """
            import torch

            def f(a, b):
                a_sum, b_sum = a.sum(), b.sum()
                return a / torch.where(b_sum < a_sum, a_sum, b_sum)
            """,
            at="sorted((a.sum(), b.sum()))",
            facts={"a": tensor(3), "b": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(a, b):
                # The longer one.
                return max(a, b, key=lambda t: t.norm()) * 2
            """,
            """
            import torch

            def f(a, b):
                # The longer one.
                return torch.cond(b.norm() > a.norm(), lambda: b.clone(), lambda: a.clone()) * 2
            """,
            at="max(a, b, key=lambda t: t.norm())",
            facts={"a": tensor(3), "b": tensor(3), "t": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(a, b):
                best, other = sorted([a, b], key=lambda t: t.sum(), reverse=True)
                return best - other * 2
            """,
            """
            import torch

            def f(a, b):
                best, other = torch.cond(
                    a.sum() < b.sum(),
                    lambda: (b.clone(), a.clone()),
                    lambda: (a.clone(), b.clone()),
                )
                return best - other * 2
            """,
            at="sorted([a, b], key=lambda t: t.sum(), reverse=True)",
            facts={"a": tensor(3), "b": tensor(3), "t": tensor(3)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(a, b, c, d, g):
                r = {value}
                return {rest}
            """,
            at=value,
            why=why,
            facts={
                "a": tensor(3),
                "b": tensor(3),
                "c": tensor(3),
                "d": tensor(3, dtype="torch.float64"),
                "t": tensor(3),
                "t * 2": tensor(3),
                "g(t)": tensor(),
            },
        )
        for value, rest, why in (
            ("sorted((a.sum(), b.sum(), c.sum()))", "r[0]", "three, of which one may be NaN"),
            ("sorted(a)", "r[0]", "as many as there are"),
            ("max(a, b, key=lambda t: g(t))", "r * 2", "it is not known what the key does"),
            ("max(a, b, key=lambda t: t.add_(1).sum())", "r * 2", "the key changes its argument"),
            ("max(a, b, key=lambda t: t * 2)", "r * 2", "keys of many numbers have no order"),
            ("max(a, b, key=g)", "r * 2", "it is not known what the key does"),
            ("max(a, d, key=lambda t: t.sum())", "r * 2", "dtypes differ"),
            ("max((a, b), default=c, key=lambda t: t.sum())", "r * 2", "a default"),
            ("max(*a, b, key=lambda t: t.sum())", "r * 2", "as many as there are"),
            ("sorted((a, b), key=lambda t: t.sum(), reverse=g)", "r", "its order is not known"),
            ("max(a, b, key=lambda t: t.sum())", "r.add_(1)", "the result is changed in place"),
            ("max(a, g(b), key=lambda t: t.sum())", "r * 2", "it is not known what that is"),
            ("max(a, b, key=lambda t, u=1: t.sum())", "r * 2", "more than one parameter"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        try:
            yield _rewrite(site)
        except Refusal:
            return


@dataclasses.dataclass(frozen=True)
class _Choice:
    """Two tensors; whether the second comes before the first; whether one or both are wanted."""

    items: tuple[cst.BaseExpression, cst.BaseExpression]
    key: cst.BaseExpression | None
    kind: str
    backwards: bool = False

    def test(self, first: str, second: str) -> str:
        """The comparison on which Python takes the second first."""
        if self.kind == "sorted":
            return f"{first} < {second}" if self.backwards else f"{second} < {first}"
        return f"{second} {'>' if self.kind == 'max' else '<'} {first}"


def _rewrite(site: Site) -> Rewrite:
    values = Values(site)
    call = site.node
    if not isinstance(call, cst.Call):
        raise Refusal("")
    choice = _choice(site, call)
    _check_place(site, call, values)
    facts = [values.fact(item) for item in choice.items]
    if any(fact is None or not fact.is_tensor or fact.dtype is None for fact in facts):
        raise Refusal("")
    one, other = facts
    assert one is not None and other is not None
    if one.dtype != other.dtype or "complex" in (one.dtype or ""):
        raise Refusal("")
    if not values.effects(*choice.items).pure:
        raise Refusal("")
    points = one.shape == other.shape == ()
    if choice.key is None and not points:
        raise Refusal("")
    named = all(isinstance(item, cst.Name) for item in choice.items)
    edit = site.edit()
    names = [code(item) for item in choice.items]
    taken = names_in(site.module)
    if not named:
        for index, item in enumerate(choice.items):
            if not isinstance(item, cst.Name):
                names[index] = fresh(telling_name(item), taken)
                taken.add(names[index])
        pairs = [(n, i) for n, i in zip(names, choice.items, strict=True) if code(i) != n]
        left = ", ".join(name for name, _ in pairs)
        right = ", ".join(code(ungrouped(item)) for _, item in pairs)
        edit.insert_before(site.statement, cst.parse_statement(f"{left} = {right}"))
    keys = [_key(site, choice.key, name, values) for name in names]
    test = choice.test(*keys)
    targets = {n.value for n in walk(site.statement) if isinstance(n, cst.Name)}
    check_later_changes(site, site.statement, values, {*names, *targets})
    if without_gradients(site, call):
        raise Refusal("")
    safety, notes = Safety.SAFE, ["Each result is a copy of what Python would have chosen."]
    if not all(isinstance(item, cst.Name) or stays(item, values) for item in choice.items):
        safety = Safety.UNSAFE
        notes.append(
            "The tensor that was not chosen gets a zero gradient instead of none, which may turn"
            " into NaN further back."
        )
    place: cst.CSTNode = call
    if points and choice.kind == "sorted" and (wanted := _wanted(site, call)) is not None:
        place, first = wanted
        pair = (names[1], names[0]) if first else (names[0], names[1])
        new = cst.parse_expression(f"{values.torch}.where({test}, {', '.join(pair)})")
    elif points:
        new = _where(site, choice, test, names, values, edit)
    else:
        new = _cond(site, choice, test, names, values)
        if is_one_of_several(site, site.statement):
            safety = Safety.UNSAFE
            notes.append(SEVERAL)
    edit.replace(place, new)
    if values.torch_missing:
        edit.add_import("torch")
    title = "order the two tensors in the graph"
    return edit.rewrite(title, notes=notes, rank=20, safety=safety)


# -- what is asked ---------------------------------------------------------------------------


def _choice(site: Site, call: cst.Call) -> _Choice:
    kind = (resolve(site.module, call.func) or "").removeprefix("builtins.")
    if kind not in ("sorted", "max", "min") or comments_in(call):
        raise Refusal("")
    if any(arg.star for arg in call.args):
        raise Refusal("")
    plain = [arg.value for arg in call.args if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    key, reverse = named.pop("key", None), named.pop("reverse", None)
    if named or (reverse is not None and kind != "sorted"):
        raise Refusal("")
    if reverse is not None and code(reverse) not in ("True", "False"):
        raise Refusal("")
    match plain:
        case [cst.Tuple() | cst.List() as display]:
            if not all(isinstance(element, cst.Element) for element in display.elements):
                raise Refusal("")
            plain = [element.value for element in display.elements]
        case [_]:
            raise Refusal("")
    if len(plain) != 2:
        raise Refusal("")
    backwards = reverse is not None and code(reverse) == "True"
    return _Choice((plain[0], plain[1]), key, kind, backwards)


def _check_place(site: Site, call: cst.Call, values: Values) -> None:
    """Refuse a call that may not be run, or beside which anything has an effect."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        raise Refusal("")
    around = [parent for parent in site.ancestors(call) if parent is not statement]
    inner = around[: next(i for i, p in enumerate(around) if p is statement.body[0])]
    scopes = cst.Lambda | cst.BaseComp | cst.IfExp | cst.BooleanOperation | cst.CompFor
    if any(isinstance(parent, scopes) for parent in inner):
        raise Refusal("")
    inside = {id(node) for node in walk(call)}
    outer = {id(node) for node in inner}
    for node in walk(statement):
        calls = isinstance(node, cst.Call | cst.NamedExpr | cst.Await | cst.Yield)
        if calls and id(node) not in inside | outer and not values.effects(node).pure:
            raise Refusal("")


def _key(site: Site, key: cst.BaseExpression | None, name: str, values: Values) -> str:
    """The text of what the key gives for the named tensor: a tensor without dimensions."""
    if key is None:
        return name
    match key:
        case cst.Lambda(params=cst.Parameters(params=[cst.Param(default=None) as only])):
            parameters = key.params
            if parameters.kwonly_params or parameters.posonly_params or parameters.star_kwarg:
                raise Refusal("")
            if isinstance(parameters.star_arg, cst.Param):
                raise Refusal("")
            body, fact = key.body, values.fact(key.body)
            if any(
                isinstance(node, cst.Lambda | cst.BaseComp | cst.NamedExpr) for node in walk(body)
            ):
                raise Refusal("")
            if not values.effects(body).pure or values.effects(body).unknown:
                raise Refusal("")
            text = code(ungrouped(with_name(body, only.name.value, name)))
        case cst.Attribute():
            call = cst.Call(key, [cst.Arg(values.before(name))])
            fact = values.fact(call)
            if not values.effects(call).pure:
                raise Refusal("")
            text = code(call)
        case _:
            raise Refusal("")
    if fact is None or not fact.is_tensor or fact.shape != () or "complex" in (fact.dtype or ""):
        raise Refusal("")
    return text


# -- text ------------------------------------------------------------------------------------


def _wanted(site: Site, call: cst.Call) -> tuple[cst.Subscript, bool] | None:
    """The subscript that takes one of the two, and whether that is the first."""
    match site.parent(call):
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]) as place:
            first = {"0": True, "-2": True, "1": False, "-1": False}.get(code(index))
            return None if first is None else (place, first)
    return None


def _where(
    site: Site, choice: _Choice, test: str, names: list[str], values: Values, edit: Edit
) -> cst.BaseExpression:
    first, second = names
    where = f"{values.torch}.where"
    if choice.kind != "sorted":
        return cst.parse_expression(f"{where}({test}, {second}, {first})")
    swaps = fresh("swaps", names_in(site.module))
    edit.insert_before(site.statement, cst.parse_statement(f"{swaps} = {test}"))
    pair = f"{where}({swaps}, {second}, {first}), {where}({swaps}, {first}, {second})"
    return cst.parse_expression(pair if _is_unpacked(site) else f"[{pair}]")


def _cond(
    site: Site, choice: _Choice, test: str, names: list[str], values: Values
) -> cst.BaseExpression:
    first, second = (f"{name}.clone()" for name in names)
    arms = [f"lambda: {second}", f"lambda: {first}"]
    if choice.kind == "sorted":
        arms = [f"lambda: ({second}, {first})", f"lambda: ({first}, {second})"]
    call, arguments = f"{values.torch}.cond", [test, *arms]
    statement = site.statement
    depth = depth_of(site, statement)
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[target], value=value)]):
            if value is site.node and (choice.kind != "sorted" or _is_unpacked(site)):
                line = statement_line(site, f"{code(target.target)} = {call}", arguments, depth)
                (small,) = line.body
                assert isinstance(small, cst.Assign)
                return small.value
    text = f"{call}({', '.join(arguments)})"
    return cst.parse_expression(f"list({text})" if choice.kind == "sorted" else text)


def _is_unpacked(site: Site) -> bool:
    """Whether the call is all that an assignment to two targets unpacks."""
    match site.statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple())], value=value)]
        ):
            return value is site.node
    return False
