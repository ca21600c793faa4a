"""Runs the tests of deploy/ and counts them as cargo does.

    LARDER_BIN=target/debug/larder python tests/deploy/run.py [-k PATTERN]
"""

import sys
import unittest
from pathlib import Path

program = unittest.main(
    module=None,
    argv=[sys.argv[0], "discover", "--start-directory", str(Path(__file__).parent), "--verbose", *sys.argv[1:]],
    exit=False,
)
result = program.result
failed, ignored = len(result.failures) + len(result.errors), len(result.skipped)
passed = max(0, result.testsRun - failed - ignored)
verdict = "ok" if result.wasSuccessful() else "FAILED"
print(f"test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out")
sys.exit(not result.wasSuccessful())
