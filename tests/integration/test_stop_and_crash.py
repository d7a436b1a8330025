"""Stopping under load, and processes that die."""

import os
import signal
import threading
import time

import httpx
import pytest

from harness import holds_within, sse

TOKENS = 60


def body(index, tokens=TOKENS):
    return {"prompt": f"Story number {index}: once upon a time", "max_tokens": tokens, "temperature": 0.8, "seed": index,
            "ignore_eos": True, "stream": True}


class Stream(threading.Thread):
    """One streamed completion; `text`, and how it ended: "done", "error", "cut"."""

    def __init__(self, url, index, tokens=TOKENS):
        super().__init__()
        self.url, self.body, self.text, self.end, self.error = url, body(index, tokens), "", "", None
        self.started = threading.Event()
        self.start()

    def run(self):
        try:
            with httpx.stream("POST", f"{self.url}/v1/completions", json=self.body, timeout=120) as reply:
                if reply.status_code != 200:
                    self.end, self.error = "refused", reply.read()
                    return
                self.end = "cut"
                for event in sse(reply):
                    if event == "[DONE]":
                        self.end = "done"
                    elif "error" in event:
                        self.end, self.error = "error", event["error"]["message"]
                    else:
                        self.text += "".join(c["text"] for c in event["choices"])
                        self.started.set()
        except httpx.TransportError as e:
            self.end, self.error = self.end or "cut", repr(e)
        finally:
            self.started.set()


def begin(server, count, tokens=TOKENS):
    streams = [Stream(server.url, index, tokens) for index in range(count)]
    for stream in streams:
        assert stream.started.wait(60)
    return streams


@pytest.fixture(scope="module")
def solo(server):
    """The texts of undisturbed runs."""
    texts = {}

    def text(index, tokens=TOKENS):
        if (index, tokens) not in texts:
            stream = Stream(server.url, index, tokens)
            stream.join()
            assert stream.end == "done"
            texts[index, tokens] = stream.text
        return texts[index, tokens]

    return text


def test_sigterm_under_load_finishes_every_stream(own_server, solo):
    server = own_server()
    streams = begin(server, 8)
    server.signal(signal.SIGTERM)
    time.sleep(0.1)
    try:
        late = httpx.get(f"{server.url}/ready", timeout=5)
        assert late.status_code == 503
    except httpx.TransportError:
        pass  # it does not listen any more
    for index, stream in enumerate(streams):
        stream.join()
        assert (stream.end, stream.error) == ("done", None)
        assert stream.text == solo(index)
    assert server.process.wait(30) == 0, server.log_text()


def test_streams_that_take_longer_than_the_drain_get_an_error(own_server):
    server = own_server(flags=["--drain-ms", "500"])
    streams = begin(server, 2, tokens=6000)
    started = time.monotonic()
    server.signal(signal.SIGTERM)
    for stream in streams:
        stream.join()
        assert stream.end == "error" and stream.error
    server.process.wait(30)
    assert time.monotonic() - started < 10


def test_a_second_signal_ends_at_once(own_server):
    server = own_server()
    streams = begin(server, 2, tokens=6000)
    server.signal(signal.SIGINT)
    time.sleep(0.3)
    started = time.monotonic()
    server.signal(signal.SIGINT)
    assert server.process.wait(10) == 130
    assert time.monotonic() - started < 3
    for stream in streams:
        stream.join()
        assert stream.end != "done"


def test_nothing_is_left_when_the_supervisor_is_killed(own_server):
    server = own_server()
    pids = [process["pid"] for process in server.processes().values()]
    server.process.kill()
    server.process.wait()

    def gone(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"

    assert holds_within(lambda: all(gone(pid) for pid in pids), 15)


@pytest.mark.parametrize("victim", ["executor", "scheduler", "tokenizer"])
def test_a_killed_process_costs_nobody_an_answer(own_server, solo, victim):
    server = own_server()
    streams = begin(server, 4)
    old = server.pid(victim)
    os.kill(old, signal.SIGKILL)
    for index, stream in enumerate(streams):
        stream.join()
        assert (stream.end, stream.error) == ("done", None), server.log_text()
        assert stream.text == solo(index)
    assert holds_within(lambda: server.pid(victim) not in (old, -1), 10)
    assert f"the {victim} ended with signal 9" in server.log_text()
    assert holds_within(lambda: httpx.get(f"{server.url}/ready", timeout=5).status_code == 200, 15)
    server.alive()


def test_a_killed_gateway_comes_back_at_its_address(own_server):
    server = own_server()
    old = server.pid("gateway")
    os.kill(old, signal.SIGKILL)

    def ready():
        try:
            return httpx.get(f"{server.url}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    assert holds_within(lambda: server.pid("gateway") not in (old, -1), 10)
    assert holds_within(ready, 15)
    server.alive()
    assert holds_within(lambda: server.pages_used() == 0, 5)
