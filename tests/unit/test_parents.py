"""Parents of nodes, found in one pass, are those of LibCST's own provider."""

from __future__ import annotations

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider

from gbfix.analysis.tree import parents_in

_SOURCE = '''\
import torch as t  # a comment
from a import (b, c)


@t.compile
def f(x, *args, y: int = 1, **kw):
    """A docstring."""
    with t.no_grad() as g, open("p"):
        x[1:, ..., None] += [i for i in (y, *args) if i]
    try:
        return lambda z: (z if not x else -z)
    except (ValueError, TypeError) as error:
        raise error from None
    finally:
        print(f"{x!r:>{y}}", end="")
'''


def test_every_node_has_the_parent_that_libcst_gives_it() -> None:
    wrapper = MetadataWrapper(cst.parse_module(_SOURCE), unsafe_skip_copy=True)
    found = parents_in(wrapper.module)
    assert found == wrapper.resolve(ParentNodeProvider)
