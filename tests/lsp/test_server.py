"""The protocol, against a server in this process; the engine is a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gbfix import cache, journal, registry
from gbfix.schema import ErrorReport, Options, Report, Target

from .client import CAPABILITIES, PULLING, Client, ResponseError, applied
from .conftest import BREAKING, FIXED, Engine, report_on, unsafe_report_on

Messages = list[dict[str, Any]]


def is_hint(found: Messages) -> bool:
    return bool(found) and found[0]["severity"] == 4


def is_measured(found: Messages) -> bool:
    return bool(found) and found[0]["severity"] == 2


@pytest.fixture
def opened(client: Client, program: Path) -> str:
    client.initialize(program.parent)
    return client.open(program)


def run(client: Client, uri: str) -> Messages:
    """Run the program; the diagnostics after that."""
    assert client.execute("gbfix.run", uri)["status"] == "done"
    return client.diagnostics(uri, is_measured)


# -- diagnostics ---------------------------------------------------------------------------------


def test_opening_a_file_gives_hints_and_runs_nothing(
    client: Client, opened: str, engine: Engine
) -> None:
    (hint,) = client.diagnostics(opened)
    assert (hint["code"], hint["severity"], hint["source"]) == ("GB0170", 4, "gbfix")
    assert hint["codeDescription"]["href"].endswith("gb0170.html")
    start = {"line": 9, "character": 7}
    assert hint["range"] == {"start": start, "end": {"line": 9, "character": 18}}
    assert hint["relatedInformation"][-1]["message"] == "compiled region `f`"
    assert engine.asked == []


def test_a_run_turns_hints_into_measured_breaks(client: Client, opened: str) -> None:
    (found,) = run(client, opened)
    assert found["severity"] == 2
    assert found["message"].startswith("Data-dependent branching: Detected")
    assert "Fix: select with torch.where [safe]" in found["message"]
    assert [item["message"] for item in found["relatedInformation"]] == [
        "called from `before`",
        "compiled region `f`",
    ]


def test_measured_breaks_move_with_their_lines_and_go_stale_visibly(
    client: Client, opened: str
) -> None:
    run(client, opened)
    top = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    client.change(opened, 2, {"range": top, "text": "# one\n# two\n"})
    (moved,) = client.diagnostics(opened, version=2)
    assert (moved["range"]["start"]["line"], moved["severity"]) == (11, 2)
    number = {"start": {"line": 11, "character": 17}, "end": {"line": 11, "character": 18}}
    client.change(opened, 3, {"range": number, "text": "5"})
    (stale,) = [
        item for item in client.diagnostics(opened, version=3) if item["data"]["kind"] == "stale"
    ]
    assert stale["severity"] == 3 and stale["message"].startswith("Stale")
    client.change(opened, 4, {"text": BREAKING})
    (again,) = client.diagnostics(opened, version=4)
    assert again["severity"] == 2


def test_a_client_that_pulls_gets_nothing_pushed(client: Client, program: Path) -> None:
    client.initialize(program.parent, capabilities=PULLING)
    uri = client.open(program)
    document = {"textDocument": {"uri": uri}}
    client.until("workspace/diagnostic/refresh")  # the workspace was searched
    first = client.request("textDocument/diagnostic", document)
    assert first["kind"] == "full" and is_hint(first["items"])
    same = client.request(
        "textDocument/diagnostic", {**document, "previousResultId": first["resultId"]}
    )
    assert same["kind"] == "unchanged"
    client.execute("gbfix.run", uri)
    client.until("workspace/diagnostic/refresh")
    after = client.request(
        "textDocument/diagnostic", {**document, "previousResultId": first["resultId"]}
    )
    assert after["kind"] == "full" and is_measured(after["items"])
    assert client.seen("textDocument/publishDiagnostics") == []


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 18), ("utf-16", 16), ("utf-32", 15)])
def test_columns_are_in_the_encoding_that_the_client_asks_for(
    client: Client, program: Path, encoding: str, column: int
) -> None:
    capabilities = {**CAPABILITIES, "general": {"positionEncodings": ["klingon", encoding]}}
    client.initialize(program.parent, capabilities=capabilities)
    assert client.capabilities["positionEncoding"] == encoding
    text = BREAKING.replace("if x.sum()", "if '🔥' and x.sum()")
    uri = client.open(program, text)
    (found,) = client.diagnostics(uri)
    assert found["range"]["start"]["character"] == column
    after = {"line": 9, "character": column}
    client.change(uri, 2, {"range": {"start": after, "end": after}, "text": "-"})
    (found,) = client.diagnostics(uri, version=2)
    assert found["range"]["start"]["character"] == column
    hover = client.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": after})
    assert hover["range"]["start"]["character"] == column


def test_a_client_without_encodings_gets_utf16(client: Client, program: Path) -> None:
    client.initialize(program.parent, capabilities={})
    assert client.capabilities["positionEncoding"] == "utf-16"


def test_edits_after_a_form_feed_end_up_where_they_belong(client: Client, program: Path) -> None:
    client.initialize(program.parent)
    text = BREAKING.replace("import torch\n", "import torch\n\f\nA = '\u2028'\n")
    uri = client.open(program, text)
    line = text[: text.index("if x")].count("\n")
    where = {"start": {"line": line, "character": 7}, "end": {"line": line, "character": 18}}
    client.change(uri, 2, {"range": where, "text": "x.shape[0] > 2"})
    assert client.diagnostics(uri, lambda found: not found, version=2) == []


def test_text_that_does_not_parse_keeps_quiet_until_it_does(client: Client, opened: str) -> None:
    client.change(opened, 2, {"text": BREAKING + "def ("})
    assert client.diagnostics(opened, lambda found: not found, version=2) == []
    client.change(opened, 3, {"text": BREAKING})
    assert is_hint(client.diagnostics(opened, version=3))


def test_closing_a_file_takes_its_diagnostics_away(client: Client, opened: str) -> None:
    client.diagnostics(opened)
    client.notify("textDocument/didClose", {"textDocument": {"uri": opened}})
    assert client.diagnostics(opened, lambda found: not found) == []


def test_an_error_of_the_program_is_shown_where_it_was_raised(
    client: Client, opened: str, engine: Engine
) -> None:
    def failing(path: Path) -> Report:
        error = ErrorReport("eager-error", "fails without torch.compile too", str(path), 15)
        return Report(path.name, errors=[error], files=(str(path),))

    engine.make = failing
    assert client.execute("gbfix.run", opened)["status"] == "error"
    found = client.diagnostics(opened, lambda found: found and found[-1]["severity"] == 1)
    assert found[-1]["range"]["start"]["line"] == 14
    assert "fails without" in client.until("window/showMessage")["message"]


# -- files and folders ---------------------------------------------------------------------------


def test_text_without_a_file_is_left_in_peace(client: Client, program: Path) -> None:
    client.initialize(program.parent)
    uri = client.open("untitled:Untitled-1", BREAKING)
    client.open(program)
    client.diagnostics(program.as_uri())
    assert client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) == []
    assert client.execute("gbfix.run", uri)["status"] == "error"


def test_a_new_file_has_hints_and_is_not_run_before_it_is_saved(
    client: Client, program: Path, engine: Engine
) -> None:
    client.initialize(program.parent)
    uri = client.open(program.with_name("new.py"), BREAKING)
    assert is_hint(client.diagnostics(uri))
    assert "save the file first" in client.execute("gbfix.run", uri)["message"]
    assert engine.asked == []


def test_unsaved_changes_are_named_when_the_saved_text_is_run(client: Client, opened: str) -> None:
    client.change(opened, 2, {"text": BREAKING + "# more\n"})
    client.execute("gbfix.run", opened)
    assert "program.py has changes" in client.until("window/showMessage")["message"]
    (found,) = client.diagnostics(opened, is_measured)
    assert found["range"]["start"]["line"] == 9


def test_a_workspace_behind_a_link_is_the_workspace(
    client: Client, program: Path, engine: Engine
) -> None:
    link = program.parent.with_name("link")
    link.symlink_to(program.parent)
    client.initialize(link)
    uri = client.open(link / "program.py")
    (found,) = run(client, uri)
    assert found["relatedInformation"][0]["location"]["uri"] == uri
    assert lens(client, uri)[1].startswith("1 graph break, 1 fixable")
    assert applied(BREAKING, edits_of(client.actions(uri, 9)[0], uri)) == FIXED
    assert engine.asked[0][0].cwd == str(program.parent)


def test_lines_that_end_as_on_windows_keep_their_ends(
    client: Client, program: Path, engine: Engine
) -> None:
    before, after = BREAKING.replace("\n", "\r\n"), FIXED.replace("\n", "\r\n")
    program.write_bytes(before.encode())
    engine.make = lambda path: report_on(path, before, after)
    client.initialize(program.parent)
    uri = client.open(program)
    run(client, uri)
    edits = edits_of(client.actions(uri, 9)[0], uri)
    assert applied(before, edits) == after


def test_each_folder_of_a_workspace_runs_its_own_files(
    client: Client, program: Path, tmp_path: Path, engine: Engine
) -> None:
    second = (tmp_path / "second").resolve()
    second.mkdir()
    (second / "other.py").write_text(BREAKING)
    client.initialize(program.parent)
    change = {"added": [{"uri": second.as_uri(), "name": "second"}], "removed": []}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": change})
    for path in (program, second / "other.py"):
        client.execute("gbfix.run", client.open(path))
    assert [(target.cwd, target.value) for target, _ in engine.asked] == [
        (str(program.parent), "program.py"),
        (str(second), "other.py"),
    ]


def test_the_projects_own_targets_and_options_are_used(
    client: Client, program: Path, engine: Engine
) -> None:
    (program.parent / "pyproject.toml").write_text(
        '[tool.gbfix]\ntargets = ["program.py --epochs 1"]\ncalls = 3\n'
    )
    helper = program.with_name("helper.py")
    helper.write_text("A = 1\n")
    client.initialize(program.parent)
    client.execute("gbfix.run", client.open(helper))
    ((target, options),) = engine.asked
    assert (target.value, target.args, options.calls) == ("program.py", ("--epochs", "1"), 3)


def test_a_mistake_in_the_configuration_is_told(client: Client, program: Path) -> None:
    (program.parent / "pyproject.toml").write_text("[tool.gbfix]\ncals = 3\n")
    client.initialize(program.parent)
    answer = client.execute("gbfix.run", client.open(program))
    assert "did you mean 'calls'?" in answer["message"]


def test_what_the_command_line_found_is_known_at_once(
    client: Client, program: Path, engine: Engine
) -> None:
    target = Target("script", program.name, cwd=str(program.parent))
    cache.store(
        target,
        Options(inductor=True),
        registry.torch_version(),
        report_on(program),
        (str(program),),
    )
    client.initialize(program.parent)
    assert is_measured(client.diagnostics(client.open(program), is_measured))
    assert engine.asked == []


# -- fixes ---------------------------------------------------------------------------------------


def edits_of(action: dict[str, Any], uri: str, version: int | None = 1) -> Messages:
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": uri, "version": version}
    edits: Messages = change["edits"]
    return edits


def test_a_validated_fix_is_a_preferred_versioned_edit(client: Client, opened: str) -> None:
    run(client, opened)
    fix, explain, ignore, everything = client.actions(opened, 9)
    assert fix["title"] == "Select with torch.where [safe]" and fix["isPreferred"]
    assert applied(BREAKING, edits_of(fix, opened)) == FIXED
    assert explain["command"]["command"] == "gbfix.explain"
    assert ignore["title"] == "Ignore GB0170 on this line"
    assert everything["kind"] == "source.fixAll.gbfix"
    assert client.actions(opened, 0, ["quickfix"]) == []


def test_a_client_without_versioned_edits_gets_plain_ones(client: Client, program: Path) -> None:
    client.initialize(program.parent, capabilities={})
    uri = client.open(program)
    run(client, uri)
    fix = client.actions(uri, 9)[0]
    assert applied(BREAKING, fix["edit"]["changes"][uri]) == FIXED


@pytest.mark.parametrize("only", ["source", "source.fixAll", "source.fixAll.gbfix"])
def test_fix_all_answers_to_its_kind_and_those_above(
    client: Client, opened: str, only: str
) -> None:
    run(client, opened)
    (action,) = client.actions(opened, 0, [only])
    assert applied(BREAKING, edits_of(action, opened)) == FIXED
    assert client.actions(opened, 0, ["source.organizeImports"]) == []


def test_edits_elsewhere_take_the_validation_away_but_not_the_fix(
    client: Client, opened: str
) -> None:
    run(client, opened)
    edited = "# new\n" + BREAKING
    client.change(opened, 2, {"text": edited})
    fix, again = client.actions(opened, 10, ["quickfix"])[:2]
    assert "not validated since the last edits" in fix["title"] and not fix["isPreferred"]
    assert applied(edited, edits_of(fix, opened, 2)) == "# new\n" + FIXED
    assert again["title"].startswith("Run the program")
    assert client.actions(opened, 0, ["source.fixAll"]) == []


def test_a_stale_break_offers_nothing_but_another_run(client: Client, opened: str) -> None:
    run(client, opened)
    client.change(opened, 2, {"text": BREAKING.replace("> 0", "> 7")})
    titles = [action["title"] for action in client.actions(opened, 9)]
    assert titles and all(
        title.startswith(("Run the program", "Explain", "Ignore")) for title in titles
    )


def test_unsafe_fixes_are_offered_by_name_and_never_preferred_or_in_fix_all(
    client: Client, opened: str, engine: Engine
) -> None:
    engine.make = unsafe_report_on
    (found,) = run(client, opened)
    assert "Only an unsafe fix" in found["message"]
    fix = client.actions(opened, 9)[0]
    assert "[unsafe: one side of the condition never ran]" in fix["title"]
    assert "isPreferred" not in fix
    assert client.actions(opened, 9, ["source.fixAll"]) == []


def test_resolving_an_action_runs_and_fills_in_the_edit(
    client: Client, opened: str, engine: Engine
) -> None:
    client.diagnostics(opened)
    action = client.actions(opened, 9)[0]
    assert "edit" not in action and engine.asked == []
    resolved = client.request("codeAction/resolve", action)
    assert applied(BREAKING, edits_of(resolved, opened)) == FIXED


def test_resolving_without_a_safe_fix_says_so(client: Client, opened: str, engine: Engine) -> None:
    engine.make = unsafe_report_on
    client.diagnostics(opened)
    resolved = client.request("codeAction/resolve", client.actions(opened, 9)[0])
    assert "edit" not in resolved
    assert "no safe fix" in client.until("window/showMessage")["message"]


def test_an_edit_during_the_run_keeps_the_fix_from_being_filled_in(
    client: Client, opened: str, engine: Engine
) -> None:
    client.diagnostics(opened)
    action = client.actions(opened, 9)[0]
    engine.hold.clear()
    number = client.begin("codeAction/resolve", action)
    client.until("$/progress", lambda params: params["value"]["kind"] == "report")
    client.change(opened, 2, {"text": "# new\n" + BREAKING})
    client.diagnostics(opened, version=2)
    engine.hold.set()
    assert "edit" not in client.wait(number)
    assert "changed during the run" in client.until("window/showMessage")["message"]


def test_a_client_that_cannot_resolve_gets_a_command(client: Client, program: Path) -> None:
    client.initialize(program.parent, capabilities={})
    uri = client.open(program)
    client.diagnostics(uri)
    action = client.actions(uri, 9)[0]
    assert action["command"]["command"] == "gbfix.run"
    assert action["command"]["arguments"] == [uri]


@pytest.mark.parametrize("data", [None, {}, {"uri": "file:///nowhere.py"}, ["x"]])
def test_resolving_what_the_server_never_made_changes_nothing(
    client: Client, opened: str, data: Any, engine: Engine
) -> None:
    resolved = client.request("codeAction/resolve", {"title": "x", "data": data})
    assert "edit" not in resolved and engine.asked == []


def test_ignoring_a_hint_adds_a_comment_that_silences_it(client: Client, opened: str) -> None:
    client.diagnostics(opened)
    ignore = client.actions(opened, 9)[-1]
    text = applied(BREAKING, edits_of(ignore, opened))
    assert "if x.sum() > 0:  # gbfix: ignore[GB0170]\n" in text
    client.change(opened, 2, {"text": text})
    assert client.diagnostics(opened, lambda found: not found, version=2) == []
    client.change(opened, 3, {"text": text.replace("GB0170", "GB0007")})
    client.diagnostics(opened, version=3)
    again = client.actions(opened, 9)[-1]
    assert "ignore[GB0007, GB0170]" in applied(
        text.replace("GB0170", "GB0007"), edits_of(again, opened, 3)
    )


# -- hovers and lenses ---------------------------------------------------------------------------


def hover(client: Client, uri: str, line: int, character: int) -> str:
    position = {"line": line, "character": character}
    answer = client.request(
        "textDocument/hover", {"textDocument": {"uri": uri}, "position": position}
    )
    return answer["contents"]["value"] if answer else ""


def test_a_hover_explains_a_hint_and_shows_the_verdict_of_a_run(
    client: Client, opened: str
) -> None:
    assert "Not measured" in hover(client, opened, 9, 10)
    assert hover(client, opened, 0, 0) == ""
    run(client, opened)
    text = hover(client, opened, 9, 10)
    assert "| passed | outputs | 20 comparisons |" in text
    assert "2 of 2 branches run, 17 further inputs" in text and "Both arms" in text


def lens(client: Client, uri: str) -> tuple[int, str]:
    (found,) = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return found["range"]["start"]["line"], found["command"]["title"]


def test_a_lens_stands_above_the_region(client: Client, opened: str) -> None:
    assert lens(client, opened) == (7, "1 likely graph break · run and validate")
    run(client, opened)
    assert lens(client, opened) == (7, "1 graph break, 1 fixable · run and validate")
    client.change(opened, 2, {"text": BREAKING.replace("x + 1", "x + 3")})
    assert "before the last edits" in lens(client, opened)[1]


# -- runs, progress, trust -----------------------------------------------------------------------


def test_progress_goes_to_the_commands_own_token(client: Client, opened: str) -> None:
    client.execute("gbfix.run", opened, workDoneToken="mine")
    values = [item["value"] for item in client.seen("$/progress") if item["token"] == "mine"]
    assert [value["kind"] for value in values] == ["begin", "report", "end"]
    assert values[0]["cancellable"]
    assert client.seen("window/workDoneProgress/create") == []


def test_a_run_can_be_cancelled_by_its_progress(
    client: Client, opened: str, engine: Engine
) -> None:
    engine.hold.clear()
    number = client.begin("workspace/executeCommand",
                          {"command": "gbfix.run", "arguments": [opened]})  # fmt: skip
    token = client.until("$/progress")["token"]
    client.notify("window/workDoneProgress/cancel", {"token": token})
    assert client.wait(number) == {"status": "cancelled"}
    ended = client.until("$/progress", lambda params: params["value"]["kind"] == "end")
    assert ended["value"]["message"] == "cancelled"


def test_a_second_run_of_a_target_ends_the_first(
    client: Client, opened: str, engine: Engine
) -> None:
    engine.hold.clear()
    arguments = {"command": "gbfix.run", "arguments": [opened]}
    first = client.begin("workspace/executeCommand", arguments)
    client.until("$/progress")
    second = client.begin("workspace/executeCommand", arguments)
    assert client.wait(first) == {"status": "cancelled"}
    engine.hold.set()
    assert client.wait(second)["status"] == "done"


def test_a_cancelled_request_ends_its_run(client: Client, opened: str, engine: Engine) -> None:
    client.diagnostics(opened)
    engine.hold.clear()
    number = client.begin("codeAction/resolve", client.actions(opened, 9)[0])
    client.until("$/progress")
    client.notify("$/cancelRequest", {"id": number})
    with pytest.raises(ResponseError):
        client.wait(number)
    client.until("$/progress", lambda params: params["value"]["kind"] == "end")


def test_saving_runs_only_where_the_settings_say_so(
    client: Client, opened: str, engine: Engine
) -> None:
    client.save(opened)
    client.diagnostics(opened)
    assert engine.asked == []
    client.notify("workspace/didChangeConfiguration", {"settings": {"gbfix": {"run": "onSave"}}})
    client.save(opened)
    assert is_measured(client.diagnostics(opened, is_measured))
    assert len(engine.asked) == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [({"trusted": False, "run": "onSave"}, "not trusted"), ({"run": "never"}, "switched off")],
)
def test_without_trust_nothing_is_ever_run(
    client: Client, program: Path, engine: Engine, options: dict[str, Any], why: str
) -> None:
    client.initialize(program.parent, options=options)
    uri = client.open(program)
    assert is_hint(client.diagnostics(uri))
    client.save(uri)
    assert why in client.execute("gbfix.run", uri)["message"]
    made_up = {"title": "x", "data": {"uri": uri, "version": 1, "code": "GB0170", "line": 10}}
    assert "edit" not in client.request("codeAction/resolve", made_up)
    titles = [action["title"] for action in client.actions(uri, 9)]
    assert titles == ["Explain GB0170", "Ignore GB0170 on this line"]
    assert lens(client, uri)[1] == "1 likely graph break"
    assert engine.asked == []


def test_losing_trust_ends_what_runs(client: Client, opened: str, engine: Engine) -> None:
    engine.hold.clear()
    number = client.begin("workspace/executeCommand",
                          {"command": "gbfix.run", "arguments": [opened]})  # fmt: skip
    client.until("$/progress")
    client.notify("workspace/didChangeConfiguration", {"settings": {"gbfix": {"trusted": False}}})
    assert client.wait(number) == {"status": "cancelled"}


def test_settings_are_pulled_from_a_client_that_has_them(
    client: Client, program: Path, engine: Engine
) -> None:
    workspace = {**CAPABILITIES["workspace"], "configuration": True}
    client.answers["workspace/configuration"] = [{"hints": False, "run": "sometimes"}]
    client.initialize(program.parent, capabilities={**CAPABILITIES, "workspace": workspace})
    assert "'sometimes' is not one of" in client.until("window/logMessage")["message"]
    uri = client.open(program)
    assert client.diagnostics(uri, lambda found: not found) == []


# -- commands ------------------------------------------------------------------------------------


def test_explain_gives_markdown_and_tells_those_who_cannot_show_it(
    connect: Callable[[], Client], program: Path
) -> None:
    plain, rich = connect(), connect()
    plain.initialize(program.parent)
    rich.initialize(program.parent, options={"showsExplanations": True})
    for client in (plain, rich):
        assert "### GB0170" in client.execute("gbfix.explain", "gb170")["markdown"]
        assert client.execute("gbfix.explain", "GB9999999")["markdown"] == ""
    assert len(plain.seen("window/showMessage")) == 2
    assert len(rich.seen("window/showMessage")) == 1


def test_undo_takes_back_what_the_command_line_applied(client: Client, program: Path) -> None:
    folder = journal.state_folder(program.parent)
    journal.apply(report_on(program).patches, folder, cwd=program.parent)
    assert program.read_text() == FIXED
    client.initialize(program.parent)
    assert client.execute("gbfix.undo")["restored"] == [program.as_uri()]
    assert program.read_text() == BREAKING
    assert client.execute("gbfix.undo") == {"restored": []}
    assert "nothing to undo" in client.until("window/showMessage")["message"]


def test_unknown_commands_and_requests_are_errors_and_no_end(client: Client, opened: str) -> None:
    with pytest.raises(ResponseError):
        client.execute("gbfix.nonsense")
    with pytest.raises(ResponseError):
        client.request("textDocument/nonsense", {})
    assert is_hint(client.diagnostics(opened))


# -- several clients -----------------------------------------------------------------------------


def test_clients_of_one_port_do_not_share_their_texts(
    connect: Callable[[], Client], program: Path, engine: Engine
) -> None:
    one, other = connect(), connect()
    one.initialize(program.parent)
    other.initialize(program.parent)
    first, second = one.open(program), other.open(program, "import torch\n")
    assert is_hint(one.diagnostics(first))
    assert other.diagnostics(second, lambda found: not found) == []
    assert one.request("shutdown", None) is None
    one.notify("exit", None)
    other.change(second, 2, {"text": BREAKING})
    assert is_hint(other.diagnostics(second, version=2))
