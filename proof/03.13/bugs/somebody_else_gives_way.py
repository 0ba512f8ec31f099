STORY = "Who asks is spared: the least urgent of the others gives way, even if it is more urgent."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "                victim = self._pop_victim()\n",
        "                victim = self._pop_victim()\n                if victim is request and self.running:\n                    other = self._pop_victim()\n                    self.running.append(victim)\n                    victim = other\n",
    ),
]
