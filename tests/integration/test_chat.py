"""Chat through the official client: streams, usage, stops, choices, seeds."""

import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France, and what is it known for? Answer in two sentences."}]


def chat(server, messages=QUESTION, **parameters):
    return server.openai.chat.completions.create(model=server.model, messages=messages, **parameters)


def test_answers_a_question(server):
    answer = chat(server, temperature=0, max_tokens=32)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.object == "chat.completion" and answer.model == server.model
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_says_what_the_whole_answer_says(server):
    whole = chat(server, temperature=0, max_tokens=32)
    chunks = list(chat(server, temperature=0, max_tokens=32, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].choices == [] and all(c.usage is None for c in chunks[:-1])
    # Whether the second call found the prompt in the cache is its own affair.
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(chunks[-1].usage, field) == getattr(whole.usage, field)


@pytest.mark.parametrize("options", [None, {}])
def test_no_usage_where_none_was_asked_for(server, options):
    extra = {} if options is None else {"stream_options": options}
    chunks = list(chat(server, max_tokens=4, stream=True, **extra))
    assert all(c.usage is None and len(c.choices) == 1 for c in chunks)


def test_a_system_message_reaches_the_model(server):
    plain = chat(server, temperature=0, max_tokens=16).choices[0].message.content
    system = [{"role": "system", "content": "You are a pirate. Say only: Arr!"}] + QUESTION
    assert chat(server, system, temperature=0, max_tokens=16).choices[0].message.content != plain


def test_content_may_come_in_parts(server):
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    assert chat(server, parts, temperature=0, max_tokens=8).choices[0].message.content == chat(
        server, temperature=0, max_tokens=8).choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
def test_text_ends_before_a_stop_string(server, stream):
    full = chat(server, temperature=0, max_tokens=32).choices[0].message.content
    # Stops at, across and inside of tokens' borders, and two of which one begins the other.
    for begin, length in ((4, 3), (7, 6), (1, 9), (10, 2)):
        stop = full[begin:begin + length]
        stops = [stop, stop + "x"]
        if stream:
            chunks = list(chat(server, temperature=0, max_tokens=32, stop=stops, stream=True))
            text = "".join(c.choices[0].delta.content or "" for c in chunks)
            reason = chunks[-1].choices[0].finish_reason
        else:
            choice = chat(server, temperature=0, max_tokens=32, stop=stops).choices[0]
            text, reason = choice.message.content, choice.finish_reason
        assert text == full[:full.find(stop)]
        assert reason == "stop"


def test_a_stop_that_begins_and_does_not_complete_is_released(server):
    full = chat(server, temperature=0, max_tokens=24)
    stop = full.choices[0].message.content[-3:] + "never"
    again = chat(server, temperature=0, max_tokens=24, stop=[stop])
    assert again.choices[0].message.content == full.choices[0].message.content
    assert again.choices[0].finish_reason == full.choices[0].finish_reason


def test_choices_of_one_request(server):
    one = chat(server, temperature=1, seed=7, max_tokens=12)
    two = chat(server, temperature=1, seed=7, max_tokens=12, n=2)
    texts = {c.index: c.message.content for c in two.choices}
    assert set(texts) == {0, 1} and texts[0] != texts[1]
    assert texts[0] == one.choices[0].message.content
    assert two.usage.prompt_tokens == one.usage.prompt_tokens
    streamed, ends = {0: "", 1: ""}, {0: 0, 1: 0}
    for chunk in chat(server, temperature=1, seed=7, max_tokens=12, n=2, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
            ends[choice.index] += choice.finish_reason is not None
    assert streamed == texts and ends == {0: 1, 1: 1}


def test_seeds(server):
    def texts(**p):
        return [chat(server, temperature=1.0, max_tokens=16, **p).choices[0].message.content for _ in range(3)]

    assert len(set(texts(seed=42))) == 1
    assert len(set(texts())) > 1
    for seed in (0, -1, 2**63 - 1):
        assert len(set(texts(seed=seed))) == 1


def test_logprobs_belong_to_the_text(server):
    choice = chat(server, temperature=0, max_tokens=12, logprobs=True, top_logprobs=3).choices[0]
    assert "".join(t.token for t in choice.logprobs.content) == choice.message.content
    for token in choice.logprobs.content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.logprob == max(t.logprob for t in token.top_logprobs)  # greedy


def test_usage_counts_cached_tokens(server):
    prompt = [{"role": "user", "content": "Count: " + " ".join(str(i) for i in range(100))}]
    chat(server, prompt, temperature=0, max_tokens=2)
    usage = chat(server, prompt, temperature=0, max_tokens=2).usage
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


def test_a_conversation_goes_on(server):
    messages = list(QUESTION)
    for question in ("And of Italy?", "And of Spain?"):
        messages.append({"role": "assistant", "content": chat(server, messages, temperature=0, max_tokens=24).choices[0].message.content})
        messages.append({"role": "user", "content": question})
    assert chat(server, messages, temperature=0, max_tokens=24).choices[0].message.content
