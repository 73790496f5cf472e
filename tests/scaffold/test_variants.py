"""Many variants through one warm pytest: each is judged by its own code, however the one before it ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Outcome, RunStatus
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.variants import Variant, run_variants
from tests.scaffold.harness import Lab, open_lab

SOURCE = "V = 111\n\n\ndef value():\n    return V\n\n\ndef other():\n    return 1\n"
TEST = "from pkg import value\n\n\ndef test_value():\n    assert value() == 111\n\n\ndef test_plain():\n    assert 1\n"
VALUE, PLAIN = "tests/test_v.py::test_value", "tests/test_v.py::test_plain"
SETTINGS = HarnessSettings.model_validate({})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


def test_each_variant_is_judged_by_its_own_code(lab: Lab) -> None:
    site = lab.site({"pkg/__init__.py": SOURCE, "tests/test_v.py": TEST})

    def variant(text: str, seconds: float = 60.0) -> Variant:
        return Variant({"pkg/__init__.py": File(text.encode())}, ("tests/test_v.py",), (VALUE, PLAIN), seconds)

    looked = run_variants(
        site,
        [
            Variant({}, ("tests/test_v.py",), (), 60.0, keep=True),
            # Of the same size as the original, and laid within the same second: no byte code may stand in.
            variant(SOURCE.replace("111", "222")),
            variant(SOURCE),
            variant(SOURCE.replace("return V", "while 1: V"), 2.0),
            variant(SOURCE.replace("return V", "import os; os._exit(0)")),
            variant(SOURCE.replace("return V", "import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)")),
            variant("import nothing_of_the_kind\n"),
            Variant({}, ("tests/test_v.py::test_value",), (VALUE,), 60.0, cover=True),
        ],
        SETTINGS,
    )
    reports = [one.report for one in looked]
    assert len(reports) == 8
    assert reports[1].outcome(VALUE) is Outcome.FAILED_ASSERT
    assert reports[1].outcome(PLAIN) is Outcome.PASSED
    assert reports[2].outcome(VALUE) is Outcome.PASSED
    assert reports[3].status is RunStatus.TIMEOUT
    assert reports[4].status is RunStatus.CRASHED
    assert reports[5].status in (RunStatus.CRASHED, RunStatus.NO_REPORT)
    assert list(reports[6].collect_errors) == ["tests/test_v.py"]
    assert reports[7].outcome(VALUE) is Outcome.PASSED
    assert looked[7].covered[VALUE] >= {("pkg/__init__.py", 4)}
    assert ("pkg/__init__.py", 8) not in looked[7].covered[VALUE]
