"""Containers that a call was given or gave back are looked at once each, however they are held."""

from __future__ import annotations

from gbfix.worker.afterlife import _containers


def test_a_list_that_holds_itself_is_looked_at_once() -> None:
    rows: list[object] = []
    batch = (1, rows)
    rows.append(batch)
    assert list(_containers(batch)) == [rows]


def test_all_containers_are_found_in_their_order() -> None:
    inner: list[object] = [1]
    named = {"a": inner, "b": {2}}
    assert list(_containers((inner, named))) == [inner, named, {2}]
