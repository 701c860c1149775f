"""Activity and scopes against CPython: its symbol tables and bytecode, over the standard library.

What the compiler says about a function is the truth; what `activity` says of a statement must hold
every name that the statement's bytecode loads, stores or deletes.
"""

from __future__ import annotations

import dis
import importlib.util
import symtable
import types
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import function_scope, module_bindings
from gbfix.analysis.tree import children, statements_of

MODULES = ("dataclasses", "contextlib", "copy", "textwrap", "functools", "shelve")

NASTY = """
from __future__ import annotations
import os.path, sys as system
from a import b as c, d

class Outer(Base, metaclass=Meta):
    attribute: int = 1
    other = attribute

    def method(self, x, /, y=default, *args, key: Annotation = factory(), **kwargs) -> Result:
        total = [item for row in x for item in row if (last := item)]
        __class__
        return {k: last for k, v in total} | {total[0]: attribute}

    @decorator(attribute)
    async def later(self):
        async with self.lock as (first, *rest), other:
            async for item in stream(first):
                yield item
        else_ = [await one async for one in rest]

def function(a, b=1):
    global counter, made_here
    counter += a
    made_here = lambda q=b: (q, a, free)
    x: int
    y: List[int] = []
    y[0]: undefined_annotation = 3
    def inner(z):
        nonlocal b
        b = z
        def innermost():
            return a, x
        return innermost
    try:
        import json
    except (ValueError, KeyError) as error:
        raise Wrapped(error) from error
    finally:
        del a
    with open(b) as handle, closing(handle) as (p, [q, *r]):
        for obj.attr in handle: pass
        for seq[index], k in p: continue
    match command:
        case Point(x=0, y=py) | [py, *_] if py > limit:
            pass
        case {"key": value, **rest_of}:
            pass
        case str() as text:
            pass
        case module.CONSTANT:
            pass
    assert (n := len(y)) > 0, f"{n=} {b!r:>{width}}"
    gen = (i * n for i in range(n) if i in (j for j in y))
    print(*r, **rest_of, sep=separator)
    return [[cell for cell in row] for row in gen], class_body()

def shadows(x):
    class Local(x):
        x = x
        def get(self): return x
        y = [x for _ in range(3)]
    for x in x: pass
    else: z = x
    return (lambda x, *y, w=z, **kw: x + free + w)(Local)

def deep():
    a = 1
    def one():
        def two():
            nonlocal a
            a += 1
            def three(): return a
            return three
        return two
    return one
"""


def sources() -> Iterator[tuple[str, str]]:
    yield "nasty", NASTY
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        yield name, Path(spec.origin).read_text()


@pytest.fixture(scope="module", params=list(sources()), ids=lambda pair: pair[0])
def source(request: pytest.FixtureRequest) -> str:
    return request.param[1]


def functions_of(
    node: cst.CSTNode, around: tuple[cst.FunctionDef, ...] = ()
) -> Iterator[tuple[cst.FunctionDef, tuple[cst.FunctionDef, ...]]]:
    """Every function with the functions around it."""
    for child in children(node):
        if isinstance(child, cst.FunctionDef):
            yield child, around
            yield from functions_of(child, (*around, child))
        else:
            yield from functions_of(child, around)


def tables_of(table: symtable.SymbolTable) -> Iterator[symtable.Function]:
    for child in table.get_children():
        if isinstance(child, symtable.Function):
            yield child
        yield from tables_of(child)


def test_scopes_agree_with_the_symbol_tables(source: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    tables = {
        (table.get_name(), table.get_lineno()): table
        for table in tables_of(symtable.symtable(source, "<source>", "exec"))
    }
    checked = 0
    for function, around in functions_of(wrapper.module):
        starts = [function.name, *(decorator.decorator for decorator in function.decorators)]
        table = next(
            (
                tables[function.name.value, line]
                for line in {positions[node].start.line for node in starts}
                if (function.name.value, line) in tables
            ),
            None,
        )
        assert table is not None, function.name.value
        scope = function_scope(function, around)
        symbols = {s.get_name(): s for s in table.get_symbols()}
        where = f"in {function.name.value}"
        own = {name for name in table.get_locals() if not name.startswith(".")}
        # Since 3.12 the symbols of comprehensions are shown in the function that holds them.
        inlined = {name for name in own - scope.locals if not symbols[name].is_parameter()}
        assert scope.locals <= own, where
        assert not {name for name in inlined if symbols[name].is_assigned()} - _targets(function)
        assert scope.parameters == tuple(table.get_parameters()) or set(scope.parameters) == set(
            table.get_parameters()
        )
        free = {name for name in table.get_frees() if name not in ("__class__",)}
        assert free <= scope.free, where
        assert scope.free - free <= scope.nonlocals | _passed_on(table), where
        declared = {s.get_name() for s in symbols.values() if s.is_declared_global()}
        assert scope.declared_globals == declared, where
        used = {s.get_name() for s in symbols.values() if s.is_global()}
        assert used <= scope.globals, where
        checked += 1
    assert checked


def _targets(function: cst.FunctionDef) -> set[str]:
    return {
        name
        for node in _walk_all(function)
        if isinstance(node, cst.CompFor)
        for name in activity(cst.AssignTarget(node.target)).writes
    }


def _walk_all(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in children(node):
        yield from _walk_all(child)


def _passed_on(table: symtable.SymbolTable) -> set[str]:
    return {name for child in table.get_children() for name in _all_names(child)}


def _all_names(table: symtable.SymbolTable) -> set[str]:
    return {*table.get_identifiers(), *(n for c in table.get_children() for n in _all_names(c))}


def test_module_bindings_agree_with_the_symbol_table(source: str) -> None:
    table = symtable.symtable(source, "<source>", "exec")
    bound = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    found = module_bindings(cst.parse_module(source))
    assert bound - {"__annotations__", "__conditional_annotations__"} <= set(found)
    assert set(found) <= bound | _global_writes(table)


def _global_writes(table: symtable.SymbolTable) -> set[str]:
    found: set[str] = set()
    for child in table.get_children():
        found |= {s.get_name() for s in child.get_symbols() if s.is_declared_global()}
        found |= _global_writes(child)
    return found


LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE")
STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
DELETES = ("DELETE_FAST", "DELETE_NAME", "DELETE_GLOBAL", "DELETE_DEREF")


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def test_activity_covers_the_bytecode_of_every_statement(source: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    codes = {
        (code.co_name, code.co_firstlineno): code
        for code in codes_of(compile(source, "<source>", "exec", dont_inherit=True))
    }
    checked = 0
    for function, _ in functions_of(wrapper.module):
        first = function.decorators[0] if function.decorators else function
        code = codes.get((function.name.value, positions[first].start.line))
        if code is None:
            continue
        for statement in statements_of(function.body):
            where = positions[statement]
            _check(code, statement, where.start.line, where.end.line)
            checked += 1
    assert checked


def _check(code: types.CodeType, statement: cst.CSTNode, first: int, last: int) -> None:
    found = activity(statement)
    comprehended = _targets(statement)  # inlined since 3.12
    cells = set(code.co_freevars)
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions else None
        if line is None or not first <= line <= last:
            continue
        names = instruction.argval
        for name in names if isinstance(names, tuple) else (names,):
            if not isinstance(name, str) or name.startswith(".") or name == "__class__":
                continue
            for prefixes, sets in (
                (LOADS, found.reads | found.writes | found.deletes),
                (STORES, found.writes | found.deletes),
                (DELETES, found.deletes),
            ):
                if instruction.opname.startswith(prefixes) and name not in comprehended | cells:
                    assert name in sets, f"{instruction.opname} {name} in\n{_text(statement)}"
            if instruction.opname in ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME"):
                ends = name in comprehended or name in found.reads
                assert ends or name in found.deletes, f"{name} not read in\n{_text(statement)}"


def _text(statement: cst.CSTNode) -> str:
    return cst.Module(()).code_for_node(statement)
