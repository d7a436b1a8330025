"""Real processes for the tests: `tercet serve` on a small model, asked through its public interfaces."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import httpx
import openai

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TERCET_BIN", SOURCE / "build/release/bin"))
MODELS = pathlib.Path(os.environ.get("TERCET_MODEL_DIR", SOURCE / "models"))
CONFORMANCE = pathlib.Path(os.environ.get("TERCET_CONFORMANCE_DIR", SOURCE.parent / "shared/conformance"))


def model_path(name):
    return MODELS / f"{name}.gguf"


def environment(extra=None):
    """The environment without what would steer the programs, plus `extra`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TERCET_") and "proxy" not in k.lower()}
    return {**clean, **(extra or {})}


class Server:
    """`tercet serve`; `flags` are its own, e.g. ["--scheduler", "prefill-chunk=16"]."""

    def __init__(self, model="smollm2", flags=(), env=None):
        self.dir = tempfile.TemporaryDirectory(prefix="tercet-test-")
        self.ready_file = pathlib.Path(self.dir.name) / "ready.json"
        self.log = open(pathlib.Path(self.dir.name) / "log", "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [BIN / "tercet", "serve", model_path(model), "--listen", "127.0.0.1:0", "--metrics-port", "0",
             "--ready-file", self.ready_file, *flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment(env))
        try:
            wait_until(lambda: self.ready_file.exists() or self.process.poll() is not None, 60, "the server to be ready")
            assert self.process.poll() is None, f"the server ended at its start:\n{self.log_text()}"
        except BaseException:
            self.kill()
            raise
        self.url = json.loads(self.ready_file.read_text())["listen"]
        self.http = httpx.Client(base_url=self.url, timeout=120)
        self.openai = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)
        self.model = self.openai.models.list().data[0].id

    def log_text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def processes(self):
        return json.loads(self.ready_file.read_text())["processes"]

    def pid(self, name):
        return self.processes()[name]["pid"]

    def metrics(self, name):
        """{'tercet_executor_pages{state="free"}': 12.0, …} of one process."""
        text = httpx.get(f"http://{self.processes()[name]['metrics']}/metrics", timeout=10).text
        found = re.findall(r"^(\w+(?:\{[^}]*\})?) ([-+0-9.eEinfNa]+)$", text, re.M)
        return {key: float(value) for key, value in found}

    def pages_used(self):
        return self.metrics("executor")['tercet_executor_pages{state="used"}']

    def complete(self, prompt, **parameters):
        """A completion as plain data."""
        return self.openai.completions.create(model=self.model, prompt=prompt, **parameters)

    def alive(self):
        """The servers answer an ordinary request."""
        assert self.http.get("/health").status_code == 200
        answer = self.complete("1, 2, 3, 4,", max_tokens=3, temperature=0)
        assert answer.choices[0].text.strip().startswith("5"), answer

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, timeout=60):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.dir.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def holds_within(condition, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def sse(response):
    """The data of each server-sent event of an httpx stream: parsed JSON, or the string '[DONE]'."""
    for line in response.iter_lines():
        assert line == "" or line.startswith("data: "), line
        if line:
            data = line[len("data: "):]
            yield data if data == "[DONE]" else json.loads(data)


def answer_of(completion):
    """What must be equal between two runs of one request: text and the bits of its log-probabilities."""
    choice = completion.choices[0]
    return choice.text, choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs, choice.finish_reason


PROSE = (CONFORMANCE / "models/reference-text.txt").read_text(encoding="utf-8") if (
    CONFORMANCE / "models/reference-text.txt").exists() else "The river rose in the night, and nobody in the town slept. " * 60
