"""One request, one answer: ids and log-probability bits do not depend on anything around the request."""

import threading

import pytest

from harness import PROSE, answer_of

GREEDY = dict(max_tokens=24, temperature=0, logprobs=3)
SEEDED = dict(max_tokens=24, temperature=0.9, top_p=0.95, seed=11, logprobs=3)
LONG = PROSE[:2600]   # some 700 tokens: several chunks, pages and attention blocks
SHORT = PROSE[:240]


def answers(server, prompt=LONG):
    return [answer_of(server.complete(prompt, **parameters)) for parameters in (GREEDY, SEEDED)]


@pytest.fixture(scope="module")
def solo(server):
    return answers(server)


@pytest.fixture(scope="module")
def solo_short(server):
    return answers(server, SHORT)


def test_after_a_cache_hit(server, solo):
    before = server.metrics("executor")["tercet_executor_prefix_cache_hits_total"]
    assert answers(server) == solo
    assert server.metrics("executor")["tercet_executor_prefix_cache_hits_total"] > before


def test_among_fifteen_others(server, solo):
    results, others = {}, []

    def other(index):
        server.complete(f"{index}: {PROSE[index * 50:index * 50 + 40 * (index + 1)]}", max_tokens=30, temperature=1, n=1)

    def same(name, parameters):
        results[name] = answer_of(server.complete(LONG, extra_body={"cache_salt": name}, **parameters))

    for index in range(14):
        others.append(threading.Thread(target=other, args=(index,)))
    others.insert(5, threading.Thread(target=same, args=("greedy", GREEDY)))
    others.insert(9, threading.Thread(target=same, args=("seeded", SEEDED)))
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert [results["greedy"], results["seeded"]] == solo


@pytest.mark.parametrize("chunk", [16, 64, 512])
def test_whatever_the_prefill_chunk(own_server, solo, chunk):
    server = own_server(flags=["--scheduler", f"prefill-chunk={chunk}", "--scheduler", f"prefill-chunk-busy={chunk}"])
    assert answers(server) == solo


@pytest.mark.parametrize("threads", [1, 2])
def test_whatever_the_number_of_threads(own_server, solo, threads):
    assert answers(own_server(flags=["--threads", str(threads)])) == solo


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_whatever_the_instruction_set(own_server, solo_short, isa):
    flags = open("/proc/cpuinfo", encoding="utf-8").read()
    needed = {"scalar": "fpu", "avx2": "avx2", "avx512": "avx512_vnni"}[isa]
    if needed not in flags:
        pytest.skip(f"this processor has no {needed}")
    assert answers(own_server(env={"TERCET_ISA": isa}), SHORT) == solo_short


def test_a_strict_prefix_of_a_cached_prompt(server):
    ids = server.http.post("/tokenize", json={"prompt": PROSE[3000:4000]}).json()["tokens"]
    for length in (15, 16, 17, 31, 32, 33, 48):
        fresh = answer_of(server.complete(ids[:length], extra_body={"cache_salt": f"alone {length}"}, **GREEDY))
        server.complete(ids[:length + 40], max_tokens=1, temperature=0)
        assert answer_of(server.complete(ids[:length], **GREEDY)) == fresh, length


def test_prompts_that_differ_in_one_place(server):
    ids = server.http.post("/tokenize", json={"prompt": PROSE[4000:4600]}).json()["tokens"][:64]
    for place in (0, 15, 16, len(ids) - 1):
        other = list(ids)
        other[place] += 1
        server.complete(ids, max_tokens=1, temperature=0)
        warm = answer_of(server.complete(other, **GREEDY))
        cold = answer_of(server.complete(other, extra_body={"cache_salt": f"differs at {place}"}, **GREEDY))
        assert warm == cold, place
