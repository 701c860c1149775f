"""Layers that ``torch.jit.script`` has made TorchScript of, as the modules that they were."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions, writers
from gbfix.rewriting.torchscript import differences
from gbfix.schema import Fact, Safety

_FACTS = {
    "x": tensor(3),
    "self.act": Fact("module", "torch.jit._script.RecursiveScriptModule"),
}
#: What only TorchScript has, and what asks whether something is that.
_ONLY_SCRIPT = (
    r"ScriptModule|ScriptFunction|is_scripting|is_tracing|\bjit\.(save|freeze|unused|ignore|export)"
)
_OF_SCRIPT = (
    r"save|save_to_buffer|graph|inlined_graph|code|code_with_constants|original_name|define"
)


def _source(made: str = "torch.jit.script(Act())", use: str = "self.act(x)", more: str = "") -> str:
    return f"""import torch


class Act(torch.nn.Module):
    def forward(self, x):
        return x * x.sigmoid()


class Net(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = {made}

    def forward(self, x):
        return {use}
{more}"""


_WALK = """

def rates(net):
    return [m.p for m in net.modules() if isinstance(m, torch.nn.Dropout)]
"""
_LIST = """

class Blend(torch.nn.Module):
    def __init__(self, rates):
        super().__init__()
        self.rates = rates

    def forward(self, x):
        return sum([x * rate for rate in self.rates])
"""


def _near_miss(why: str, **parts: str) -> NearMiss:
    return NearMiss(_source(**parts), at="self.act(x)", why=why, facts=_FACTS)


class PlainModule(Codemod):
    """*What it does.*  Makes no TorchScript of a layer: ``self.act = torch.jit.script(Act())``
    becomes ``self.act = Act()``.

    *When it applies.*  Dynamo does not look into modules of TorchScript, and the compiled code
    calls one that its class makes of a module in one line.

    *Fix safety.*  Safe: the same lines compute the same as Python, and validation compares both.
    What they raise is Python's own error.  Unsafe where the project handles such errors, has
    buffers that are not persistent (TorchScript saves them), looks at the types of modules or puts
    hooks on them, and where the class keeps a list that it is handed.

    *Refuses.*  Projects that ask whether they are scripted, that save TorchScript or look at its
    code, and attributes that something else sets, too.
    """

    name = "plain-module"
    uncovers = True
    codes = ("GB4695", "GB0008")
    examples = (
        Example(
            _source(), _source("Act()"), at="self.act(x)", facts=_FACTS, title="a scripted layer"
        ),
        Example(
            _source("torch.jit.script(torch.nn.Sequential(Act(), Act())).eval()"),
            _source("torch.nn.Sequential(Act(), Act()).eval()"),
            at="self.act(x)",
            facts=_FACTS,
            title="several of them",
        ),
        Example(
            _source(more=_WALK),
            _source("Act()", more=_WALK),
            at="self.act(x)",
            facts=_FACTS,
            title="looked for by its type (unsafe)",
        ),
        Example(
            _source("torch.jit.script(Blend(rates))", more=_LIST),
            _source("Blend(rates)", more=_LIST),
            at="self.act(x)",
            facts=_FACTS,
            title="a list of others (unsafe)",
        ),
    )
    near_misses = (
        _near_miss("a module that comes in", made="torch.jit.script(act)"),
        _near_miss("one that others may have", made="torch.jit.script(act.inner())"),
        _near_miss("a trace", made="torch.jit.trace(Act(), torch.ones(3))"),
        _near_miss("no TorchScript", made="Act()"),
        _near_miss("set elsewhere", more="\n\ndef g(net, other):\n    net.act = other\n"),
        _near_miss("saved", more="\n\ndef g(net):\n    net.act.save('act.pt')\n"),
        _near_miss("looked at", more="\n\ndef g(net):\n    print(net.act.graph)\n"),
        _near_miss(
            "asked for",
            more="\n\ndef g(net):\n    return isinstance(net.act, torch.jit.ScriptModule)\n",
        ),
        _near_miss(
            "asks whether it is scripted",
            more="\n\ndef g(x):\n    return x if torch.jit.is_scripting() else -x\n",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if mentions(site, _ONLY_SCRIPT):
            return
        for name in dict.fromkeys(_scripted(site)):
            call = _made(site, name)
            asked = rf"\.{re.escape(name)}\.({_OF_SCRIPT})\b"
            if call is None or mentions(site, asked) or mentions(site, rf"['\"]{name}['\"]"):
                continue
            edit = site.edit()
            edit.replace(call, call.args[0].value)
            classes = {it.value for it in walk(call.args[0]) if isinstance(it, cst.Name)}
            reasons, notes = differences(site, classes)
            yield edit.rewrite(
                f"make no TorchScript of `self.{name}`",
                rank=10,
                safety=Safety.UNSAFE if reasons else Safety.SAFE,
                notes=(*reasons, *notes),
            )
            return


def _scripted(site: Site) -> Iterator[str]:
    """The attributes of ``self`` that the site's statement reads and that hold TorchScript."""
    for node in (*walk(site.node), *walk(site.statement)):
        match node:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
                fact = site.fact(node)
                if fact is not None and fact.type.startswith("torch.jit."):
                    yield name


def _made(site: Site, name: str) -> cst.Call | None:
    """``torch.jit.script(Act())`` in the one line that sets the attribute."""
    if sum(1 for _ in writers(site, name)) != 1:
        return None
    for line in walk(site.module):
        match line:
            case cst.Assign(
                targets=[cst.AssignTarget(cst.Attribute(cst.Name("self"), cst.Name(attr)))]
            ) if attr == name:
                return next(filter(None, (_script(site, part) for part in walk(line.value))), None)
    return None


def _script(site: Site, node: cst.CSTNode) -> cst.Call | None:
    match node:
        case cst.Call(args=[cst.Arg(value=cst.Call(), keyword=None, star="")]) if resolve(
            site.module, node.func
        ) == "torch.jit.script" and not comments_in(node):
            inner = cst.ensure_type(node.args[0].value, cst.Call)
            return node if _makes_module(site, inner) else None
    return None


def _makes_module(site: Site, call: cst.Call) -> bool:
    """Whether a class is called: what else gives a module may give one that others have, too."""
    name = resolve(site.module, call.func) or code(call.func)
    if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call):
        return _makes_module(site, call.func.value)  # ``Act().eval()``
    last = name.rpartition(".")[2]
    return name.startswith("torch.nn.") or mentions(site, rf"\bclass {re.escape(last)}\b")


__all__ = ["PlainModule"]
