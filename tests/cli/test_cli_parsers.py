"""What holds for the parser of every command and of every action of one."""

import argparse

import pytest

from drfl.cli.main import COMMANDS, USAGE, _module, _parsers


def actions_of(parser):
    """The parsers below a parser, by what is typed before them."""
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return {name: below for action in nested for name, below in action.choices.items()}


def all_parsers():
    """Of the program, of every command and of every action, by what is typed."""
    program, commands = _parsers()
    found = {"": program}
    for name, parser in commands.items():
        _module(name).fill(parser)
        found[name] = parser
        found |= {f"{name} {action}": below for action, below in actions_of(parser).items()}
    return found


PARSERS = all_parsers()


def test_all_parsers_are_found():
    assert {*COMMANDS, "sites join", "sites calibrate", "flower init"} < set(PARSERS)


@pytest.mark.parametrize("typed", PARSERS)
def test_no_part_of_an_option_is_taken_for_it(typed, capsys):
    parser = PARSERS[typed]
    options = [o for o in parser._option_string_actions if o.startswith("--")]
    assert options
    for action in parser._actions:
        action.required = False  # what must be given is not what is looked at
    for part in {option[:-1] for option in options}.difference(options):
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args([part])
        assert stopped.value.code == USAGE
        assert f"unrecognized arguments: {part}" in capsys.readouterr().err
