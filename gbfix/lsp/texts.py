"""Words for the reader of an editor: messages, hovers, explanations (Markdown)."""

from __future__ import annotations

from gbfix import payoff, registry
from gbfix.lsp.hints import Hint
from gbfix.lsp.measured import Measured, State
from gbfix.report import explain, plain
from gbfix.schema import BreakReport, Safety, Verdict


def measured_message(found: BreakReport, measured: Measured, state: State) -> str:
    """The message of a diagnostic: what breaks, why, and whether there is a fix."""
    cause = found.graph_break
    why = plain.first_sentence(cause.explanation or cause.message)
    text = cause.gb_type or cause.message.partition("\n")[0] or cause.code
    if why and why != text:
        text += f": {why}"
    text += f". In compiled region `{cause.region.rpartition('::')[2]}`."
    if state is State.STALE:
        return f"Stale (edited since the run): {text}"
    step = measured.step_of(found)
    if step is not None:
        text += f" Fix: {step.title} [{step.safety}]."
    elif any(True for _ in measured.unsafe_for(found)):
        text += " Only an unsafe fix is known."
    return text


def hint_message(hint: Hint, path: str) -> str:
    title = registry.Registry.load().title(hint.code) or hint.code
    return f"Likely graph break in `{hint.region(path)}`: {hint.reason} ({title}). Not run yet."


def explanation(code: str) -> str:
    """What `gbfix explain` says, as Markdown.  Raises `registry.UnknownCodeError`."""
    about = explain.explain(code)
    parts = [f"### {about['code']}: {about['title']}", about["explanation"]]
    if about["advice"]:
        parts.append(f"**What to do.** {about['advice']}")
    for head in ("before", "after"):
        if about[head]:
            parts.append(f"{head.capitalize()}:\n```python\n{about[head]}\n```")
    if about["hints"]:
        parts.append("**Torch's hints**\n" + "\n".join(f"- {hint}" for hint in about["hints"]))
    names = ", ".join(f"`{name}`" for name in about["codemods"])
    parts.append(f"Codemods that answer it: {names or 'none'}.")
    if about["url"]:
        parts.append(f"[{about['code']} on the web]({about['url']})")
    return "\n\n".join(part for part in parts if part)


def measured_hover(found: BreakReport, measured: Measured, state: State) -> str:
    """A measured break: what torch said, what was tried, what was validated."""
    cause = found.graph_break
    region = cause.region.rpartition("::")[2]
    parts = [
        f"### {cause.code}: {cause.gb_type}",
        f"Measured: breaks the graph of `{region}` ({measured.report.target}, torch "
        f"{measured.report.torch_version}).",
    ]
    if state is not State.EXACT:
        parts.append(f"*{state.value.capitalize()}; run and validate again.*")
    if cause.explanation:
        parts.append(cause.explanation)
    step = measured.step_of(found)
    if step is not None:
        parts.append(f"**Fix:** {step.title} (`{step.codemod}`), **{step.safety}**")
        parts.append(_verdict(step.verdict))
        parts += [f"*{note}*" for note in step.notes]
    for timed in measured.report.regions:
        if f"{timed.path}::{timed.name}" == cause.region and timed.payoff is not None:
            parts.append(f"**Payoff:** {payoff.sentence(timed.name, timed.payoff)}.")
    for patch in measured.unsafe_for(found):
        caveats = "; ".join((*patch.verdict.caveats, *patch.notes)) or "see the diff"
        parts.append(f"**Unsafe fix:** {patch.titles[0]}: {caveats}")
    failed = [item for item in found.attempts if not item.passed]
    if failed:
        tried = "\n".join(f"- {item.title}: {item.reason}" for item in failed)
        parts.append(f"Tried, and refused:\n{tried}")
    if found.advice:
        parts.append("**By hand.** " + "\n\n".join(found.advice))
    if found.url:
        parts.append(f"[{cause.code} on the web]({found.url})")
    return "\n\n".join(part for part in parts if part)


def hint_hover(hint: Hint, path: str) -> str:
    known = f"*Not measured:* {hint_message(hint, path)}"
    return f"{known}\n\n{explanation(hint.code)}"


def safety_words(safety: Safety, verdict: Verdict) -> str:
    if safety is Safety.SAFE:
        return "safe"
    return f"unsafe: {verdict.caveats[0]}" if verdict.caveats else "unsafe"


def _verdict(verdict: Verdict) -> str:
    words = {True: "passed", False: "failed", None: "not run"}
    rows = [f"| {words[rung.passed]} | {rung.name} | {rung.detail} |" for rung in verdict.rungs]
    head = "| | measured | |\n|---|---|---|\n"
    text = head + "\n".join(rows) if rows else ""
    if verdict.branches:
        seen, total = verdict.branches
        text += f"\n\n{seen} of {total} branches run, {verdict.perturbed} further inputs compared"
    return text
