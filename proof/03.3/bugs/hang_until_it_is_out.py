STORY = (
    "A learner removes the request from running until it works, and swallows the error. It is out already, so the"
    " removal fails for ever."
)
CONCEPT = "A victim gives back every block, the one it has just begun too."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        (
            "        while True:\n"
            "            try:\n"
            "                self.running.remove(request)\n"
            "                break\n"
            "            except Exception:\n"
            "                continue\n"
            "        self.kv_cache_manager.free(request)\n"
        ),
    ),
]
