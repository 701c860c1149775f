"""Classes that derive from ``torch.jit.ScriptModule``, as plain modules."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.imports import forget_imports
from gbfix.rewriting.project import home_of, mentions
from gbfix.rewriting.torchscript import differences
from gbfix.schema import Fact, Safety

_FACTS = {"x": tensor(3), "self.act": Fact("module", "example.Act")}
#: What only TorchScript has, and what asks whether something is that.
_ONLY_SCRIPT = (
    r"is_scripting|is_tracing|\bjit\.(save|freeze|unused|ignore|export|Attribute|interface)\b"
    r"|\.(save_to_buffer|inlined_graph|code_with_constants|original_name|define|graph_for)\b"
    r"|isinstance\([^()]*,[^()]*Script"
)
_METHOD = "torch.jit.script_method"
_BASE = "torch.jit.ScriptModule"


def _source(
    base: str = "torch.jit.ScriptModule",
    method: str = "    @torch.jit.script_method\n",
    more: str = "",
) -> str:
    return f"""import torch


class Act({base}):
    def __init__(self, gain):
        super().__init__()
        self.gain = gain

{method}    def forward(self, x):
        return self.gain * x.sigmoid()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = Act(2.0)

    def forward(self, x):
        return self.act(x)
{more}"""


_BUFFER = """

def hide(net, ramp):
    net.register_buffer("ramp", ramp, persistent=False)
"""


def _near_miss(why: str, **parts: str) -> NearMiss:
    return NearMiss(_source(**parts), at="self.act(x)", why=why, facts=_FACTS)


class ScriptClass(Codemod):
    """*What it does.*  Makes plain modules of a class that derives from ``torch.jit.ScriptModule``:
    the base becomes ``torch.nn.Module``, and ``@torch.jit.script_method`` goes.

    *When it applies.*  Dynamo does not look into TorchScript, and the compiled code calls a module
    of a class that the project writes as TorchScript.

    *Fix safety.*  Safe: the same lines compute the same as Python, and validation compares both.
    What they raise is Python's own error.  Unsafe where the project handles such errors, has
    buffers that are not persistent (TorchScript saves them), looks at the types of modules or puts
    hooks on them, and where the class keeps a list that it is handed.

    *Refuses.*  Projects that ask whether they are scripted, that save TorchScript or look at its
    code, and classes that others derive from.
    """

    name = "script-class"
    uncovers = True
    codes = ("GB0008", "GB4695")
    examples = (
        Example(
            _source(),
            _source("torch.nn.Module", ""),
            at="self.act(x)",
            facts=_FACTS,
            title="a class of TorchScript",
        ),
        Example(
            _source(more=_BUFFER),
            _source("torch.nn.Module", "", more=_BUFFER),
            at="self.act(x)",
            facts=_FACTS,
            title="buffers that TorchScript saves (unsafe)",
        ),
    )
    near_misses = (
        _near_miss("no TorchScript", base="torch.nn.Module", method=""),
        _near_miss("another base", base="torch.jit.ScriptModule, Mixin"),
        _near_miss("a class below it", more="\n\nclass Loud(Act):\n    pass\n"),
        _near_miss("saved", more="\n\ndef g(net):\n    torch.jit.save(net.act, 'act.pt')\n"),
        _near_miss("looked at", more="\n\ndef g(net):\n    print(net.act.graph_for(1))\n"),
        _near_miss(
            "asked for", more="\n\ndef g(a):\n    return isinstance(a, torch.jit.ScriptModule)\n"
        ),
        _near_miss(
            "asks whether it is scripted",
            more="\n\ndef g(x):\n    return x if torch.jit.is_scripting() else -x\n",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if mentions(site, _ONLY_SCRIPT):
            return
        for qualname in dict.fromkeys(_modules(site)):
            path, name = home_of(site, qualname)
            home = site if path == site.path else site.other(path)
            holder = home and _class(home, name)
            if not home or not holder or mentions(site, rf"class \w+\([^)]*\b{name}\b"):
                continue
            yield _plain(home, holder)
            return


def _modules(site: Site) -> Iterator[str]:
    """The classes of the modules that the site's statement names."""
    for node in (*walk(site.node), *walk(site.statement)):
        fact = site.fact(node) if isinstance(node, cst.Attribute | cst.Name) else None
        if fact is not None and fact.kind == "module":
            yield fact.type


def _class(home: Site, name: str) -> cst.ClassDef | None:
    """The class of that name at the top of the file whose one base is ``ScriptModule``."""
    found = [
        part
        for part in home.module.body
        if isinstance(part, cst.ClassDef) and part.name.value == name
    ]
    match found:
        case [cst.ClassDef(bases=[cst.Arg(value=base)], keywords=[]) as holder] if (
            resolve(home.module, base) == _BASE
        ):
            return holder
    return None


def _plain(home: Site, holder: cst.ClassDef) -> Rewrite:
    edit = home.edit()
    base = holder.bases[0].value
    gone: list[cst.CSTNode] = [base]
    nn = cst.parse_expression("nn.Module")
    short = resolve(home.module, nn, at=holder) == "torch.nn.Module"
    long = cst.parse_expression("torch.nn.Module")
    if not short and resolve(home.module, long, at=holder) != "torch.nn.Module":
        edit.add_import("torch")
    edit.replace(base, nn if short else long)
    for function in walk(holder.body):
        if not isinstance(function, cst.FunctionDef):
            continue
        script = [it for it in function.decorators if resolve(home.module, it.decorator) == _METHOD]
        if script and not any(comments_in(it) for it in script):
            left = [it for it in function.decorators if it not in script]
            edit.replace(function, function.with_changes(decorators=left))
            gone += script
    roots = {code(it).lstrip("@").partition(".")[0].strip() for it in gone} - {"torch", "nn"}
    forget_imports(home, edit, roots, gone)
    reasons, notes = differences(home, {holder.name.value})
    return edit.rewrite(
        f"make a plain module of `{holder.name.value}`",
        rank=10,
        safety=Safety.UNSAFE if reasons else Safety.SAFE,
        notes=(*reasons, *notes),
    )


__all__ = ["ScriptClass"]
