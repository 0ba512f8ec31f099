"""OpenAI's own library against `mini-vllm serve`: `python examples/client.py` prints an answer as it comes."""


def ask() -> None:
    """Stream one answer."""
    from openai import OpenAI

    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "What is a KV block?"}], stream=True
    )
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="", flush=True)


if __name__ == "__main__":
    ask()
