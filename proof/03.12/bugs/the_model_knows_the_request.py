STORY = (
    "What was sampled is replaced by what the model would say after the tokens that the request has. Nobody "
    "reads a slot."
)
CONCEPT = "What was swapped comes back to the last slot: let someone give way in the middle of a block."
EDITS = [
    (
        """        sampled = self.model.execute(output)
        if""",
        """        tokens = {each.request_id: each.all_token_ids for each in self.expected if not each.is_finished}
        sampled = {name: [self.lab.next_token(name, tokens[name])] for name in self.model.execute(output)}
        if""",
    ),
]
