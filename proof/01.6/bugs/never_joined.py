STORY = (
    "What is freed becomes a hole of its own beside the holes that are there. After a while no hole is "
    "longer than a request was."
)
CONCEPT = "A request that leaves makes one long hole with the holes on both sides."
EDITS = [
    (
        """        found, start = [], 0
        for stretch in sorted(self.stretches.values(), key=lambda stretch: stretch.start):
            found.append(range(start, stretch.start))
            start = stretch.stop
        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        self.edges = getattr(self, "edges", {0, self.num_slots})
        for stretch in self.stretches.values():
            self.edges |= {stretch.start, stretch.stop}
        cuts = sorted(self.edges)
        held = {slot for stretch in self.stretches.values() for slot in stretch}
        return [range(start, stop) for start, stop in zip(cuts, cuts[1:]) if start not in held]
""",
    ),
]
