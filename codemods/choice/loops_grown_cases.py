"""Examples and near misses of `loop-to-bound`: texts that are written until a word ends them."""

from __future__ import annotations

import textwrap

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_WORD = "torch.int64"
_FACTS = {
    "x": tensor(2, 4),
    "ids": tensor(2, None, dtype=_WORD),
    "word": tensor(2, dtype=_WORD),
    "column": tensor(2, 1, dtype=_WORD),
    "both": tensor(2, 2, dtype=_WORD),
    "score": tensor(2),
    "x + i": tensor(2, 4),
    "ids.sum(1)": tensor(2, dtype=_WORD),
    "ids.sum(1) + i": tensor(2, dtype=_WORD),
    "(ids.sum(1) + i).unsqueeze(1)": tensor(2, 1, dtype=_WORD),
    "n": scalar(6),
    "x + 1": tensor(2, 4),
    "words[-1]": tensor(2, dtype=_WORD),
    "words[-1][:, None]": tensor(2, 1, dtype=_WORD),
    "x + words[-1][:, None]": tensor(2, 4),
    "torch.stack(words[1:])": tensor(None, 2, dtype=_WORD),
    "words": Fact("list", "list", items=()),
    "scores": Fact("list", "list", items=()),
    "torch.stack(words, 1)": tensor(2, None, dtype=_WORD),
    "(word == 3).all()": tensor(dtype="torch.bool"),
    "ended": tensor(dtype="torch.bool"),
    "(column == 3).all()": tensor(dtype="torch.bool"),
    "word.unsqueeze(1)": tensor(2, 1, dtype=_WORD),
    "word[:, None]": tensor(2, 1, dtype=_WORD),
}
_TEST = "(word == 3).all()"


def _source(body: str) -> str:
    return "import torch\n\n\ndef f(x, ids, n):\n" + textwrap.indent(body, "    ")


def _after(body: str) -> str:
    option = "torch._dynamo.config.capture_scalar_outputs = True"
    return f"import torch\n\n{option}\n\n\ndef f(x, ids, n):\n" + textwrap.indent(body, "    ")


_STEP = "    score, word = (x + i).max(1)\n"
_ENDS = f"    if {_TEST}:\n        break\n"
_DONE = f"    done = done | {_TEST}\n"
_LAYOUT = "memory_format=torch.contiguous_format"
_FLAG = "torch.logical_not(done)"


def _whiled(begins: str, test: str, adds: str = "    words.append(word)\n", made: str = "") -> str:
    """A ``while`` that Python ends where its list is long enough."""
    return _source(
        f"{begins}\n{made.strip()}\nwhile {test}:\n{_SCORE}{adds}{_ENDS}"
        "return torch.stack(words, dim=1)\n"
    )


_SCORE = "    score, word = (x + 1).max(1)\n"
_NO = "done = torch.tensor(False, device=ids.device)\n"


def _flagged(first: str, head: str, kept: str, last: str = "") -> str:
    return (
        f"{first}{head}{_SCORE}    ids = torch.cat([ids, word[:, None]], dim=-1)\n{kept}"
        f"    ended = {_TEST}\n{last}return ids\n"
    )


GROWN_EXAMPLES = (
    Example(
        title="a list with a first word, until it is long enough",
        before=_source(
            "words = [word]\n"
            "while len(words) < n:\n"
            f"{_STEP.replace('i', 'words[-1][:, None]')}"
            "    words.append(word)\n"
            f"{_ENDS}"
            "return torch.stack(words, dim=1), torch.stack(words[1:])\n"
        ),
        after=_after(
            "words = [word]\n"
            "words_kept = []\n"
            "done = torch.tensor(False, device=x.device)\n"
            "while len(words) < n:\n"
            "    score, word = (x + words[-1][:, None]).max(1)\n"
            "    words.append(torch.where(done, words[-1], word))\n"
            f"    words_kept.append({_FLAG})\n"
            "    done = done | (word == 3).all()\n"
            "if words_kept:\n"
            "    words_count = torch.stack(words_kept).sum().item()\n"
            "    torch._check(words_count >= 1)\n"
            "else:\n"
            "    words_count = 0\n"
            f"return torch.stack(words, dim=1).narrow(1, 0, words_count + 1).clone({_LAYOUT}),"
            f" torch.stack(words[1:]).narrow(0, 0, words_count).clone({_LAYOUT})\n"
        ),
        at=_TEST,
        facts=_FACTS,
    ),
    Example(
        title="two lists, of which Python asks the length",
        before=_source(
            "words, scores = [], []\n"
            "while True:\n"
            f"{_SCORE}"
            "    words += [word]\n"
            "    scores += [score]\n"
            f"{_ENDS}"
            "    elif len(words) >= n:\n        break\n"
            "return torch.stack(words, dim=1), torch.stack(scores)\n"
        ),
        after=_after(
            "words, scores = [], []\n"
            "words_kept = []\n"
            "done = torch.tensor(False, device=x.device)\n"
            "while True:\n"
            "    score, word = (x + 1).max(1)\n"
            "    words.append(word)\n"
            f"    words_kept.append({_FLAG})\n"
            "    scores.append(score)\n"
            "    done = done | (word == 3).all()\n"
            "    if len(words) >= n:\n"
            "        break\n"
            "words_count = torch.stack(words_kept).sum().item()\n"
            "torch._check(words_count >= 1)\n"
            f"return torch.stack(words, dim=1).narrow(1, 0, words_count).clone({_LAYOUT}),"
            f" torch.stack(scores).narrow(0, 0, words_count).clone({_LAYOUT})\n"
        ),
        at=_TEST,
        facts=_FACTS,
    ),
    Example(
        title="data and Python in one test",
        before=_source(
            "words = []\n"
            "while not (x > 3).all() and len(words) < n:\n"
            f"{_SCORE}"
            "    x = x + score[:, None]\n"
            "    words.append(word)\n"
            "return torch.stack(words, dim=1)\n"
        ),
        after=_after(
            "words = []\n"
            "words_kept = []\n"
            "done = torch.tensor(False, device=x.device)\n"
            "while len(words) < n:\n"
            "    done = done | (x > 3).all()\n"
            "    score, word = (x + 1).max(1)\n"
            "    x = torch.where(done, x, x + score[:, None])\n"
            "    words.append(word)\n"
            f"    words_kept.append({_FLAG})\n"
            "if words_kept:\n"
            "    words_count = torch.stack(words_kept).sum().item()\n"
            "    torch._check(words_count >= 1)\n"
            f"return torch.stack(words, dim=1).narrow(1, 0, words_count).clone({_LAYOUT})\n"
        ),
        at="not (x > 3).all() and len(words) < n",
        facts={
            **_FACTS,
            "(x > 3).all()": tensor(dtype="torch.bool"),
            "score[:, None]": tensor(2, 1),
            "x + score[:, None]": tensor(2, 4),
        },
    ),
    Example(
        title="words until the end",
        before=_source(
            "words = []\n"
            "for i in range(6):\n"
            f"{_STEP}"
            "    words.append(word)\n"
            f"{_ENDS}"
            "return torch.stack(words, dim=1)\n"
        ),
        after=_after(
            "words = []\n"
            "words_kept = []\n"
            "done = torch.tensor(False, device=x.device)\n"
            "for i in range(6):\n"
            f"{_STEP}"
            "    words.append(word)\n"
            f"    words_kept.append({_FLAG})\n"
            f"{_DONE}"
            "words_count = torch.stack(words_kept).sum().item()\n"
            "torch._check(words_count >= 1)\n"
            f"return torch.stack(words, dim=1).narrow(1, 0, words_count).clone({_LAYOUT})\n"
        ),
        at=_TEST,
        facts=_FACTS,
    ),
    Example(
        title="words and their scores, as long as each other",
        before=_source(
            "words, scores = [], []\n"
            "for i in range(6):\n"
            f"{_STEP}"
            "    words.append(word.unsqueeze(1))\n"
            "    scores.append(score)\n"
            f"{_ENDS}"
            "scores = torch.stack(scores, 1)\n"
            "return torch.cat(words, dim=1), scores\n"
        ),
        after=_after(
            "words, scores = [], []\n"
            "words_kept = []\n"
            "done = torch.tensor(False, device=x.device)\n"
            "for i in range(6):\n"
            f"{_STEP}"
            "    words.append(word.unsqueeze(1))\n"
            f"    words_kept.append({_FLAG})\n"
            "    scores.append(score)\n"
            f"{_DONE}"
            "words_count = torch.stack(words_kept).sum().item()\n"
            "torch._check(words_count >= 1)\n"
            f"scores = torch.stack(scores, 1).narrow(1, 0, words_count).clone({_LAYOUT})\n"
            f"return torch.cat(words, dim=1).narrow(1, 0, words_count).clone({_LAYOUT}), scores\n"
        ),
        at=_TEST,
        facts=_FACTS,
    ),
    Example(
        title="a text that grows, and may end before the first word",
        before=_source(
            "for i in range(n):\n"
            "    column = (ids.sum(1) + i).unsqueeze(1)\n"
            "    if (column == 3).all():\n"
            "        break\n"
            "    ids = torch.cat([ids, column], dim=1)\n"
            "return ids\n"
        ),
        after=_after(
            "ids_kept = []\n"
            "ids_start = ids.shape[1]\n"
            "done = torch.tensor(False, device=ids.device)\n"
            "for i in range(n):\n"
            "    column = (ids.sum(1) + i).unsqueeze(1)\n"
            "    done = done | (column == 3).all()\n"
            "    ids = torch.cat([ids, column], dim=1)\n"
            f"    ids_kept.append({_FLAG})\n"
            "if ids_kept:\n"
            "    ids_count = torch.stack(ids_kept).sum().item()\n"
            "    torch._check(ids_count >= 0)\n"
            f"    ids = ids.narrow(1, 0, ids_start + ids_count).clone({_LAYOUT})\n"
            "return ids\n"
        ),
        at="(column == 3).all()",
        facts=_FACTS,
    ),
    Example(
        title="until the tensor is wide enough",
        before=_source(
            "while ids.shape[1] < n:\n"
            f"{_SCORE}"
            "    ids = torch.cat([ids, word[:, None]], dim=-1)\n"
            f"{_ENDS}"
            "return ids\n"
        ),
        after=_after(
            "ids_kept = []\n"
            "ids_start = ids.shape[-1]\n"
            "done = torch.tensor(False, device=ids.device)\n"
            "while ids.shape[1] < n:\n"
            f"{_SCORE}"
            "    ids = torch.cat([ids, word[:, None]], dim=-1)\n"
            f"    ids_kept.append({_FLAG})\n"
            f"{_DONE}"
            "if ids_kept:\n"
            "    ids_count = torch.stack(ids_kept).sum().item()\n"
            "    torch._check(ids_count >= 1)\n"
            f"    ids = ids.narrow(-1, 0, ids_start + ids_count).clone({_LAYOUT})\n"
            "return ids\n"
        ),
        at=_TEST,
        facts=_FACTS,
    ),
    *(
        Example(
            title=title,
            before=_source(_flagged(first, "while not ended and ids.shape[1] < n:\n", "")),
            after=_after(
                _flagged(
                    f"{first}ids_kept = []\nids_start = ids.shape[-1]\n{_NO}",
                    "while ids.shape[1] < n:\n    done = done | ended\n",
                    f"    ids_kept.append({_FLAG})\n",
                    "if ids_kept:\n"
                    "    ids_count = torch.stack(ids_kept).sum().item()\n"
                    f"    torch._check(ids_count >= {least})\n"
                    f"    ids = ids.narrow(-1, 0, ids_start + ids_count).clone({_LAYOUT})\n",
                )
            ),
            at="not ended",
            facts=_FACTS,
        )
        for title, first, least in (
            ("a flag that lets the first round begin", "ended = torch.tensor(False)\n", 1),
            (
                "a flag that may be set before",
                "ended = torch.tensor(False)\nended.logical_or_(x.sum() > 0)\n",
                0,
            ),
        )
    ),
)


def _wide(test: str = "ids.shape[1] < n", more: str = "", join: str = "ids, word[:, None]") -> str:
    return (
        f"while {test}:\n{_SCORE}{more}    ids = torch.cat([{join}], dim=-1)\n{_ENDS}return ids\n"
    )


def _near_miss(body: str, why: str, at: str = _TEST) -> NearMiss:
    return NearMiss(_source(body), at=at, why=why, facts=_FACTS)


def _of_list(append: str, end: str, *, first: str = "", last: str = _ENDS) -> str:
    return (
        "words = []\nscores = []\nfor i in range(6):\n"
        f"{_STEP}{first}    {append}\n{last}return {end}\n"
    )


def _of_text(joined: str, why: str, more: str = "") -> NearMiss:
    return _near_miss(
        "for i in range(n):\n"
        "    score, word = (x + i).max(1)\n"
        "    column = word[:, None]\n"
        "    both = torch.cat([column, column], 1)\n"
        f"    ids = {joined}\n"
        f"{more}"
        f"{_ENDS}"
        "return ids\n",
        why,
    )


_STACKED = "torch.stack(words, 1)"

GROWN_NEAR_MISSES = (
    _near_miss(_wide("ids.shape[0] < n"), "another size ends the loop than the one that grows"),
    _near_miss(_wide("ids.shape[1] > n"), "the size moves away from the limit"),
    _near_miss(_wide("ids.shape[1] < word.shape[0]"), "the limit may move"),
    _near_miss(_wide(join="ids, both"), "a round adds two columns"),
    _near_miss(_wide(join="word[:, None], ids"), "it grows at its beginning"),
    _near_miss(_wide(more="    ids = ids[:, 1:]\n"), "what grows is cut, too"),
    _near_miss(_wide(more="    if n > 4:\n        continue\n"), "a round may add nothing"),
    _near_miss(
        _of_list("words.append(word)", _STACKED, first=_ENDS, last=""),
        "the first round may end it: there is nothing to stack",
    ),
    _near_miss(
        _of_list("words.append(word)", _STACKED, first=f"    if {_TEST}:\n        continue\n"),
        "words are left out, and not at the end",
    ),
    _near_miss(_of_list("words.append(word)", "words"), "the list itself is a result"),
    _near_miss(
        _of_list("words.append(word)", f"{_STACKED}, len(words)"),
        "its length is asked, and would be a tensor's number",
    ),
    _near_miss(
        _of_list("words.append(word)\n    words.append(word + 1)", _STACKED), "two words a round"
    ),
    _near_miss(
        _of_list("words.append(both)", "torch.cat(words, 1)"), "a round adds more than one column"
    ),
    _near_miss(
        _of_list("words.append(word)", _STACKED, first="    x = x + words[-1].sum()\n"),
        "the first round asks for a word, and there is none",
    ),
    _near_miss(
        _of_list("words.append(word)", _STACKED, first="    x = x + words[0].sum()\n"),
        "another word than the last one is read",
    ),
    NearMiss(
        _whiled("words = [word]", "len(words) < n", "    words.append(word + words[-2])\n"),
        at=_TEST,
        why="another word than the last one is read",
        facts=_FACTS,
    ),
    NearMiss(
        _whiled("words = [both]", "len(words) < n"),
        at=_TEST,
        why="what is there first is larger than what the rounds add",
        facts=_FACTS,
    ),
    NearMiss(
        _whiled("words = []", "len(scores) < n", made="    scores = []\n"),
        at=_TEST,
        why="no round adds to the list whose length ends the loop",
        facts=_FACTS,
    ),
    NearMiss(
        _whiled("words = []", "len(words) < n", "    if n > 3:\n        words.append(word)\n"),
        at=_TEST,
        why="a round may add nothing",
        facts=_FACTS,
    ),
    NearMiss(
        _whiled("words = []", "len(words) != n"),
        at=_TEST,
        why="the number may be below what the loop counts from",
        facts=_FACTS,
    ),
    NearMiss(
        _source(
            "words = [word]\n"
            "for i in range(6):\n"
            f"{_STEP}"
            "    words.append(word)\n"
            f"{_ENDS}"
            "return torch.stack(words[2:], dim=1)\n"
        ),
        at=_TEST,
        why="a word that is left out may be one that does not count",
        facts={**_FACTS, "torch.stack(words[2:], dim=1)": tensor(2, None, dtype=_WORD)},
    ),
    _near_miss(
        _of_list("words.append(word)", "torch.stack(words, dim=n)"), "which dimension is not known"
    ),
    _of_text("torch.cat([column, ids], dim=1)", "what counts does not come first"),
    _of_text("torch.cat([ids, both], dim=1)", "a round adds two columns"),
    _of_text(
        "torch.cat([ids, column], dim=1)", "the text is changed, too", "    ids = ids.clone()\n"
    ),
    NearMiss(
        _source(
            "for i in range(n):\n"
            "    hidden = torch.tanh(ids)\n"
            "    column = hidden[:, 0].long()[:, None]\n"
            "    ids = torch.cat([ids, column], dim=1)\n"
            "    if (column == 3).all():\n"
            "        break\n"
            "return ids, hidden\n"
        ),
        at="(column == 3).all()",
        why="what is made of the text grows with it",
        facts={**_FACTS, "hidden": tensor(2, 4), "torch.tanh(ids)": tensor(2, 4)},
    ),
    _of_text("torch.cat([ids, ids], dim=1)", "it is not known by how much it grows"),
)
