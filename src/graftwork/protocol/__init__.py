"""Wire shapes: what travels over HTTP, in OpenAI's words and in ours."""
