STORY = "popleft_n copies the list for each block that it takes: n blocks cost n times n."
CONCEPT = "The cost grows with the number of blocks moved, and not with its square."
EDITS = [("            taken.append(block)", "            taken = taken + [block]")]
