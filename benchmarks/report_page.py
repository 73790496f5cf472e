"""How a browser takes the report of a run with many turns: size, time to make it, first paint, search.

`python benchmarks/report_page.py [TURNS]` needs chromium and playwright (`pip install playwright`; its own browsers are
not needed). The run is made by hand: two trajectories with half of the turns each, 2,000 characters of output a turn.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from execcritic.report import page

SEARCH = """async (text) => {
  const box = document.getElementById("find"), began = performance.now();
  box.value = text;
  box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  document.body.offsetHeight;
  const done = performance.now() - began;
  await new Promise(requestAnimationFrame);
  return [done, document.getElementById("found").textContent];
}"""


def write(folder: Path, turns: int) -> None:
    """A run of which nothing is there but trajectories."""
    (folder / "manifest.json").write_text('{"schema": 1}')
    output = "\n".join(f"tests/test_{n}.py::test_case PASSED [ 10%]" for n in range(50))[:2000]
    for role in ("test", "repair"):
        (folder / role).mkdir()
        with open(folder / role / "trajectory.jsonl", "w") as file:
            for turn in range(1, turns // 2 + 1):
                function = {
                    "name": "bash",
                    "arguments": json.dumps({"command": f"sed -n {turn}p src/module_{turn}.py"}),
                }
                message = {"content": f"Now line {turn}, then the next.", "tool_calls": [{"function": function}]}
                usage = {"input_tokens": 9000, "cached_tokens": 8000, "output_tokens": 90, "cost": 0.001}
                reply = {"event": "reply", "turn": turn, "message": message, "usage": usage}
                answer = {"role": "tool", "content": f"{output}\nmarker-{turn}"}
                result = {"event": "message", "turn": turn, "message": answer, "action": {"exit_code": 0}}
                file.write(f"{json.dumps(reply)}\n{json.dumps(result)}\n")


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        print("chromium and playwright are needed; install both.", file=sys.stderr)
        return 5
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        write(folder, turns)
        began = time.perf_counter()
        path = page.leave(folder)
        print(f"turns                {turns}")
        print(f"made in              {time.perf_counter() - began:.2f} s")
        print(f"size                 {path.stat().st_size / 1e6:.2f} MB")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page()
        view.goto(path.as_uri())
        view.wait_for_timeout(500)
        for paint in view.evaluate("performance.getEntriesByType('paint').map((p) => [p.name, p.startTime])"):
            print(f"{paint[0]:<20} {paint[1]:.0f} ms")
        loaded = view.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        print(f"{'content loaded':<20} {loaded:.0f} ms")
        for text in ("marker-77", "marker-77", "module_2", "no such text", ""):
            took, found = view.evaluate(SEARCH, text)
            print(f"search {text!r:<14} {took:.0f} ms  {found}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
