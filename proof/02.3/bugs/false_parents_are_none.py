STORY = "A name before that is false, such as 0, is taken for none, so the block is named as if it stood first."
CONCEPT = "A name is made of the name before it and of the tokens of its own block, no others."
EDITS = [("self._hash_block(hashes[-1], token_ids, None)", "self._hash_block(hashes[-1] or None, token_ids, None)")]
