"""Where a kept number goes: which operators and arguments read a tensor as they read a number.

Python's numbers count for less than tensors when torch chooses a dtype, and so do 0-dimensional
tensors beside tensors with dimensions of the same sort of number.  Where that is not the same, the
number is cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .flow import Flow, Stopped, parts_of, variables
from .flow_guards import negated, replaced
from .flow_index import assigned_slice, indexed
from .flow_numbers import Number
from .flow_windows import window, written_window
from .nested import Atom, Parts

_FLOATS = torch_names.FLOAT_DTYPES
#: Methods (and functions of torch) of two operands, as the operators are.
_OPERATORS = words(
    """add sub mul div true_divide divide multiply subtract pow eq ne lt le gt ge remainder fmod
    floor_divide less less_equal greater greater_equal not_equal add_ sub_ mul_ div_ pow_ eq_"""
)
#: Arguments that are a value to put into a tensor of its own dtype: by position, without self.
_FILLS = {"masked_fill": 1, "masked_fill_": 1, "fill_": 0, "index_fill": 2, "index_fill_": 2}
#: What `math` asks of a number, and the function of torch that asks the same.
_ASKED = {"math.isnan": "isnan", "math.isinf": "isinf", "math.isfinite": "isfinite"}
_CLAMPS = words("clamp clamp_ clip clip_ clamp_min clamp_max clamp_min_ clamp_max_")
_FULL = {"full": "empty", "full_like": "empty_like", "new_full": "new_empty"}


#: Where an int and a whole float are one number.
_ALIKE = (
    cst.Assign, cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.If, cst.Expr,
    cst.UnaryOperation,
)  # fmt: skip


class Uses:
    """Walks over a function and sees to every use of its kept numbers."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.site: Site = flow.site
        self.edits: dict[cst.CSTNode, Parts] = {}
        self.limits: list[str] = []
        self.doubts: list[str] = []
        #: Places where a number decides, and goes on to decide as a tensor.
        self.decisions = 0
        #: Subscripts whose indices have their dimension.
        self.seen: set[cst.CSTNode] = set()
        self.met = 0

    def run(self) -> None:
        self._visit(self.flow.function.body)
        self.edits.update(self.flow.made)

    # -- walking -----------------------------------------------------------------------------

    def _visit(self, node: cst.CSTNode) -> None:
        if (
            isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef)
            or node in self.flow.targets
        ):
            return
        if isinstance(node, cst.BaseExpression):
            number = self.flow.arithmetic.number(node)
            if number is not None and number.kept:
                self._use(node, number)
                return
            if self.flow.list_of(node) is not None:
                self._use_list(node)
                return
        if isinstance(node, cst.AugAssign) and self._augmented(node):
            return
        if isinstance(node, cst.Assign) and (
            written_window(self, node) or assigned_slice(self, node)
        ):
            return
        if isinstance(node, cst.Subscript) and window(self, node):
            return
        if isinstance(node, cst.If) and self._replaced(node):
            return
        for child in parts_of(node):
            self._visit(child)

    def commit(self, number: Number) -> None:
        self.edits.update(number.edits)
        self.limits += number.limits
        self.doubts += number.doubts

    def cast(self, node: cst.BaseExpression, number: Number, suffix: str) -> None:
        """Use the number, with a cast if one is asked for."""
        if suffix:
            from .flow_numbers import _again

            number = number.edited(node, *_again(number, node), suffix)
        self.commit(number)

    def _augmented(self, node: cst.AugAssign) -> bool:
        target = node.target
        if isinstance(target, cst.Name) and target.value in self.flow.names:
            number = self.flow.augmented(node)
            assert number is not None
            self.commit(number)
            operator = {"+=": "+", "-=": "-", "*=": "*", "/=": "/", "//=": "//", "%=": "%"}
            sign = code(node.operator).strip()
            # The number would be changed in place, and with it whatever shares its memory.
            parts: Parts = (target, " = ", target, f" {operator.get(sign, '**')} ", node.value)
            self.edits[node] = parts
            return True
        number = self.flow.arithmetic.number(node.value)
        if number is None or not number.kept:
            return False
        self._operand(node.value, number, target, node, in_place=True)
        self._visit(target)
        return True

    def _replaced(self, node: cst.If) -> bool:
        """``if n == 0: n = 1`` is a choice between two numbers."""
        found = replaced(node)
        if found is None or found[0].value not in self.flow.names:
            return False
        if isinstance(self.site.parent(node), cst.If):  # an ``elif``
            return False
        name, value = found
        test = self._asked(node.test)
        if test is None:
            return False
        kept = self.flow.names[name.value]
        if not kept.wide:
            self.flow.need_wide()
        self.flow.made.pop(value, None)
        literal = self.flow.arithmetic.number(value)
        text: str | cst.CSTNode = value
        if kept.kind == "int" and literal is not None and literal.literal is not None:
            text = str(int(literal.literal))
        self.edits[node] = (
            name,
            f" = {self.flow.torch}.where(",
            *test,
            ", ",
            text,
            ", ",
            name,
            ")",
        )
        self.met += 1
        return True

    def _asked(self, test: cst.BaseExpression) -> Parts | None:
        """A test of kept numbers as a tensor; None where it is anything else."""
        bare = negated(test)
        if bare is not None:
            return (bare, " == 0") if bare.value in self.flow.names else None
        match test:
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)],
            ) if not isinstance(operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
                numbers = [self.flow.arithmetic.number(side) for side in (left, right)]
            case _:
                return None
        known = [number for number in numbers if number is not None]
        if len(known) != 2 or not any(it.kept for it in known) or any(it.doubts for it in known):
            return None
        for side, number, beside in zip((left, right), known, reversed(known), strict=True):
            if number.kept and not number.wide:
                self.flow.need_wide()
            self.commit(self.flow.arithmetic.compared(side, number, beside))
        return (test,)

    def _use_list(self, node: cst.CSTNode) -> None:
        """A whole list of numbers: only taken apart, or bound to a name."""
        holder = self._holder(node)
        match holder:
            case cst.Assign() | cst.AnnAssign() | cst.For() | cst.CompFor() | cst.NamedExpr():
                pass
            case cst.Subscript() if self.flow.element(holder) is not None:
                pass
            case cst.Call(func=cst.Name("zip" | "enumerate" | "reversed" | "len")):
                pass
            case _:
                raise Stopped("the list of numbers is used as a whole")
        if isinstance(node, cst.BaseExpression):
            read = self.flow._reads.get(node)
            if read is not None:
                self.commit(read)

    def _holder(self, node: cst.CSTNode) -> cst.CSTNode | None:
        holder = self.site.parent(node)
        while isinstance(holder, cst.Arg | cst.Index | cst.SubscriptElement | cst.Element):
            holder = self.site.parent(holder)
        return holder

    # -- one use -----------------------------------------------------------------------------

    def _use(self, node: cst.BaseExpression, number: Number) -> None:
        self.met += 1
        holder = self.site.parent(node)
        if number.mixed and not isinstance(holder, _ALIKE):
            raise Stopped("the number is an int in one place and a float in another")
        if isinstance(holder, cst.Index | cst.Slice):
            self._in_subscript(node, number)
            return
        chain = self._holder(node)
        match holder:
            case cst.Assign() | cst.AnnAssign() | cst.NamedExpr():
                self._bound(node, number, holder)
            case cst.BinaryOperation():
                other = holder.right if holder.left is node else holder.left
                self._operand(node, number, other, holder)
            case cst.Comparison() | cst.ComparisonTarget():
                self._compared(node, number)
            case cst.Arg() if isinstance(chain, cst.Call):
                self._argument(node, number, holder, chain)
            case cst.Element():
                if isinstance(chain, cst.Tuple) and self._unpacked(chain):
                    self.commit(number)
                else:
                    self._literal(node, number)
            case cst.Expr():
                self.commit(number)
            case cst.If() | cst.While() | cst.UnaryOperation():
                self.decisions += 1
                self.commit(number)
            case _:
                raise Stopped(_where(self.site, holder))

    def _unpacked(self, value: cst.Tuple) -> bool:
        """``a, b = x.min().item(), x.max().item()``"""
        match self.site.parent(value):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))]):
                return len(targets) == len(value.elements) and all(
                    isinstance(target.value, cst.Name) for target in targets
                )
        return False

    def _bound(self, node: cst.BaseExpression, number: Number, holder: cst.CSTNode) -> None:
        targets = (
            [target.target for target in holder.targets]
            if isinstance(holder, cst.Assign)
            else [holder.target]
            if isinstance(holder, cst.AnnAssign | cst.NamedExpr)
            else []
        )
        if len(targets) != 1:
            raise Stopped("bound to several names at once")
        target = targets[0]
        if isinstance(target, cst.Name) and target.value in self.flow.names:
            self.commit(number)
            return
        if isinstance(target, cst.Subscript):
            held = self.fact(target.value)
            if held is not None and held.is_tensor:
                basic = all(self._is_basic(part) for part in target.slice)
                owner = _simple(target.value)
                if not basic and owner is None:
                    raise Stopped("what is written to has no plain name")
                self.cast(node, number, "" if basic else f".to({owner}.dtype)")
                return
        raise Stopped("kept in an attribute or a container")

    def _is_basic(self, part: cst.SubscriptElement) -> bool:
        if not isinstance(part.slice, cst.Index):
            return True
        fact = self.fact(part.slice.value)
        return fact is not None and fact.kind == "int"

    def fact(self, node: cst.BaseExpression) -> Fact | None:
        return infer(node, self.site.fact)

    # -- operators ---------------------------------------------------------------------------

    def _operand(
        self,
        node: cst.BaseExpression,
        number: Number,
        other: cst.BaseExpression,
        holder: cst.CSTNode,
        *,
        in_place: bool = False,
    ) -> None:
        fact = self.fact(other)
        if fact is None or not fact.is_tensor:
            raise Stopped(f"meets `{code(other)}`, which is not known to be a tensor")
        self.cast(node, number, self.cast_for(number, other, fact, holder, in_place=in_place))

    def cast_for(
        self,
        number: Number,
        other: cst.BaseExpression,
        fact: Fact,
        result: cst.CSTNode | None = None,
        *,
        in_place: bool = False,
    ) -> str:
        """The cast after which torch chooses dtypes as it did for the Python number."""
        if fact.dtype is None:
            raise Stopped(f"the dtype of `{code(other)}` is not known")
        if fact.shape is None:
            owner = _simple(other)
            if owner is None or (number.kind == "float") != (fact.dtype in _FLOATS):
                raise Stopped(f"`{code(other)}` has different numbers of dimensions")
            return f".to({owner}.dtype)"
        if number.mixed and fact.dtype not in _FLOATS:
            raise Stopped("an int in one place and a float in another meets whole numbers")
        if number.device not in ("", "cpu") and fact.device != number.device:
            raise Stopped("the tensors are on different devices")
        floats = fact.dtype in _FLOATS
        if number.kind == "int":
            if fact.shape or floats or fact.dtype == "torch.bool" or in_place:
                return ""
            owner = _simple(other)
            return "" if owner is None else f".to({owner}.dtype)"
        if floats:
            if fact.shape:
                return ""
            owner = _simple(other)
            if owner is None:
                return f".to({self._made_of(other, fact)})"
            return f".to({owner}.dtype)"
        if fact.dtype.startswith("torch.complex"):
            raise Stopped("meets complex numbers")
        return f".to({self.flow.torch}.get_default_dtype())"

    def _made_of(self, node: cst.BaseExpression, fact: Fact) -> str:
        """The dtype of a tensor without a name, by the one or two tensors that it is made of."""
        names: list[str] = []
        cells: set[bool] = set()
        for inner in variables(node):
            if not isinstance(inner, cst.Name | cst.Attribute) or code(inner) in names:
                continue
            known = self.fact(inner) if dotted(inner) is not None else None
            if known is None or not known.is_tensor or known.dtype not in _FLOATS:
                continue
            if known.shape is None or known.dtype != fact.dtype:
                raise Stopped("meets a 0-dimensional tensor without a name")
            cells.add(known.shape == ())
            names.append(code(inner))
        casts = {
            inner.func.attr.value
            for inner in walk(node)
            if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute)
        }
        # A tensor with dimensions beside one without decides alone: which of them, is not plain.
        unsure = len(cells) > 1 or not 0 < len(names) < 4
        if unsure or casts & words("to float double half bfloat16 type type_as"):
            raise Stopped("meets a 0-dimensional tensor without a name")
        dtype = f"{names[-1]}.dtype"
        for name in reversed(names[:-1]):
            dtype = f"{self.flow.torch}.promote_types({dtype}, {name}.dtype)"
        return dtype

    def _compared(self, node: cst.BaseExpression, number: Number) -> None:
        comparison = next(
            parent for parent in self.site.ancestors(node) if isinstance(parent, cst.Comparison)
        )
        if len(comparison.comparisons) != 1:
            raise Stopped("compared in a chain")
        target = comparison.comparisons[0]
        if isinstance(target.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
            raise Stopped("looked up or compared by identity")
        other = target.comparator if comparison.left is node else comparison.left
        other_number = self.flow.arithmetic.number(other)
        if other_number is not None:
            if not self._decides(comparison):
                raise Stopped("compared with a number, and the truth is kept")
            if not number.wide:
                self.flow.need_wide()
            self.decisions += 1
            self.commit(self.flow.arithmetic.compared(node, number, other_number))
            return
        self._operand(node, number, other, comparison)

    def _decides(self, node: cst.CSTNode) -> bool:
        for parent in self.site.ancestors(node):
            if isinstance(parent, cst.If | cst.While | cst.Assert):
                return True
            if isinstance(parent, cst.IfExp) and any(node is part for part in walk(parent.test)):
                return True
            if not isinstance(parent, cst.UnaryOperation | cst.BooleanOperation):
                return False
        return False

    # -- arguments ---------------------------------------------------------------------------

    def _argument(
        self, node: cst.BaseExpression, number: Number, arg: cst.Arg, call: cst.Call
    ) -> None:
        if arg.star:
            raise Stopped("handed over in a list of arguments")
        asked = _ASKED.get(resolve(self.site.module, call.func) or "")
        if asked is not None and len(call.args) == 1 and arg.keyword is None:
            self._classified(node, number, call, asked)
            return
        name, receiver = self._callee(call)
        keyword = arg.keyword.value if arg.keyword is not None else ""
        position = list(call.args).index(arg) if not keyword else -1
        if receiver is None and position >= 0:
            position -= 1
        match name:
            case _ if name in _OPERATORS and (position == 0 or keyword == "other"):
                other = receiver if receiver is not None else call.args[0].value
                self._operand(node, number, other, call, in_place=name.endswith("_"))
            case "add" | "sub" | "add_" | "sub_" if keyword == "alpha":
                self._alpha(node, number, arg, call, receiver)
            case _ if name in _FILLS and (position == _FILLS[name] or keyword == "value"):
                self._same_dtype_ok(node, number)
            case "lerp" | "lerp_" if position == 1 or keyword == "weight":
                owner = _simple(receiver if receiver is not None else call.args[0].value)
                if owner is None:
                    raise Stopped("no name to take the dtype of")
                self.cast(node, number, f".to({owner}.dtype)")
            case "where":
                self._where(node, number, call, receiver, position)
            case _ if name in _CLAMPS:
                self._clamp(node, number, call, receiver, name)
            case "full" | "full_like" | "new_full":
                self._full(node, number, call, receiver, name, arg)
            case "roll" if position == 0 or keyword == "shifts":
                self._rolled(node, number, call, receiver)
            case "tensor" if receiver is None and position == -1 and not keyword:
                self._scalar_tensor(node, number, call)
            case _:
                raise Stopped(f"handed to `{code(call.func)}`")

    def _classified(
        self, node: cst.BaseExpression, number: Number, call: cst.Call, question: str
    ) -> None:
        """``math.isnan(s)`` in a test is ``torch.isnan(s)``."""
        if not self._decides(call):
            raise Stopped("asked what kind of number it is, and the truth is kept")
        self.decisions += 1
        self.cast(node, number, "")
        self.edits[call] = (f"{self.flow.torch}.{question}(", node, ")")

    def _callee(self, call: cst.Call) -> tuple[str, cst.BaseExpression | None]:
        """The name of the function of torch, and the tensor whose method it is."""
        name = resolve(self.site.module, call.func) or ""
        if name.startswith("torch.") and name.count(".") == 1:
            return name.removeprefix("torch."), None
        if isinstance(call.func, cst.Attribute):
            fact = self.fact(call.func.value)
            if fact is not None and fact.is_tensor:
                return call.func.attr.value, call.func.value
        return "", None

    def _same_dtype_ok(self, node: cst.BaseExpression, number: Number) -> None:
        self.cast(node, number, "")

    def _alpha(
        self,
        node: cst.BaseExpression,
        number: Number,
        arg: cst.Arg,
        call: cst.Call,
        receiver: cst.BaseExpression | None,
    ) -> None:
        """``p.add_(g, alpha=s)`` is ``p.addcmul_(g, s)``, which computes in the same dtype."""
        plain = [a for a in call.args if a.keyword is None]
        first = plain[0 if receiver is not None else 1].value if plain else None
        if first is None or len(call.args) != len(plain) + 1 or call.args[-1] is not arg:
            raise Stopped("a factor in an unusual place")
        fact = self.fact(first)
        if fact is None or not fact.is_tensor or fact.dtype not in _FLOATS:
            raise Stopped("a factor of something else than a float tensor")
        if not isinstance(call.func, cst.Attribute):
            raise Stopped("a function under another name")
        held = self.fact(receiver if receiver is not None else plain[0].value)
        if held is None or held.dtype not in _FLOATS:
            raise Stopped("added to something else than a float tensor")
        name = call.func.attr.value
        in_place = "_" if name.endswith("_") else ""
        owner = _simple(receiver) if receiver is not None and in_place else None
        if fact.shape is None and owner is not None:
            # What is written to has the last word: the other one may be of another width.
            self.cast(node, number, f".to({owner}.dtype)")
        else:
            self.cast(node, number, self.cast_for(number, first, fact))
        args: list[str | cst.CSTNode | Atom] = []
        for other in plain:
            args += [other.value, ", "]
        sign = ", value=-1" if name.startswith("sub") else ""
        self.edits[call] = (call.func.value, f".addcmul{in_place}(", *args, node, f"{sign})")

    def _where(
        self,
        node: cst.BaseExpression,
        number: Number,
        call: cst.Call,
        receiver: cst.BaseExpression | None,
        position: int,
    ) -> None:
        values = [arg.value for arg in call.args if arg.keyword is None]
        if receiver is not None:
            other = receiver if position == 1 else None
        else:
            other = next((v for v in values[1:] if v is not node), None) if position >= 0 else None
        if other is None:
            raise Stopped("an unusual `where`")
        self._operand(node, number, other, call)

    def _clamp(
        self,
        node: cst.BaseExpression,
        number: Number,
        call: cst.Call,
        receiver: cst.BaseExpression | None,
        name: str,
    ) -> None:
        tensor = receiver if receiver is not None else call.args[0].value
        fact = self.fact(tensor)
        bounds = call.args if receiver is not None else call.args[1:]
        if fact is None or not fact.is_tensor:
            raise Stopped("clamps something else than a tensor")
        self.cast(node, number, self.cast_for(number, tensor, fact, call, in_place=name[-1] == "_"))
        others = [
            arg
            for arg in bounds
            if arg.value is not node and not (self.flow.arithmetic.number(arg.value) or _NO).kept
        ]
        if not others or name.startswith(("clamp_m",)):
            return
        # Both bounds must be tensors, or both numbers: first the one, then the other.
        if len(bounds) != 2 or receiver is None:
            raise Stopped("clamps between a tensor and a number")
        low, high = _named_bounds(bounds)
        call_name = name
        self.edits[call] = (
            receiver,
            f".{call_name}(min=",
            low,
            f").{call_name}(max=",
            high,
            ")",
        )

    def _full(
        self,
        node: cst.BaseExpression,
        number: Number,
        call: cst.Call,
        receiver: cst.BaseExpression | None,
        name: str,
        arg: cst.Arg,
    ) -> None:
        self.edits.update(full_edit(self, call, receiver, name, arg, number.kind))
        self.cast(node, number, "")

    def _rolled(
        self,
        node: cst.BaseExpression,
        number: Number,
        call: cst.Call,
        receiver: cst.BaseExpression | None,
    ) -> None:
        """``x.roll(n, 1)`` picks the places ``(arange(x.shape[1]) - n) % x.shape[1]``."""
        base = receiver if receiver is not None else call.args[0].value
        rest = [arg for arg in call.args if arg.value is not node and arg.value is not base]
        held, owner = self.fact(base), _simple(base)
        if number.kind != "int" or held is None or not held.is_tensor or owner is None:
            raise Stopped("rolls what has no plain name")
        if len(rest) != 1 or (rest[0].keyword is not None and rest[0].keyword.value != "dims"):
            raise Stopped("rolls in several dimensions, or in none")
        dim = code(rest[0].value)
        if not dim.lstrip("-").isdigit():
            raise Stopped("rolls in a dimension that is not written out")
        self.cast(node, number, "")
        size = f"{owner}.shape[{dim}]"
        places = f"{self.flow.torch}.arange({size}, device={owner}.device)"
        sign, moved = "-", node
        match node:
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                sign, moved = "+", inner
        self.edits[call] = (
            f"{owner}.index_select({dim}, ({places} {sign} ",
            Atom(moved),
            f") % {size})",
        )

    def _scalar_tensor(self, node: cst.BaseExpression, number: Number, call: cst.Call) -> None:
        """``torch.tensor(s, dtype=x.dtype)`` is ``s.to(x.dtype)``."""
        from .flow_numbers import _again

        options = {a.keyword.value: a for a in call.args[1:] if a.keyword is not None}
        if set(options) - {"dtype", "device"} or len(options) != len(call.args) - 1:
            raise Stopped("made a tensor in an unusual way")
        dtype: list[str | cst.CSTNode] = (
            [options["dtype"].value]
            if "dtype" in options
            else [f"{self.flow.torch}.get_default_dtype()"]
            if number.kind == "float"
            else []
        )
        device: list[str | cst.CSTNode] = (
            ["device=", options["device"].value] if "device" in options else []
        )
        parts = [*device, *([", dtype="] if device and dtype else []), *dtype]
        self.commit(number)
        again = (node,) if node in self.edits else _again(number, node)
        self.edits[call] = (*again, ".to(", *parts, ")") if parts else (*again, ".clone()")

    def _literal(self, node: cst.BaseExpression, number: Number) -> None:
        """``torch.tensor([[c, -s], [s, c]])``"""
        outer: cst.CSTNode = node
        for parent in self.site.ancestors(node):
            if isinstance(parent, cst.Element | cst.List | cst.Tuple | cst.Arg):
                outer = parent
                continue
            break
        call = self.site.parent(outer)
        if not isinstance(call, cst.Call) or not isinstance(outer, cst.Arg):
            raise Stopped("put into a list")
        name, receiver = self._callee(call)
        if name not in ("tensor", "as_tensor") or receiver is not None:
            raise Stopped("put into a list")
        if outer is not call.args[0] or not isinstance(outer.value, cst.List | cst.Tuple):
            raise Stopped("put into a list")
        self.commit(number)
        keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if number.kind == "float" and "dtype" not in keywords:
            parts: list[str | cst.CSTNode] = [call.func, "("]
            for index, arg in enumerate(call.args):
                parts += [", "] if index else []
                parts += [f"{arg.keyword.value}="] if arg.keyword is not None else []
                parts.append(arg.value)
            self.edits[call] = (*parts, f", dtype={self.flow.torch}.get_default_dtype())")

    def _in_subscript(self, node: cst.BaseExpression, number: Number) -> None:
        subscript = next(
            parent for parent in self.site.ancestors(node) if isinstance(parent, cst.Subscript)
        )
        if number.kind != "int":
            raise Stopped("a float as an index")
        if isinstance(self.site.parent(node), cst.Slice):
            raise Stopped("bounds a slice, whose size would depend on the data")
        self.commit(number)
        indexed(self, subscript)


_NO = Number("int")


def _named_bounds(bounds: Sequence[cst.Arg]) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    low, high = bounds[0], bounds[1]
    if low.keyword is not None and low.keyword.value == "max":
        low, high = high, low
    return low.value, high.value


def full_edit(
    uses: Uses,
    call: cst.Call,
    receiver: cst.BaseExpression | None,
    name: str,
    arg: cst.Arg,
    kind: str,
) -> dict[cst.CSTNode, Parts]:
    """``full_like(x, s)`` is ``empty_like(x).fill_(s)``: a fill reads its value from a tensor."""
    where = list(call.args).index(arg)
    place = (0 if receiver is not None else 1) + (1 if name == "new_full" else 0)
    named = arg.keyword is not None and arg.keyword.value == "fill_value"
    if where != place and not named:
        raise Stopped("a size that depends on the data")
    keywords = {a.keyword.value for a in call.args if a.keyword is not None}
    parts: list[str | cst.CSTNode] = []
    if receiver is not None:
        parts += [receiver, f".{_FULL[name]}("]
    else:
        text = code(call.func)
        head, dot, _ = text.rpartition(".")
        if not dot:
            raise Stopped(f"`{name}` without its module")
        parts.append(f"{head}.{_FULL[name]}(")
    rest = [a for a in call.args if a is not arg]
    for index, other in enumerate(rest):
        parts += [", "] if index else []
        parts += [f"{other.keyword.value}="] if other.keyword is not None else []
        parts.append(other.value)
    if name == "full" and kind == "int" and "dtype" not in keywords:
        parts.append(f", dtype={uses.flow.torch}.int64")
    return {call: (*parts, ").fill_(", arg.value, ")")}


def _simple(node: cst.BaseExpression) -> str | None:
    """The text of an expression that may be written twice."""
    base: cst.BaseExpression = node
    while True:
        match base:
            case cst.Attribute(value=inner):
                base = inner
            case cst.Subscript(
                value=inner,
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString(), star=None))],
            ):
                base = inner  # an entry of a dictionary: `state["exp_avg"]`
            case _:
                return code(node) if isinstance(base, cst.Name) else None


def _where(site: Site, holder: cst.CSTNode | None) -> str:
    match holder:
        case cst.Return():
            return "the number is returned"
        case cst.FormattedStringExpression():
            return "the number is printed"
        case cst.BooleanOperation():
            return "the number is an operand of `and` or `or`, which ask for its truth"
    around = "" if holder is None else code(holder).strip().splitlines()[0]
    return f"no tensor can take the place of the number in `{around}`"


def names_in(nodes: Sequence[cst.CSTNode]) -> Iterator[str]:
    for node in nodes:
        yield from (inner.value for inner in walk(node) if isinstance(inner, cst.Name))
