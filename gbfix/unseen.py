"""What the recorded run cannot show: subclasses and hooks that change what an arm calls, names, and
files that are loaded twice.

An arm that was run only where its condition held is evaluated in every call once it stands in the
graph.  A method that a subclass overrides, or a hook on a module, then runs where it did not run.
An operator has one name in the whole process: of a file that is loaded under two names, both copies
call the operator of the one that came last, with the names of its module.  A file that takes all
names of the patched one takes those that the patch brings, too.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from gbfix import branches
from gbfix.analysis.overriding import bound_on_objects, overriding
from gbfix.analysis.trees import alternatives, tree_of
from gbfix.schema import Span

_HOOKS = re.compile(
    r"\bregister_(?:module_)?(?:full_)?(?:forward|backward)(?:_pre)?_hook\("
    r"|\b(?:spectral_norm|weight_norm|register_parametrization)\("
)
#: How a program loads a file by its path.
_BY_PATH = re.compile(r"\b(?:spec_from_file_location|run_path|SourceFileLoader)\(")
_OPERATORS = frozenset({"custom_op", "triton_op"})
#: Takes elements of both arms, which are evaluated in every call.
_SELECTS = ".where("
#: Takes the first of what rounds of a loop made, which all run.
_CUTS = ".narrow("
#: Runs one of two functions that may change nothing.
_BRANCHES = ".cond("


def loaded_twice(
    path: str, old: str, new: str, project: Mapping[str, str], *, is_entry: bool
) -> tuple[str, ...]:
    """Why operators that a patch adds may work on the names of another copy of their module."""
    bound = {
        target.id
        for line in tree_of(new).body
        if isinstance(line, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in ast.walk(line)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    known = {name for name, _ in _operators(old)}
    added = {name: reads & bound for name, reads in _operators(new) if name not in known}
    by = _loads_again(path, project, is_entry=is_entry)
    if by is None or not any(added.values()):
        return ()
    name = next(name for name, reads in added.items() if reads)
    return (
        f"{os.path.basename(by)} loads the file once more, under another name: both copies then"
        f" call one operator, and `{name}` uses `{min(added[name])}` of the copy that came last",
    )


def _operators(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Functions that are operators, with the names that they read."""
    for node in tree_of(text).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        by = [ast.unparse(item).partition("(") for item in node.decorator_list]
        # One that has the module's name (``f"{__name__}::keep"``) is another one in each copy.
        if any(
            name.rpartition(".")[2] in _OPERATORS and "__name__" not in given
            for name, _, given in by
        ):
            reads = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            yield node.name, frozenset(reads)


def _loads_again(path: str, project: Mapping[str, str], *, is_entry: bool) -> str | None:
    """A file of the project that imports the script that is run, or loads the file by its path."""
    stem = os.path.splitext(os.path.basename(path))[0]
    imports = re.compile(
        rf"^\s*(?:import (?:[\w.]+\.)?{stem}\b|from (?:[\w.]*\.)?{stem} import\b)", re.MULTILINE
    )
    for other, text in project.items():
        same = os.path.realpath(other) == os.path.realpath(path)
        if is_entry and not same and imports.search(text):
            return other
        if _BY_PATH.search(text) and f"{stem}.py" in text:
            return other
    return None


def caveats(
    old: str, new: str, spans: Sequence[Span], project: Mapping[str, str]
) -> tuple[str, ...]:
    """Why arms that a patch evaluates in every call may do more than they were seen to do."""
    # A loop that runs to its bound, and of which the first rounds are taken.
    runs_on = _without_added(old, new).count(_CUTS) > old.count(_CUTS)
    rounds = runs_on or _jumps_in(new) < _jumps_in(old)
    same_tests = _tests_in(new) >= _tests_in(old) and not runs_on
    if not branches.new_conditionals(old, new) and same_tests:
        return ()
    selects = new.count(_SELECTS) > old.count(_SELECTS) or runs_on
    found: dict[str, None] = {}
    hooked = any(_HOOKS.search(text) for text in project.values())
    arms = set(_called_in_arms(old, spans, rounds=runs_on))
    for owner, name, is_method in _called_in_arms(old, spans, rounds=rounds):
        if (owner, name, is_method) not in arms and not hooked:
            continue
        if is_method:
            for path, subclass in overriding(owner, name, project):
                found.setdefault(
                    f"`{subclass}` in {os.path.basename(path)} overrides `{name}`, which an arm "
                    "of the condition calls: the patch evaluates both arms"
                )
        elif selects and _is_given(owner, name, old):
            where, runs = (
                ("the loop calls", "runs all rounds of it")
                if runs_on
                else ("an arm of the condition calls", "evaluates both arms")
            )
            found.setdefault(
                f"`self.{name}`, which {where}, is given to the object: another one may draw"
                f" random numbers or keep statistics, and the patch {runs}"
            )
        elif hooked:
            found.setdefault(
                f"the project registers hooks (or wraps weights), and `self.{name}` is called where"
                " the condition decides: the patch calls it in any case"
            )
    if rounds and hooked and not found:
        found[
            "the project registers hooks (or wraps weights), and rounds of a loop that did not run"
            " now call what is in it"
        ] = None
    return tuple(found)


def given_no_tensors(
    old: str, spans: Sequence[Span], new: str, project: Mapping[str, str]
) -> tuple[str, ...]:
    """Calls of a changed function that give it arrays of numpy's, by their text.

    What a patch puts in (`torch.where`, `torch.cond`, an operator) takes tensors alone.
    """
    if not any(new.count(text) > old.count(text) for text in (_SELECTS, _BRANCHES, "custom_op(")):
        return ()
    tree = tree_of(old)
    changed = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(node.lineno <= span.line <= (node.end_lineno or 0) for span in spans)
    }
    # Of methods, a call tells its class where it is one of `self`.
    functions = changed & {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}
    found: dict[str, None] = {}
    for path, text in project.items():
        if not any(name in text for name in changed):
            continue
        try:
            calls = list(_calls_in(tree_of(text)))
        except (SyntaxError, ValueError):
            continue  # nobody runs it
        for function, call in calls:
            match call.func:
                case ast.Name(id=name):
                    known = name in functions
                case ast.Attribute(value=ast.Name(id=owner), attr=name):
                    known = name in (changed if owner == "self" and text == old else functions)
                case _:
                    continue
            if known and any(_is_no_tensor(arg, function) for arg in call.args):
                found.setdefault(
                    f"`{ast.unparse(call)[:60]}` in {os.path.basename(path)} gives `{name}` no"
                    " tensor, and the patch takes nothing else"
                )
    return tuple(found)


def _calls_in(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Each call, with the function (or module) around it."""
    todo: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while todo:
        around, node = todo.pop()
        if isinstance(node, ast.Call):
            yield around, node
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else around
        todo += [(inner, child) for child in ast.iter_child_nodes(node)]


def _is_no_tensor(node: ast.expr, around: ast.AST) -> bool:
    """``np.asarray(rows)``, ``x.numpy()``, or a name that is bound to such a thing alone."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name)):
            return not name.startswith(("float", "int", "bool"))
        case ast.Call(func=ast.Attribute(attr="numpy" | "tolist")):
            return True
        case ast.Name(id=name):
            values = [
                it.value
                for it in ast.walk(around)
                if isinstance(it, ast.Assign)
                and any(isinstance(to, ast.Name) and to.id == name for to in it.targets)
            ]
            return bool(values) and all(
                not isinstance(value, ast.Name) and _is_no_tensor(value, around) for value in values
            )
    return False


def limits(old: str, new: str, spans: Sequence[Span]) -> tuple[str, ...]:
    """What raises an error in the patch where an object is made in another way."""
    if new.count(_BRANCHES) <= old.count(_BRANCHES):
        return ()
    given = {
        name: _is_given(owner, name, old)
        for owner, name, is_method in _called_in_arms(old, spans)
        if not is_method
    }
    said = [
        f"`self.{name}` is given to the object: one that works in place, or keeps statistics,"
        " raises an error in a branch of `torch.cond`"
        for name, is_given in given.items()
        if is_given
    ]
    if given:
        names = " and ".join(f"`self.{name}`" for name in given)
        said.append(
            f"What a hook on {names} changes in Python is an error, or lost, in a branch of"
            " `torch.cond`."
        )
    return tuple(said)


def _without_added(old: str, new: str) -> str:
    """The new text but for functions that the patch brings: no loop ran there before."""
    known = {it.name for it in tree_of(old).body if isinstance(it, ast.FunctionDef)}
    lines = new.splitlines(keepends=True)
    for node in reversed(tree_of(new).body):
        if isinstance(node, ast.FunctionDef) and node.name not in known:
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def _jumps_in(text: str) -> int:
    """How often a loop is left, or a round of it."""
    kinds = ast.Break | ast.Continue
    return sum(isinstance(node, kinds) for node in ast.walk(tree_of(text)))


def _tests_in(text: str) -> int:
    """How often Python decides: a patch that lets arms run in any case, as by ``masked_fill_``, has
    fewer of these.
    """
    kinds = ast.If | ast.IfExp | ast.While
    return sum(isinstance(node, kinds) for node in ast.walk(tree_of(text)))


def lost_dispatch(old: str, new: str, project: Mapping[str, str]) -> tuple[str, ...]:
    """Why methods of subclasses may not be called any more: a patch names the class, or has the
    method's body in place of the call.
    """
    before, after = _Methods(old), _Methods(new)
    found: dict[str, None] = {}
    for owner in before.classes:
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            was, bound = before.calls_of(owner.name, method.name)
            now, bound_now = after.calls_of(owner.name, method.name)
            if method.name in after.static and method.name not in before.static:
                given = re.compile(rf"\b{owner.name}\.{method.name}\b")
                for path, text in project.items():
                    if given.search(text):
                        found.setdefault(
                            f"{os.path.basename(path)} uses `{owner.name}.{method.name}`, which is"
                            " a static method now and takes no `self`"
                        )
            if now >= was or (now and bound_now <= bound):
                continue
            for path, subclass in overriding(owner.name, method.name, project):
                found.setdefault(
                    f"`{subclass}` in {os.path.basename(path)} overrides `{method.name}`, which "
                    f"the original calls and the patch does not: it has what `{owner.name}` does"
                )
            for path in bound_on_objects(owner.name, method.name, project):
                found.setdefault(
                    f"{os.path.basename(path)} binds `{method.name}` on an object or a class, and"
                    " the patch does not call what is bound there"
                )
    return tuple(found)


class _Methods:
    """What a text says of methods, read once: a file may have hundreds of them."""

    def __init__(self, text: str) -> None:
        self.classes: list[ast.ClassDef] = []
        self.static: set[str] = set()
        #: By the method's name, what it is called on.
        self._called: dict[str, list[str]] = {}
        for node in ast.walk(tree_of(text)):
            match node:
                case ast.ClassDef():
                    self.classes.append(node)
                case ast.FunctionDef() if "staticmethod" in map(ast.unparse, node.decorator_list):
                    self.static.add(node.name)
                case ast.Call(func=ast.Attribute(attr=name, value=value)):
                    self._called.setdefault(name, []).append(ast.unparse(value))

    def calls_of(self, owner: str, name: str) -> tuple[int, int]:
        """How often a method is called on an object, and how often on its class."""
        called = self._called.get(name, [])
        on_class = called.count(owner)
        return len(called) - on_class - called.count("super()"), on_class


def _is_given(owner: str, name: str, text: str) -> bool:
    """Whether a class of a file keeps what somebody gives it under this name, instead of making it.

    A class of another file that has the same name is another class.
    """
    return any(
        isinstance(line, ast.Assign)
        and any(isinstance(it, ast.Name) for it in alternatives(line.value))
        and f"self.{name}" in map(ast.unparse, line.targets)
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.ClassDef) and node.name == owner
        for line in ast.walk(node)
    )


def taken_names(path: str, old: str, new: str, project: Mapping[str, str]) -> tuple[str, ...]:
    """Why new names of a file may take the place of others: ``from file import *`` elsewhere."""
    brought = sorted(_exported(new) - _exported(old))
    if not brought:
        return ()
    stem = os.path.splitext(os.path.basename(path))[0]
    module = os.path.basename(os.path.dirname(path)) if stem == "__init__" else stem
    found: dict[str, None] = {}
    for other, text in project.items():
        if other == path or "import *" not in text or module not in text:
            continue
        for name in brought:
            if _takes_all(text, module) and re.search(rf"\b{re.escape(name)}\b", text):
                found.setdefault(
                    f"`{os.path.basename(other)}` imports all names of this file and has a "
                    f"`{name}` of its own, for which the patch's may stand then"
                )
    return tuple(found)


def _exported(text: str) -> set[str]:
    """The names that ``import *`` takes from a file."""
    found: set[str] = set()
    for node in tree_of(text).body:
        match node:
            case ast.Import() | ast.ImportFrom():
                found |= {item.asname or item.name.partition(".")[0] for item in node.names}
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Assign(targets=targets):
                found |= {item.id for item in targets if isinstance(item, ast.Name)}
    return set() if "__all__" in found else {name for name in found if not name.startswith("_")}


def _takes_all(text: str, module: str) -> bool:
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return False
    return any(
        isinstance(node, ast.ImportFrom)
        and node.names[0].name == "*"
        and (node.module or "").rpartition(".")[2] in (module, "")
        for node in ast.walk(tree)
    )


def _called_in_arms(
    old: str, spans: Sequence[Span], *, rounds: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Classes, and names of their attributes that arms of the rewritten conditions call.

    The last part tells methods from other attributes (modules, mostly).  Where ``rounds`` of a loop
    run that did not, what stands above a condition in it is called as well.
    """
    tree = tree_of(old)
    tests = branches.rewritten_tests(old, spans)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for owner in classes:
        methods = {node.name for node in owner.body if isinstance(node, ast.FunctionDef)}
        if not any(owner.lineno <= test.line <= (owner.end_lineno or 0) for test in tests):
            continue
        # An early return makes an arm of what stands below it: all that is rewritten counts.
        first = min(test.line for test in tests)
        if rounds:
            first = min([first, *(span.line for span in spans)])
        for name in _self_calls(owner):
            rewritten = any(span.line <= name.lineno <= span.end_line for span in spans)
            if rewritten and name.lineno >= first:
                yield owner.name, name.attr, name.attr in methods


def _self_calls(owner: ast.ClassDef) -> Iterator[ast.Attribute]:
    for node in ast.walk(owner):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and ast.unparse(called.value) == "self":
            yield called
