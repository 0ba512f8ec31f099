"""The rejected drafts are subtracted from what was scheduled, so that the update of phase 3 adds the rest."""

EDITS = [
    (
        """
        rest, all_drafts, paces, stats = [], output.drafts, self._paces, self.speculation_stats
""",
        """
        all_drafts, paces, stats = output.drafts, self._paces, self.speculation_stats
""",
    ),
    (
        """
                rest.append(request)
                continue
""",
        """
                continue
""",
    ),
    (
        """
            if is_last := (
                not num_tokens
                or len(request.output_token_ids) + num_tokens >= request.max_tokens
                or len(all_token_ids) + num_tokens >= request.max_model_len  # type: ignore[operator]
                or not request.stop_token_ids.isdisjoint(token_ids)
            ):
                token_ids = until_its_end(request, token_ids)
                sampled[request_id], token_ids = token_ids[-1:], token_ids[:-1]
                output.num_scheduled_tokens[request_id] = 0
                rest.append(request)
            all_token_ids += token_ids
            request.output_token_ids += token_ids
            request.num_computed_tokens = len(all_token_ids) - (not is_last)
            self.kv_cache_manager.cache_blocks(request)
        return rest
""",
        """
            taken = list(until_its_end(request, token_ids))
            known = [*all_token_ids, *taken[:-1]]
            request.all_token_ids[:], request.output_token_ids[:] = known, known[request.num_prompt_tokens :]
            sampled[request_id] = taken[-1:]
            request.num_computed_tokens, before = len(known), request.num_computed_tokens
            self.kv_cache_manager.cache_blocks(request)
            request.num_computed_tokens = before
            output.num_scheduled_tokens[request_id] = len(known) - before
        return output.scheduled_requests
""",
    ),
]
