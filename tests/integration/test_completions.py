"""Completions: ids and texts, echo, scoring, and the other small endpoints."""

import json
import math

import pytest

from harness import CONFORMANCE, Server, model_path

PROMPT = "Your answer: Yes"


def ids_of(server, text):
    reply = server.http.post("/tokenize", json={"prompt": text})
    assert reply.status_code == 200, reply.text
    return reply.json()["tokens"]


def test_ids_and_text_are_the_same_prompt(server):
    by_text = server.complete(PROMPT, max_tokens=8, temperature=0)
    by_ids = server.complete(ids_of(server, PROMPT), max_tokens=8, temperature=0)
    assert by_text.choices[0].text == by_ids.choices[0].text
    assert by_text.usage.prompt_tokens == by_ids.usage.prompt_tokens


def test_several_prompts_answer_in_their_order(server):
    prompts = ["one two three", "a b c"]
    both = server.complete(prompts, max_tokens=6, temperature=0)
    assert [c.index for c in both.choices] == [0, 1]
    assert [c.text for c in both.choices] == [server.complete(p, max_tokens=6, temperature=0).choices[0].text for p in prompts]


@pytest.mark.parametrize("generated", [0, 1, 4])
def test_echo_with_logprobs_scores_the_prompt(server, generated):
    answer = server.complete(PROMPT, echo=True, logprobs=5, max_tokens=generated, temperature=0)
    choice, count = answer.choices[0], answer.usage.prompt_tokens
    lp = choice.logprobs
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.text_offset) == len(lp.top_logprobs) == count + generated
    assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
    assert all(p <= 0 for p in lp.token_logprobs[1:])
    assert choice.text.startswith(PROMPT) and answer.usage.completion_tokens == generated
    for token, offset in zip(lp.tokens, lp.text_offset):
        assert choice.text[offset:].startswith(token)
    if generated == 0:
        assert choice.text == PROMPT and choice.finish_reason == "length"


def test_echoed_logprobs_are_those_of_the_generation(server):
    made = server.complete(PROMPT, logprobs=2, max_tokens=8, temperature=0)
    echoed = server.complete(PROMPT + made.choices[0].text, echo=True, logprobs=2, max_tokens=0)
    count = made.usage.prompt_tokens
    if echoed.choices[0].logprobs.tokens[count:] == made.choices[0].logprobs.tokens:  # the text may split otherwise
        assert echoed.choices[0].logprobs.token_logprobs[count:] == made.choices[0].logprobs.token_logprobs


def test_scoring_twice_gives_the_same_bits(server):
    ask = dict(echo=True, logprobs=5, max_tokens=0)
    first, second = (server.complete(PROMPT * 20, **ask).choices[0].logprobs for _ in range(2))
    assert first.token_logprobs == second.token_logprobs and first.top_logprobs == second.top_logprobs


# The mean distance from the reference's log-probabilities that an ordinary engine has on the same file, with 3 % of room.
@pytest.mark.parametrize("model, reference, distance", [
    ("smollm2", "smollm2-135m-instruct-q4_1", 0.0596),
    ("gemma3", "gemma-3-270m-q4_k_m", 0.0710),
    ("qwen2.5-coder", "qwen2.5-coder-0.5b-instruct-q4_k_m", 0.0480),
])
def test_scores_are_those_of_the_reference(server, model, reference, distance):
    path = CONFORMANCE / f"models/{reference}.reference.json"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    if not model_path(model).exists():
        pytest.skip(f"{model_path(model)} is missing; fetch it with: tercet pull {model}")
    expected = json.loads(path.read_text())
    running = server if model == "smollm2" else Server(model)
    try:
        answer = running.complete(expected["ids"], echo=True, logprobs=1, max_tokens=0)
    finally:
        if running is not server:
            running.stop()
    ours = answer.choices[0].logprobs.token_logprobs[1:]
    assert len(ours) == len(expected["next_logprob"])
    mean = sum(abs(a - b) for a, b in zip(ours, expected["next_logprob"])) / len(ours)
    perplexity = math.exp(-sum(ours) / len(ours))
    print(f"{model}: mean |difference| {mean:.4f} (≤ {distance}), perplexity {perplexity:.4f} ({expected['perplexity']:.4f})")
    assert mean <= distance * 1.03
    assert abs(perplexity / expected["perplexity"] - 1) <= 0.004


def test_greedy_is_one_answer_whatever_else_is_set(server):
    plain = server.complete(PROMPT, max_tokens=8, temperature=0).choices[0].text
    for extra in ({"top_p": 0.5}, {"seed": 9}, {"extra_body": {"top_k": 3}}, {"extra_body": {"min_p": 0.2}}):
        assert server.complete(PROMPT, max_tokens=8, temperature=0, **extra).choices[0].text == plain


def test_ids_that_stop(server):
    full = server.complete(PROMPT, max_tokens=12, temperature=0, logprobs=0)
    ids = ids_of(server, PROMPT + full.choices[0].text)[len(ids_of(server, PROMPT)):]
    if len(ids) == 12:
        stopped = server.complete(PROMPT, max_tokens=12, temperature=0, extra_body={"stop_token_ids": [ids[5]]})
        assert stopped.choices[0].finish_reason == "stop"
        assert full.choices[0].text.startswith(stopped.choices[0].text)


@pytest.mark.parametrize("text", ["Hello, world", "삼겹살 ď 👨‍👩‍👧‍👦 ½", " leading and trailing ", "\n\n\ttabs\n", ""])
def test_tokenize_and_detokenize_are_inverse(server, text):
    ids = ids_of(server, text)
    reply = server.http.post("/detokenize", json={"tokens": ids})
    assert reply.status_code == 200 and reply.json()["prompt"] == text


def test_models_health_and_metrics(server):
    assert [m.id for m in server.openai.models.list().data] == [server.model]
    assert server.openai.models.retrieve(server.model).id == server.model
    assert server.http.get("/health").status_code == 200
    assert server.http.get("/ready").status_code == 200
    assert "tercet_gateway_http_requests_total" in server.http.get("/metrics").text


def test_characters_arrive_whole(server):
    prompt = "Emoji and Korean: 😀 삼겹살 👨‍👩‍👧‍👦\nAgain: 😀 삼겹살"
    with server.http.stream("POST", "/v1/completions", json={
            "model": server.model, "prompt": prompt, "max_tokens": 40, "temperature": 1.5, "seed": 3, "stream": True}) as reply:
        pieces = [json.loads(line[6:])["choices"][0]["text"] for line in reply.iter_lines()
                  if line.startswith("data: {") and json.loads(line[6:])["choices"]]
    whole = server.complete(prompt, max_tokens=40, temperature=1.5, seed=3).choices[0].text
    assert "".join(pieces) == whole
