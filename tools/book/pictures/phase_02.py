"""The pictures of phase 2."""

from tools.book.drawing import (
    GREEN,
    LIGHT,
    MUTED,
    NARROW,
    ORANGE,
    PALE,
    PURPLE,
    WHITE,
    Drawing,
    flow,
)


def classes(narrow: bool = False) -> Drawing:
    title = "Which class asks which"
    description = (
        "The Scheduler asks the KVCacheManager, which asks the KVCacheCoordinator. The coordinator asks a manager "
        "for each kind of layer, FullAttentionManager and SlidingWindowManager. Both ask one BlockPool, which has the "
        "FreeKVCacheBlockQueue and the BlockHashToBlockMap."
    )
    pairs = [
        ("Scheduler", "KVCacheManager"),
        ("KVCacheManager", "KVCacheCoordinator"),
        ("KVCacheCoordinator", "FullAttentionManager"),
        ("KVCacheCoordinator", "SlidingWindowManager"),
        ("FullAttentionManager", "BlockPool"),
        ("SlidingWindowManager", "BlockPool"),
        ("BlockPool", "FreeKVCacheBlockQueue"),
        ("BlockPool", "BlockHashToBlockMap"),
    ]
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("Scheduler",)],
            [("KVCacheManager",)],
            [("KVCacheCoordinator",)],
            [("*FullAttentionManager",), ("*SlidingWindowManager",)],
            [("BlockPool",)],
            [("FreeKVCacheBlockQueue",), ("BlockHashToBlockMap",)],
        ]
        return flow(title, description, rows, [(a, b, "", "straight") for a, b in pairs], gap=32)
    d = Drawing(760, 206, title, description)
    d.box(16, 84, 84, 36, "Scheduler", size=12)
    d.box(124, 84, 122, 36, "KVCacheManager", size=12)
    d.box(270, 84, 138, 36, "KVCacheCoordinator", size=12)
    d.box(430, 30, 152, 36, "FullAttentionManager", size=12, fill=LIGHT)
    d.box(430, 138, 152, 36, "SlidingWindowManager", size=12, fill=LIGHT)
    d.box(556, 84, 80, 36, "BlockPool", size=12)
    d.box(596, 20, 152, 32, "FreeKVCacheBlockQueue", size=11)
    d.box(596, 154, 152, 32, "BlockHashToBlockMap", size=11)
    d.arrow((100, 102), (122, 102))
    d.arrow((246, 102), (268, 102))
    d.arrow((408, 94), (418, 48), (428, 48))
    d.arrow((408, 110), (418, 156), (428, 156))
    d.arrow((506, 66), (506, 98), (554, 98))
    d.arrow((506, 138), (506, 106), (554, 106))
    d.arrow((636, 96), (672, 96), (672, 54))
    d.arrow((636, 108), (672, 108), (672, 152))
    return d


def structures(narrow: bool = False) -> Drawing:
    """The manager after step 2 of the first figure of the chapter."""
    num_refs = {1: 2, 2: 2, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 0}
    colour = {0: PALE, 1: LIGHT, 2: LIGHT, 3: GREEN, 4: ORANGE, 5: ORANGE}
    d = Drawing(
        NARROW if narrow else 720,
        520 if narrow else 318,
        "Block tables, blocks with reference counts, free queue and index after step 2",
        "The table of a is 1 2 3 5, that of b is 1 2 4. Blocks 1 and 2 have the reference count 2, blocks 3, 4 and 5 "
        "have 1. The free queue is 6 7 8. The index leads from tokens 0 to 3 to block 1, from tokens 0 to 7 to block "
        "2, and from a's tokens 0 to 11 to block 3.",
    )
    x0 = 16 if narrow else 190

    def row(name: str, wide_y: float, narrow_y: float) -> float:
        y = narrow_y if narrow else wide_y
        d.text(16, y - 10 if narrow else y + 22, name, bold=True)
        return y

    def block(number: int, x: float, y: float, width: float = 44) -> None:
        d.box(x, y, width, 34, str(number), fill=colour.get(number, WHITE))

    for name, table_, wide_y, narrow_y in (("a", (1, 2, 3, 5), 22, 40), ("b", (1, 2, 4), 68, 116)):
        y = row(f"block table of {name}", wide_y, narrow_y)
        for i, number in enumerate(table_):
            block(number, x0 + 50 * i, y)
    y = row("blocks, with ref_cnt" if narrow else "blocks", 124, 192)
    pitch = 37 if narrow else 56
    for number in range(9):
        block(number, x0 + pitch * number, y, 33 if narrow else 44)
        refs = str(num_refs.get(number, "null"))
        d.text(x0 + pitch * number + (16 if narrow else 22), y + 50, refs, size=12, anchor="middle", fill=MUTED)
    if not narrow:
        d.text(16, y + 50, "ref_cnt", size=13, fill=MUTED)
    y = row("free queue", 204, 286)
    d.text(x0 + (36 if narrow else 46), y + 22, "front", size=13, anchor="end", fill=MUTED)
    for i, number in enumerate((6, 7, 8)):
        x = x0 + 56 + 70 * i
        block(number, x, y)
        if i:
            d.arrow((x - 24, y + 11), (x - 2, y + 11))
            d.arrow((x - 2, y + 24), (x - 24, y + 24))
    d.text(x0 + 250, y + 22, "back", size=13, fill=MUTED)
    y = row("index of names", 258, 362)
    for i, (name, number) in enumerate((("tokens 0-3", 1), ("tokens 0-7", 2), ("a's tokens 0-11", 3))):
        x, top = (x0, y + 46 * i) if narrow else (x0 + 176 * i, y)
        d.box(x, top, 112, 34, name, size=13)
        d.arrow((x + 112, top + 17), (x + 128, top + 17))
        block(number, x + 128, top, 34)
    return d


def states(narrow: bool = False) -> Drawing:
    title = "The four states of a block and the calls that lead from one to another"
    description = (
        "A free block without a name is given out by get_new_blocks and is then held without a name. cache_block gives "
        "it a name when it is full. free_blocks frees a block without a name to the front of the queue, and one with a "
        "name to the back. touch leads from free to held, and get_new_blocks evicts a free block: it loses its name."
    )
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("free, no name",)],
            [("!held, no name",)],
            [("*held, can be found",)],
            [("free, can be found",)],
        ]
        links = [
            ("free, no name", "held, no name", "get_new_blocks", "straight"),
            ("held, no name", "free, no name", "free_blocks:\nto the front", "left"),
            ("held, no name", "held, can be found", "cache_block:\nit is full", "straight"),
            ("held, can be found", "free, can be found", "free_blocks:\nto the back", "straight"),
            ("free, can be found", "held, can be found", "touch", "left"),
            ("free, can be found", "held, no name", "get_new_\nblocks:\nevicted", "right"),
            ("held, can be found", "held, can be found", "touch", "left"),
        ]
        return flow(title, description, rows, links, gap=64)
    d = Drawing(720, 300, title, description)
    d.text(115, 30, "in the free queue", size=13, anchor="middle", bold=True, fill=MUTED)
    d.text(525, 30, "in ref_cnt tables", size=13, anchor="middle", bold=True, fill=MUTED)
    for x, y, name, more, fill in (
        (40, 50, "free", "no name", WHITE),
        (450, 50, "held", "no name", ORANGE),
        (40, 200, "free", "can be found", PURPLE),
        (450, 200, "held", "can be found", LIGHT),
    ):
        d.box(x, y, 150, 62, name, more, fill=fill)
    for points, words, at, anchor in (
        (((192, 66), (448, 66)), "get_new_blocks: from the front", (320, 58), "middle"),
        (((448, 98), (192, 98)), "free_blocks: to the front", (320, 116), "middle"),
        (((525, 114), (525, 198)), "cache_block: it is full", (535, 160), "start"),
        (((448, 218), (192, 218)), "free_blocks: to the back", (320, 210), "middle"),
        (((192, 250), (448, 250)), "touch: from wherever it stands", (320, 268), "middle"),
        (((115, 198), (115, 160), (400, 160), (470, 114)), "get_new_blocks: evicted", (230, 152), "middle"),
        (((602, 216), (636, 216), (636, 246), (602, 246)), "touch", (644, 236), "start"),
    ):
        d.arrow(*points)
        d.text(*at, words, size=13, anchor=anchor, fill=MUTED)
    return d


PICTURES = {
    "phase-02-kv-manager/classes": classes,
    "phase-02-kv-manager/structures": structures,
    "phase-02-kv-manager/states": states,
}
