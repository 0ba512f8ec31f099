"""Lab 07.7: Break it: tests for fast steps (60 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from random import Random

from labkit import check, raises, todo


def make(lab, *, blocks=64, block_size=4, budget=64):
    """A scheduler one step ahead, with so many usable blocks."""
    manager = lab.KVCacheManager(blocks + 1, block_size)
    return lab.AsyncScheduler(manager, max_num_seqs=8, max_num_batched_tokens=budget)


def says(position):
    """What the model says at a position of any text."""
    return 500 + position


def make_request(lab, name, length, max_tokens=8, stop=None):
    """A prompt that no request of another name has. stop: the position at which the model says a stop token."""
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    eos_token_ids = [] if stop is None else [says(stop)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens), eos_token_ids=eos_token_ids)


class Device:
    """The steps in flight, the oldest first, and the tokens that they sample."""

    def __init__(self, scheduler):
        self.scheduler, self.in_flight = scheduler, []

    def begin(self):
        """Decide a step, and work out what it samples; the tokens that it computes, by request."""
        output, sampled = self.scheduler.schedule(), {}
        for request in output.scheduled_requests:
            num_known = request.num_tokens + sum(request in earlier for _, earlier in self.in_flight)
            if request.num_computed_tokens + output.num_scheduled_tokens[request.request_id] >= num_known:
                sampled[request] = [says(num_known)]
        self.in_flight.append((output, sampled))
        return dict(output.num_scheduled_tokens)

    def end(self):
        """The oldest step ends; the requests that end with it."""
        output, sampled = self.in_flight.pop(0)
        tokens = {request.request_id: token_ids for request, token_ids in sampled.items()}
        return self.scheduler.update_from_output(output, tokens)


def test_a_request_alone(lab):
    """A prompt of 6 tokens in chunks of at most 4, and three output tokens."""
    scheduler = make(lab, budget=4)
    device, request = Device(scheduler), make_request(lab, "a", 6, max_tokens=3)
    scheduler.add_request(request)
    device.begin()
    for _ in range(5):
        device.begin()
        device.end()
    check()("the output of a", request.output_token_ids, equals=[506, 507, 508])


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("07.7")
