"""What clients of OpenAI's API send and get: fields, answers, and the document of both."""
