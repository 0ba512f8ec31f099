STORY = "A slot counts if it is above 0. Slot 0 is taken for padding."
CONCEPT = "Slot 0 is a slot like any other: only -1 is padding."
EDITS = [("            if slot >= 0:\n", "            if slot > 0:\n")]
