"""Settings and runner for runs of Django's own tests by hand: outcomes go to $RECORD as `name (module.Class)`."""

import json
import os
import unittest

from django.test.runner import DiscoverRunner
from test_sqlite import *  # noqa: F403

TEST_RUNNER = "record_django.RecordingRunner"
outcomes = {}


class RecordingResult(unittest.TextTestResult):
    def _record(self, test, outcome):
        name = f"{test._testMethodName} ({unittest.util.strclass(type(test))})"
        if outcomes.get(name) != "failed":
            outcomes[name] = outcome

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "passed")

    def addError(self, test, err):
        super().addError(test, err)
        if hasattr(test, "_testMethodName"):
            self._record(test, "failed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "failed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._record(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if hasattr(test, "_testMethodName"):
            self._record(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._record(test, "xfailed")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._record(test, "failed")


class RecordingRunner(DiscoverRunner):
    def get_resultclass(self):
        return RecordingResult

    def run_suite(self, suite, **kwargs):
        try:
            return super().run_suite(suite, **kwargs)
        finally:
            with open(os.environ["RECORD"], "w") as file:
                json.dump(outcomes, file)
