"""``self.losses.append(loss.item())``: statistics that an object keeps of itself."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import with_leading_lines
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import Parameter, Refused, own_parameters
from ..wrap.operator_text import define, place, torch_alias
from .effect_operator import OPERATOR_NOTE, Effect, define_effect
from .state_to_op import escapes, is_own_class, keeps_no_tensor, mentions, simple_statement

_METHODS = words("append extend add update insert appendleft push record log")
_ROOTS = words("torch.nn.Module torch.nn.modules.Module torch.nn.modules.module.Module object")
#: A class that has one of these decides itself what a copy holds, or what an attribute is.
_SPECIAL = words(
    """__copy__ __deepcopy__ __getattr__ __getattribute__ __getstate__ __new__ __reduce__
    __reduce_ex__ __setattr__ __setstate__ __slots__"""
)
#: A shallow copy would share the handle of the original.
_SHALLOW = re.compile(
    r"\bcopy\.copy\b|import copy\b.*\bas\b|from copy import|DataParallel|replicate"
)
_HANDLE = '''class {name}:
    """Leads an operator to the object that keeps what it adds; a copy of that has its own."""

    owners = weakref.WeakValueDictionary()
    numbers = itertools.count()

    def __init__(self, owner):
        number = next({name}.numbers)
        self.number = {torch}.tensor(number, device="cpu")
        self.owner = weakref.ref(owner)
        {name}.owners[number] = owner

    def __deepcopy__(self, memo):
        return {name}(copy.deepcopy(self.owner(), memo))

    def __reduce__(self):
        return {name}, (self.owner(),)
'''
_IMPORTS = "import copy\nimport itertools\nimport weakref\n"


def _source(statement: str, setup: str = "self.losses = []", more: str = "") -> str:
    return f"""import torch

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {setup}

    def forward(self, x, n):
        loss = x.mean()
        {statement}
        return loss
{more}"""


def _after(body: str, arguments: str, signature: str, setup: str = "self.losses = []") -> str:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    new = _source(f"keep_forward({arguments})", f"self.handle = Handle(self)\n        {setup}")
    operator = f"""{_HANDLE.format(name="Handle", torch="torch")}

@torch.library.custom_op("example::keep_forward", mutates_args=())
def keep_forward({signature}) -> None:
    owner = Handle.owners[handle.item()]
    {body}


keep_forward.register_fake(lambda {names}: None)
keep_forward.register_effect(torch.library.EffectType.ORDERED)


class Net"""
    text = new.replace("class Net", operator, 1)
    return text.replace("import torch\n", f"import torch\n{_IMPORTS}", 1)


_FACTS = {
    "x": tensor(3),
    "loss": tensor(requires_grad=True),
    "loss.item()": scalar(1.0),
    "n": scalar(3),
    "self.losses": Fact("list", "list"),
    "self.stats": Fact("dict", "dict"),
}
_APPEND = "self.losses.append(loss.item())"
_BOTH = "loss: torch.Tensor, handle: torch.Tensor"


def _near_miss(source: str, why: str, at: str = "loss.item()") -> NearMiss:
    return NearMiss(source, at=at, why=why, facts=_FACTS)


class OwnStateToOp(Codemod):
    """*What it does.*  Moves what only adds to an attribute of ``self`` into an operator.

    ```python
    self.losses.append(loss.item())
    ```
    becomes ``keep_forward(loss, self.handle.number)``, a ``torch.library.custom_op`` with ordered
    effects whose body is ``owner.losses.append(loss.item())``.  An operator takes no objects: the
    number of a handle, which ``__init__`` makes, leads it to its owner (weakly, so that nothing
    lives longer).  Copies made by ``copy.deepcopy`` and by pickling get a handle of their own.

    *When it applies.*  A statement of a method calls a method of a list, dictionary or meter that
    ``self`` holds, stores an entry there, or adds to a number (``self.total += loss.item()``);
    numbers and strings are all that it hands over, and no function that the compiled region can
    reach mentions the attribute otherwise.

    *Fix safety.*  Safe: the statement runs on the same values, as often and in the same order, and
    reads the attribute anew each time, so that ``net.losses = []`` in between is seen.  The
    compiled code no longer guards the length of the list, so that it does not compile anew for
    each call, as it did.  The object has one more attribute, which its ``state_dict`` does not
    show; an object that was pickled whole by the old program lacks it.

    *Refuses.*  Tensors that would be kept (their memory may be reused behind the compiler),
    attributes that the region reads or that get another name, properties; classes with bases that
    are not known, with ``__slots__``, or with a say in how they are copied; projects that make
    shallow copies (``copy.copy``, ``DataParallel``), which would share the handle.
    """

    name = "own-state-to-op"
    codes = ("GB0124", "GB0059", "GB0208")
    examples = (
        Example(
            _source("self.losses.append(loss.item())"),
            _after("owner.losses.append(loss.item())", "loss, self.handle.number", _BOTH),
            at="loss.item()",
            facts=_FACTS,
            title="a list",
        ),
        Example(
            _source("self.total += loss.item()", "self.total = 0.0"),
            _after(
                "owner.total += loss.item()",
                "loss, self.handle.number",
                _BOTH,
                "self.total = 0.0",
            ),
            at="loss.item()",
            facts=_FACTS,
            title="a running total",
        ),
        Example(
            _source('self.stats["loss"] = loss.item()', "self.stats = {}"),
            _after(
                'owner.stats["loss"] = loss.item()',
                "loss, self.handle.number",
                _BOTH,
                "self.stats = {}",
            ),
            at="loss.item()",
            facts=_FACTS,
            title="an entry of a dictionary",
        ),
    )
    near_misses = (
        _near_miss(
            _source("self.losses.append(loss)"), "keeps a tensor", at="self.losses.append(loss)"
        ),
        _near_miss(
            _source("self.losses.append(loss.item())\n        n = len(self.losses)"),
            "read afterwards",
        ),
        _near_miss(_source("n = self.losses.append(loss.item())"), "its result is used"),
        _near_miss(_source("self = n\n        self.losses.append(loss.item())"), "another `self`"),
        _near_miss(_source("self.total = self.total + loss.item()"), "reads it in another place"),
        NearMiss(
            _source("self.total += loss.item()", "self.total = torch.zeros(())"),
            at="loss.item()",
            why="a tensor",
            facts=_FACTS,
        ),
        _near_miss(
            _source(
                "self.losses.append(loss.item())",
                more="\n    def __deepcopy__(self, memo):\n        return self\n",
            ),
            "decides what a copy is",
        ),
        _near_miss(
            _source("self.losses.append(loss.item())").replace("torch.nn.Module", "Base"),
            "a base that is not known",
        ),
        _near_miss(
            _source(
                "self.losses.append(loss.item())",
                more="\n\nimport copy\n\nother = copy.copy(Net())\n",
            ),
            "a shallow copy would share the handle",
        ),
        _near_miss(
            _source("self.losses.append(loss.item())", more="\n\nlosses = Net().losses\n"),
            "has another name",
        ),
        _near_miss(
            _source(
                "self.losses.append(loss.item())",
                more="\n    @property\n    def losses(self):\n        return []\n",
            ),
            "a property",
        ),
        _near_miss(
            _source("self.losses.append(loss.item())").replace("def __init__", "def set_up"),
            "no `__init__`",
        ),
        _near_miss(
            _source("self.losses.append(loss.item())").replace("class Net", "@register\nclass Net"),
            "a class that a decorator may replace",
        ),
        _near_miss(
            _source("self.total = 0.0\n        self.total += loss.item()", "self.total = 0.0"),
            "set anew in the region, which would happen after its operators",
        ),
        _near_miss(
            _source(_APPEND).replace("    def forward", "    @classmethod\n    def forward"),
            "the class's own, not an object's",
        ),
        _near_miss(
            _source("[self.losses.append(loss.item()) for _ in range(n)]"), "runs several times"
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        statement = simple_statement(site)
        line = site.statement
        if statement is None or not isinstance(line, cst.SimpleStatementLine):
            return
        owner = _owner(site)
        if owner is None or len(line.body) != 1:
            return
        me, init = owner
        try:
            rewrite = _rewrite(site, line, statement, me, init)
        except Refused as reason:
            yield Advice(f"the statement cannot move into a custom operator: {reason}.")
            return
        if rewrite is not None:
            yield rewrite


def _owner(site: Site) -> tuple[str, cst.FunctionDef] | None:
    """The name of ``self``, and the class's ``__init__``; None unless a copy is as it seems."""
    function = site.function
    if function is None or function.asynchronous is not None:
        return None
    if not all(_compiles(site, item.decorator) for item in function.decorators):
        return None
    holder = site.class_of(function)
    if holder is None or site.top_level_statement(holder) is not holder:
        return None
    if function not in holder.body.body or not _is_plain(site, holder):
        return None
    names = [parameter.name.value for parameter in params_of(function.params)]
    texts = (site.source, *site.sources.values())
    if not names or names[0] not in own_parameters(site, site.node):
        return None
    if any(_SHALLOW.search(text) for text in texts):
        return None
    init = next(
        (
            item
            for item in holder.body.body
            if isinstance(item, cst.FunctionDef) and item.name.value == "__init__"
        ),
        None,
    )
    if init is None or init.decorators or function is init:
        return None
    return names[0], init


def _compiles(site: Site, node: cst.BaseExpression) -> bool:
    """``torch.compile``, also with options: any other decorator may call a method otherwise."""
    func = node.func if isinstance(node, cst.Call) else node
    return resolve(site.module, func) == "torch.compile"


def _is_plain(site: Site, holder: cst.ClassDef) -> bool:
    """Whether a class and its bases leave it to Python how attributes and copies work."""
    if holder.decorators or holder.keywords:
        return False
    for item in walk(holder.body):
        if isinstance(item, cst.FunctionDef) and item.name.value in _SPECIAL:
            return False
        if isinstance(item, cst.AssignTarget) and code(item.target) in _SPECIAL:
            return False
    for base in holder.bases:
        if resolve(site.module, base.value) in _ROOTS or code(base.value) == "object":
            continue
        known = [
            item
            for item in site.module.body
            if isinstance(item, cst.ClassDef) and item.name.value == code(base.value)
        ]
        if len(known) != 1 or not _is_plain(site, known[0]):
            return False
    return True


def _rewrite(
    site: Site,
    line: cst.SimpleStatementLine,
    statement: cst.BaseSmallStatement,
    me: str,
    init: cst.FunctionDef,
) -> Rewrite | None:
    found = _effect(site, statement, me)
    if found is None:
        return None
    attribute, expressions, kept, template = found
    texts = {site.source, *site.sources.values()}
    if mentions(site, attribute) != 1 or any(_bound_otherwise(text, attribute) for text in texts):
        return None
    if any(escapes(text, attribute) for text in texts):
        return None
    edit = site.edit()
    torch = torch_alias(site, edit)
    handle, field = _handle(site, edit, torch, me, init)
    number = cst.parse_expression(f"{me}.{field}.number")
    effect = Effect(
        "keep",
        expressions,
        kept,
        (),
        f"owner = {handle}.owners[handle.item()]\n    {template}",
        extra=(Parameter("handle", "torch.Tensor", number, Fact("tensor", "torch.Tensor")),),
    )
    call = define_effect(site, edit, effect)
    new = cst.SimpleStatementLine([cst.Expr(call)], trailing_whitespace=line.trailing_whitespace)
    edit.replace(line, with_leading_lines(new, like=line))
    return edit.rewrite(
        "move the keep into an effectful custom operator",
        rank=51,
        notes=(
            OPERATOR_NOTE,
            f"an object that the old program pickled as a whole has no `{field}`: save a"
            " `state_dict` instead",
        ),
    )


_Found = tuple[str, list[cst.BaseExpression], dict[cst.CSTNode, cst.CSTNode], str]


def _effect(site: Site, statement: cst.BaseSmallStatement, me: str) -> _Found | None:
    """The attribute that the statement adds to, and what moves."""
    match statement:
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=root, attr=method)) as call):
            holder = root
            if isinstance(root, cst.Subscript):
                if not _is_constant_index(root):
                    return None
                holder = root.value
            if method.value not in _METHODS or not _is_own(holder, me):
                return None
            fact = site.fact(root)
            if fact is None or fact.kind not in ("list", "dict", "set", "object"):
                return None
            if fact.kind == "object" and not is_own_class(site, fact, method.value):
                return None
            if not all(keeps_no_tensor(site, argument.value) for argument in call.args):
                return None
            assert isinstance(holder, cst.Attribute)
            func = call.func
            return holder.attr.value, [call], {func: _of_owner(func, me)}, "BODY0"
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)], value=value):
            holder = target.value
            fact = site.fact(holder)
            if not _is_own(holder, me) or not _is_constant_index(target):
                return None
            if fact is None or fact.kind != "dict" or not keeps_no_tensor(site, value):
                return None
            assert isinstance(holder, cst.Attribute)
            return holder.attr.value, [value], {}, f"{code(_of_owner(target, me))} = BODY0"
        case cst.AugAssign(target=cst.Attribute() as target, value=value):
            others = {text for path, text in site.sources.items() if path != site.path}
            if not _is_own(target, me) or not keeps_no_tensor(site, value):
                return None
            name = target.attr.value
            if not _holds_numbers(site.source, name, 1):
                return None
            if not all(_holds_numbers(text, name, 0) for text in others):
                return None
            operator = code(statement.operator).strip()
            template = f"owner.{target.attr.value} {operator} BODY0"
            return target.attr.value, [value], {}, template
    return None


def _is_own(node: cst.BaseExpression, me: str) -> bool:
    return (
        isinstance(node, cst.Attribute)
        and isinstance(node.value, cst.Name)
        and node.value.value == me
    )


def _is_constant_index(node: cst.Subscript) -> bool:
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() | cst.Integer()))]:
            return True
    return False


def _of_owner(node: cst.BaseExpression, me: str) -> cst.BaseExpression:
    new = node.visit(_Rename(me))
    assert isinstance(new, cst.BaseExpression)
    return new


class _Rename(cst.CSTTransformer):
    def __init__(self, me: str) -> None:
        super().__init__()
        self.me = me

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return cst.Name("owner") if updated_node.value == self.me else updated_node


@functools.lru_cache(maxsize=64)
def _bound_otherwise(text: str, attribute: str) -> bool:
    """Whether a class of the text has a method, property or class variable of that name, or the
    attribute is asked for by ``getattr``.
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(args=[_, ast.Constant(value=value), *_]) if value == attribute:
                return True
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                names = [getattr(item, "name", "")]
                targets = getattr(item, "targets", [getattr(item, "target", None)])
                names += [target.id for target in targets if isinstance(target, ast.Name)]
                if attribute in names:
                    return True
    return False


@functools.lru_cache(maxsize=64)
def _holds_numbers(text: str, attribute: str, most: int) -> bool:
    """Whether only numbers, written out, are bound to it, and at most so many places add to it."""
    literal: set[ast.AST] = set()
    stored: set[ast.AST] = set()
    adding: set[ast.AST] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.AugAssign(target=ast.Attribute(attr=name) as target) if name == attribute:
                adding.add(target)
            case ast.Assign(targets=targets, value=ast.Constant(value=int() | float())):
                literal.update(targets)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if name == attribute:
                stored.add(node)
            case ast.Constant(value=name) if name == attribute:
                return False  # `setattr`
    return stored <= literal | adding and len(adding) <= most


# -- the handle ----------------------------------------------------------------------------------


def _handle(site: Site, edit: Edit, torch: str, me: str, init: cst.FunctionDef) -> tuple[str, str]:
    """The class of handles and the attribute that holds one, made where they are not there yet."""
    first = init.params.params[0].name.value if init.params.params else ""
    if not first or not isinstance(init.body, cst.IndentedBlock):
        raise Refused("its `__init__` is not written out")
    known = next(
        (
            item.name.value
            for item in site.module.body
            if isinstance(item, cst.ClassDef)
            and code(item).strip() == _HANDLE.format(name=item.name.value, torch=torch).strip()
        ),
        "",
    )
    taken = names_in(site.module)
    name = known or next(
        name for n in itertools.count() if (name := f"Handle{n or ''}") not in taken
    )
    for item in init.body.body:
        match item:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute(attr=attr))])]
            ) if known and code(item).strip() == f"{first}.{attr.value} = {known}({first})":
                return known, attr.value
    field = fresh("handle", taken)
    if not known:
        for module in ("copy", "itertools", "weakref"):
            edit.add_import(module)
        place(site, edit, define(site, _HANDLE.format(name=name, torch=torch)))
    new = cst.parse_statement(f"{first}.{field} = {name}({first})")
    for item in init.body.body:
        if re.match(r"super\(.*\)\.__init__\(|.*Module\.__init__\(", code(item).strip()):
            edit.insert_after(item, new)
            return name, field
    edit.insert_before(init.body.body[0], new)
    return name, field
