"""Writing to files and streams as an effectful custom operator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import is_global_object
from ..wrap.own_state import qualified
from .effect_operator import Effect, effect_operator, with_anchor
from .effects import effect_statement

#: Functions whose only effect is on files, streams or time, each with the verb for its operator.
_WRITERS = {
    "torch.save": "save",
    "torch.serialization.save": "save",
    "numpy.save": "save",
    "numpy.savetxt": "save",
    "sys.stdout.write": "write",
    "sys.stderr.write": "write",
    "sys.stdout.flush": "flush",
    "sys.stderr.flush": "flush",
    "pprint.pprint": "print",
    "pprint.pp": "print",
    "os.makedirs": "make",
    "os.mkdir": "make",
    "os.remove": "remove",
    "os.unlink": "remove",
    "os.rename": "rename",
    "os.replace": "rename",
    "shutil.copy": "copy",
    "shutil.copyfile": "copy",
    "time.sleep": "sleep",
}
#: Methods of file objects and of tensorboard's writer, called for their effect.
_METHODS = words("write writelines flush writerow writerows add_scalar add_histogram add_text")
_HANDLES = (
    "_io.",
    "io.",
    "_csv.",
    "torch.utils.tensorboard.",
    "tensorboardX.",
)


def _source(call: str) -> str:
    return f"""
import sys
import torch

LOG = open("log.txt", "a")


def f(x, n, fh):
    {call}
    return x + 1
"""


def _example(title: str, before: str, after: str, name: str, signature: str) -> Example:
    after, signature, body = with_anchor(after, signature, before)
    lines = "\n    ".join(body.split("\n"))
    names = ", ".join(part.partition(":")[0] for part in signature.split(", ") if part)
    named = qualified(name, keeps_state="LOG" in body)
    operator = f"""

@torch.library.custom_op({named}, mutates_args=())
def {name}({signature}) -> None:
    {lines}


{name}.register_fake(lambda{" " + names if names else ""}: None)
{name}.register_effect(torch.library.EffectType.ORDERED)


def f("""
    facts = {
        "x": tensor(3, dtype="torch.int64"),
        "n": scalar(3),
        "LOG": Fact("object", "_io.TextIOWrapper"),
    }
    expected = _source(after).replace("\n\ndef f(", operator)
    return Example(_source(before), expected, at=before, facts=facts, title=title)


def _near_miss(call: str, why: str, facts: dict[str, Fact] | None = None) -> NearMiss:
    return NearMiss(_source(call), at=call, why=why, facts=facts or {})


class WriteToOp(Codemod):
    """*What it does.*  Moves a write (``torch.save``, ``LOG.write``) into an effectful operator.

    ```python
    torch.save(y, f"step_{n}.pt")
    ```
    becomes ``save_step(y, n)``, a ``torch.library.custom_op`` whose body is the same call.

    *When it applies.*  To statements that call a known function for its effect on files, streams or
    time, or a write method of a file that the module opens once. ``open(path, "a").write(text)``
    counts too.

    *Fix safety.*  Safe.  The same call runs on the same values, as often and in the same order as
    in eager, under every backend.

    *Refuses.*  Tensors that require a gradient (a saved file would say so, a text would show it),
    handles that are passed in, and values that cannot be passed (state dicts, objects).
    """

    name = "write-to-op"
    codes = ("GB0007", "GB0059", "GB0088", "GB0109", "GB0124", "GB0156", "GB0208", "GB0294")
    examples = (
        _example("torch.save", 'torch.save(x, "foo.pt")', "save_f(x)", "save_f", "x: torch.Tensor"),
        _example(
            "a dictionary to a file of the step",
            'torch.save({"x": x.detach(), "n": n}, f"step_{n}.pt")',
            "save_f(x, n)",
            "save_f",
            "x: torch.Tensor, n: torch.types.Number",
        ),
        _example(
            "a stream",
            'sys.stderr.write(f"{x.mean().item():.2f}\\n")',
            "write_f(x)",
            "write_f",
            "x: torch.Tensor",
        ),
        _example(
            "a file of the module",
            'LOG.write(f"{n}\\n")',
            "write_f(n)",
            "write_f",
            "n: torch.types.Number",
        ),
        _example(
            "a file opened for one line",
            'open(f"{n}.txt", "a").write(f"{x.sum().item()}\\n")',
            "write_f(n, x)",
            "write_f",
            "n: torch.types.Number, x: torch.Tensor",
        ),
    )
    near_misses = (
        _near_miss('torch.save(x, "a")', "saves requires_grad", {"x": tensor(requires_grad=True)}),
        _near_miss('torch.save(x, "a")', "a module", {"x": Fact("module", "Net")}),
        _near_miss('fh.write("a")', "a handle that is passed in", {"fh": Fact("object", "_io.X")}),
        _near_miss('LOG.write("a")', "no file", {"LOG": Fact("object", "Log")}),
        _near_miss('n = torch.save(x, "a")', "its result is used", {"x": tensor()}),
        _near_miss('torch.load("a")', "no write", {}),
        _near_miss('LOG.read("a")', "no write", {"LOG": Fact("object", "_io.TextIOWrapper")}),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = effect_statement(site)
        if call is None or site.function is None:
            return
        effect = write_effect(site, call)
        if effect is not None:
            yield effect_operator(site, call, effect)


def write_effect(site: Site, call: cst.Call) -> Effect | None:
    """The effect of a known function that writes, or of a write method of a file."""
    if any(argument.star for argument in call.args):
        return None
    kept: dict[cst.CSTNode, cst.CSTNode] = {}
    verb = _WRITERS.get(resolve(site.module, call.func) or "")
    if verb is not None:
        kept[call.func] = call.func
    else:
        match call.func:
            case cst.Attribute(value=cst.Name() as handle, attr=cst.Name(value=verb)):
                if verb not in _METHODS or not _is_handle(site, handle):
                    return None
                kept[call.func] = call.func
            case cst.Attribute(value=cst.Call(func=opener), attr=cst.Name(value="write") as to):
                if resolve(site.module, opener) != "builtins.open":
                    return None
                verb = "write"
                kept |= {opener: opener, to: to}
            case _:
                return None
    texts = [(argument.value, False) for argument in call.args if _is_content(argument)]
    return Effect(verb, [call], kept, texts)


def _is_handle(site: Site, node: cst.Name) -> bool:
    fact = site.fact(node)
    return is_global_object(site, node) and fact is not None and fact.type.startswith(_HANDLES)


def _is_content(argument: cst.Arg) -> bool:
    """Whether an argument is written; options such as ``exist_ok=True`` are not."""
    return argument.keyword is None or argument.keyword.value in ("obj", "f", "file", "arr", "X")
