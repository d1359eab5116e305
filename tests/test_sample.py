"""The weekly sample of slow tests: one of each kind, those of changed methods, and others in other weeks."""

from sample import drawn

NAMES = [f"a.py::f[{number}]" for number in range(100)] + ["b.py::g", "b.py::i", "b.py::h[ptbert-3]", "b.py::h[simcse]"]


def test_each_kind_is_drawn_and_weeks_differ() -> None:
    weeks = [drawn(NAMES, f"2026-{number}", set()) for number in range(40)]
    for week in weeks:
        assert week & {"b.py::g", "b.py::i"}
        assert any(name.startswith("b.py::h") for name in week)
        assert 5 < len(week) < 45
    assert weeks[0] != weeks[1]
    assert set().union(*weeks) == set(NAMES)


def test_cases_of_changed_recipes_run() -> None:
    assert all("b.py::h[simcse]" in drawn(NAMES, f"2026-{number}", {"simcse"}) for number in range(20))


def test_every_worker_draws_the_same() -> None:
    assert drawn(NAMES, "2026-48", set()) == drawn(NAMES[::-1], "2026-48", set())
