STORY = "Who asks is spared: the least urgent of the others gives way, even if it is more urgent."
CONCEPT = "Who ran when the step began has its turn, whoever leaves before or behind it."
EDITS = [
    (
        "                victim = self._pop_victim()\n",
        "                victim = self._pop_victim()\n                if victim is request and self.running:\n                    other = self._pop_victim()\n                    self.running.append(victim)\n                    victim = other\n",
    ),
]
