"""Modules of ``torch.nn`` that only call a loss of ``torch.nn.functional``."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site
from gbfix.rewriting.modules import stores
from gbfix.rewriting.project import mentions

from .flow import torch_name

#: Each module and the function that it calls, as in ``torch/nn/modules/loss.py``.
LOSSES = {
    "L1Loss": "l1_loss",
    "MSELoss": "mse_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CrossEntropyLoss": "cross_entropy",
}
#: What their functions take by the same name, and mean the same by.
_OPTIONS = words("reduction beta delta ignore_index label_smoothing")
_CONSTANTS = (cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation)


def loss_module(site: Site, func: cst.BaseExpression) -> tuple[str, list[cst.Arg]] | None:
    """The function that ``self.loss`` calls, and the options that it was made with.

    None unless they are numbers or words, and it is made in one place (see `made_loss`).
    """
    made = made_loss(site, func)
    if made is None or made[0] not in LOSSES:
        return None
    known = all(
        option.keyword is not None
        and option.keyword.value in _OPTIONS
        and isinstance(option.value, _CONSTANTS)
        for option in made[1]
    )
    return (LOSSES[made[0]], made[1]) if known else None


def made_loss(site: Site, func: cst.BaseExpression) -> tuple[str, list[cst.Arg]] | None:
    """The class of torch's that ``self.loss`` is made of, and with which arguments.

    None unless ``__init__`` makes it in one place, and nothing in the project stores to an
    attribute of that name but classes that have nothing to do with this one.  A project with hooks
    may see the module's calls.
    """
    match func:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(attribute)):
            pass
        case _:
            return None
    inside = site.class_of(func)
    if inside is None or mentions(site, r"\bregister_\w*hook\b"):
        return None
    made = [
        node.value
        for node in walk(inside.body)
        if isinstance(node, cst.Assign)
        and any(_is_own(target.target, attribute) for target in node.targets)
    ]
    if len(made) != 1 or not isinstance(made[0], cst.Call):
        return None
    if not _is_stored_once(site, inside.name.value, attribute):
        return None
    home, _, name = (resolve(site.module, made[0].func) or "").rpartition(".")
    fact = site.fact(func)
    if home not in ("torch.nn", "torch.nn.modules.loss") or fact is None:
        return None
    return (name, list(made[0].args)) if fact.type.rpartition(".")[2] == name else None


def functional(site: Site, kind: str) -> str:
    """How the file writes a function of ``torch.nn.functional``."""
    names = [n for n, home in import_map(site.module).items() if home == "torch.nn.functional"]
    return f"{names[0] if names else f'{torch_name(site)}.nn.functional'}.{kind}"


def _is_own(node: cst.CSTNode, attribute: str) -> bool:
    match node:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
            return name == attribute
    return False


def _is_stored_once(site: Site, owner: str, attribute: str) -> bool:
    """Whether one place stores to an attribute of objects of a class, by all that names tell."""
    return [holder for holder, _ in stores(site, owner, attribute)] == [owner]
