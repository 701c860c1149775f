"""One call that Dynamo refuses, for the one that it takes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from .api_table import TABLE
from .tensor_rows import Form

_FACTS = {
    "a": tensor(3, 3),
    "m": tensor(3, 3),
    "cell": tensor(),
    "h": tensor(3, 3, dtype="torch.float64"),
    "none": tensor(0),
    "x": tensor(3, 3),
    "x.data": tensor(3, 3),
    "k": scalar(2.0),
    "k.rate()": scalar(2.0),
    "m.rate": scalar(2.0),
    "m.noise()": tensor(3, 3),
    "flag": scalar(True),
    "i": scalar(2),
    "xs": Fact("list", "list", items=(scalar("a"),)),
    "axes": Fact("list", "list", items=(scalar(2), scalar(3))),
}
_WARNS = "the original warns that it is called in an outdated way; the patch does not"


def _source(body: str) -> str:
    imports = "import itertools\nfrom bisect import bisect_right\nimport numpy as np\n"
    imports += "import torch\nfrom torch import nn\n"
    return f"{imports}\n\ndef f(a, m, x, k, xs, flag, axes, h, none, cell, i):\n    {body}\n"


class CallForm(Codemod):
    """*What it does.*  Writes a call that Dynamo refuses in the form that it takes, with the others
    of its kind in the function:

    - ``x.add_(0.5, y)`` (the number first, as until torch 1.0) becomes ``x.add_(y, alpha=0.5)``;
      so do ``sub``, ``addcmul``, ``addcdiv``, ``addmm`` and the like;
    - ``nn.MSELoss(size_average=False)`` becomes ``nn.MSELoss(reduction="sum")``;
    - ``np.finfo`` of the dtype that an array of a tensor would have becomes ``torch.finfo``, and
      ``np.unique`` of a list of ints that are only dimensions ``sorted(set(...))``;
    - ``min(xs, key=f)`` becomes ``sorted(xs, key=f)[0]``;
    - ``torch.zeros(3, requires_grad=True)`` becomes ``torch.zeros(3).requires_grad_()``;
    - ``y.random_(10)`` becomes ``y.copy_(torch.randint_like(y, 10))``, which draws the same;
    - ``torch.add(x, 1, out=y)`` becomes ``y.copy_(torch.add(x, 1))``, and so does a pair,
      where the size is another one after ``y.resize_``;
    - ``torch.clamp(x, 0, hi)`` with one tensor among the bounds, whose number torch reads, becomes
      ``torch.clamp(torch.clamp(x, min=0), max=hi.detach())``;
    - ``torch.jit.isinstance(x, torch.Tensor)`` becomes ``isinstance(x, torch.Tensor)``, and
      ``torch.jit.isinstance(xs, List[str])``, in projects that script nothing, ``isinstance(xs,
      list) and all(isinstance(item, str) for item in xs)``;
    - ``str(x.size())`` becomes ``f"{x.size()}"``, which is traced where sizes are symbols, too;
    - ``bisect_right(xs, n)`` (of a list in order) becomes ``sum(not n < item for item in xs)``, and
      ``hasattr(n, "item")`` of a number ``(type(n) not in (int, float) and hasattr(n, "item"))``;
    - ``groupby(iterable=xs)`` becomes ``groupby(xs)``, and a jagged ``nested_tensor`` of one tensor
      ``as_nested_tensor`` of its copy.

    *When it applies.*  The call is in the table of such forms, under the code of the break.

    *Fix safety.*  Safe where both do the same. Where the original warns that it is outdated, that
    warning goes, and the rewrite says so. Unsafe for ``min`` and ``max`` with keys that are not
    sizes or lengths by their text (NaN has no place in an order), where the project handles the
    error of an empty list, and for an ``out=`` in the midst of a line, which is not resized.

    *Refuses.*  Arguments with stars, flags of unknown values, operands that were not seen to be
    tensors, arguments whose calls would change places; ``min`` and ``max`` inside a ``try``; limits
    and numbers of numpy's that are calculated with.
    """

    name = "call-form"
    codes = (
        "GB0007", "GB0059", "GB0107", "GB0117", "GB0150", "GB0155", "GB0157", "GB0193", "GB0208",
        "GB0225", "GB0241", "GB0242", "GB0245", "GB0033", "internal-error",
    )  # fmt: skip
    examples = tuple(
        Example(_source(before), _source(after), at=before, facts=_FACTS, code=code, title=title)
        for title, code, before, after in (
            ("a scaled sum", "GB0117", "a.add_(k, m)", "a.add_(m, alpha=k)"),
            ("a function", "GB0117", "torch.add(a, 2, m)", "torch.add(a, m, alpha=2)"),
            ("a product", "GB0117", "a.addcmul_(0.1, m, x)", "a.addcmul_(m, x, value=0.1)"),
            (
                "a product of matrices",
                "GB0117",
                "torch.addmm(1, a, k, m, x)",
                "torch.addmm(a, m, x, beta=1, alpha=k)",
            ),
            (
                "whether `torch.jit` traces",
                "GB0208",
                "torch._C._is_tracing()",
                "torch.jit.is_tracing()",
            ),
            (
                "the device on which new tensors lie",
                "GB0208",
                "torch.get_default_device()",
                "torch.empty(0).device",
            ),
            (
                "the type of an element",
                "GB0007",
                "torch.jit.isinstance(a, torch.Tensor)",
                "isinstance(a, torch.Tensor)",
            ),
            (
                "the types of a list",
                "GB0007",
                "if torch.jit.isinstance(xs, list[str]): pass",
                "if isinstance(xs, list) and all(isinstance(item, str) for item in xs): pass",
            ),
            (
                "a loss",
                "GB0208",
                "nn.MSELoss(size_average=False)",
                'nn.MSELoss(reduction="sum")',
            ),
            (
                "a loss for each element",
                "GB0208",
                "nn.functional.l1_loss(a, m, reduce=False)",
                'nn.functional.l1_loss(a, m, reduction="none")',
            ),
            (
                "a loss, by a flag",
                "GB0208",
                "nn.MSELoss(flag)",
                'nn.MSELoss(reduction="mean" if flag is None or flag else "sum")',
            ),
            (
                "a loss, by a flag that may be None",
                "GB0208",
                'nn.MSELoss(size_average=flag, reduction="sum")',
                'nn.MSELoss(reduction="sum" if flag is None else "mean" if flag else "sum")',
            ),
            (
                "limits of a type",
                "GB0157",
                "np.finfo(torch.tensor(0, dtype=a.dtype).numpy().dtype)",
                "torch.finfo(a.dtype)",
            ),
            (
                "axes",
                "GB0059",
                "sorted(np.unique(axes).astype(int))",
                "sorted(sorted({int(number) for number in axes}))",
            ),
            (
                "axes that are summed over",
                "GB0059",
                "return [x.sum(axis) for axis in np.unique(axes)]",
                "return [x.sum(axis) for axis in sorted(set(axes))]",
            ),
            (
                "a number and a tensor as bounds",
                "GB0033",
                "torch.clamp(a, -1, cell)",
                "torch.clamp(torch.clamp(a, min=-1), max=cell.detach())",
            ),
            (
                "bounds of a method",
                "internal-error",
                "a.clamp_(cell, k)",
                "a.clamp_(min=cell.detach()).clamp_(max=k)",
            ),
            ("a size as text", "GB0059", "key = str(a.size())", 'key = f"{a.size()}"'),
            ("a shape as text", "GB0059", "known[str(a.shape)] = k", 'known[f"{a.shape}"] = k'),
            (
                "a leaf",
                "GB0225",
                "torch.zeros(3, requires_grad=True, dtype=a.dtype)",
                "torch.zeros(3, dtype=a.dtype).requires_grad_()",
            ),
            (
                "random integers",
                "GB0107",
                "torch.empty_like(a).random_(0, 10)",
                "torch.randint_like(torch.empty_like(a), 0, 10)",
            ),
            (
                "random integers in place",
                "GB0107",
                "a.random_(10)",
                "a.copy_(torch.randint_like(a, 10))",
            ),
            (
                "an output",
                "GB0242",
                "torch.add(a, 1, out=m)",
                "new = torch.add(a, 1)\n    if m.shape != new.shape:\n"
                "        m.resize_(new.shape)\n    m.copy_(new)",
            ),
            (
                "an output that is read",
                "GB0242",
                "return torch.add(a, 1, out=m)",
                "return m.copy_(torch.add(a, 1))",
            ),
            (
                "two outputs",
                "GB0241",
                "torch.max(x, 0, out=[a, m])",
                "for kept, new in zip([a, m], torch.max(x, 0)):\n"
                "        if kept.shape != new.shape:\n"
                "            kept.resize_(new.shape)\n        kept.copy_(new)",
            ),
            (
                "groups",
                "GB0155",
                "groups = itertools.groupby(iterable=xs, key=len)",
                "groups = itertools.groupby(xs, key=len)",
            ),
            (
                "rows of one length",
                "GB0245",
                "torch.nested.nested_tensor(x, layout=torch.jagged)",
                "torch.nested.as_nested_tensor(x.detach().clone(), layout=torch.jagged)",
            ),
            (
                "a place in a list",
                "GB0007",
                "return x * bisect_right(axes, i)",
                "return x * sum(not i < item for item in axes)",
            ),
            (
                "an attribute of a number",
                "GB0150",
                'if hasattr(i, "item"): return x',
                'if type(i) not in (int, float) and hasattr(i, "item"): return x',
            ),
            (
                "the longest",
                "GB0193",
                "max(xs, key=lambda t: t.numel())",
                "sorted(xs, key=lambda t: t.numel(), reverse=True)[0]",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(text), at=text, why=why, facts=_FACTS, code=code)
        for text, code, why in (
            ("a.add_(m)", "GB0117", "as it should be"),
            ("a.add_(k, xs)", "GB0117", "not seen to be a tensor"),
            ("nn.MSELoss(size_average=k)", "GB0208", "a flag that is no literal"),
            ("a.random_()", "GB0107", "the whole range of its dtype"),
            ("a.random_(0, 10, generator=xs)", "GB0107", "another stream"),
            ("a.random_(xs)", "GB0107", "a bound that is no number"),
            ("xs[0].random_(10)", "GB0107", "not seen to be a tensor"),
            ("torch.add(a, 1, out=xs)", "GB0242", "not seen to be a tensor"),
            ("torch.add(h, 1, out=m)", "GB0242", "rounds to another dtype"),
            ("torch.sum(a, 0, out=m)", "GB0242", "adds up in the dtype of the output"),
            ("y = torch.max(x, 0, out=[a, m])", "GB0241", "what it gives back is read"),
            ("itertools.groupby(key=len)", "GB0155", "nothing to group"),
            ("torch.nested.nested_tensor(xs, layout=torch.jagged)", "GB0245", "a list"),
            ("torch.nested.nested_tensor(x)", "GB0245", "strided"),
            ("min(xs, key=len, default=3)", "GB0193", "nothing at all has an answer"),
            ("sorted = x.sort; min(xs, key=len)", "GB0193", "another `sorted`"),
            ("a.add_(k.rate(), m.noise())", "GB0117", "calls that would change places"),
            ("a.add_(m.rate, m.noise())", "GB0117", "what a call may change"),
            ("torch.jit.isinstance(xs, dict[str, int])", "GB0007", "keys and values"),
            ("torch.jit.isinstance(xs, m.kind)", "GB0007", "a type that is not known"),
            ("[1 / axis for axis in np.unique(axes)]", "GB0059", "numbers that divide"),
            ("str(a.size(0))", "GB0059", "a number"),
            ("bisect_right(axes, i, 1)", "GB0007", "a part of the list"),
            ("bisect_right(xs, i)", "GB0007", "items that may be no numbers"),
            ("bisect_right(axes, next(i))", "GB0007", "asked for each item"),
            ('hasattr(i, "real")', "GB0150", "numbers have it"),
            ('hasattr(xs, "item")', "GB0150", "no number"),
            ("torch.clamp(a, 0, m)", "GB0033", "a bound for each element"),
            ("torch.clamp(a, cell, cell)", "GB0033", "two tensors, which are not read"),
            ("torch.clamp(a, 0, 1)", "GB0033", "two numbers"),
            ("str(xs.shape)", "GB0059", "not seen to be a tensor"),
            ("f'{str(a.shape)}'", "GB0059", "inside of a text with places"),
            (
                "np.finfo(torch.tensor(0, dtype=a.dtype).numpy().dtype).min * k",
                "GB0157",
                "a limit that is calculated with",
            ),
            (
                "try:\n        return min(xs, key=len)\n    except ValueError:\n        return k",
                "GB0193",
                "the error of nothing at all is handled",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        splice = Splice(site)
        forms = dict(_forms(site, site.function or site.statement, splice))
        near = {site.node, *site.ancestors(site.node), *walk(site.statement)}
        if not any(call in near or _is_read(site, call) for call in forms):
            return
        for call, form in forms.items():
            if not any(call is not other and call in set(walk(other)) for other in forms):
                splice.replace(call, form.text)
        notes = [note for form in forms.values() for note in form.notes]
        if any(form.quiet for form in forms.values()):
            notes.append(_WARNS)
        first = next(iter(forms))
        yield splice.rewrite(
            f"write `{splice.source_of(first.func)}` in a form that is traced",
            rank=10,
            notes=tuple(dict.fromkeys(notes)),
            safety=Safety.UNSAFE if any(form.unsafe for form in forms.values()) else Safety.SAFE,
            # The form gives the very answer that the call gave, whichever branch that takes.
            assumes=["same-questions"] if all(form.answers for form in forms.values()) else [],
        )


def _is_read(site: Site, call: cst.Call) -> bool:
    """Whether the call's value has a name, of which the break's statement speaks."""
    holder = site.parent(call)
    if not isinstance(holder, cst.Assign):
        return False
    names = {part.target.value for part in holder.targets if isinstance(part.target, cst.Name)}
    return any(isinstance(n, cst.Name) and n.value in names for n in walk(site.statement))


def _forms(site: Site, block: cst.CSTNode, splice: Splice) -> Iterator[tuple[cst.Call, Form]]:
    for node in walk(block):
        if not isinstance(node, cst.Call) or comments_in(node):
            continue
        for row in TABLE.get(site.code, ()):
            form = row(site, node, splice)
            if form is not None:
                yield node, form
                break
