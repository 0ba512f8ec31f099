STORY = "The count of holders ends at five, as if no more requests could have one beginning."
CONCEPT = "A block may be held by any number of tables, and it keeps its content all the while."
EDITS = [("            block.ref_cnt += 1\n", "            block.ref_cnt = min(block.ref_cnt + 1, 5)\n")]
