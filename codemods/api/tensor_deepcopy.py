"""``copy.deepcopy`` of a tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in, grouped
from gbfix.analysis.kinds import infer
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.functions import function_of_file
from gbfix.schema import Fact

from ..control_flow.values import Values
from .splice import Splice

_ADVICE = (
    "Dynamo does not copy tensors with `copy.deepcopy`, nor what holds tensors. Clone the tensors"
    " one by one (`x.detach().clone()`), or make the copy before the compiled call and pass it."
)
_NOTE = (
    "a clone may lose `requires_grad` and the memory layout of a view, which `deepcopy` keeps; a"
    " tensor that is twice in a container may become two tensors"
)
#: What copies containers of more than one kind; ``{name}``, ``{torch}`` as the file calls them.
_COPIED = '''def {name}(value):
    """What `copy.deepcopy` gives for tensors without a history, and for what holds them."""
    if type(value) is {torch}.Tensor and not value.requires_grad:
        return value.detach().clone()
    if type(value) is dict:
        return {{key: {name}(each) for key, each in value.items()}}
    if type(value) in (list, tuple):
        return type(value)([{name}(each) for each in value])
    return value if isinstance(value, (int, float, str, type(None))) else COPY(value)
'''
#: The same where objects of the file's own classes are among them, which may be held twice.
_COPIED_OBJECTS = '''def {name}(value, memo):
    """What `copy.deepcopy` gives for tensors without a history, and for what holds them."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, (int, float, str, type(None))):
        return value
    if type(value) is {torch}.Tensor and not value.requires_grad:
        new = value.detach().clone()
    elif type(value) in ({classes}):
        new = object.__new__(type(value))
        memo[id(value)] = new
        for attribute, each in vars(value).items():
            setattr(new, attribute, {name}(each, memo))
    elif type(value) is dict:
        new = {{}}
        memo[id(value)] = new
        for key, each in value.items():
            new[key] = {name}(each, memo)
    elif type(value) is list:
        new = []
        memo[id(value)] = new
        for each in value:
            new.append({name}(each, memo))
    elif type(value) is tuple:
        new = tuple([{name}(each, memo) for each in value])
    else:
        return COPY(value, memo)
    memo[id(value)] = new
    return new
'''
#: What gives a class a say in how its objects are made, copied, or have attributes set.
_SAYS = words(
    """__deepcopy__ __copy__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__
    __getnewargs_ex__ __new__ __slots__ __setattr__ __getattr__ __getattribute__ __delattr__
    __hash__ __eq__"""
)
_SCALARS = ("bool", "int", "float", "str", "none")
_X = dataclasses.replace(tensor(2, 3), strides=(3, 1))


def _of(kind: str, *storages: int) -> Fact:
    items = tuple(dataclasses.replace(_X, storage=storage) for storage in storages)
    return Fact(kind, kind, items=items)


def _source(body: str) -> str:
    return f"from copy import deepcopy\nimport copy\n\n\ndef f(x, memo):\n    {body}\n"


_CACHE = """import copy

import torch


class Layer:
    def __init__(self, keys):
        self.keys = keys
{extra}

class Cache:
    def __init__(self, keys):
        self.layers = [Layer(each) for each in keys]


{more}def f(cache):
    return {call}
"""


def _copying(copy: str, classes: Sequence[str]) -> str:
    """The text of the small function, for containers or for objects of the file's classes."""
    if not classes:
        return _COPIED.replace("COPY", copy)
    listed = ", ".join(classes) + ("," if len(classes) == 1 else "")
    return _COPIED_OBJECTS.replace("COPY", copy).replace("{classes}", listed)


class CloneTensor(Codemod):
    """*What it does.*  Replaces ``copy.deepcopy(x)`` of a tensor by ``x.detach().clone()``, and of
    a list, tuple or dictionary of tensors by one of such clones.  Containers in containers, and
    those that hold numbers or texts as well, are copied by a small function that the patch brings;
    so are objects of the file's own plain classes, attribute by attribute: what two names lead to
    is copied once.

    *When it applies.*  The argument was recorded as a plain tensor that requires no gradient and
    fills its memory in order, or as a plain list, tuple or dictionary of such, each with memory of
    its own.

    *Fix safety.*  Both make new tensors of the same values, dtypes, devices and strides, without
    history.  What a caller passes in may be a tensor that requires gradients, or a view with gaps,
    which is copied differently: the runs show whether the program can tell, and a note says so.

    *Refuses.*  Tensors that require a gradient (the copy of a leaf is a new leaf, and others cannot
    be copied), parameters and subclasses, views with gaps, whose strides a clone does not keep,
    modules, lists that hold something else or one memory twice, copies that share a ``memo``, and
    objects of classes with bases, or with a say in how they are made or copied.
    """

    name = "clone-tensor"
    codes = ("GB4198", "GB0179")

    examples = (
        *(
            Example(_source(before), _source(after), at=at, facts=facts, title=title)
            for title, before, after, at, facts in (
                (
                    "a tensor",
                    "return copy.deepcopy(x) + 1",
                    "return x.detach().clone() + 1",
                    "copy.deepcopy(x)",
                    {"x": _X},
                ),
                (
                    "an expression",
                    "y = deepcopy(x * 2)",
                    "y = (x * 2).detach().clone()",
                    "deepcopy(x * 2)",
                    {"x * 2": _X},
                ),
                (
                    "a list",
                    "y = deepcopy(x)",
                    "y = [each.detach().clone() for each in x]",
                    "deepcopy(x)",
                    {"x": _of("list", 1, 2)},
                ),
                (
                    "a tuple, while a name is taken",
                    "each = deepcopy(x)",
                    "each = tuple(each_1.detach().clone() for each_1 in x)",
                    "deepcopy(x)",
                    {"x": _of("tuple", 1, 2)},
                ),
                (
                    "a dictionary",
                    "y = copy.deepcopy(self.state)",
                    "y = {key: each.detach().clone() for key, each in self.state.items()}",
                    "copy.deepcopy(self.state)",
                    {"self.state": dataclasses.replace(_of("dict", 1, 2), keys=("'a'", "'b'"))},
                ),
            )
        ),
        Example(
            "import copy\n\nimport torch\n\n\ndef f(x):\n    return copy.deepcopy(x)\n",
            "import copy\n\nimport torch\n\n\n"
            + _COPIED.format(name="copied", torch="torch").replace("COPY", "copy.deepcopy")
            + "\n\ndef f(x):\n    return copied(x)\n",
            at="copy.deepcopy(x)",
            facts={
                "x": Fact("dict", "dict", keys=("'a'", "'n'"), items=(_of("list", 1, 2), scalar(3)))
            },
            title="lists in a dictionary, and a number",
        ),
        Example(
            _CACHE.format(extra="", more="", call="copy.deepcopy(cache)"),
            _CACHE.format(
                extra="",
                more=_copying("copy.deepcopy", ("Cache", "Layer")).format(
                    name="copied", torch="torch"
                )
                + "\n\n",
                call="copied(cache, {})",
            ),
            at="copy.deepcopy(cache)",
            facts={"cache": Fact("object", "Cache")},
            title="objects of plain classes",
        ),
    )
    near_misses = (
        *(
            NearMiss(
                _CACHE.format(extra=extra, more="", call="copy.deepcopy(cache)"),
                at="copy.deepcopy(cache)",
                why=why,
                facts={"cache": Fact("object", "Cache")},
            )
            for extra, why in (
                (
                    "\n    def __deepcopy__(self, memo):\n        return self\n",
                    "it has a say",
                ),
                ("\n    __slots__ = ('keys',)\n", "slots"),
            )
        ),
        *(
            NearMiss(_source(source), at=at, why=why, facts=facts)
            for source, at, why, facts in (
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "the copy of a leaf is a leaf",
                    {"x": dataclasses.replace(_X, requires_grad=True)},
                ),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "a clone closes the gaps of a view",
                    {"x": dataclasses.replace(_X, strides=(6, 2))},
                ),
                ("return deepcopy(x)", "deepcopy(x)", "strides were not seen", {"x": tensor(2, 3)}),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "a subclass",
                    {"x": dataclasses.replace(_X, type="mine.Masked")},
                ),
                ("return deepcopy(x)", "deepcopy(x)", "one memory twice", {"x": _of("list", 1, 1)}),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "whose memory is not known",
                    {"x": _of("list", 0)},
                ),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "a list of the project's own",
                    {"x": dataclasses.replace(_of("list", 1, 2), type="mine.Cache")},
                ),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "more than tensors and numbers",
                    {"x": Fact("list", "list", items=(_X, Fact("object", "mine.Cache")))},
                ),
                (
                    "return deepcopy(x)",
                    "deepcopy(x)",
                    "one memory twice, further in",
                    {"x": Fact("list", "list", items=(_of("list", 1), _of("list", 1)))},
                ),
                ("return deepcopy(x, memo)", "deepcopy(x, memo)", "a memo", {"x": _X}),
                ("return deepcopy(x)", "deepcopy(x)", "no tensor", {"x": scalar(1)}),
                ("return copy.copy(x)", "copy.copy(x)", "shares the memory", {"x": _X}),
            )
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        splice, values = Splice(site), Values(site)
        made: list[cst.BaseExpression] = []
        brought = ""
        # Dynamo stops at the first of several tensors, and copies other objects itself.
        for call in walk(site.statement):
            if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star:
                continue
            if resolve(site.module, call.func) != "copy.deepcopy":
                continue
            value = call.args[0].value
            fact = infer(value, site.fact)
            text = splice.source_of(value)
            if grouped(value) is not value or "\n" in text:
                text = f"({text})"
            new = None if fact is None else _cloned(text, fact, names_in(site.module))
            classes = _classes(site, fact) if new is None and fact is not None else ()
            held = fact is not None and (_is_held(fact) or bool(classes))
            if new is None and held and not values.torch_missing:
                body = _copying(code(call.func), classes)
                name, brought = function_of_file(site, "copied", body, values.torch)
                memo = ", {}" if classes else ""
                new = f"{name}({splice.source_of(value)}{memo})"
            if new is None or comments_in(call):
                continue
            splice.replace_span(site.span(call), new)
            made.append(value)
        if made:
            splice.insert_function(brought)
            own = all(code(value).startswith("self.") for value in made) and not brought
            tensors = [fact for fact in map(site.fact, made) if fact is not None and fact.is_tensor]
            what = "the tensor" if len(made) == len(tensors) == 1 else "tensors"
            yield splice.rewrite(
                f"clone {what} instead of `deepcopy`", notes=() if own else (_NOTE,), rank=10
            )


def _classes(site: Site, fact: Fact) -> tuple[str, ...]:
    """The plain classes of the file that an object is of, and that its class speaks of."""
    if fact.kind != "object":
        return ()
    bindings = module_bindings(site.module)
    own = {
        item.name.value: item
        for item in site.module.body
        if isinstance(item, cst.ClassDef) and len(bindings[item.name.value]) == 1
    }
    found: dict[str, None] = {}
    waiting = [fact.type.rpartition(".")[2]]
    here = site.top_level_statement(site.node)
    while waiting:
        name = waiting.pop()
        if name in found or name not in own:
            continue
        if not _is_plain_class(own[name]) or own[name] is here:
            return ()
        found[name] = None
        waiting += sorted(
            {p.value for p in walk(own[name]) if isinstance(p, cst.Name)} & own.keys()
        )
    # The function that the patch brings stands above the function of the break.
    body = site.module.body
    if any(body.index(own[name]) > body.index(here) for name in found):
        return ()
    return tuple(sorted(found))


def _is_plain_class(node: cst.ClassDef) -> bool:
    """Whether `deepcopy` makes an object of the class anew and copies its attributes, no more."""
    if node.keywords or any(code(base.value) != "object" for base in node.bases):
        return False
    for item in node.decorators:
        text = code(item.decorator)
        if text.partition("(")[0].rpartition(".")[2] != "dataclass" or "frozen" in text:
            return False
        if "slots" in text:
            return False
    named = {part.value for part in walk(node) if isinstance(part, cst.Name)}
    return not named & _SAYS


def _cloned(text: str, fact: Fact, taken: Collection[str]) -> str | None:
    """The expression of the copy; None where clones are not the same."""
    if fact.is_tensor:
        return f"{text}.detach().clone()" if _is_plain(fact) else None
    items = fact.items or ()
    storages = {item.storage for item in items}
    alone = len(storages) == len(items) and 0 not in storages
    if not items or not all(map(_is_plain, items)) or not alone:
        return None
    each, key = fresh("each", taken), fresh("key", taken)
    clone = f"{each}.detach().clone()"
    match fact.type:
        case "list" | "builtins.list":
            return f"[{clone} for {each} in {text}]"
        case "tuple" | "builtins.tuple":
            return f"tuple({clone} for {each} in {text})"
        case "dict" | "builtins.dict" if fact.keys is not None and len(fact.keys) == len(items):
            return f"{{{key}: {clone} for {key}, {each} in {text}.items()}}"
    return None


def _is_held(fact: Fact) -> bool:
    """Whether it is lists, tuples and dictionaries that hold plain tensors, and numbers."""
    tensors = list(_tensors(fact))
    storages = {None if it is None else it.storage for it in tensors}
    return (
        bool(tensors)
        and len(storages) == len(tensors)
        and not storages & {0, None}
        and all(it is not None and _is_plain(it) for it in tensors)
    )


def _tensors(fact: Fact) -> Iterator[Fact | None]:
    """The tensors that a container holds; None for what is no number and no plain container."""
    if fact.is_tensor:
        yield fact
    elif fact.type.removeprefix("builtins.") in ("list", "tuple", "dict"):
        if fact.items is None:
            yield None
        for item in fact.items or ():
            yield from _tensors(item)
    elif fact.kind not in _SCALARS:
        yield None


def _is_plain(fact: Fact) -> bool:
    if not fact.is_tensor or fact.type.rpartition(".")[2] != "Tensor":
        return False
    return fact.requires_grad is False and _is_contiguous(fact)


def _is_contiguous(fact: Fact) -> bool:
    """Whether the strides are those of a tensor that fills its memory in order."""
    if fact.shape is None or fact.strides is None:
        return False
    expected = 1
    for size, stride in zip(reversed(fact.shape), reversed(fact.strides), strict=True):
        if size is None or stride is None or stride != expected:
            return False
        expected *= size
    return True
