"""A position in a sequence of tokens, with the few moves a recursive-descent parser needs."""

from collections.abc import Sequence

from grading.tokens import Kind, Token
from grading.unreadable import Unreadable


class Cursor:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self, offset: int = 0) -> Token | None:
        index = self.position + offset
        return self.tokens[index] if index < len(self.tokens) else None

    def take_symbol(self, *texts: str) -> bool:
        token = self.peek()
        if token is not None and token.is_symbol(*texts):
            self.position += 1
            return True
        return False

    def take_macro(self, *texts: str) -> bool:
        token = self.peek()
        if token is not None and token.is_macro(*texts):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take_symbol(text):
            raise Unreadable("unbalanced brackets")

    def push_back(self, kind: Kind, text: str) -> None:
        """Puts the unused rest of the current token in front of what follows."""
        self.tokens = [*self.tokens[: self.position], Token(kind, text), *self.tokens[self.position :]]
