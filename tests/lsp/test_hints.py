"""Static hints: what they find in the corpus, what they leave alone, and across files."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

import pytest

from gbfix.lsp.hints import Hint, hints
from gbfix.lsp.index import Index
from gbfix.lsp.syntax import Parsed

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))

#: What the syntax tree does not tell: C functions, numpy's kinds, iterators, values' later use.
NOT_SEEN = {
    "GB0124/windows-normed-up-to-their-end",  # a tensor that bounds a slice
    "GB4841/message-with-statistics",  # a layer in a Sequential, which is what is compiled
    "GB0170/numpy-truth-in-a-layer",  # what an attribute is made of is another question
    "GB0170/text-up-to-its-own-width",
    "GB0170/state-by-its-parameter",
    "GB0170/turned-by-its-own-generator",
    "GB0007/progress-bar-of-a-loop",  # a bar of a library, whose loop may do without
    "GB0291/logger-passed-in",  # the text does not tell that a parameter is a logger
    "GB0291/adapter-of-a-logger",
    "GB0007/kind-of-machine-in-an-enum",  # a question to the machine, of many
    "GB0007/rate-by-milestones",  # an object of the module, whose method looks a number up
    "GB0059/head-of-a-task",  # a number that varies between calls, no text tells
    "GB0124/leaves-when-not-finite",  # what the model that the step calls gives, no text tells
    "GB0124/kept-by-a-base-class",  # a base class reads what it is given
    "GB0124/limit-that-a-property-gives",  # a property that the region reads
    "GB0124/ratio-of-norms",  # a method of an object that the script makes
    "GB0124/place-of-a-crossover",  # a tensor that bounds a slice
    "GB0124/words-about-padding",  # `in` of a tensor, which reads it
    "GB0170/counts-where-labelled",  # a count that is a number or a tensor
    "GB0124/rows-rolled-by-their-delays",  # an element of what `topk` gives
    "GB0007/flag-set-by-chance",  # a draw in training alone
    "GB0007/found-out-once",  # what a cached helper of a helper starts
    "GB0170/model-that-a-writer-is-given",  # what the given model returns, no text tells
    "GB0291/a-warning-said-once-for-all",  # a cached helper logs
    "GB4198/objects-that-hold-tensors",  # what the copied object holds, no text tells
    "GB0170/a-hook-that-projects",  # a hook, and a method of what it finds in a table
    "GB0124/sizes-of-steps-by-a-hook",  # a hook that a call registers
    "GB0170/best-path-in-its-own-memory",  # numbers of numpy's view
    "GB0170/merged-runs-with-a-gradient",  # numbers of numpy's view, in a class's forward
    "GB0007/a-tensor-for-each-row",  # the text of a number comes first
    "GB0170/warns-of-what-never-comes",  # a helper tells whether there is a NaN
    "GB0170/several-sequences-in-a-row",  # a parameter, None unless it is given
    "GB4198/deepcopy-of-a-state",  # what the copied object holds, no text tells
    "GB0170/rows-sorted-by-expert",  # an array tells how many rows there are
    "GB0007/list-of-tensors-or-one",
    "GB0124/experts-beside-another-region",
    "GB0124/rows-into-a-cache",
    "GB0170/layers-left-out-by-python",
    "GB0170/scale-from-a-helper",
    "GB0007/draws-of-one-stream",
    "GB0007/hashes-in-an-array",
    "GB0170/length-of-a-padded-signal",
    "GB0170/newton-of-a-hundred-rounds",
    "GB0059/grid-by-size",
    "GB0124/rank-of-a-product",
    "GB0124/recorder-of-a-module",
    "GB0170/root-of-what-counts",
    "GB0170/steps-in-a-list",
    "GB0170/returns-to-go",
    "GB0170/ternary-in-a-dict",
    "GB4841/names-of-a-parameter",
    "GB0124/flag-in-an-entry",
    "GB0124/penalty-for-each-time",
    "GB0007/config-read-in-each-call",
    "GB0007/graph-components",
    "GB0007/import-by-name",
    "GB0007/method-split",
    "GB0007/saved-inside-a-with",
    "GB0007/size-of-a-record",
    "GB0124/arange-in-a-loop",
    "GB0124/running-total",
    "GB0124/sizes-made-of-a-list",
    "GB0124/rows-copied-up-to-their-length",
    "GB0170/experts-that-take-their-rows",
    "GB0170/match-guard",
    "GB0170/stop-token",
    "GB0291/logger-named-after-its-class",
    "GB0291/logger-of-the-object",
    "GB0156/c-function",
    "GB0156/pointer-kernel",
    "GB0170/blocks-between-special-tokens",
    "GB0170/all-below",
    "GB0170/any-of-a-list",
    "GB0124/layer-by-number",
    "GB0170/any-of-a-row",
    "GB0170/checks-in-a-constructor",
    "GB0170/constant-of-the-module",
    "GB0170/inside-a-decorator",
    "GB0170/lambda-flips",
    "GB0170/match-a-tensor",
    "GB0170/token-among-stops",
    "GB0170/while-appends",
    "GB0170/labels-out-of-range",
    "GB0170/numpy-number-from-a-helper",
    "GB0170/numpy-of-a-size",
    "GB0208/numpy-maximum",
    "GB0294/numpy-unwrap",
    "GB0294/unwrap-of-rows",
    "GB0811/zip-object",
    "GB4315/incorrect-code",
    "GB4347/iterator-used-afterwards",
    "GB4347/list-iterator",
    "data-dependent-guard/item-decides",
}


#: The fix is an option, reads the tensor in some calls only, or moves the break out of what is
#: compiled in a way that is not followed.
STILL_HINTED = {
    "GB0170/codebook-made-of-the-first-batch",  # the same code, as an operator's
    "GB0170/bent-inside-a-domain",  # the same code, as a plain function
    "GB0036/apart-by-their-labels",  # inside of an operator
    "GB0036/spread-of-the-classes",  # the same code, as a plain function
    "GB0170/told-before-it-returns",  # the same code, where a gradient goes through it
    "GB0124/mask-as-wide-as-the-longest",
    "GB0124/mask-from-a-helper",
    "GB0124/mask-of-a-square",
    "GB0124/mask-up-to-a-cut",
    "GB0170/centres-until-they-stay",  # the same code, as a plain function
    "GB0170/errors-in-their-order",  # the same code, as a plain function
    "GB0170/gain-by-chance",  # the same code, as a plain function
    "GB0170/diverged-while-training",
    "GB0124/numbers-for-a-logger",
    "GB0059/tensor-as-text",
    "GB0124/clamp-by-number",
    "GB0124/length-of-the-longest",
    "GB0124/losses-of-all-rounds",
    "GB0036/where-the-mask-holds",
    "GB0124/rows-pooled-in-a-way",
    "GB0124/running-total",
    "GB0124/sizes-made-of-a-list",
    "GB0170/churn-of-a-sampler",
    "GB0170/layer-drop",
    "GB0170/match-guard",
}


def found_in(text: str, folder: Path, name: str = "program.py") -> list[Hint]:
    index = Index()
    index.set_roots([str(folder)])
    index.scan()
    parsed = Parsed.of(text)
    assert parsed is not None
    path = str(folder / name)
    index.put(path, parsed)
    return hints(path, parsed, text.split("\n"), index)


def of(text: str, folder: Path) -> list[tuple[str, int]]:
    text = textwrap.dedent(text).lstrip("\n")
    return [(hint.code, hint.span.line) for hint in found_in(text, folder)]


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_corpus_breaks_are_hinted_at_and_its_fixes_are_not(case: Path, tmp_path: Path) -> None:
    code = tomllib.loads((case / "case.toml").read_text()).get("code")
    before = case / "before.py"
    if not before.is_file() or code is None:
        pytest.skip("no single program")
    codes = [hint.code for hint in found_in(before.read_text(), tmp_path)]
    name = f"{case.parent.name}/{case.name}"
    if name not in NOT_SEEN and code in _HINTED:
        assert code in codes
    after = case / "after.py"
    if after.is_file() and name not in STILL_HINTED:
        left = [hint.code for hint in found_in(after.read_text(), tmp_path)]
        assert code not in left or left.count(code) < codes.count(code)


#: Codes for which there are rules; the corpus has others, and will have more.
_HINTED = {
    "GB0007", "GB0014", "GB0025", "GB0059", "GB0124", "GB0170", "GB0291", "GB4198", "GB4297",
    "GB4841",
}  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "if x is None:\n    return x",
        "if x.shape[0] > 2:\n    return x",
        "if x.dim() == 2 and x.size(0) > 1:\n    return x",
        "if isinstance(x, torch.Tensor):\n    return x",
        "if x.dtype == torch.float16:\n    return x",
        "if x.requires_grad:\n    return x",
        "if len(x) > 2:\n    return x",
        "if flag:\n    return x",
        "if count > 2:\n    return x",
        "if torch.is_grad_enabled():\n    return x",
        "assert x.sum() > 0",
        "x[x > 0] = 0",
        "y = torch.where(x > 0, x, 0)",
        "y = x.numpy()",
        "n = x.shape\nif n[0]:\n    return x",
        "y = max(x[0], x[1])",
        "x = 3\nif x > 2:\n    return x",
        "item = {}\nitem.item()",
        "open = len\nopen(x)",
    ],
)
def test_what_compiles_gets_no_hint(body: str, tmp_path: Path) -> None:
    text = (
        "import torch\n\n@torch.compile\ndef f(x, count: int, flag=True):\n"
        + textwrap.indent(body, "    ")
        + "\n    return x\n"
    )
    assert found_in(text, tmp_path) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("if x.sum() > 0:\n    return x", "GB0170"),
        ("while x.any():\n    x = x - 1", "GB0170"),
        ("y = 1 if x.max() > 1 else 2", "GB0170"),
        ("y = [v for v in x if v > 0]", "GB0170"),
        ("if not x.any():\n    return x", "GB0170"),
        ("y = x > 0 and x < 1", "GB0170"),
        ("y = float(x[0])", "GB0124"),
        ("y = x.tolist()", "GB0109"),
        ("y = x[x > 0]", "GB0036"),
        ("y = x.nonzero()", "GB0036"),
        ("y = torch.where(x > 0)", "GB0036"),
        ("y = torch.equal(x, x)", "GB0033"),
        ("import time\ny = time.time()", "GB0007"),
        ("y = str(x + torch.ones(3))", "GB0059"),
    ],
)
def test_what_breaks_gets_a_hint(body: str, code: str, tmp_path: Path) -> None:
    text = "import torch\n\n@torch.compile\ndef f(x):\n" + textwrap.indent(body, "    ")
    assert [hint.code for hint in found_in(text + "\n    return x\n", tmp_path)] == [code]


def test_code_that_is_in_no_region_gets_no_hint(tmp_path: Path) -> None:
    assert of("import torch\n\ndef f(x: torch.Tensor):\n    if x.sum():\n        print(x)\n",
              tmp_path) == []  # fmt: skip


@pytest.mark.parametrize(
    "compiled",
    [
        "g = torch.compile(f)",
        "g = torch.compile(f, fullgraph=True)",
        "from functools import partial\n@partial(torch.compile, dynamic=True)\ndef h(x):\n"
        "    return f(x)",
        "class M(torch.nn.Module):\n    def forward(self, x):\n        return f(x)\n"
        "m = torch.compile(M().eval())",
        "class M(torch.nn.Module):\n    def forward(self, x):\n        return f(x)\n"
        "m = M()\nm.compile()",
        "class Base(torch.nn.Module):\n    def forward(self, x):\n        return f(x)\n"
        "class M(Base):\n    pass\nm = torch.compile(M())",
        "class Inner(torch.nn.Module):\n    def forward(self, x):\n        return f(x)\n"
        "class M(torch.nn.Module):\n    def __init__(self):\n        self.inner = Inner()\n"
        "    def forward(self, x):\n        return self.inner(x)\nm = torch.compile(M())",
    ],
)
def test_regions_are_found_however_they_are_compiled(compiled: str, tmp_path: Path) -> None:
    text = f"import torch\n\ndef f(x: torch.Tensor):\n    print(x)\n    return x\n\n{compiled}\n"
    assert ("GB0059", 4) in of(text, tmp_path)


@pytest.mark.parametrize(
    "wall", ["torch.compiler.disable", 'torch.library.custom_op("a::b", mutates_args=())',
             "torch._dynamo.nonstrict_trace"],
)  # fmt: skip
def test_what_the_compiler_does_not_look_into_gets_no_hint(wall: str, tmp_path: Path) -> None:
    found = of(
        f"""
        import torch

        @{wall}
        def inner(x):
            print(x)
            return x

        @torch.compile
        def f(x):
            return inner(x)
        """,
        tmp_path,
    )
    assert found == ([("GB0098", 10)] if wall.endswith("disable") else [])


def test_reachability_crosses_files(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from .blocks import Block\n")
    (tmp_path / "package" / "blocks.py").write_text(
        "from .helpers import log\n\nclass Block:\n    def forward(self, x):\n        log(x)\n"
    )
    helpers = "def log(x):\n    print(x)\n"
    (tmp_path / "package" / "helpers.py").write_text(helpers)
    (tmp_path / "train.py").write_text(
        "import torch\nfrom package import Block\nstep = torch.compile(Block())\n"
    )
    (found,) = found_in(helpers, tmp_path, "package/helpers.py")
    assert (found.code, found.region("helpers.py")) == ("GB0059", "blocks.py::Block.forward")


def test_an_edit_of_the_caller_changes_what_is_reached(tmp_path: Path) -> None:
    helpers = "def log(x):\n    print(x)\n"
    (tmp_path / "helpers.py").write_text(helpers)
    index = Index()
    index.set_roots([str(tmp_path)])
    caller = "import torch\nfrom helpers import log\n\n@torch.compile\ndef f(x):\n    {}\n"
    key = (str(tmp_path / "helpers.py"), "log")
    for body, reached in (("log(x)", True), ("return x", False), ("log(x)", True)):
        parsed = Parsed.of(caller.format(body))
        assert parsed is not None
        index.put(str(tmp_path / "train.py"), parsed)
        assert (key in index.reached()) is reached


def test_environments_and_caches_are_not_searched(tmp_path: Path) -> None:
    program = "import torch\n\n@torch.compile\ndef f(x):\n    print(x)\n"
    for folder in (".venv/lib", "env", "node_modules", "__pycache__", "own"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text(program)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    index = Index()
    index.set_roots([str(tmp_path)])
    assert index.scan() == 1
    assert [path for path, _ in index.reached()] == [str(tmp_path / "own" / "a.py")]


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 500])
def test_text_that_is_no_program_gives_nothing(text: str, tmp_path: Path) -> None:
    index = Index()
    parsed = Parsed.of(text)
    if parsed is not None:
        index.put(str(tmp_path / "a.py"), parsed)
    (tmp_path / "b.py").write_text(text)
    assert index.summary(str(tmp_path / "b.py")) is None or parsed is not None


def test_a_byte_order_mark_is_no_error() -> None:
    assert Parsed.of("\ufeffimport torch\n") is not None


def test_recursive_calls_and_imports_come_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import g\ndef f(x):\n    return g(x)\n")
    (tmp_path / "b.py").write_text(
        "import torch\nfrom a import f\nfrom b import h\ndef g(x):\n    f(x)\n    g(x)\n    h(x)\n"
        "class A(B):\n    pass\nclass B(A):\n    pass\n"
        "k = torch.compile(g)\nm = torch.compile(A())\n"
    )
    index = Index()
    index.set_roots([str(tmp_path)])
    index.scan()
    assert {name for _, name in index.reached()} == {"f", "g"}


def test_spans_count_characters_where_the_tree_counts_bytes(tmp_path: Path) -> None:
    text = 'import torch\n\n@torch.compile\ndef f(x):\n    y = "é🔥"; print(x)\n'
    (found,) = found_in(text, tmp_path)
    assert text.split("\n")[4][found.span.column : found.span.end_column] == "print(x)"


def test_a_function_that_is_passed_over_is_not_hinted_at_but_its_parts_are(tmp_path: Path) -> None:
    source = """
        import torch


        class Net(torch.nn.Module):
            @torch.compiler.disable(recursive=False)
            def forward(self, x: torch.Tensor):
                print(x)
                return self.forward_after(x)

            def forward_after(self, x: torch.Tensor):
                print(x)
                return x * 2


        net = torch.compile(Net())
    """
    assert of(source, tmp_path) == [("GB0059", 11)]


@pytest.mark.parametrize(
    ("test", "hinted"),
    [
        ("not torch.compiler.is_compiling()", False),
        ("torch.compiler.is_compiling()", True),
        ("flag or not torch.compiler.is_compiling()", True),
    ],
)
def test_what_only_eager_runs_is_not_hinted_at(test: str, hinted: bool, tmp_path: Path) -> None:
    text = f"""
        import torch

        @torch.compile
        def f(x: torch.Tensor, flag: bool):
            if {test}:
                print(x)
            return x
    """
    assert bool(of(text, tmp_path)) is hinted
