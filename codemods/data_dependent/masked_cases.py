"""Examples and near misses of `masked_selection`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, tensor
from gbfix.schema import Fact

from .selections import MEAN_OF_KEPT, VAR_OF_KEPT


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    mean = f"{MEAN_OF_KEPT}\n\n" if "mean_of_kept(" in body else ""
    mean += f"{VAR_OF_KEPT}\n\n" if "var_of_kept(" in body else ""
    return (
        "import torch\nimport torch.nn.functional as F\n\n\n"
        "def bend(v, t):\n    return torch.sigmoid(t * (v - 1)) / t\n\n\n"
        f"{mean}def f(x, y, m, labels, logits):\n{body}"
    )


_FACTS: dict[str, Fact] = {
    "x": tensor(4, 3),
    "y": tensor(4, 3),
    "out": tensor(4, 3),
    "m": tensor(4, 3, dtype="torch.bool"),
    "~m": tensor(4, 3, dtype="torch.bool"),
    "labels": tensor(4, 3, dtype="torch.int64"),
    "logits": tensor(4, 3, 5),
}
_ROWS = {"m": tensor(4, dtype="torch.bool")}

EXAMPLES = tuple(
    Example(_source(*before), _source(*after), at=at, facts={**_FACTS, **facts}, title=title)
    for title, before, after, at, facts in (
        (
            "a mask and its complement",
            (
                "out = torch.empty_like(x)",
                "out[m] = bend(x[m], 1.0)",
                "out[~m] = bend(x[~m], 1.1)",
                "return out",
            ),
            ("out = torch.where(m, bend(x, 1.0), bend(x, 1.1))", "return out"),
            "x[m]",
            {},
        ),
        (
            "what is not selected has no logarithm",
            ("out = torch.zeros_like(x)", "out[m] = x[m].log()", "return out"),
            (
                "out = torch.zeros_like(x)",
                "out = torch.where(m, torch.where(m, x, 1).log(), out)",
                "return out",
            ),
            "x[m]",
            {},
        ),
        (
            "what others hold is changed in place",
            ("x[m] = y[m]", "return x"),
            ("x.copy_(torch.where(m, y, x))", "return x"),
            "y[m]",
            {},
        ),
        (
            "one row for all that is selected",
            ("x[m] += self.none.weight", "x[m] -= w", "return x"),
            (
                "x.copy_(torch.where(m[..., None], x + self.none.weight, x))",
                "x[m] -= w",
                "return x",
            ),
            "x[m]",
            {
                **_ROWS,
                "self.none.weight": Fact(
                    "tensor",
                    "torch.nn.parameter.Parameter",
                    shape=(1, 3),
                    dtype="torch.float32",
                    device="cpu",
                ),
                "w": tensor(3),
            },
        ),
        (
            "a row of a table",
            ("x[labels == 1] += table[0]", "return x"),
            (
                "x.copy_(torch.where((labels == 1)[..., None], x + table[0], x))",
                "return x",
            ),
            "x[labels == 1]",
            {
                "labels": tensor(4, dtype="torch.int64"),
                "labels == 1": tensor(4, dtype="torch.bool"),
                "table[0]": tensor(3),
            },
        ),
        (
            "a number for each row",
            ("x[m] = x[m] * 0.9 + y[m] / labels[m].unsqueeze(1)", "return x"),
            (
                "x.copy_(torch.where(m[..., None], torch.where(m[..., None], x, 1) * 0.9"
                " + torch.where(m[..., None], y, 1) / torch.where(m, labels, 1).unsqueeze(1), x))",
                "return x",
            ),
            "y[m]",
            {**_ROWS, "labels": tensor(4)},
        ),
        (
            "a test that only saves work",
            ("if m.any():", "    x = x.clone()", "    x[m] = y[m]", "return x * 2"),
            ("x = torch.where(m, y, x).to(x.dtype)", "return x * 2"),
            "m.any()",
            {"m.any()": tensor(dtype="torch.bool")},
        ),
        (
            "a mean",
            ("return x[m].mean()",),
            ("return mean_of_kept(torch.where(m, x, 0), m.sum())",),
            "x[m]",
            {},
        ),
        (
            "selections that are of one length",
            (
                "a = x[m]; b = y[m]",
                'assert len(a) == len(b), "lengths differ"',
                "return a.sum() + b.mean()",
            ),
            (
                "b = y[m]",
                "return torch.where(m, x, 0).sum() + b.mean()",
            ),
            "x[m]",
            {},
        ),
        (
            "a selection that goes back to its places",
            ("out = x.clone()", "return out.masked_scatter_(m, y[m] * 2).tanh()"),
            ("out = x.clone()", "return out.copy_(torch.where(m, y * 2, out)).tanh()"),
            "y[m]",
            {},
        ),
        (
            "a copy with a selection in its places",
            ("return x.clone().masked_scatter_(m, y[m].log()) + x.masked_scatter(m, x[m])",),
            ("return torch.where(m, torch.where(m, y, 1).log(), x) + torch.where(m, x, x)",),
            "y[m]",
            {},
        ),
        (
            "rows of two dimensions, and their variance",
            ("return x[m].sum(0) + x[m].var(0, unbiased=False)",),
            (
                "return torch.where(m[..., None], x, 0).sum((0, 1))"
                " + var_of_kept(x, m[..., None], (0, 1), 0)",
            ),
            "x[m]",
            {"x": tensor(4, 3, 2)},
        ),
        (
            "rows",
            ("return x[m].sum(0)",),
            ("return torch.where(m[..., None], x, 0).sum(0)",),
            "x[m]",
            _ROWS,
        ),
        (
            "a loss over tokens",
            ("return F.cross_entropy(logits[m], labels[m])",),
            (
                "return F.cross_entropy(torch.where(m[..., None], logits, 0).flatten(0, 1),"
                " torch.where(m, labels, -100).flatten())",
            ),
            "logits[m]",
            {},
        ),
    )
)

NEAR_MISSES = tuple(
    NearMiss(_source(*source), at=at, why=why, facts={**_FACTS, **facts})
    for source, at, why, facts in (
        (("return x[m]",), "x[m]", "the selection itself", {}),
        (("return x[m].max()",), "x[m]", "nothing has no maximum", {}),
        *(
            ((f"x[m] {sign}= w", "return x"), "x[m]", why, {**_ROWS, "w": fact})
            for sign, why, fact in (
                ("+", "a row for each that is selected: one, by chance", tensor(1, 3)),
                ("+", "another dtype, in which the sum would be", tensor(3, dtype="torch.float64")),
                ("*", "what is not selected may be infinite: no gradient", tensor(3)),
            )
        ),
        (
            ("x[m] += next_row(x)", "return x"),
            "x[m]",
            "what the call does to the others is not known",
            {**_ROWS, "next_row(x)": tensor(3)},
        ),
        (
            ("a = x[m]", "flat = x.view(-1)", "flat.mul_(2)", "return a.sum() + flat.sum()"),
            "x[m]",
            "what it selects from changes through a view before the sum",
            {"flat": tensor(3)},
        ),
        *(
            ((*lines, "return a.sum() + b.sum()"), "x[m]", why, {})
            for lines, why in (
                (("a = x[m]", "b = y[~m]", "assert len(a) == len(b)"), "other lengths"),
                (("a = x[m]", "b = y[m]", "assert len(a) == 3"), "a length that may be another"),
                (("a = x[m]", "b = y[m]", "assert len(a) != len(b)"), "it always raises"),
                (
                    ("a = x[m]", "m = ~m", "b = y[m]", "assert len(a) == len(b)"),
                    "another mask between",
                ),
                (
                    ("a = x[m]", "m.logical_not_()", "b = y[m]", "assert len(a) == len(b)"),
                    "a mask that changes between",
                ),
                (
                    ("a = x[m]", "b = y", "b = y[m]", "assert len(a) == len(b)"),
                    "a name of two values",
                ),
            )
        ),
        (
            ("return x[m].var(0, keepdim=True)",),
            "x[m]",
            "a variance that keeps its dimension",
            {"x": tensor(4, 3, 2)},
        ),
        (("return x[m].var()",), "x[m]", "a variance of all numbers", {"x": tensor(4, 3, 2)}),
        (("return x[m].softmax(0)",), "x[m]", "not element-wise", {}),
        (("x[m] = y[m].cumsum(0)", "return x"), "y[m]", "not element-wise", {}),
        (("x[m] = y[~m]", "return x"), "y[~m]", "other elements", {}),
        (
            ("x[m] = y[m] @ y.t()", "return x"),
            "y[m]",
            "a product of matrices",
            _ROWS,
        ),
        (
            ("x[m] = y[m] * labels[m].unsqueeze(1)", "return x"),
            "y[m]",
            "a mask of two dimensions flattens what it selects",
            {"labels": tensor(4, 3)},
        ),
        (
            ("x[m] = y[m] * labels[m]", "return x"),
            "y[m]",
            "a number for each row is broadcast along the other dimension",
            {**_ROWS, "labels": tensor(4)},
        ),
        (
            ("x[m] = y[m] * labels[m].unsqueeze(0)", "return x"),
            "y[m]",
            "rows become columns",
            {**_ROWS, "labels": tensor(4)},
        ),
        (("x[m] = 1 / (y[m] - 1)", "return x"), "y[m]", "infinite where 1 stands in", {}),
        *(
            ((f"x.masked_scatter_({given})", "return x"), "x.masked_scatter_", why, facts)
            for given, why, facts in (
                ("m, y", "the first elements, not those at the places", {}),
                ("m, y[~m]", "elements of other places", {}),
                ("~m, y[m]", "other places", {}),
                ("m, y[m].cumsum(0)", "a sum over what is selected", {}),
                ("m, y[m].flip(0)", "another order", {}),
                ("m, y[m]", "a mask that is repeated", {**_ROWS, "y": tensor(4)}),
                ("m, y[m]", "elements of a larger tensor", {"y": tensor(4, 3, 2)}),
                ("m, labels[m].unsqueeze(1)", "a dimension more", _ROWS),
            )
        ),
        (("return x[labels].mean()",), "x[labels]", "positions, no mask", {}),
        (("x[m] = torch.rand_like(y[m])", "return x"), "y[m]", "draws as many as are selected", {}),
        (
            ("return x[m].mean()",),
            "x[m]",
            "integers have no mean",
            {"x": tensor(4, 3, dtype="torch.int64")},
        ),
        (
            ("if m.any():", "    x[m] = y[m]", "    y = y + 1", "return x, y"),
            "m.any()",
            "more depends on the test",
            {},
        ),
        (
            ("return F.cross_entropy(logits[m], labels[m], label_smoothing=0.1)",),
            "logits[m]",
            "options are not looked at",
            {},
        ),
    )
)
