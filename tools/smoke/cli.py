"""The command, and what it ships."""

import json
import subprocess
import sys
from pathlib import Path

command = str(Path(sys.executable).with_name("drawahead"))


def says(*arguments):
    return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout


assert len(json.loads(says("sample", "ising", "--num", "3", "--json"))["samples"]) == 3
assert "rounds" in says("sample", "text", "--num", "1", "--size", "32")
says("sample", "pairs", "--num", "20", "--out", "job", "--quiet")
says("report", "job", "--out", "report.html")
assert Path("report.html").read_text().startswith("<!")
for name in ("targets", "samplers", "models"):
    json.loads(says(name, "--json"))
assert subprocess.run([command, "verify", "pairs", "--num", "60", "--quiet"], check=False).returncode == 0
