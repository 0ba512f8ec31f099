# === other_sizes
"""The same laws with other texts and seeds, and other words for the findings."""

EDITS = [
    ("DOCUMENT = [1, 2, 3, 4, 5, 6]", "DOCUMENT = [21, 22, 23, 24, 25, 26]"),
    ("for seed in range(16):", "for seed in range(40, 60):"),
    ("A load holds its blocks no longer, so stores", "Nobody holds what is loaded: stores"),
]


# === by_hand
"""No walks: a text that comes back while another is stored, a client that goes, and a file that is not there."""

from labkit import check

CASE_A = {"culprit": "mini_vllm.offload.tiers.connector:TierConnector.load", "step": 9, "why": "not held"}
CASE_B = {"culprit": "mini_vllm.offload.tiers.connector:TierConnector.request_finished", "step": 8, "why": "held on"}
CASE_C = {"culprit": "mini_vllm.offload.tiers.connector:TierConnector.is_ready", "step": 9, "why": "never comes"}


def tier_of(lab, num_blocks, names):
    tier = lab.HostTier(num_blocks)
    for name in names:
        block = tier.take(name)
        block.state = "ready"
        tier.release(block)
    return tier


def waiting(lab, num_blocks, in_memory, on_disk):
    """A connector, and a request of two full blocks."""
    tiers = tier_of(lab, num_blocks, in_memory), lab.DiskTier(on_disk, 9)
    connector = lab.TierConnector(2, *tiers, clock=lambda: 0.0)
    request = lab.Request("r", [1, 2, 3, 4, 5], lab.SamplingParams())
    request.block_hashes.extend([b"a", b"b"])
    return connector, request


def end_jobs(lab, connector, went_well):
    """A step in which all jobs end."""
    plan = connector.begin_step().connector
    done = {job.number: went_well for job in plan.jobs}
    connector.end_step(lab.KVResult(connector=lab.TierResult(done)))


def test_a_load_keeps_its_blocks(lab):
    connector, request = waiting(lab, 2, [b"a", b"b"], [])
    connector.is_ready(request, 0)
    connector.load(request, [7, 8], 0)
    connector.evict(b"c", 9)
    check()("stores into what is loaded", connector.begin_step().connector.store, equals=())


def test_what_is_held(lab):
    see, tier = check(), tier_of(lab, 1, [b"a"])
    block = tier.hold(tier.get(b"a"))
    see("a place for b", tier.take(b"b"), equals=None)
    tier.drop(block)
    see("a place for b under a copy", tier.take(b"b"), equals=None)
    tier.release(block)
    see("held blocks", tier.num_held_blocks, equals=0)
    tier = tier_of(lab, 1, [b"a"])
    tier.drop(tier.get(b"a"))
    see("held blocks of a tier without content", tier.num_held_blocks, equals=0)


def test_what_is_filled_goes_down_a_step_later(lab):
    see, connector = check(), lab.TierConnector(2, lab.HostTier(3))
    pool = lab.KVCacheManager(4, 2).block_pool
    (block,) = pool.get_new_blocks(1)
    pool.cache_block(block, b"a")
    connector.publish([block])
    see("what is stored before it is computed", bool(connector.begin_step().connector), equals=False)
    connector.end_step(lab.KVResult())
    see("what is stored then", len(connector.begin_step().connector.store), equals=1)
    connector.end_step(None)
    see("what a failed step has stored", connector.lookup(b"a").name, equals="MISS")


def test_a_client_that_goes(lab):
    see, (connector, request) = check(), waiting(lab, 3, [], [b"a", b"b"])
    see("is_ready()", connector.is_ready(request, 0), equals=False)
    connector.request_finished(request)
    end_jobs(lab, connector, True)
    see("held blocks", connector.host.num_held_blocks, equals=0)


def test_a_file_that_is_not_there(lab):
    see, (connector, request) = check(), waiting(lab, 3, [b"a"], [b"b"])
    see("is_ready()", connector.is_ready(request, 0), equals=False)
    end_jobs(lab, connector, False)
    see("is_ready() behind a read that failed", connector.is_ready(request, 0), equals=True)
