"""Configuration: four layers merged key by key, and errors that name the key."""

from pathlib import Path

import pytest

from execcritic import config
from execcritic_scaffold.errors import UsageError


def test_the_defaults_are_those_of_the_method() -> None:
    loop = config.load(environ={}).loop
    assert (loop.submissions, loop.test_turns) == (5, 60)
    assert (loop.repair_turns, loop.revisions, loop.revision_turns) == (200, 5, 40)


def test_each_layer_wins_over_the_one_before_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("loop: {revisions: 1, revision_turns: 2, test_turns: 3}\n")
    environ = {
        "EXECCRITIC_LOOP__REVISION_TURNS": "20",
        "EXECCRITIC_LOOP__TEST_TURNS": "30",
        "EXECCRITIC_TEST_IMAGE": "x",
    }
    loop = config.load(file, ["loop.test_turns=300"], environ=environ).loop
    assert (loop.revisions, loop.revision_turns, loop.test_turns) == (1, 20, 300)
    assert loop.submissions == 5


def test_options_of_their_own_win_over_everything() -> None:
    assert config.load(None, ["verify.repeats=5"], {"verify": {"repeats": 1}}, {}).verify.repeats == 1


def test_the_episode_limits_follow_the_budgets_of_the_loop() -> None:
    limits = config.load(sets=["loop.revisions=1", "loop.revision_turns=7"], environ={}).limits
    assert limits.repair.turns == 207
    assert config.load(sets=["limits.repair.turns=9"], environ={}).limits.repair.turns == 9


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("loop.revision=3", "Unknown configuration key loop.revision; the nearest known key is loop.revisions."),
        ("zzz.revisions=3", "Unknown configuration key zzz; docs/configuration.md lists what there is."),
        ("lop.revisions=3", "Unknown configuration key lop; the nearest known key is loop."),
        ("loop.revisions=many", "loop.revisions"),
        ("loop=3", "Configuration key loop"),
        ("limits=null", "Configuration key limits"),
        ("loop.revisions", "KEY=VALUE"),
        ("loop.revisions=[", "not YAML"),
    ],
)
def test_a_wrong_key_or_value_is_named(item: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        config.load(sets=[item], environ={})
    assert words in str(error.value)


def test_an_unknown_key_in_the_environment_is_an_error_too() -> None:
    with pytest.raises(UsageError, match=r"loop\.revisions"):
        config.load(environ={"EXECCRITIC_LOOP__REVISION": "3"})


def test_a_missing_file_and_a_file_that_is_no_mapping(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        config.load(tmp_path / "absent.yaml", environ={})
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(UsageError, match="not a mapping"):
        config.load(tmp_path / "list.yaml", environ={})


def test_off_is_a_word_and_false_a_boolean() -> None:
    settings = config.load(sets=["verify.guard=off", "verify.tier_api_absent=false"], environ={}).verify
    assert (settings.guard, settings.tier_api_absent) == ("off", False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("EXECCRITIC_FOO__BAR", "1"), ("EXECCRITIC_LOOP__REVISION", "1"), ("EXECCRITIC_LOOP__REVISIONS", "x")],
)
def test_a_variable_that_is_wrong_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"\(from {name}\)"):
        config.load(environ={name: value})
