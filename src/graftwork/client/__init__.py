"""The Python door to a server, wherever it runs."""

from graftwork.client.answers import Answer, AnswerStream
from graftwork.client.client import Client
from graftwork.client.in_process import InProcessTransport

__all__ = ["Answer", "AnswerStream", "Client", "InProcessTransport"]
