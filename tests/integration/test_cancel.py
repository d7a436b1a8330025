"""A client that goes away frees what its request held, wherever the request was."""

import concurrent.futures
import random

import httpx

from harness import holds_within

ROUNDS = 100


def leave_in_decode(server, rng):
    """Gone after some pieces of the answer."""
    body = {"prompt": [rng.randrange(1000, 40000) for _ in range(20)], "max_tokens": 2000, "ignore_eos": True, "stream": True}
    with server.http.stream("POST", "/v1/completions", json=body) as reply:
        assert reply.status_code == 200
        lines = reply.iter_lines()
        for _ in range(rng.randrange(2, 12)):
            next(lines)


def leave_in_prefill(server, rng):
    """Gone before the first token of a long prompt, streamed or not; some already while it waits in the queue."""
    body = {"prompt": [rng.randrange(1000, 40000) for _ in range(4000)], "max_tokens": 50, "stream": rng.random() < 0.5}
    try:
        patience = httpx.Timeout(20, read=rng.choice([0.005, 0.05, 0.2]))
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=patience) as reply:
            next(reply.iter_bytes())
    except httpx.TimeoutException:
        pass


def test_pages_are_back_at_once(own_server):
    server = own_server()
    server.alive()
    assert holds_within(lambda: server.pages_used() == 0, 5)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: (leave_in_decode, leave_in_prefill)[i % 2](server, random.Random(i)), range(ROUNDS)))
    assert holds_within(lambda: server.pages_used() == 0, 3), server.metrics("executor")
    assert server.metrics("scheduler")["tercet_scheduler_requests_running"] == 0
    assert server.metrics("scheduler")["tercet_scheduler_requests_waiting"] == 0
    assert server.metrics("executor")["tercet_executor_sequences"] == 0
    assert holds_within(lambda: server.metrics("gateway")["tercet_gateway_running_requests"] == 0, 3)
    server.alive()
