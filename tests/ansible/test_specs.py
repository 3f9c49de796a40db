"""What a role says that it takes is what it takes."""

import pytest

from tests.ansible import tree


@pytest.mark.parametrize("role", tree.roles())
def test_specs_and_defaults_of_a_role_name_the_same(role: str) -> None:
    """What has no spec is neither checked nor documented; what has no default is a trap."""
    specified = {
        name: option
        for options in tree.entry_points(role).values()
        for name, option in options.items()
    }
    given = tree.defaults(role)

    assert set(given) <= set(specified)
    assert {n for n, o in specified.items() if n not in given} == {
        n for n, o in specified.items() if o.get("required")
    }


@pytest.mark.parametrize("role", tree.roles())
def test_defaults_in_the_specs_are_those_of_the_role(role: str) -> None:
    """The reference page shows the specs' defaults; they have to be the real ones."""
    given = tree.defaults(role)
    for options in tree.entry_points(role).values():
        shown = {name: option["default"] for name, option in options.items() if "default" in option}
        assert shown == {name: given[name] for name in shown}


@pytest.mark.parametrize("role", tree.roles())
def test_variables_of_a_role_carry_its_name(role: str) -> None:
    """All roles share one name space."""
    assert [name for name in tree.defaults(role) if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", tree.roles())
def test_every_option_says_what_it_is_for(role: str) -> None:
    """The reference of variables is written from these sentences."""
    silent = [
        name
        for options in tree.entry_points(role).values()
        for name, option in options.items()
        if not option.get("description") or not option.get("type")
    ]

    assert silent == []
