STORY = "vLLM moves the counter in schedule(), and a learner follows it. update_from_output moves it a second time."
CONCEPT = "schedule() only decides; the counter of a request moves when the step is over."
EDITS = [
    (
        ("        return output\n"),
        (
            "        for request in output.scheduled_requests:\n"
            "            request.num_computed_tokens += output.num_scheduled_tokens[request.request_id]\n"
            "        return output\n"
        ),
    ),
]
