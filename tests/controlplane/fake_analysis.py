"""Takes the place of ``inorder analyze``: does what the name of the folder that it is to analyse says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

source = sys.argv[-1]
report = next(int(each.partition("=")[2]) for each in sys.argv if each.startswith("--report-fd="))


def tell(**message: object) -> None:
    os.write(report, (json.dumps(message) + "\n").encode())


def wait_for_the_end_of_stdin() -> None:
    sys.stdin.buffer.read()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


what = os.path.basename(source)
tell(type="progress", step=1, of=2, what=f"{what} begins")
say(f"arguments {json.dumps(sys.argv[1:-1])}")
match what:
    case "good":
        with open(os.path.join(os.environ["TMPDIR"], "scratch"), "w") as file:
            file.write("something")
        say("environment", json.dumps(dict(os.environ)))
        say("password of s3://key:hunter22@bucket and", os.environ.get("AWS_SECRET_ACCESS_KEY"))
        tell(type="progress", step=2, of=2, what="publish the result")
        tell(type="result", result={"events": 3, "by_run": [{"run": "default", "events": 3}]})
    case "refused":
        sys.stderr.write("error: the analysis needs Java 17 or newer: apt-get install openjdk-17-jre-headless\n")
        sys.exit(1)
    case "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    case "silent":
        pass
    case "odd":
        os.write(report, b"no JSON\n[1]\n" + b'{"type": "progress", "step": "x"}\n')
        sys.exit(3)
    case "long":
        os.write(report, b"x" * 4_000_000 + b"\n")
    case "noisy":
        sys.stdout.write("".join(f"line {at}\n" for at in range(200_000)))
        tell(type="result", result={})
    case "waits":
        wait_for_the_end_of_stdin()
    case "stubborn":
        # It and what it has started do not heed SIGTERM.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        say(f"child {child.pid}")
        tell(type="progress", step=2, of=2, what="it does not end")
        while True:
            time.sleep(60)
